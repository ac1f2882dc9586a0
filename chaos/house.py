"""The whole house of a run: devices, network, broker and collector, each a process of its own."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from chaos import site as places
from chaos.broker import Broker
from chaos.clocks import WallClock
from chaos.disks import Disk, Quota, Tmpfs
from chaos.held import Ages
from chaos.marks import Marks, debits_in, last_debits
from chaos.programs import Keeper, Program
from chaos.proxy import Link, Network
from chaos.site import Device, Site, state_in
from chaos.vandal import Vandal
from chaos.witness import Witness

COLLECTOR = "collector"
FEED_SECONDS = 0.5
POLL_SECONDS = 0.1
START_SECONDS = 60.0
WRONG_INPUT = 2  # as an exit code
DRAIN_SECONDS = 150
DEVICE_DISK_BYTES, DATABASE_DISK_BYTES = 2 * 2**20, 48 * 2**20


class TooLate(Exception):
    """Something did not happen in time; the text says what."""


class WrongInput(Exception):
    """A program refuses its configuration; the text is what it says."""


class Ended(Exception):
    """The run is over before its time."""


class House:
    """Everything that a fault can happen to, by name. `small_disks`: a tmpfs may be mounted."""

    def __init__(
        self,
        site: Site,
        devices: Sequence[Device],
        keeper: Keeper,
        network: Network,
        mosquitto: str,
        small_disks: bool,
        faketime: Path | None,
    ) -> None:
        self.site, self.devices, self._keeper, self.network = site, devices, keeper, network
        self.names = [device.name for device in devices]
        self.marks = Marks()
        self.ended = threading.Event()
        states = {name: state_in(site.folder, name) for name in self.names}
        self.witness = Witness(places.FLEET, {n: state / "outbox" for n, state in states.items()})
        patient = {device.name for device in devices if device.patient}
        self.ages = Ages({name: states[name] for name in patient}, self.witness.saw_on_disk)
        site.certify()
        self.broker = Broker(site, mosquitto, self.names)
        self.links: dict[str, Link] = {}
        self.agents: dict[str, Program] = {}
        self.clocks: dict[str, WallClock] = {}
        self.disks: dict[str, Disk] = {}
        self.lanes: dict[str, threading.RLock] = {}
        self.vandal = Vandal(self.broker.port, site.password(places.VANDAL))
        keeper.add(self.broker.program)
        self._add_collector(small_disks)
        for device in devices:
            self._add_device(device, small_disks, faketime)

    def _add_collector(self, small_disk: bool) -> None:
        folder = self.site.database.parent
        self.links[COLLECTOR] = self.network.link(self.broker.port)
        self.config = self._configure_collector(places.EPSILON, "collector")
        self.other_config = self._configure_collector(places.OTHER_EPSILON, "collector-other")
        command = places.collector_command(self.config)
        environment = self.site.environment
        self.collector = Program(COLLECTOR, command, self.site.folder, environment)
        self._keeper.add(self.collector)
        self.disks[COLLECTOR] = (
            Tmpfs(folder, DATABASE_DISK_BYTES)
            if small_disk
            else Quota(lambda: self._pid(self.collector), lambda: 0)
        )

    def _configure_collector(self, epsilon: float, name: str) -> Path:
        return self.site.configure_collector(self.links[COLLECTOR].port, epsilon, name)

    def _add_device(self, device: Device, small_disks: bool, faketime: Path | None) -> None:
        name, state = device.name, state_in(self.site.folder, device.name)
        port = self.broker.tls_port if device.secured else self.broker.port
        self.links[name] = self.network.link(port, lambda: self.witness.tap(name))
        environment = dict(self.site.environment)
        if faketime is not None:
            self.clocks[name] = WallClock(faketime, self.site.folder / "clock" / name)
            environment |= self.clocks[name].environment
        config = self.site.configure(device, self.links[name].port)
        command = places.agent_command(config)
        agent = Program(name, command, self.site.folder, environment, reads=True)
        agent.after = lambda: self._agent_ended(name)
        self.agents[name] = self._keeper.add(agent)
        if device.small_disk:
            self.disks[name] = (
                Tmpfs(state, DEVICE_DISK_BYTES)
                if small_disks
                else Quota(lambda: self._pid(agent), lambda: _size(state / "ledger"))
            )

    def pause(self, seconds: float) -> None:
        """Waits, and raises Ended as soon as the run is."""
        if self.ended.wait(seconds):
            raise Ended

    def lane(self, name: str) -> threading.RLock:
        """Held by the one fault at a time that happens to the thing of this name."""
        return self.lanes.setdefault(name, threading.RLock())

    def add_helper(self, program: Program) -> Program:
        """A process that does not outlive the run."""
        return self._keeper.add(program)

    def outbox(self, device: str) -> Path:
        return state_in(self.site.folder, device) / "outbox"

    def _pid(self, program: Program) -> int | None:
        process = program.process
        return process.pid if process is not None and program.running else None

    def _agent_ended(self, device: str) -> None:
        code = self.agents[device].ends[-1].code
        self.witness.look(device)
        self.ages.note_end(device, code)
        if code and not self.ages.explain(device, code):
            last = last_debits(state_in(self.site.folder, device), device)
            self.marks.note_end({name for name in last if not self.witness.saw(name)})

    def windows(self) -> dict[str, int]:
        """How many windows of the fast stream each device has debited."""
        counted = {}
        for name in self.names:
            found = debits_in(state_in(self.site.folder, name), name)
            counted[name] = sum(debit.name.stream == places.STREAM for debit in found)
        return counted

    def start(self) -> None:
        """Broker, collector and devices; all of them are connected when this returns."""
        self.broker.start()
        self.collector.start()
        for agent in self.agents.values():
            agent.start()
        programs = [self.collector, *self.agents.values()]
        signs = ("is there", "connected to the broker")

        def connected() -> bool:
            return all(any(sign in _text(p.log) for sign in signs) for p in programs)

        self.until(connected, START_SECONDS, "the fleet to connect")

    def collector_is_there(self) -> bool:
        """Whether the collector that runs has reached the broker."""
        return "is there" in _text(self.collector.log).rpartition("serving fleet")[2]

    def until(self, happened: Callable[[], object], seconds: float, what: str) -> None:
        """Raises TooLate, and WrongInput at once."""
        deadline = time.monotonic() + seconds
        while not happened():
            self._check_input()
            if time.monotonic() > deadline:
                raise TooLate(f"waited {seconds:.0f} s in vain for {what}; see {self.site.folder}")
            self.pause(POLL_SECONDS)

    def _check_input(self) -> None:
        for program in (self.collector, *self.agents.values()):
            for end in program.ends:
                if end.code == WRONG_INPUT:
                    raise WrongInput(f"{end.program}: {end.said}")

    @contextmanager
    def fed(self, seed: int) -> Iterator[None]:
        """Readings come in at every device meanwhile."""
        stop, rng = threading.Event(), np.random.default_rng(seed)

        def feed() -> None:
            while not stop.wait(FEED_SECONDS):
                for agent in self.agents.values():
                    agent.write(places.readings(float(rng.random())))

        thread = threading.Thread(target=feed, name="readings", daemon=True)
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join()

    def drain(self) -> None:
        """Ends all devices and starts them with nothing more to come: each ends by itself once its
        outbox is empty, or after DRAIN_SECONDS."""
        for agent in self.agents.values():
            agent.end(signal.SIGTERM)
        for device in self.devices:
            config = self.site.configure(device, self.links[device.name].port, live=False)
            agent = self.agents[device.name]
            agent.command = places.agent_command(config, "--drain", str(DRAIN_SECONDS))
            agent.start()
            agent.wanted = False
        ended = self.agents.values()
        seconds = DRAIN_SECONDS + START_SECONDS
        self.until(lambda: not any(agent.running for agent in ended), seconds, "empty outboxes")

    def stop(self) -> None:
        """Ends everything in good order, and leaves its files in the folder."""
        for program in (*self.agents.values(), self.collector, self.broker.program):
            program.end(signal.SIGTERM)
        for disk in self.disks.values():
            if isinstance(disk, Tmpfs):
                disk.keep()
        for name in self.names:
            self._list(name)

    def _list(self, device: str) -> None:
        """Leaves in the folder what the agent's own `outbox list` says."""
        words = [sys.executable, "-m", "agent", "outbox", "list", "--config", f"{device}.yaml"]
        environment = {**os.environ, **self.site.environment}
        said = subprocess.run(
            words, cwd=self.site.folder, env=environment, capture_output=True, timeout=START_SECONDS
        )
        (self.site.folder / "list" / f"{device}.txt").write_bytes(said.stdout or said.stderr)


def _text(path: Path) -> str:
    return path.read_text(errors="replace") if path.exists() else ""


def _size(path: Path) -> int:
    return os.stat(path).st_size if path.exists() else 0
