"""Each kind of fault as something that is done to a house, and undone before it returns."""

import os
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace

from testbed.chaos.environment import configuration
from testbed.chaos.environment.broker import SMALL, TINY, Limits
from testbed.chaos.environment.configuration import state_in
from testbed.chaos.environment.fleet import COLLECTOR, House
from testbed.chaos.environment.supervisor import Service
from testbed.chaos.faults import state_damage
from testbed.chaos.faults.schedule import Fault
from testbed.chaos.faults.state_damage import NotNowError
from testbed.chaos.observation.ledger_marks import Span
from testbed.chaos.observation.witness import waiting_of

COMMIT_SECONDS = 4.0
TRUNCATED_SECONDS = 2.5
CONNECT_SECONDS = 8.0
MAX_CUT_BYTES = 600
HELD = """
import sqlite3, sys, time
database = sqlite3.connect(sys.argv[1], isolation_level=None, timeout=10)
database.execute("BEGIN IMMEDIATE")
time.sleep(float(sys.argv[2]))
"""

Act = Callable[[House, Fault], None]


def inject(house: House, fault: Fault) -> None:
    """Does it, waits as long as it lasts, and undoes it; after other faults of the same lane."""
    ACTS[fault.kind](house, fault)


def _away(house: House, program: Service, number: int, seconds: float, group: bool = False) -> None:
    """Ends a program, and starts it again later."""
    with program.lane:
        program.end(number, group)
        house.pause(seconds)
        program.start()


def _agent_killed(house: House, fault: Fault) -> None:
    _away(house, house.agents[fault.target], signal.SIGKILL, fault.seconds)


def _agent_restarted(house: House, fault: Fault) -> None:
    _away(house, house.agents[fault.target], signal.SIGTERM, fault.seconds)


def _damaged(do: Callable[..., state_damage.Damage]) -> Act:
    def act(house: House, fault: Fault) -> None:
        agent = house.agents[fault.target]
        with _offline(house, fault), agent.lane:
            agent.end(signal.SIGKILL)
            state = state_in(house.site.folder, fault.target)
            waited, needed = waiting_of(fault.target, state), house.needed(fault.target)
            do(house.outbox(fault.target), fault.draw)
            lost = (waited - waiting_of(fault.target, state)) | (
                needed - house.needed(fault.target)
            )
            house.marks.note(house.marks.damaged, lost)
            agent.start()

    return act


@contextmanager
def _offline(house: House, fault: Fault) -> Iterator[None]:
    """The link is cut for as long as the fault lasts, and then until the end of what is inside."""
    link = house.links[fault.target]
    with house.lane(f"link {fault.target}"):
        link.cut()
        try:
            house.pause(fault.seconds)
            yield
        finally:
            link.mend()


def _link_cut(house: House, fault: Fault) -> None:
    with _offline(house, fault):
        pass


def _link(change: Callable[[House, Fault], None], min_seconds: float = 0.0) -> Act:
    def act(house: House, fault: Fault) -> None:
        with house.lane(f"link {fault.target}"):
            change(house, fault)
            try:
                house.pause(max(fault.seconds, min_seconds))
            finally:
                house.links[fault.target].mend()

    return act


def _disk_full(house: House, fault: Fault) -> None:
    target = COLLECTOR if fault.kind == "collector-disk-full" else fault.target
    with house.lane(f"disk {target}"):
        house.ages.disk_is_full(target)
        house.disks[target].fill()
        since = time.time()
        try:
            house.pause(fault.seconds)
        finally:
            house.disks[target].free()
            house.ages.disk_is_free(target)
            house.marks.full_disks.append(Span(target, since, time.time()))


def _clock(ahead_seconds: Callable[[float], float]) -> Act:
    def act(house: House, fault: Fault) -> None:
        clock = house.clocks[fault.target]
        with house.lane(f"clock {fault.target}"):
            clock.set(ahead_seconds(fault.draw))
            try:
                house.pause(fault.seconds)
            finally:
                clock.set(0)

    return act


def _collector_killed(house: House, fault: Fault) -> None:
    group = fault.kind == "collector-group-killed"
    _away(house, house.collector, signal.SIGKILL, fault.seconds, group)


def _collector_killed_in_commit(house: House, fault: Fault) -> None:
    log = house.site.database.with_name(house.site.database.name + "-wal")
    with house.collector.lane:
        before, until = _written(log), time.monotonic() + COMMIT_SECONDS
        while _written(log) == before and time.monotonic() < until:
            house.pause(0.0005)
        _away(house, house.collector, signal.SIGKILL, fault.seconds)


def _written(path: os.PathLike[str]) -> int:
    try:
        return os.stat(path).st_mtime_ns
    except FileNotFoundError:
        return 0


def _collector_restarted(house: House, fault: Fault) -> None:
    _away(house, house.collector, signal.SIGTERM, fault.seconds)


def _collector_misconfigured(house: House, fault: Fault) -> None:
    with house.collector.lane:
        house.collector.end(signal.SIGTERM)
        house.collector.command = configuration.collector_command(house.other_config)
        link = house.links[COLLECTOR]
        accepted, until = link.accepted, time.monotonic() + CONNECT_SECONDS
        house.collector.start()
        try:
            while link.accepted == accepted and time.monotonic() < until:
                house.pause(0.1)
            house.pause(fault.seconds)
        finally:
            house.collector.end(signal.SIGTERM)
            house.collector.command = configuration.collector_command(house.config)
            house.collector.start()


def _database_locked(house: House, fault: Fault) -> None:
    words = [sys.executable, "-c", HELD, str(house.site.database), str(fault.seconds)]
    with house.lane("database"):
        holder = house.add_helper(Service("holder", words, house.site.folder, {}))
        holder.start()
        holder.wanted = False
        until = time.monotonic() + fault.seconds + COMMIT_SECONDS
        while holder.running and time.monotonic() < until:
            house.pause(0.05)
        holder.end(signal.SIGKILL)


def _broker_killed(house: House, fault: Fault) -> None:
    broker = house.broker
    with broker.program.lane:
        number = signal.SIGTERM if fault.kind == "broker-restarted" else signal.SIGKILL
        broker.program.end(number)
        if fault.kind == "broker-emptied":
            broker.empty()
        house.pause(fault.seconds)
        broker.start()


def _broker_limited(house: House, fault: Fault) -> None:
    with house.broker.program.lane:
        house.broker.limit(SMALL if fault.kind == "broker-small" else TINY)
        try:
            house.pause(fault.seconds)
        finally:
            house.broker.limit(Limits())


def _certificate_expired(house: House, fault: Fault) -> None:
    with house.broker.program.lane:
        house.broker.expire(True)
        try:
            house.pause(fault.seconds)
        finally:
            house.broker.expire(False)


def _password_changed(house: House, fault: Fault) -> None:
    with house.broker.program.lane:
        house.broker.change_passwords(wrong=True)
        for link in house.links.values():
            link.reset()
        try:
            house.pause(fault.seconds)
        finally:
            house.broker.change_passwords(wrong=False)


def _repeated(house: House, fault: Fault) -> None:
    made = {name: next(iter(each.values())) for name, each in house.witness.made().items()}
    house.hostile_client.repeat(made, house.names, fault.draw)


def _to_some_device(act: Act) -> Act:
    """To the first device, from the target on, to which it can happen now."""

    def run(house: House, fault: Fault) -> None:
        first = house.names.index(fault.target)
        for name in [*house.names[first:], *house.names[:first]]:
            with suppress(NotNowError):
                return act(house, replace(fault, target=name))
        raise NotNowError(f"{fault.kind}: every device has windows in the future")

    return run


def _cut_bytes(fault: Fault) -> int:
    return 1 + int(fault.draw * MAX_CUT_BYTES)


ACTS: Mapping[str, Act] = {
    "agent-killed": _agent_killed,
    "agent-restarted": _agent_restarted,
    "segment-torn": _damaged(state_damage.tear),
    "segment-flipped": _damaged(state_damage.flip),
    "outbox-capped": _link_cut,
    "device-disk-full": _disk_full,
    "clock-forward": _clock(lambda draw: 5 + 45 * draw),
    "clock-back": _clock(lambda draw: -5 - 45 * draw),
    "clock-1970": _clock(lambda draw: 1e6 * draw - time.time()),
    "clock-far-ahead": _clock(lambda draw: 36_000 * (1 + draw)),
    "link-cut": _link_cut,
    "link-silent": _link(lambda house, fault: house.links[fault.target].silence("up", "down")),
    "link-deaf-up": _link(lambda house, fault: house.links[fault.target].silence("up")),
    "link-deaf-down": _link(lambda house, fault: house.links[fault.target].silence("down")),
    "link-slow": _link(lambda house, fault: house.links[fault.target].slow(0.2 + 1.8 * fault.draw)),
    "link-truncated": _link(
        lambda house, fault: house.links[fault.target].truncate(_cut_bytes(fault)),
        TRUNCATED_SECONDS,
    ),
    "link-reset": _link(lambda house, fault: house.links[fault.target].reset()),
    "collector-killed": _collector_killed,
    "collector-group-killed": _collector_killed,
    "collector-killed-in-commit": _collector_killed_in_commit,
    "collector-restarted": _collector_restarted,
    "collector-misconfigured": _collector_misconfigured,
    "database-locked": _database_locked,
    "collector-disk-full": _disk_full,
    "broker-killed": _broker_killed,
    "broker-emptied": _broker_killed,
    "broker-restarted": _broker_killed,
    "broker-limited": _broker_limited,
    "broker-small": _broker_limited,
    "password-changed": _password_changed,
    "certificate-expired": _certificate_expired,
    "garbage": lambda house, fault: house.hostile_client.garbage(house.names, fault.draw),
    "state-lost": _to_some_device(state_damage.state_lost),
    "state-restored": _to_some_device(state_damage.state_restored),
    "agent-twice": state_damage.twin,
    "database-restored": state_damage.database_restored,
    "collector-clock": _clock(lambda draw: 200_000 * (draw - 0.5)),
    "hostile-device": lambda house, fault: house.hostile.lie(int(time.time())),
    "retained-flood": lambda house, fault: house.hostile_client.flood(house.names, fault.draw),
    "oversize": lambda house, fault: house.hostile_client.oversize(house.names, fault.draw),
    "repeated": _repeated,
}
