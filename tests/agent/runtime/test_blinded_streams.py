"""Blinded streams on a real agent: labels, epochs, and what keepers make of the releases."""

import random
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from pansketch import os_entropy
from pansketch.blinding import PrivateKey, answer, keeper_id, question_about, unblind
from pansketch.wire import blinded_nbytes, decode_blinded, peek_any
from pansketch_agent.host.clock import Clock
from pansketch_agent.ledger.ledger import Ledger
from pansketch_agent.outbox.outbox import Outbox
from pansketch_agent.runtime.stream_builder import StreamBuilder
from tests.waiting import SECONDS, until

ENTROPY = os_entropy()
HOUR = 3600
BEGIN = 1_704_067_200
KILLS, FOLDERS = 32, 2


def answered(config, payloads, keepers, by=None):
    """The unblinded sum of releases, with K draws of noise. `by`: whose masks are taken away."""
    spec = config.streams[0].spec
    releases = [decode_blinded(payload, spec) for payload in payloads]
    question = question_about(config.fleet, releases, share=Fraction(1))
    answers = [
        replace(answer(question, spec, key, ENTROPY), keeper=keeper_id(each.public))
        for each, key in zip(keepers, by or keepers, strict=True)
    ]
    return unblind(question, releases, answers, 10_000)


def hours(count, gap=()):
    at = [BEGIN + 60 * minute for minute in range(60 * count) if minute // 60 not in gap]
    return "time,temp,wind\n" + "".join(f"{each},11.5,N\n" for each in at)


class Live:
    """An agent's worker of a live source on a clock that the test turns."""

    def __init__(self, device, config):
        self.now = self.up = float(BEGIN)
        self.clock = Clock(lambda: self.now, lambda: self.up, lambda *_: True)
        self.ledger = Ledger(device.state)
        self.outbox = Outbox(device.state / "outbox", 10**7)
        arguments = self.ledger, self.outbox, self.clock, threading.Event(), False, None
        builder = StreamBuilder(config.fleet, "dev-1", *arguments)
        self.work = builder.build(config.streams, ENTROPY)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.outbox.close()
        self.ledger.__exit__(None, None, None)

    def step(self, seconds):
        self.now += seconds
        self.up += seconds
        self.work.tick(self.clock)

    @property
    def sketch(self):
        (found,) = self.work._windows._sketches
        return found

    @property
    def counters(self):
        return self.sketch._counters.copy()


def test_releases_unblind_to_what_was_counted(device, blinded, keepers):
    """At epsilon 100 noise adds less than 10 to a sum of all counters of a level, but for a
    probability below 1e-6. A remaining mask would make it uniform.
    """
    config = blinded(epsilon=100.0, rows=hours(5, gap=(2,)))
    agent = device.start("run", "--drain", "0")
    assert agent.wait() == 1, "its releases are not acknowledged"
    payloads = device.releases()
    assert sorted(key.sequence for key in payloads) == [*range(1, len(payloads) + 1)]
    found = answered(config, payloads.values(), keepers)
    assert found.draws == 2
    assert sum(next(found.split())) == pytest.approx(60 * 4, abs=10)
    with pytest.raises(ValueError, match="outside of what readings"):
        answered(config, payloads.values(), keepers, [PrivateKey.draw(ENTROPY), keepers[1]])


def test_a_release_has_the_stated_bytes_and_one_key_for_each_epoch(device, blinded):
    config = blinded(", epoch: 10m", rows=hours(4))
    device.start("run", "--drain", "0").wait()
    spec = config.streams[0].spec
    for key, payload in device.releases().items():
        release = decode_blinded(payload, spec)
        assert (release.window.sequence, release.window.stream) == (key.sequence, key.stream)
        assert peek_any(payload).windows == (release.window,)
        assert len(set(release.epochs)) == 7  # Six of ten minutes, and that of the release.
        assert len(payload) == blinded_nbytes(spec, release.window, 2, 7)


@pytest.mark.parametrize("gap", [(), (1,), (1, 2), (0, 1, 2)])
def test_no_reading_changes_the_number_of_epochs(device, blinded, gap):
    """Before, a replay added no masks for an epoch without a reading, and the release told so.

    A gap of two hours has a whole window, which does not begin with the hour."""
    config = blinded(", epoch: 10m", rows=hours(4, gap=gap) + f"{BEGIN + 4 * HOUR},11.5,N\n")
    device.start("run", "--drain", "0").wait()
    releases = [decode_blinded(each, config.streams[0].spec) for each in device.releases().values()]
    assert {len(each.epochs) for each in releases} == {7}
    assert len({len(each) for each in device.releases().values()}) == 1


def test_the_debit_is_on_disk_before_the_first_mask(device, blinded):
    config = blinded(source="{type: stdin}")
    with Live(device, config) as live:
        live.step(0)
        label = live.sketch._window
        (debit,) = device.ledger()
        assert debit[:4] == ["1", "air", str(label.start), str(label.end)]
        assert (label.sequence, label.incarnation) == (1, live.ledger.incarnation)
    with Live(device, config) as live:  # As after a crash: the window is lost with its number.
        live.step(0)
        assert not live.work._windows._sketches
        live.step(HOUR)
        assert live.sketch._window.sequence == 2


def test_epochs_follow_the_clock_and_announced_intrusions(device, blinded):
    config = blinded(", epoch: 10m", source="{type: stdin}")
    with Live(device, config) as live:
        live.step(HOUR - (BEGIN % HOUR) + 600)
        begun = len(live.sketch._masks.epoch_keys)
        before = live.counters
        live.step(1)
        assert (live.counters == before).all(), "no epoch began"
        live.step(600)
        assert len(live.sketch._masks.epoch_keys) == begun + 1
        once = live.counters
        # A counter keeps its value with probability 2**-32; ten of them never do.
        assert np.count_nonzero(once == before) < 10
        live.work.rerandomise()
        assert np.count_nonzero(live.counters == once) < 10
        assert len(live.sketch._masks.epoch_keys) == begun + 2
        live.step(-300)
        assert len(live.sketch._masks.epoch_keys) == begun + 2, "a clock set back begins none"


@pytest.mark.parametrize("back", [1200, 2 * HOUR])
def test_a_clock_that_is_set_back_keeps_no_masks(device, blinded, back):
    """Before, they stayed until the clock had caught up: time servers are part of the traffic. A
    clock that is more than a window behind is not followed at all."""
    config = blinded(", epoch: 10m", source="{type: stdin}")
    with Live(device, config) as live:
        live.step(HOUR - (BEGIN % HOUR) + 1800)
        live.now -= back
        live.step(1)
        for _ in range(2):
            before, begun = live.counters, len(live.sketch._masks.epoch_keys)
            for _ in range(8):
                live.step(100)
            assert len(live.sketch._masks.epoch_keys) - begun in (1, 2)
            assert np.count_nonzero(live.counters == before) < 10


def test_snapshots_of_different_epochs_are_independent(device, blinded):
    """The difference of two snapshots: its low bytes are uniform. Chi-square with 255 degrees of
    freedom exceeds 385 with probability 1e-6 (Wilson-Hilferty). Within an epoch it does."""
    config = blinded(", epoch: 1m", source="{type: stdin}")
    counts = np.zeros(256), np.zeros(256)
    with Live(device, config) as live:
        live.step(HOUR)
        for _ in range(50):
            before = live.counters
            for count, seconds in zip(counts, (60, 0), strict=True):
                live.step(seconds)
                difference = (live.counters - before).view(np.uint8)
                count += np.bincount(difference, minlength=256)
                before = live.counters
    apart, within = (((count - count.mean()) ** 2 / count.mean()).sum() for count in counts)
    assert apart < 385
    assert within > 385


def test_a_daily_cap_opens_no_window(device, blinded):
    config = blinded(", daily_cap: 2.5", source="{type: stdin}")
    with Live(device, config) as live:
        for _ in range(4):
            live.step(HOUR)
        assert "daily cap" in live.work.failure
        assert not live.work._windows._sketches
        assert len(device.ledger()) == 2
        live.outbox.close()
    assert len(device.releases()) == 2, "what was debited is released"


def test_a_ledger_that_cannot_be_written_opens_no_window(device, blinded):
    config = blinded(source="{type: stdin}")
    with Live(device, config) as live:
        live.step(0)
        live.ledger._broken = True
        live.step(HOUR)
        assert live.work.fatal
        assert not live.work._windows._sketches


def test_kills_use_no_label_twice(tmp_path, device, keepers):
    """SIGKILL at random moments of a replay: every number is one window's, and one release's."""
    devices = [type(device)(tmp_path / f"d{number}") for number in range(FOLDERS)]
    for each in devices:
        each.folder.mkdir()
        rows = "time,temp,wind\n" + "".join(f"{BEGIN + 10 * n},1,N\n" for n in range(30_000))
        each.configure_blinded([key.public for key in keepers], window="10s", rows=rows)
    with ThreadPoolExecutor(FOLDERS) as pool:
        found = list(pool.map(kill_again_and_again, devices))
    for debits, releases in found:
        assert releases > KILLS // FOLDERS, "the kills came while it published"
        # A kill loses the open window, which is debited, and no other.
        assert 0 < debits - releases <= KILLS // FOLDERS


def kill_again_and_again(device):
    """(debits, releases) after the kills."""
    uniform, seen = random.Random(), {}
    for number in range(KILLS // FOLDERS):
        before = debits_in(device)
        agent = device.start("run")
        until(lambda: debits_in(device) >= before + 2 + number % 4, lambda: agent.output)  # noqa: B023
        time.sleep(uniform.random() * 0.05)
        agent.process.kill()
        assert agent.process.wait(SECONDS) == -9
        agent.close()
        device.started.clear()
        now = device.releases()
        assert seen.items() <= now.items(), "lost, or used again with other bytes"
        seen = now
    debits = {int(each[0]): each[2:4] for each in device.ledger()}
    assert sorted(debits) == [*range(1, len(device.ledger()) + 1)]
    labels = [peek_any(payload).windows[0] for payload in seen.values()]
    assert len({label.start for label in labels}) == len(labels)
    for label in labels:
        assert [str(label.start), str(label.end)] == debits[label.sequence]
    return len(debits), len(labels)


def debits_in(device):
    path = device.state / "ledger"
    return path.read_text().count("debit") if path.exists() else 0
