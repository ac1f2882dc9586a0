"""Notifications of both programs to systemd at a real socket: ready, heartbeats, stopping."""

import os
import socket
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from pansketch_fleet.systemd import Notifier
from testbed.notify_socket import NotifySocket, ProgramEnded, ProgramTimeout
from tests.waiting import SECONDS, until

WATCHDOG_SECONDS = 0.6
STUCK = """
import sys, threading
from {module} import {owner} as owner
original, calls = owner.{name}, []
def stuck(*words):
    calls.append(1)
    if len(calls) < {turns}:
        return original(*words)
    print("standing still", file=sys.stderr, flush=True)
    return threading.Event().wait()
owner.{name} = stuck
from pansketch_{program}.__main__ import main
sys.exit(main(sys.argv[1:]))
"""


class Manager:
    """systemd's end of the socket; `heard` are (time, datagram)."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.received: list[tuple[float, str]] = []
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind("\0" + address[1:] if address.startswith("@") else address)
        self._thread = threading.Thread(target=self._receive)
        self._thread.start()

    @property
    def environment(self) -> dict[str, str]:
        usec = str(int(WATCHDOG_SECONDS * 1e6))
        return {"NOTIFY_SOCKET": self.address, "WATCHDOG_USEC": usec}

    def lines(self) -> list[str]:
        return [line for _, text in list(self.received) for line in text.splitlines()]

    def beats(self) -> list[float]:
        return [at for at, text in list(self.received) if "WATCHDOG=1" in text.splitlines()]

    def _receive(self) -> None:
        while data := self._socket.recv(4096):
            self.received.append((time.monotonic(), data.decode()))

    def catch_up(self) -> None:
        """Wait until all earlier notifications are received."""
        before = self.lines().count("UP")
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as own:
            own.sendto(b"UP", self._socket.getsockname())
        until(lambda: self.lines().count("UP") > before)

    def close(self) -> None:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as last:
            last.sendto(b"", self._socket.getsockname())
        self._thread.join()
        self._socket.close()


@pytest.fixture
def manager(tmp_path: Path) -> Iterator[Manager]:
    made = Manager(str(tmp_path / "notify"))
    yield made
    made.close()


def test_an_agent_without_a_broker_is_ready_and_gives_signs_of_life(site, manager):
    """Being offline is no reason to be restarted."""
    url = f"mqtt://127.0.0.1:{site.ports['1883']}"
    config = site.configure({"url": url}, source="{type: stdin}")
    agent = site.agent(config, **manager.environment)
    agent.wait_for_output("no broker at")
    site.until(lambda: len(manager.beats()) >= 4, lambda: f"{manager.lines()} {agent.output}")
    assert manager.lines()[0] == "READY=1"
    state = f"STATUS=not connected to the broker at 127.0.0.1:{site.ports['1883']}, releases"
    assert any(line.startswith(state) for line in manager.lines())
    assert "STOPPING=1" not in manager.lines()
    assert agent.stop() == 0
    site.until(lambda: "STOPPING=1" in manager.lines(), lambda: str(manager.lines()))
    assert manager.lines()[-1] == "STOPPING=1"


def test_a_collector_without_a_broker_does_the_same(site, manager):
    config = site.configure({"url": f"mqtt://127.0.0.1:{site.ports['1883']}"})
    collector = site.collector(config, **manager.environment)
    site.until(lambda: len(manager.beats()) >= 4, lambda: f"{manager.lines()} {collector.output}")
    assert manager.lines()[0] == "READY=1"
    assert any(line.startswith("STATUS=serving fleet greenhouse") for line in manager.lines())
    assert collector.stop() == 0
    site.until(lambda: "STOPPING=1" in manager.lines(), lambda: str(manager.lines()))
    assert manager.lines()[-1] == "STOPPING=1"


@pytest.mark.needs("mosquitto")
@pytest.mark.parametrize("program", ["agent", "collector"])
def test_it_says_when_it_has_its_subscriptions_and_when_the_connection_ends(site, program):
    site.install_broker()
    broker = site.start_broker()
    config = site.configure(
        site.certified({"agent": "dev-1"}.get(program, program)), source="{type: stdin}"
    )
    started = getattr(site, program)(config)
    notified = started.notified
    started.wait_until_connected()
    site.until(lambda: ", retrying" not in (notified.value("STATUS") or ""), "a status")
    broker.stop()
    notified.wait_for("X_CONNECTED", "0", SECONDS)
    site.start_broker()
    started.wait_until_connected(times=2)
    assert (notified.times("X_CONNECTED", "1"), notified.times("X_CONNECTED", "0")) == (2, 1)
    assert started.stop() == 0
    notified.close()
    assert (notified.value("STOPPING"), notified.value("X_CONNECTED")) == ("1", "0")


@pytest.mark.needs("mosquitto")
@pytest.mark.parametrize(
    ("program", "module", "owner", "name", "turns", "words"),
    [
        ("agent", "pansketch_agent.runtime.stream_worker", "StreamWorker", "tick", 4, ("run",)),
        ("collector", "pansketch_collector.ingest", "ingest_loop", "commit_batch", 1, ("serve",)),
    ],
    ids=["agent", "collector"],
)
def test_a_main_loop_that_stands_still_gives_no_sign_of_life(
    site, manager, program, module, owner, name, turns, words
):
    """Negative control: the network thread lives on, and that does not count."""
    site.install_broker()
    site.start_broker()
    who = {"agent": "dev-1", "collector": "collector"}[program]
    config = site.configure(site.certified(who), source="{type: stdin}")
    code = STUCK.format(program=program, module=module, owner=owner, name=name, turns=turns)
    command = (sys.executable, "-c", code, *words, "--config", str(config))
    stuck = site.start(program, *command, environment=manager.environment)
    site.until(manager.beats, lambda: stuck.output)
    if program == "collector":
        site.until(lambda: "X_CONNECTED=1" in manager.lines(), lambda: stuck.output)
        # The payload is not read: the loop stalls before it is stored.
        site.client("dev-1").publish("pansketch/v1/greenhouse/dev-1/status", b"x", 1)
    stuck.wait_for_output("standing still")
    manager.catch_up()
    seen = len(manager.beats())
    time.sleep(2 * WATCHDOG_SECONDS)
    manager.catch_up()
    assert seen == len(manager.beats()) > 0
    assert not stuck.ended()


@pytest.mark.parametrize("place", ["path", "abstract"])
def test_it_says_as_much_as_is_asked_for_and_a_status_only_when_it_is_new(tmp_path, place):
    abstract = f"@pansketch-{os.getpid()}-{tmp_path.name}"
    manager = Manager(abstract if place == "abstract" else str(tmp_path / "notify"))
    notifier = Notifier({"NOTIFY_SOCKET": manager.address, "WATCHDOG_USEC": "9000000"})
    for uptime in range(100, 110):
        notifier.alive(float(uptime), "idle" if uptime < 105 else "busy")
    manager.close()
    assert [text for _, text in manager.received] == [
        "WATCHDOG=1\nSTATUS=idle",
        "WATCHDOG=1",
        "STATUS=busy",
        "WATCHDOG=1",
        "WATCHDOG=1",
    ]


def test_each_change_of_the_connection_is_said_once(tmp_path):
    manager = Manager(str(tmp_path / "notify"))
    notifier = Notifier({"NOTIFY_SOCKET": manager.address})
    for connected in (False, True, True, False, False, True):
        notifier.connected(connected)
        notifier.alive(1.0, "idle")
    manager.close()
    assert [line for line in manager.lines() if line != "STATUS=idle"] == [
        "X_CONNECTED=1",
        "X_CONNECTED=0",
        "X_CONNECTED=1",
    ]


def test_a_full_socket_does_not_hold_up_a_change_which_is_said_later(tmp_path, monkeypatch):
    """It comes from the thread of the network."""
    monkeypatch.setattr("pansketch_fleet.systemd.MAX_WAIT_SECONDS", 0.001)
    address = str(tmp_path / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as full:
        full.bind(address)
        notifier = Notifier({"NOTIFY_SOCKET": address})
        for turn in range(600):
            notifier.alive(float(turn), f"turn {turn}")
        monkeypatch.setattr("pansketch_fleet.systemd.MAX_WAIT_SECONDS", None)  # for ever
        for connected in (True, False, True):
            notifier.connected(connected)
        full.setblocking(False)
        heard = []
        with suppress(BlockingIOError):
            while True:
                heard.append(full.recv(4096))
        assert heard[0] == b"STATUS=turn 0"
        assert b"X_CONNECTED" not in b"".join(heard)
        notifier.alive(600.0, "turn 599")
        assert full.recv(4096) == b"X_CONNECTED=1"


SAYS = "import os, sys; from pansketch_fleet.systemd import Notifier; n = Notifier(os.environ)\n"


def test_what_a_program_said_before_it_ended_is_heard(site):
    program = site.start("says", sys.executable, "-c", f"{SAYS}n.connected(True); n.ready()")
    assert program.wait() == 0
    program.wait_until_connected()
    program.notified.wait_until_ready(SECONDS)


def test_a_program_that_ends_before_is_an_error_with_what_it_says(site):
    words = "n.ready(); n.connected(True); n.connected(False); sys.exit('wrong input')"
    program = site.start("says", sys.executable, "-c", SAYS + words)
    assert program.wait() == 1
    with pytest.raises(ProgramEnded, match=r"X_CONNECTED=1: .*wrong input"):
        program.wait_until_connected()


def test_a_program_that_does_not_say_it_is_an_error_in_time():
    with NotifySocket() as notified:
        Notifier(notified.environment).ready()
        notified.wait_until_ready(SECONDS)
        with pytest.raises(ProgramTimeout, match="X_CONNECTED=1"):
            notified.wait_until_connected(0.0)


@pytest.mark.parametrize(
    "watchdog",
    [
        {},
        {"WATCHDOG_USEC": "0"},
        {"WATCHDOG_USEC": "soon"},
        {"WATCHDOG_USEC": "-3"},
        {"WATCHDOG_USEC": "9000000", "WATCHDOG_PID": "1"},
    ],
)
def test_nobody_waits_for_signs_of_life(tmp_path, watchdog):
    manager = Manager(str(tmp_path / "notify"))
    notifier = Notifier({"NOTIFY_SOCKET": manager.address, **watchdog})
    notifier.ready()
    notifier.alive(1e6, "idle")
    manager.close()
    assert manager.lines() == ["READY=1", "STATUS=idle"]


@pytest.mark.parametrize("name", ["", "/nowhere/notify", "@pansketch-nobody", "/" + "x" * 200])
def test_a_socket_that_is_not_there_stops_nothing(name):
    notifier = Notifier({"NOTIFY_SOCKET": name, "WATCHDOG_USEC": "1"})
    notifier.ready()
    notifier.alive(1.0, "idle")
    notifier.stopping()


def test_a_socket_that_takes_nothing_is_not_waited_for_for_ever(tmp_path, monkeypatch):
    """A notification that was not sent is sent at the next turn."""
    monkeypatch.setattr("pansketch_fleet.systemd.MAX_WAIT_SECONDS", 0.001)
    address = str(tmp_path / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as deaf:
        deaf.bind(address)
        notifier = Notifier({"NOTIFY_SOCKET": address, "WATCHDOG_USEC": "3"})
        for turn in range(600):
            notifier.alive(float(turn), "idle")
        deaf.setblocking(False)
        heard = 0
        while True:
            try:
                deaf.recv(4096)
            except BlockingIOError:
                break
            heard += 1
        assert 0 < heard < 600
        notifier.alive(601.0, "idle")
        assert deaf.recv(4096) == b"WATCHDOG=1"
