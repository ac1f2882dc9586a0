"""A run: start the fleet, inject the faults, let the backlog arrive, and keep the evidence."""

import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass, field
from math import inf
from pathlib import Path

import numpy as np

from testbed import mosquitto
from testbed.chaos.accounting import answers, evidence
from testbed.chaos.environment import host
from testbed.chaos.environment.config_texts import LEVEL_SECONDS
from testbed.chaos.environment.configuration import (
    KEEPERS,
    WINDOW_SECONDS,
    Device,
    Site,
    devices,
    readings,
)
from testbed.chaos.environment.fleet import COLLECTOR, Fleet, TooLate
from testbed.chaos.environment.supervisor import Supervisor
from testbed.chaos.faults import schedule as faults
from testbed.chaos.faults.injector import inject
from testbed.chaos.faults.schedule import Fault, Targets, schedule
from testbed.chaos.observation.answers import unsettled, waiting_until
from testbed.tcp_proxy import Network

AT_ONCE = 32  # faults that happen at the same time, at most
LATE_SECONDS = 240.0  # after the last window was due, and after the last fault was
SPAN_SHARE = 1.1  # of the time that all windows take: devices are down for some of it
RELATIVE_LONGEST, MIN_LIMIT_SECONDS = 0.15, 3.0  # of the span: no fault lasts longer

FEED_SECONDS = 0.5

Progress = Callable[[str, int, int], None]


class CannotRun(Exception):
    """The host lacks a requirement of a run; the text names the remedy."""


@dataclass(frozen=True)
class Size:
    """The size of a run."""

    devices: int
    windows: int
    faults: int
    kinds: frozenset[str] = frozenset()  # of faults; none: all

    @property
    def span_seconds(self) -> float:
        """Over which the faults are spread."""
        return SPAN_SHARE * self.windows * WINDOW_SECONDS


@dataclass
class Tally:
    """The progress so far."""

    done: Counter[str] = field(default_factory=Counter)
    problems: list[str] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def timed(self, what: str) -> Iterator[None]:
        """One part of the run; what is too late there is a problem, and the run goes on."""
        started = time.monotonic()
        try:
            yield
        except TooLate as error:
            self.problems.append(str(error))
        finally:
            self.seconds[what] = round(time.monotonic() - started, 1)

    def note(self, fault: Fault, happened: "Future[None]") -> None:
        error = happened.exception()
        if error is None:
            self.done[fault.kind] += 1
        else:
            self.problems.append(f"fault {fault.number} ({fault.kind}, {fault.target}): {error!r}")


def run(folder: Path, size: Size, seed: int, mounts: bool, progress: Progress) -> None:
    """Runs it all; the folder then holds what `evidence.gather` reads. `mounts`: of its own.

    Raises CannotRun, WrongInput, OSError.
    """
    program = mosquitto.executable()
    if program is None:
        raise CannotRun("there is no mosquitto on this host; install it (apt install mosquitto)")
    faketime = host.library()
    site, members, tally = Site(folder), devices(size.devices), Tally()
    with Supervisor() as supervisor, Network() as network:
        fleet = Fleet(site, members, supervisor, network, program, mounts, faketime)
        targets = _targets(members, faketime is not None, size.kinds)
        try:
            with fleet.observer, fleet.ages, _fed(fleet, seed):
                with tally.timed("start"):
                    fleet.start()
                if tally.problems:
                    raise CannotRun(tally.problems[0])
                with tally.timed("faults"):
                    _let_happen(fleet, size, seed, targets, tally, progress)
                with tally.timed("drain"):
                    fleet.drain()
                asked_until = time.time() + max(LEVEL_SECONDS)
                with tally.timed("answers"):
                    _settle(fleet, asked_until)
        except BaseException:
            fleet.ended.set()  # All are killed; no fault starts any of them again.
            raise
        fleet.stop()
        fleet.marks.note(fleet.marks.refused, fleet.observer.refused())
    how = {
        "disks": "a tmpfs of its own for each" if mounts else "a limit on the size of files",
        "clocks": "libfaketime in each device" if faketime else "not touched",
    }
    found = evidence.Run.of(
        fleet.marks,
        tuple(fleet.names),
        seed=seed,
        windows=size.windows,
        faults=dict(tally.done),
        left_out=targets.without,
        how=how,
        problems=tuple(tally.problems),
        seconds=tally.seconds,
        ends=tuple(end for program in supervisor.services for end in program.ends),
        held=tuple(fleet.ages.held),
        asked_until=asked_until,
    )
    evidence.write(folder, found, fleet.observer.made())
    answers.write(folder, fleet.answers)


@contextmanager
def _fed(fleet: Fleet, seed: int) -> Iterator[None]:
    """Readings come in at every device meanwhile."""
    stop, rng = threading.Event(), np.random.default_rng(seed)

    def feed() -> None:
        while not stop.wait(FEED_SECONDS):
            for agent in fleet.agents.values():
                agent.write(readings(float(rng.random())))

    thread = threading.Thread(target=feed, name="readings", daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def _settle(fleet: Fleet, asked_until: float) -> None:
    """Waits for the answers about all periods that end before. Keepers that come back are asked at
    once, not after the pauses that earlier faults have made."""
    for keeper in fleet.keepers.values():
        keeper.end(signal.SIGTERM)
        keeper.start()

    def settled() -> bool:
        ends = [end for _, end in waiting_until(fleet.site.database).values()]
        return min(ends, default=inf) > asked_until and not unsettled(fleet.site.database)

    fleet.until(settled, LATE_SECONDS, "the answers of keepers")


def _targets(members: list[Device], clocked: bool, kinds: frozenset[str]) -> Targets:
    names = [device.name for device in members]
    without = {}
    if not clocked:
        why = "no libfaketime on this host; install it (apt install libfaketime)"
        of_clocks = ("clocked", "collector-clock")
        without = {kind.name: why for kind in faults.KINDS if kind.where in of_clocks}
    return Targets(
        {
            "device": names,
            "capped": [device.name for device in members if device.small_outbox],
            "small": [device.name for device in members if device.small_disk],
            "clocked": names,
            "link": [*names, *KEEPERS, COLLECTOR],
            "keeper": KEEPERS,
            "collector": [COLLECTOR],
            "collector-clock": [COLLECTOR],
            "broker": ["broker"],
            "secured": ["broker"] if any(device.secured for device in members) else [],
        },
        without,
        kinds,
    )


def _let_happen(
    fleet: Fleet, size: Size, seed: int, targets: Targets, tally: Tally, progress: Progress
) -> None:
    """All faults, each at its time or when its turn comes, and then all windows."""
    span = size.span_seconds
    longest = max(MIN_LIMIT_SECONDS, RELATIVE_LONGEST * span)
    planned, started = schedule(seed, size.faults, span, longest, targets), time.monotonic()
    with ThreadPoolExecutor(AT_ONCE, thread_name_prefix="fault") as pool:
        pending: dict[Future[None], Fault] = {}
        try:
            for fault in planned:
                fleet.pause(max(0.0, started + fault.at - time.monotonic()))
                pending[pool.submit(inject, fleet, fault)] = fault
                progress("faults", len(pending), len(planned))
            for happened in as_completed(pending, LATE_SECONDS):
                tally.note(pending[happened], happened)
        except BaseException:
            fleet.ended.set()
            pool.shutdown(cancel_futures=True)
            raise

    def enough() -> bool:
        least = min(fleet.windows().values())
        progress("windows", min(least, size.windows), size.windows)
        return least >= size.windows

    fleet.until(enough, LATE_SECONDS, f"{size.windows} windows of each device")
