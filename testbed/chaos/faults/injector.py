"""Each kind of fault as a function that does it to a fleet, and undoes it before it returns."""

import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace

from testbed.chaos.environment import configuration
from testbed.chaos.environment.broker import SMALL, TINY, Limits
from testbed.chaos.environment.configuration import state_in
from testbed.chaos.environment.fleet import COLLECTOR, Fleet
from testbed.chaos.environment.supervisor import Service
from testbed.chaos.faults import kills, state_damage
from testbed.chaos.faults.schedule import Fault
from testbed.chaos.faults.state_damage import NotNowError
from testbed.chaos.observation.ledger_marks import Span
from testbed.chaos.observation.observer import waiting_of

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

Act = Callable[[Fleet, Fault], None]


def inject(fleet: Fleet, fault: Fault) -> None:
    """Does it, waits as long as it lasts, and undoes it; after other faults of the same lane."""
    ACTS[fault.kind](fleet, fault)


def _damaged(do: Callable[..., state_damage.Damage]) -> Act:
    def act(fleet: Fleet, fault: Fault) -> None:
        agent = fleet.agents[fault.target]
        with _offline(fleet, fault), agent.lane:
            agent.end(signal.SIGKILL)
            state = state_in(fleet.site.folder, fault.target)
            waited, needed = waiting_of(fault.target, state), fleet.needed(fault.target)
            do(fleet.outbox(fault.target), fault.draw)
            lost = (waited - waiting_of(fault.target, state)) | (
                needed - fleet.needed(fault.target)
            )
            fleet.marks.note(fleet.marks.damaged, lost)
            agent.start()

    return act


@contextmanager
def _offline(fleet: Fleet, fault: Fault) -> Iterator[None]:
    """The link is cut for as long as the fault lasts, and then until the end of what is inside."""
    link = fleet.links[fault.target]
    with fleet.lane(f"link {fault.target}"):
        link.cut()
        try:
            fleet.pause(fault.seconds)
            yield
        finally:
            link.mend()


def _link_cut(fleet: Fleet, fault: Fault) -> None:
    with _offline(fleet, fault):
        pass


def _link(change: Callable[[Fleet, Fault], None], min_seconds: float = 0.0) -> Act:
    def act(fleet: Fleet, fault: Fault) -> None:
        with fleet.lane(f"link {fault.target}"):
            change(fleet, fault)
            try:
                fleet.pause(max(fault.seconds, min_seconds))
            finally:
                fleet.links[fault.target].mend()

    return act


def _disk_full(fleet: Fleet, fault: Fault) -> None:
    target = COLLECTOR if fault.kind == "collector-disk-full" else fault.target
    with fleet.lane(f"disk {target}"):
        fleet.ages.disk_is_full(target)
        fleet.marks.filled.add(target)
        fleet.disks[target].fill()
        since = time.time()
        try:
            fleet.pause(fault.seconds)
        finally:
            fleet.disks[target].free()
            fleet.ages.disk_is_free(target)
            fleet.marks.full_disks.append(Span(target, since, time.time()))


def _clock(ahead_seconds: Callable[[float], float]) -> Act:
    def act(fleet: Fleet, fault: Fault) -> None:
        clock = fleet.clocks[fault.target]
        with fleet.lane(f"clock {fault.target}"):
            clock.set(ahead_seconds(fault.draw))
            try:
                fleet.pause(fault.seconds)
            finally:
                clock.set(0)

    return act


def _collector_misconfigured(fleet: Fleet, fault: Fault) -> None:
    with fleet.collector.lane:
        fleet.collector.end(signal.SIGTERM)
        fleet.collector.command = configuration.collector_command(fleet.other_config)
        link = fleet.links[COLLECTOR]
        accepted, until = link.accepted, time.monotonic() + CONNECT_SECONDS
        fleet.collector.start()
        try:
            while link.accepted == accepted and time.monotonic() < until:
                fleet.pause(0.1)
            fleet.pause(fault.seconds)
        finally:
            fleet.collector.end(signal.SIGTERM)
            fleet.collector.command = configuration.collector_command(fleet.config)
            fleet.collector.start()


def _database_locked(fleet: Fleet, fault: Fault) -> None:
    words = [sys.executable, "-c", HELD, str(fleet.site.database), str(fault.seconds)]
    with fleet.lane("database"):
        holder = fleet.add_helper(Service("holder", words, fleet.site.folder, {}))
        holder.start()
        holder.wanted = False
        until = time.monotonic() + fault.seconds + COMMIT_SECONDS
        while holder.running and time.monotonic() < until:
            fleet.pause(0.05)
        holder.end(signal.SIGKILL)


def _broker_killed(fleet: Fleet, fault: Fault) -> None:
    broker = fleet.broker
    with broker.program.lane:
        number = signal.SIGTERM if fault.kind == "broker-restarted" else signal.SIGKILL
        broker.program.end(number)
        if fault.kind == "broker-emptied":
            broker.empty()
        fleet.pause(fault.seconds)
        broker.start()


def _broker_limited(fleet: Fleet, fault: Fault) -> None:
    with fleet.broker.program.lane:
        fleet.broker.limit(SMALL if fault.kind == "broker-small" else TINY)
        try:
            fleet.pause(fault.seconds)
        finally:
            fleet.broker.limit(Limits())


def _certificate_expired(fleet: Fleet, fault: Fault) -> None:
    with fleet.broker.program.lane:
        fleet.broker.expire(True)
        try:
            fleet.pause(fault.seconds)
        finally:
            fleet.broker.expire(False)


def _password_changed(fleet: Fleet, fault: Fault) -> None:
    with fleet.broker.program.lane:
        fleet.broker.change_passwords(wrong=True)
        for link in fleet.links.values():
            link.reset()
        try:
            fleet.pause(fault.seconds)
        finally:
            fleet.broker.change_passwords(wrong=False)


def _repeated(fleet: Fleet, fault: Fault) -> None:
    made = {name: next(iter(each.values())) for name, each in fleet.observer.made().items()}
    fleet.hostile_client.repeat(made, fleet.names, fault.draw)


def _to_some_device(act: Act) -> Act:
    """To the first device, from the target on, to which it can happen now."""

    def run(fleet: Fleet, fault: Fault) -> None:
        first = fleet.names.index(fault.target)
        for name in [*fleet.names[first:], *fleet.names[:first]]:
            with suppress(NotNowError):
                return act(fleet, replace(fault, target=name))
        raise NotNowError(f"{fault.kind}: every device has windows in the future")

    return run


def _cut_bytes(fault: Fault) -> int:
    return 1 + int(fault.draw * MAX_CUT_BYTES)


ACTS: Mapping[str, Act] = {
    "agent-killed": kills.agent_killed,
    "agent-restarted": kills.agent_restarted,
    "segment-torn": _damaged(state_damage.tear),
    "segment-flipped": _damaged(state_damage.flip),
    "outbox-capped": _link_cut,
    "device-disk-full": _disk_full,
    "clock-forward": _clock(lambda draw: 5 + 45 * draw),
    "clock-back": _clock(lambda draw: -5 - 45 * draw),
    "clock-1970": _clock(lambda draw: 1e6 * draw - time.time()),
    "clock-far-ahead": _clock(lambda draw: 36_000 * (1 + draw)),
    "link-cut": _link_cut,
    "link-silent": _link(lambda fleet, fault: fleet.links[fault.target].silence("up", "down")),
    "link-deaf-up": _link(lambda fleet, fault: fleet.links[fault.target].silence("up")),
    "link-deaf-down": _link(lambda fleet, fault: fleet.links[fault.target].silence("down")),
    "link-slow": _link(lambda fleet, fault: fleet.links[fault.target].slow(0.2 + 1.8 * fault.draw)),
    "link-truncated": _link(
        lambda fleet, fault: fleet.links[fault.target].truncate(_cut_bytes(fault)),
        TRUNCATED_SECONDS,
    ),
    "link-reset": _link(lambda fleet, fault: fleet.links[fault.target].reset()),
    "collector-killed": kills.collector_killed,
    "collector-group-killed": kills.collector_killed,
    "collector-killed-in-commit": kills.collector_killed_in_commit,
    "collector-killed-asking": kills.collector_killed_asking,
    "collector-restarted": kills.collector_restarted,
    "collector-misconfigured": _collector_misconfigured,
    "keeper-killed": kills.keeper_killed,
    "keeper-killed-answering": kills.keeper_killed_answering,
    "keeper-away": kills.keeper_away,
    "keeper-restored": kills.keeper_restored,
    "database-locked": _database_locked,
    "collector-disk-full": _disk_full,
    "broker-killed": _broker_killed,
    "broker-emptied": _broker_killed,
    "broker-restarted": _broker_killed,
    "broker-limited": _broker_limited,
    "broker-small": _broker_limited,
    "password-changed": _password_changed,
    "certificate-expired": _certificate_expired,
    "garbage": lambda fleet, fault: fleet.hostile_client.send_malformed(fleet.names, fault.draw),
    "state-lost": _to_some_device(state_damage.state_lost),
    "state-restored": _to_some_device(state_damage.state_restored),
    "agent-twice": state_damage.twin,
    "database-restored": state_damage.database_restored,
    "collector-clock": _clock(lambda draw: 200_000 * (draw - 0.5)),
    "hostile-device": lambda fleet, fault: fleet.hostile.lie(int(time.time())),
    "retained-flood": lambda fleet, fault: fleet.hostile_client.flood(fleet.names, fault.draw),
    "oversize": lambda fleet, fault: fleet.hostile_client.oversize(fleet.names, fault.draw),
    "repeated": _repeated,
}
