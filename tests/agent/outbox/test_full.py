"""A full outbox: a live release is dropped with one log line, a replay at full speed waits."""

import errno
import os
from dataclasses import replace
from pathlib import Path

import pytest

from pansketch import os_entropy
from pansketch_agent.host.clock import system_clock
from pansketch_agent.host.hardening import MemoryProtection
from pansketch_agent.ledger.ledger import Ledger, LedgerError
from pansketch_agent.outbox.outbox import Outbox
from pansketch_agent.outbox.records import cost
from pansketch_agent.runtime import agent_loop
from pansketch_agent.runtime.control import Signals
from pansketch_agent.runtime.exit_status import RunOptions
from pansketch_agent.windows.release_writer import ReleaseWriter
from pansketch_agent.windows.window import ClosedWindow, WindowBounds
from pansketch_fleet.systemd import Notifier


@pytest.fixture
def rng():
    return os_entropy()


def test_a_live_release_that_does_not_fit_is_dropped_and_its_window_is_spent(
    device, rng, caplog, release_of
):
    config = device.configure()
    spec = config.streams[0].spec
    outbox = Outbox(device.state / "outbox", 2 * cost(len(release_of(config, 1))) - 100)
    with Ledger(device.state) as ledger:
        micro = {"air": spec.guarantee.epsilon_micro}
        publisher = ReleaseWriter("dev-1", micro, rng, ledger, outbox)
        for start in (0, 10, 20):
            closed = ClosedWindow(WindowBounds(start, start + 10), (spec.start(rng),))
            publisher.publish(closed)
    assert [debit[0] for debit in device.ledger()] == ["1", "2", "3"]
    assert [key.sequence for key in outbox.queued()] == [1]
    errors = [r.getMessage() for r in caplog.records if r.levelname == "ERROR"]
    assert len(errors) == 2
    assert all("is dropped: the outbox is full" in line for line in errors)


def small_outbox(config):
    """Room for one release in the worst case: an ordinary one leaves none for another."""
    capacity_bytes = cost(config.streams[0].spec.max_release_nbytes) * 16 // 15 + 1
    return replace(config, profile=replace(config.profile, outbox_bytes=capacity_bytes))


def run(config, rng, drain_seconds):
    task = RunOptions(drain_seconds=drain_seconds)
    signals, notifier = Signals(), Notifier({})
    memory, clock = MemoryProtection("", Path("/")), system_clock()
    return agent_loop.run(config, task, clock, {"air": rng}, "session", signals, notifier, memory)


def test_a_replay_waits_for_room_and_loses_nothing(device, broker, peer, rng):
    config = small_outbox(device.configure(broker.url))
    with peer(broker.url) as collector:
        assert run(config, rng, 20.0) == 0
    assert collector.sequences() == [1, 2, 3, 4, 5]


def test_an_agent_starts_on_a_full_disk_and_delivers(
    device, broker, peer, rng, monkeypatch, caplog
):
    """Otherwise nothing would ever free a disk that its own outbox has filled."""
    config = device.configure(broker.url)
    absent = replace(config, mqtt=replace(config.mqtt, port=1))
    assert run(absent, rng, 0.0) == 1
    assert len(device.outbox()) == 5
    (device.state / "intrusions").write_text("1 1\n")

    def fails(path, content):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))

    monkeypatch.setattr("pansketch_agent.control.requests.replace_file", fails)
    with peer(broker.url) as collector:
        assert run(config, rng, 20.0) == 0
    assert collector.sequences() == [1, 2, 3, 4, 5]
    assert "intrusions cannot be confirmed yet (No space left on device)" in caplog.text
    assert not (device.state / "intrusions").exists()


def test_a_replay_waits_for_room_no_longer_than_it_may(device, rng, caplog):
    config = small_outbox(device.configure())
    assert run(config, rng, 0.3) == 1
    assert len(device.outbox()) == len(device.ledger()) == 1
    assert "air: the outbox is full; check the collector" in caplog.text


def test_a_failing_ledger_stops_the_agent_and_nothing_is_released(device, rng, monkeypatch):
    config = device.configure()

    def fails(self, text):
        raise LedgerError("disk gone")

    monkeypatch.setattr(Ledger, "_append", fails)
    assert run(config, rng, None) == 1
    assert device.outbox() == []
