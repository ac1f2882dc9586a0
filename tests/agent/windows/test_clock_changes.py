"""Clocks that are set, that jump and that start in 1970: no window is lost, none is a duplicate."""

import threading
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pansketch import Attribute, Domain, HierarchySpec, Privacy, decode, os_entropy, read_header
from pansketch_agent.host.clock import Clock, clock_is_synchronised
from pansketch_agent.ledger.ledger import Ledger
from pansketch_agent.outbox.outbox import Outbox
from pansketch_agent.runtime.stream_builder import StreamBuilder
from pansketch_agent.sources.readings import Readings
from pansketch_agent.windows.window import (
    MAX_EMPTY,
    MAX_HELD_SECONDS,
    Schedule,
    WindowClock,
    Windows,
)

HOUR, DAY, YEAR = 3600, 86400, 365 * 86400
NOW = 1_704_067_200  # 2024-01-01
PRECISE = "{epsilon: 100, unit: reading, intrusion: silent}"
EACH = 500  # readings a step
ROOM = 60  # Noise of scale 2 for eight levels: a total is off by more with chance below 1e-6.


class Host:
    """A device whose clocks a test sets; `work` is the live stream of one run of its agent."""

    def __init__(self, device):
        self.device, self.wall, self.up = device, float(NOW), 0.0
        self.config = device.configure(source="{type: stdin}", window="1h", privacy=PRECISE)
        self.clock = Clock(lambda: self.wall, lambda: self.up, lambda *_: True)

    def run(self, steps, readings=EACH):
        """Starts the agent and stops it after its steps: (seconds that pass, clock is set by)."""
        (stream,) = self.config.streams
        with Ledger(self.device.state) as ledger:
            outbox = Outbox(self.device.state / "outbox", 10**7)
            builder = StreamBuilder(
                "testing", "dev-1", ledger, outbox, self.clock, threading.Event(), False, None
            )
            work = builder.build((stream,), os_entropy())
            work.tick(self.clock)
            for seconds, jump in steps:
                self.up += seconds
                self.wall += seconds + jump
                work.tick(self.clock)
                block = Readings(np.full(readings, self.wall), np.ones((readings, 2)))
                work.absorb(block, self.clock)
            assert work.failure == ""
            outbox.close()

    def starts(self):
        """Of every release, by sequence; also checks that ledger and outbox agree."""
        windows = [read_header(payload).windows[0] for payload in self.device.releases().values()]
        assert [w.sequence for w in windows] == list(range(1, len(windows) + 1))
        debits = [(int(d[2]), int(d[3])) for d in self.device.ledger()]
        assert debits == [(w.start, w.end) for w in windows]
        starts = [w.start for w in windows]
        assert starts == sorted(set(starts)), "a window came twice"
        return starts

    def totals(self):
        """The number of absorbed readings in each release, noise included."""
        spec = self.config.streams[0].spec
        return [int(decode(p, spec).counters[0]) for p in self.device.releases().values()]


@pytest.fixture
def host(device):
    return Host(device)


def hours(count):
    """So many hours pass, in steps of ten minutes, without setting the clock."""
    return [(600, 0)] * (6 * count)


def contiguous(starts):
    return {after - before for before, after in pairwise(starts)} <= {HOUR}


def test_a_clock_that_is_never_set(host):
    host.run(hours(10))
    assert contiguous(host.starts())
    assert len(host.starts()) == 10
    assert all(abs(total - 6 * EACH) < ROOM for total in host.totals()[1:])


@pytest.mark.parametrize("jump", [-YEAR, -30 * YEAR, -DAY])
def test_a_clock_set_far_back_stops_no_window(host, caplog, jump):
    host.run([*hours(4), (600, jump), *hours(10)])
    assert contiguous(host.starts())
    assert len(host.starts()) == 15
    # Every reading is in one release: also those that bear the time of a clock set back.
    assert all(abs(total - 6 * EACH) < ROOM for total in host.totals()[1:])
    said = [record.getMessage() for record in caplog.records]
    assert sum("the clock is behind the windows up to 2024-01-01T0" in line for line in said) == 1
    assert any("or if the windows are wrong, give the device a new name" in line for line in said)


@pytest.mark.parametrize("jump", [-1, -300, -HOUR + 1])
def test_a_clock_set_back_a_little_makes_one_window_longer(host, jump):
    host.run([*hours(4), (600, jump), *hours(9)])
    starts, totals = host.starts(), host.totals()
    assert contiguous(starts)
    assert 13 <= len(starts) <= 14
    assert sum(totals[1:]) <= (6 * 13 + 2) * EACH
    assert max(totals) <= 12 * EACH + ROOM


def test_a_clock_set_back_and_right_again_ends_where_it_would_have(host, device, tmp_path):
    (tmp_path / "other").mkdir()
    other = Host(type(device)(tmp_path / "other", device.started))
    host.run([*hours(4), (600, -YEAR), *hours(3), (600, YEAR), *hours(4)])
    other.run([*hours(4), (600, 0), *hours(3), (600, 0), *hours(4)])
    assert host.starts() == other.starts()
    assert [round(total / EACH) for total in host.totals()] == [
        round(total / EACH) for total in other.totals()
    ]


def test_a_clock_set_forward_releases_the_windows_between_as_empty(host):
    host.run([*hours(4), (600, 5 * HOUR), *hours(4)])
    starts, totals = host.starts(), host.totals()
    assert contiguous(starts)
    assert len(starts) == 14
    assert sum(abs(total) < ROOM for total in totals) >= 4
    assert abs(sum(totals) - (6 * 8 + 1 - 6) * EACH) < 6 * EACH + 13 * ROOM


def test_a_leap_of_years_forward_leaves_out_the_years(host):
    host.run([*hours(4), (600, 20 * YEAR), *hours(4)])
    starts = host.starts()
    assert 20 * YEAR > MAX_EMPTY * HOUR
    gaps = [after - before for before, after in pairwise(starts) if after - before != HOUR]
    assert len(gaps) == 1
    assert len(starts) == 9


def test_a_clock_that_was_wrong_for_a_while_in_the_future(host):
    """Windows of the future were released, and cannot be again: time goes on from there."""
    host.run([*hours(2), (600, 20 * YEAR), *hours(2), (600, -20 * YEAR), *hours(5)])
    ahead = [start for start in host.starts() if start > NOW + YEAR]
    assert contiguous(ahead)
    assert len(ahead) == 7


def test_no_real_time_clock(host, caplog):
    """Every start is in 1970, and the network sets the clock half an hour later."""
    true = host.wall
    for boot in range(3):
        host.wall = 1000.0 if boot else true
        host.run([(600, 0), (600, 0), (600, 0), (600, true + 2400 - host.wall - 2400), *hours(3)])
        true += 600 * 4 + 3 * HOUR
        assert abs(host.wall - true) < 1
        host.wall = true = true + DAY
    starts, totals = host.starts(), host.totals()
    assert "the clock is behind the windows up to 2024-01-0" in caplog.text
    # Readings before the clock was right are in the window after the last released one.
    assert sum(abs(total - 3 * EACH) < ROOM for total in totals) == 2
    assert contiguous(starts)


def test_a_first_start_without_a_clock(host):
    host.wall = 1.5 * HOUR
    host.run([(600, 0), (600, NOW), *hours(3)])
    starts = host.starts()
    assert starts[0] < 2 * HOUR
    assert starts[1] > NOW - HOUR
    assert contiguous(starts[1:])
    assert abs(host.totals()[0] - EACH) < ROOM


def test_a_first_start_at_the_very_beginning_of_time(host):
    """There is no window that begins before 1970; the first one that does not is waited for."""
    host.wall = 0.0
    host.run([(100, 0), (600, NOW), *hours(3)])
    assert host.starts()[0] > NOW - HOUR
    assert contiguous(host.starts())


def test_a_restart_within_the_window_waits_for_its_end(host):
    host.run(hours(4))
    (last,) = host.starts()[-1:]
    host.wall = last + HOUR - 300.0  # A little back, into the window that was released.
    host.run([(60, 0)] * 4)
    assert host.starts()[-1] == last
    host.run([(60, 0), *hours(2)])
    assert contiguous(host.starts())


SPEC = HierarchySpec(
    Domain((Attribute("temp", -40, 60), Attribute("wind", categories=("calm", "N")))),
    Privacy(epsilon=100),
    depth=2,
    k=2,
    width=2,
    rows=1,
    fanout=2,
)
ENTROPY = os_entropy()
JUMPS = st.one_of(st.just(0), st.integers(-5000, 5000), st.integers(-3 * YEAR, 3 * YEAR))


@settings(deadline=None, max_examples=40)
@given(st.lists(st.tuples(st.integers(0, 90), JUMPS), max_size=60), st.integers(10, 300))
def test_for_any_clock_windows_come_once_and_in_time(steps, window_seconds):
    windows = Windows((SPEC,), Schedule(window_seconds, 3), ENTROPY)
    timeline, schedule = WindowClock(window_seconds), Schedule(window_seconds, 3)
    wall, up, opened_at, seen = float(NOW), 0.0, 0.0, []
    for seconds, jump in steps:
        wall, up = wall + seconds + jump, up + seconds
        begun = windows.open_start
        index = schedule.index(timeline.now(wall, up, begun))
        closed = [each.span.start for each in windows.advance_to(index)]
        seen += closed
        if begun is None or windows.open_start != begun:
            opened_at = up
        # No window is open for longer than two of them, and a step and the longest wait.
        longest = window_seconds + max(window_seconds, MAX_HELD_SECONDS) + 90
        assert up - opened_at <= 2 * longest
    assert seen == sorted(set(seen))


def test_the_time_of_a_timeline_never_leaves_the_window_behind():
    timeline = WindowClock(HOUR)
    assert timeline.now(NOW, 5.0, None) == NOW
    assert timeline.now(NOW - HOUR, 6.0, NOW) == NOW - HOUR
    assert not timeline.adrift
    assert timeline.now(NOW - HOUR - 1, 7.0, NOW) == NOW
    assert timeline.adrift
    assert timeline.now(0.0, 17.0, NOW) == NOW + 10
    assert timeline.now(NOW + 2, 18.0, NOW) == NOW + 2
    assert not timeline.adrift
    assert timeline.now(0.0, 20.0, NOW) == NOW + 4


def test_this_host_states_whether_its_clock_is_synchronised():
    assert clock_is_synchronised() in (True, False, None)
