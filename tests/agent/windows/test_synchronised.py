"""The state of the clock when a window closed, in its release."""

import threading

import pytest

from pansketch import os_entropy, peek
from pansketch_agent.host.clock import Clock, clock_is_synchronised
from pansketch_agent.ledger.ledger import Ledger
from pansketch_agent.outbox.outbox import Outbox
from pansketch_agent.runtime.stream_builder import StreamBuilder
from pansketch_agent.status.disk_writes import DAY_SECONDS

HOUR = 3600
NOW = 1_704_067_200 + 12 * HOUR  # noon on 2024-01-01
LIVE = "{type: stdin}"


class Host:
    """A live stream whose clocks a test sets."""

    def __init__(self, device, known):
        self.device, self.wall, self.up, self.known = device, float(NOW), 0.0, known
        self.polls = []
        self.config = device.configure(source=LIVE)

    def synchronised(self):
        self.polls.append(self.wall)
        return self.known

    def run(self, steps):
        """Steps of (seconds that pass, by how much the clock is set, its synchronisation then)."""
        clock = Clock(lambda: self.wall, lambda: self.up, lambda *_: True, self.synchronised)
        with Ledger(self.device.state) as ledger:
            outbox = Outbox(self.device.state / "outbox", 10**7)
            builder = StreamBuilder(
                "testing", "dev-1", ledger, outbox, clock, threading.Event(), False, None
            )
            work = builder.build(self.config.streams[:1], os_entropy())
            work.tick(clock)
            for seconds, jump, self.known in steps:
                self.up, self.wall = self.up + seconds, self.wall + seconds + jump
                work.tick(clock)
            assert work.failure == ""
            outbox.close()
        return [w.clock_synchronised for w in windows_in(self.device)]


def windows_in(device):
    return [peek(payload).windows[0] for payload in device.releases().values()]


@pytest.mark.parametrize("known", [True, False, None])
def test_a_release_states_the_clock_s_state_when_its_window_closed(device, known):
    host = Host(device, known)
    assert host.run([(HOUR, 0, known)] * 4) == [known] * 4
    assert len(host.polls) == 4, "once a window, and never between"


def test_each_window_has_its_own(device):
    host = Host(device, None)
    steps = [(HOUR, 0, known) for known in (False, False, True, True, None)]
    assert host.run(steps) == [False, False, True, True, None]


def test_windows_by_elapsed_time_do_not_count_as_synchronised(device):
    """The clock may be right by now, but these labels are not its own."""
    host = Host(device, True)
    steps = [(HOUR, 0, True), (HOUR, -30 * DAY_SECONDS, True), (HOUR, 0, True)]
    assert host.run(steps) == [True, False, False]


def test_a_replay_states_nothing_of_the_clock(device):
    """Its windows bear the times of its file."""
    device.configure()
    device.start("run", "--drain", "0").wait()
    assert [w.clock_synchronised for w in windows_in(device)] == [None] * 5


def test_an_agent_on_this_host_reports_the_kernel_s_state(device, broker, peer, until):
    device.configure(broker.url, source=LIVE, window="1s")
    with peer(broker.url) as collector:
        agent = device.start("run")
        until(lambda: collector.releases and collector.healths, "a release and a health")
        assert agent.stop() == 0, agent.output
    known = clock_is_synchronised()
    assert collector.windows()[0].clock_synchronised is known
    assert collector.healths[0][1].clock_synchronised is known
