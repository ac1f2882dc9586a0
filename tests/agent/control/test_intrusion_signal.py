"""Announced intrusions: a signal or a command, and every open sketch holds fresh noise."""

import os
import signal
import threading

import numpy as np
import pytest

from pansketch import os_entropy, peek
from pansketch_agent.__main__ import main
from pansketch_agent.host.clock import Clock
from pansketch_agent.ledger.ledger import Ledger
from pansketch_agent.ledger.state_folder import lock_holder
from pansketch_agent.outbox.outbox import Outbox
from pansketch_agent.runtime.stream_builder import StreamBuilder
from pansketch_agent.sources.readings import Readings

SAID = "an intrusion was announced: every open sketch has drawn fresh noise"
ENTROPY = os_entropy()


def draws(payload: bytes) -> int:
    return peek(payload).draws


@pytest.mark.parametrize(("intrusion", "plain"), [("silent", 2), ("announced", 1)])
def test_the_command_makes_a_running_agent_draw_afresh(
    device, broker, peer, until, intrusion, plain
):
    privacy = f"{{epsilon: 1, intrusion: {intrusion}}}"
    device.configure(broker.url, source="{type: stdin}", window="2s", privacy=privacy)
    with peer(broker.url) as collector:
        agent = device.start("run")
        until(lambda: collector.releases, "a first release")
        command = device.start("rerandomise")
        assert command.wait() == 0, command.output
        assert agent.output.count(SAID) == 1
        seen = len(collector.releases)
        until(lambda: len(collector.releases) >= seen + 2, "two more releases")
        assert agent.stop() == 0
    counts = [draws(payload) for payload in collector.releases]
    assert counts[0] == plain
    assert sorted(counts)[-2:] == [plain, plain + 1]
    assert agent.output.count(SAID) == 1


def test_sigusr1_is_the_same_announcement(device, until):
    device.configure(source="{type: stdin}", window="1h")
    agent = device.start("run")
    agent.wait_until_ready()
    for number in (1, 2):
        assert lock_holder(device.state) == agent.process.pid
        agent.process.send_signal(signal.SIGUSR1)
        answered = f"{agent.process.pid} {number}\n"
        until(lambda text=answered: (device.state / "intrusions").read_text() == text, "an answer")
    assert agent.stop() == 0
    assert agent.output.count(SAID) == 2


def test_without_an_agent_it_is_one_line_and_a_failure(device, capsys):
    device.configure()
    for _ in range(2):
        assert main(["rerandomise", "--config", str(device.config)]) == 1
        err = capsys.readouterr().err
        assert err.count("\n") == 1
        assert "no agent is running with the state" in err
        with Ledger(device.state):  # leaves a lock file behind without a lock
            assert lock_holder(device.state) == os.getpid()


def test_an_agent_that_does_not_answer_is_reported(device, capsys, monkeypatch):
    device.configure()
    monkeypatch.setattr("pansketch_agent.control.requests.INTRUSION_SECONDS", 0.1)
    monkeypatch.setattr(signal, "pidfd_send_signal", lambda *_: None)
    with Ledger(device.state):
        assert main(["rerandomise", "--config", str(device.config)]) == 1
    assert "did not confirm within 0.1 s" in capsys.readouterr().err


def test_a_release_that_waits_for_room_draws_afresh_too(device):
    """A replay's closed window is still secret while the outbox is full."""
    config = device.configure()
    moments = iter(range(100))
    rerandomised = []

    def wait(_stop: object, _seconds: float) -> bool:
        work.rerandomise()  # from another thread in life; the lock is free here, or this hangs
        rerandomised.append(True)
        outbox._capacity_bytes = 10**6
        return False

    clock = Clock(lambda: 0.0, lambda: float(next(moments)), wait)
    with Ledger(device.state) as ledger:
        outbox = Outbox(device.state / "outbox", 1)
        signals = threading.Event()
        builder = StreamBuilder("testing", "dev-1", ledger, outbox, clock, signals, False, None)
        work = builder.build(config.streams[:1], ENTROPY)
        rows = Readings(np.array([10_000.0, 14_000.0]), np.zeros((2, 2)))
        work.run(iter([rows]), clock, signals)
    assert work.failure == ""
    assert rerandomised == [True]
    payloads = [outbox.read(key) for key in outbox.queued()]
    assert [draws(payload) for payload in payloads] == [3, 2]
