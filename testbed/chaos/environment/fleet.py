"""The fleet of a run: devices, network, broker and collector, each a process of its own."""

import os
import signal
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from pansketch_agent.commands.list_outbox import releases_in
from pansketch_agent.outbox.records import cost
from pansketch_fleet.child_process import run_child
from pansketch_fleet.config.loader import load_collector
from testbed.chaos.environment import configuration
from testbed.chaos.environment.broker import Broker
from testbed.chaos.environment.configuration import Device, Site, online, state_in
from testbed.chaos.environment.host import Disk, Quota, Tmpfs, WallClock, size
from testbed.chaos.environment.hostile_client import HostileClient, HostileDevice
from testbed.chaos.environment.supervisor import Service, Supervisor
from testbed.chaos.observation.answers import AnswerObserver
from testbed.chaos.observation.held_in_memory import Ages
from testbed.chaos.observation.ledger_marks import (
    Debit,
    Drop,
    Marks,
    debits_in,
    dropped_in,
    last_debits,
    refused_in,
)
from testbed.chaos.observation.observer import Name, Observer, waiting_of
from testbed.tcp_proxy import Link, Network

COLLECTOR = "collector"
POLL_SECONDS = 0.1
START_SECONDS = 120.0
WRONG_INPUT = 2  # as an exit code
DRAIN_SECONDS = 300
MIN_RELEASE_BYTES = 256
DEVICE_DISK_BYTES, DATABASE_DISK_BYTES = 2 * 2**20, 48 * 2**20


class TooLate(Exception):
    """An awaited event did not happen in time; the message names it."""


class WrongInput(Exception):
    """A program refuses its configuration; the text is its error message."""


class Ended(Exception):
    """The run is over before its time."""


class Fleet:
    """Everything that a fault can happen to, by name. `small_disks`: a tmpfs may be mounted."""

    def __init__(
        self,
        site: Site,
        devices: Sequence[Device],
        supervisor: Supervisor,
        network: Network,
        mosquitto: str,
        small_disks: bool,
        faketime: Path | None,
    ) -> None:
        self.site, self.devices, self._supervisor, self.network = site, devices, supervisor, network
        self.names = [device.name for device in devices]
        self.marks = Marks()
        self.ended = threading.Event()
        states = {name: state_in(site.folder, name) for name in self.names}
        self.observer = Observer(
            configuration.FLEET, {n: state / "outbox" for n, state in states.items()}
        )
        write_behind = {device.name for device in devices if device.write_behind}
        self.ages = Ages(
            {name: states[name] for name in write_behind},
            self.observer.saw_on_disk,
            lambda stream: configuration.WINDOW_SECONDS * (stream == configuration.MASKED),
        )
        self.answers = AnswerObserver()
        site.certify()
        self.broker = Broker(site, mosquitto, self.names)
        self.links: dict[str, Link] = {}
        self.agents: dict[str, Service] = {}
        self.keepers: dict[str, Service] = {}
        self.clocks: dict[str, WallClock] = {}
        self.disks: dict[str, Disk] = {}
        self.lanes: dict[str, threading.RLock] = {}
        self.hostile_client = HostileClient(
            self.broker.port, site.password(configuration.HOSTILE_CLIENT)
        )
        supervisor.add(self.broker.program)
        self._add_collector(small_disks, faketime)
        config = load_collector(self.config, {})
        self.hostile = HostileDevice(self.broker.port, site.password(configuration.HOSTILE), config)
        for name in configuration.KEEPERS:
            self._add_keeper(name)
        for device in devices:
            self._add_device(device, small_disks, faketime)

    def _add_collector(self, small_disk: bool, faketime: Path | None) -> None:
        folder = self.site.database.parent
        self.links[COLLECTOR] = self.network.link(self.broker.port, self.answers.asker)
        self.config = self._configure_collector(configuration.EPSILON, "collector")
        self.other_config = self._configure_collector(
            configuration.OTHER_EPSILON, "collector-other"
        )
        command = configuration.collector_command(self.config)
        environment = {**self.site.environment, **self._clock(COLLECTOR, faketime)}
        self.collector = Service(COLLECTOR, command, self.site.folder, environment)
        self._supervisor.add(self.collector)
        self.disks[COLLECTOR] = (
            Tmpfs(folder, DATABASE_DISK_BYTES)
            if small_disk
            else Quota(lambda: self.collector.pid, lambda: 0)
        )

    def _configure_collector(self, epsilon: float, name: str) -> Path:
        return self.site.configure_collector(self.links[COLLECTOR].port, epsilon, name)

    def _add_keeper(self, name: str) -> None:
        self.links[name] = self.network.link(self.broker.port, self.answers.keeper)
        config = self.site.configure_keeper(name, self.links[name].port)
        command = configuration.keeper_command(config)
        keeper = Service(name, command, self.site.folder, self.site.environment)
        self.keepers[name] = self._supervisor.add(keeper)

    def _add_device(self, device: Device, small_disks: bool, faketime: Path | None) -> None:
        name, state = device.name, state_in(self.site.folder, device.name)
        port = self.broker.tls_port if device.secured else self.broker.port
        self.links[name] = self.network.link(port, lambda: self.observer.tap(name))
        environment = {**self.site.environment, **self._clock(name, faketime)}
        config = self.site.configure(device, self.links[name].port)
        command = configuration.agent_command(config)
        agent = Service(name, command, self.site.folder, environment, reads=True)
        agent.after = lambda: self._agent_ended(name)
        agent.on_line = lambda line: self._read_agent_line(name, line)
        self.agents[name] = self._supervisor.add(agent)
        if device.small_disk:
            self.disks[name] = (
                Tmpfs(state, DEVICE_DISK_BYTES)
                if small_disks
                else Quota(lambda: agent.pid, lambda: size(state / "ledger"))
            )

    def _clock(self, name: str, faketime: Path | None) -> Mapping[str, str]:
        """The environment of a program whose wall clock a fault can set, where the host allows."""
        if faketime is None:
            return {}
        self.clocks[name] = WallClock(faketime, self.site.folder / "clock" / name)
        return self.clocks[name].environment

    def note_rolled_back(self, names: set[Name]) -> None:
        """These were stored, but the restored database does not hold them. A device that keeps its
        copy of one can retransmit it; one without a copy is excused."""
        kept = {name for device in self.names for name in self.kept_by(device)}
        self.marks.note(self.marks.unkept, names - kept)
        self.marks.note(self.marks.rolled_back, names & kept)

    def needed(self, device: str) -> set[Name]:
        """The releases on a device's disk that may exist nowhere else: its backlog, and releases
        that the database lost in a rollback."""
        waiting = waiting_of(device, state_in(self.site.folder, device))
        return waiting | (self.marks.rolled_back & self.kept_by(device))

    def kept_by(self, device: str) -> set[Name]:
        """The releases that are on the disk of a device, acknowledged or not."""
        return self.observer.on_disk(device)

    def pause(self, seconds: float) -> None:
        """Waits, and raises Ended as soon as the run is."""
        if self.ended.wait(seconds):
            raise Ended

    def lane(self, name: str) -> threading.RLock:
        """Held by the one fault at a time that happens to the thing of this name."""
        return self.lanes.setdefault(name, threading.RLock())

    def add_helper(self, service: Service) -> Service:
        """A process that does not outlive the run."""
        return self._supervisor.add(service)

    def outbox(self, device: str) -> Path:
        return state_in(self.site.folder, device) / "outbox"

    def _agent_ended(self, device: str) -> None:
        code = self.agents[device].ends[-1].code
        self.observer.scan(device)
        self.ages.note_end(device, code)
        debits = self.note_debits(device)
        lost = {name for name in last_debits(debits) if not self.observer.saw(name)}
        if not code or self.ages.explain(device, code):
            # A masked window is debited when it starts, so every end of a process loses one.
            lost = {name for name in lost if name.stream == configuration.MASKED}
        self.marks.note(self.marks.lost_with_process, lost)

    def note_debits(self, device: str) -> list[Debit]:
        """The debits in a device's ledger now; the run remembers them from then on."""
        found = debits_in(state_in(self.site.folder, device), device)
        self.marks.note_debits(device, found)
        return found

    def _read_agent_line(self, device: str, line: str) -> None:
        """A line of an agent's log: a release that it gives up is noted, with what it held then."""
        self.marks.note_retransmission(device, line)
        dropped, refused = dropped_in(line), refused_in(line)
        if not dropped and not refused:
            return
        self.note_debits(device)
        names = [self.marks.newest(device, *one) for one in refused]
        self.marks.note(self.marks.refused, {name for name in names if name is not None})
        for stream, sequence in dropped:
            name = self.marks.newest(device, stream, sequence)
            if name is not None:
                self.marks.drops.append(Drop(name, time.time(), self._held_bytes(device, name)))

    def _held_bytes(self, device: str, dropped: Name) -> int:
        """The bytes that a device's outbox holds on disk and may hold in memory, with the dropped
        release."""
        waiting = [payload for _, payload in releases_in(self.outbox(device))]
        sizes = [cost(len(payload)) for payload in waiting]
        usual = max(sizes, default=MIN_RELEASE_BYTES)
        return sum(sizes) + usual * len({dropped} | self.ages.young(device))

    def windows(self) -> dict[str, int]:
        """The number of windows of the fast stream that each device has debited."""
        for name in self.names:
            self.note_debits(name)
        return {
            name: sum(
                debit.name.stream == configuration.STREAM for debit in self.marks.debits(name)
            )
            for name in self.names
        }

    def start(self) -> None:
        """Broker, collector and devices; all of them are connected when this returns."""
        self.broker.start()
        self.collector.start()
        for program in (*self.keepers.values(), *self.agents.values()):
            program.start()
        everyone = {*self.names, *self.keepers}
        self.until(
            lambda: online(self.site.database) >= everyone,
            START_SECONDS,
            "the fleet to connect",
        )

    def until(self, happened: Callable[[], object], seconds: float, what: str) -> None:
        """Raises TooLate, and WrongInput at once."""
        deadline = time.monotonic() + seconds
        while not happened():
            self._check_input()
            if time.monotonic() > deadline:
                raise TooLate(f"waited {seconds:.0f} s for {what}; see {self.site.folder}")
            self.pause(POLL_SECONDS)

    def _check_input(self) -> None:
        for program in (self.collector, *self.keepers.values(), *self.agents.values()):
            for end in program.ends:
                if end.code == WRONG_INPUT:
                    raise WrongInput(f"{end.program}: {end.last_line}")

    def drain(self) -> None:
        """Stop all devices and restart them without input.

        Each exits once its outbox is empty, or after DRAIN_SECONDS.
        """
        for agent in self.agents.values():
            agent.end(signal.SIGTERM)
        for device in self.devices:
            config = self.site.configure(device, self.links[device.name].port, live=False)
            agent = self.agents[device.name]
            agent.command = configuration.agent_command(config, "--drain", str(DRAIN_SECONDS))
            agent.start()
            agent.wanted = False
        ended = self.agents.values()
        seconds = DRAIN_SECONDS + START_SECONDS
        self.until(lambda: not any(agent.running for agent in ended), seconds, "empty outboxes")

    def stop(self) -> None:
        """Ends everything in good order, and leaves its files in the folder."""
        programs = *self.agents.values(), *self.keepers.values(), self.collector
        for program in (*programs, self.broker.program):
            program.end(signal.SIGTERM)
        for disk in self.disks.values():
            if isinstance(disk, Tmpfs):
                disk.keep()
        for name in self.names:
            self._list(name)

    def _list(self, device: str) -> None:
        """Write the agent's own `outbox list` into the folder."""
        command = configuration.outbox_command(f"{device}.yaml")
        environment = {**os.environ, **self.site.environment}
        done = run_child(command, cwd=self.site.folder, env=environment, timeout=START_SECONDS)
        (self.site.folder / "list" / f"{device}.txt").write_bytes(done.stdout or done.stderr)
