"""Reconciliation: the fate of every release that was ever debited, each in one class.

A pure function of the evidence. A release that fits no class, or two exclusive ones, is a failure.
A fault excuses the releases that it is known to have destroyed, by name, and no others. At least
MERGED_SHARE of the rest must have arrived.
"""

import signal
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace

from pansketch_fleet.protocol.messages import digest
from testbed.chaos.accounting.evidence import Evidence, Run, count_by_device
from testbed.chaos.environment.configuration import (
    KEEPERS,
    SMALL_OUTBOX_BYTES,
    devices,
    write_behind_among,
)
from testbed.chaos.environment.supervisor import End
from testbed.chaos.observation.held_in_memory import LATE_SECONDS, MAX_SECONDS
from testbed.chaos.observation.observer import Name

MERGED = "merged"
WAITING = "waiting"
REFUSED = "refused"
DROPPED = "dropped"
DAMAGED = "damaged"
ERASED = "erased"
UNKEPT = "unkept"
TWINNED = "twinned"
RISKED = "risked"
CRASHED = "crashed"
NOWHERE = "nowhere"
# In this order: what is merged may wait for its ack still, or have been dropped on the device.
CLASSES: Mapping[str, str] = {
    MERGED: "stored by the collector, once, with the device's bytes",
    WAITING: "in the outbox still",
    TWINNED: "refused, because a second agent of the same name may have released the window",
    REFUSED: "refused by the collector for good, and kept as a dead letter",
    DROPPED: "dropped by a full outbox or a full disk, counted and named",
    DAMAGED: "lost in a segment that the run itself has damaged",
    ERASED: "lost in a state folder that the run itself has deleted or replaced",
    UNKEPT: "lost in a database that the run has rolled back, with no copy on the device",
    RISKED: "lost in memory by a kill, as `persist: when_unacknowledged` allows",
    CRASHED: "debited, and not on the disk when its process ended; a masked window is while open",
    NOWHERE: "LOST",
}
# Destroyed by a fault that names them. The rest could have been delivered.
DESTROYED = (TWINNED, DROPPED, DAMAGED, ERASED, UNKEPT, RISKED, CRASHED)
MERGED_SHARE = 0.95
FULL_SHARE = 0.5  # An outbox that drops holds at least this much of what it may.
# Errors that may end a program; the supervisor restarts it.
LEDGER_FULL = (
    "cannot be used",
    "refuses the debit",
    "the disk is full",
    "No space left",
    "File too large",
)
NOT_DRAINED = "not acknowledged after"
DISPUTED = "is refused by the collector (equivocation"
UNKNOWN_LEDGER = "does not know, and a replay would release them again"
OLD_LEDGER = "is an old copy, which has forgotten"
DATABASE_AWAY = ("locked", "full", "I/O", "No space left", "unable to open", "File too large")


@dataclass(frozen=True)
class Account:
    """Every debited release with its class, and all that is wrong, a line each."""

    classes: Mapping[Name, str]
    failures: tuple[str, ...]

    def totals(self) -> dict[str, int]:
        counted = Counter(self.classes.values())
        return {name: counted[name] for name in CLASSES}

    def merged_share(self) -> float:
        """Merged releases over those that no fault has destroyed; 1 where there are none."""
        counted = self.totals()
        deliverable = sum(n for name, n in counted.items() if name not in DESTROYED)
        return counted[MERGED] / deliverable if deliverable else 1.0

    def by_device(self) -> dict[str, Counter[str]]:
        found: dict[str, Counter[str]] = {}
        for name, where in self.classes.items():
            found.setdefault(name.device, Counter())[where] += 1
        return found


def account(evidence: Evidence) -> Account:
    """The class of each release, and the violations."""
    classes = _classes(evidence)
    failures = [
        *evidence.run.problems,
        *(f"{name}: debited, and nowhere" for name, where in classes.items() if where == NOWHERE),
        *_wrong_debits(evidence),
        *_wrong_rows(evidence),
        *_stored_again(evidence),
        *_made_twice(evidence),
        *_wrong_bytes_waiting(evidence),
        *_wrong_counts(evidence),
        *_wrong_ends(evidence),
        *_wrong_drops(evidence, classes),
        *_wrong_disputes(evidence),
        *(f"{name}: refused for good" for name, where in classes.items() if where == REFUSED),
    ]
    if evidence.integrity != "ok":
        failures.append(f"the collector's database is damaged: {evidence.integrity}")
    settled = Account(classes, tuple(failures))
    if settled.merged_share() < MERGED_SHARE:
        few = f"only {settled.merged_share():.1%} of what no fault destroyed were merged"
        return replace(settled, failures=(*failures, f"{few}; wanted: {MERGED_SHARE:.0%}"))
    return settled


def _classes(evidence: Evidence) -> dict[Name, str]:
    """The class of each debit: the first that lists it."""
    run = evidence.run
    by_class: dict[str, Collection[Name]] = {
        MERGED: {row.name for row in evidence.stored},
        WAITING: evidence.waiting.keys(),
        TWINNED: twinned(evidence),
        REFUSED: evidence.refused,
        DROPPED: {drop.name for drop in run.drops},
        DAMAGED: run.damaged,
        ERASED: run.erased,
        UNKEPT: run.unkept | let_go(run),
        RISKED: at_risk(run),
        CRASHED: run.lost_with_process - evidence.made.keys(),
    }
    return {
        debit.name: next((where for where in by_class if debit.name in by_class[where]), NOWHERE)
        for debit in evidence.debits
    }


def twinned(evidence: Evidence) -> set[Name]:
    """The releases that a second agent of the same device name has cost.

    The collector refused or disputed a window that both released, or the device refused to send it.
    A mark names no windows. So a device that sees a mark of an unknown ledger sends no window up to
    the end of the mark. Excused are the releases within the life of the second agent and those
    queued when it began; no others of the device are.
    """
    run = evidence.run
    covered = {n for n in evidence.refused if any(r.covers(n) for r in run.twin_ranges)}
    both = {name for name in (*evidence.refused, *evidence.disputed) if name in run.twins}
    return both | covered | (run.overtaken & evidence.refused)


def let_go(run: Run) -> set[Name]:
    """Stored in a database that was rolled back, and kept by a device that may have let go of them
    for new ones. A small outbox may, and a disk that was full before they were queued again."""
    small = {device.name for device in devices(len(run.devices)) if device.small_outbox}
    full = {span.device for span in run.full_disks}
    away = {name for name in run.rolled_back - run.requeued if name.device in full}
    return away | {name for name in run.rolled_back if name.device in small}


def at_risk(run: Run) -> set[Name]:
    """The losses that the option allows a kill: releases held under it, for no longer than its
    limit."""
    write_behind = write_behind_among(len(run.devices))
    return {
        held.name
        for held in run.held
        if held.name.device in write_behind
        and held.code == -signal.SIGKILL
        and held.seconds <= MAX_SECONDS
    }


def _wrong_debits(evidence: Evidence) -> Iterator[str]:
    yield from evidence.ledger_problems
    counted = Counter(debit.name for debit in evidence.debits)
    yield from (f"{name}: debited {n} times" for name, n in counted.items() if n > 1)
    for name in evidence.made.keys() - counted.keys() - evidence.run.twins:
        yield f"{name}: made without a debit"
    for name in evidence.waiting.keys() - counted.keys():
        yield f"{name}: in the outbox without a debit"


def _wrong_rows(evidence: Evidence) -> Iterator[str]:
    debited = {(debit.name, debit.sequence, debit.end) for debit in evidence.debits}
    names = {name for name, _, _ in debited}
    for row in evidence.stored:
        made, of_twin = evidence.made.get(row.name, {}), row.name in evidence.run.twins
        if row.name not in names and not of_twin:
            yield f"{row.name}: stored without a debit"
        elif (
            row.name,
            row.sequence,
            row.end,
        ) not in debited and not of_twin:
            yield f"{row.name}: stored with another number or end than the debit's"
        if digest(row.payload) != row.digest or row.digest not in made:
            yield f"{row.name}: stored with other bytes than the device's"


def _stored_again(evidence: Evidence) -> Iterator[str]:
    """The tables allow none of it; this does not believe them."""
    rows = evidence.stored
    names = Counter(str(row.name) for row in rows)
    contents = Counter(row.digest for row in rows)
    for what, counted in (("release", names), ("content", contents)):
        yield from (f"{what} {which}: stored {n} times" for which, n in counted.items() if n > 1)


def _made_twice(evidence: Evidence) -> Iterator[str]:
    for name, payloads in evidence.made.items():
        if len(payloads) > 1 and name not in evidence.run.twins:
            yield f"{name}: made {len(payloads)} times, with different bytes"


def _wrong_bytes_waiting(evidence: Evidence) -> Iterator[str]:
    for name, found in evidence.waiting.items():
        if found not in evidence.made.get(name, {}):
            yield f"{name}: in the outbox with other bytes than were seen before"


def _wrong_counts(evidence: Evidence) -> Iterator[str]:
    """A device counts the releases that it drops. A crash may come between count and log line. A
    full disk may keep the count in memory only. A lost or restored state has lost its count."""
    named = count_by_device({drop.name for drop in evidence.run.drops})
    ends = Counter(end.program for end in evidence.run.ends)
    forgetful = {span.device for span in evidence.run.full_disks}
    forgetful |= evidence.run.reset
    for device, counted in evidence.counted_dropped.items():
        short = named[device] - counted
        if short > 0 and device not in forgetful:
            yield f"{device}: names {named[device]} dropped releases and counts {counted}"
        if -short > ends[device]:
            yield f"{device}: counts {counted} dropped releases and names {named[device]}"
        waiting = sum(name.device == device for name in evidence.waiting)
        if evidence.listed[device] != (waiting, counted):
            yield f"{device}: `outbox list` does not show what is on its disk"


def _wrong_drops(evidence: Evidence, classes: Mapping[Name, str]) -> Iterator[str]:
    """A drop needs a disk that was full then, or a small outbox that was seen to be full."""
    small = {device.name for device in devices(len(evidence.run.devices)) if device.small_outbox}
    least = FULL_SHARE * SMALL_OUTBOX_BYTES
    for drop in evidence.run.drops:
        device = drop.name.device
        full = any(s.covers(device, drop.at, LATE_SECONDS) for s in evidence.run.full_disks)
        if classes.get(drop.name) != DROPPED or full:
            continue
        if device not in small or drop.full_bytes < least:
            yield f"{drop.name}: dropped, and there was room for it ({drop.full_bytes} bytes held)"


def _wrong_disputes(evidence: Evidence) -> Iterator[str]:
    for name in evidence.disputed:
        if name not in evidence.run.twins:
            yield f"{name}: disputed, as if it had been made twice"


def _wrong_ends(evidence: Evidence) -> Iterator[str]:
    yield from (f"{name}: something unforeseen, see this log" for name in evidence.tracebacks)
    for end in evidence.run.ends:
        if not end.ours and not _explained(end, evidence):
            yield f"{end.program}: ended unexpectedly with {end.code}: {end.last_line}"


def _explained(end: End, evidence: Evidence) -> bool:
    if end.code == 0 or end.program in ("holder", "broker"):
        return True  # A broker that crashes is not a finding about the fleet.
    if NOT_DRAINED in end.last_line:
        return True  # The rest is in the outbox, and counted there.
    if end.program in KEEPERS:
        restored = evidence.run.faults.get("keeper-restored", 0) > 0
        return restored and end.code == 1 and OLD_LEDGER in end.last_line
    twice = end.program in {name.device for name in evidence.run.twins}
    other = UNKNOWN_LEDGER in end.lines_before + end.last_line
    if (twice and (DISPUTED in end.last_line or other)) or (
        end.program in evidence.run.reset and other
    ):
        # The second agent of its name released the window first. Or the fleet first sees another
        # ledger when the outbox is drained, because a replay without readings does so.
        return end.code == 1
    if end.program == "collector":
        return end.code == 1 and any(sign in end.last_line for sign in DATABASE_AWAY)
    if any(span.device == end.program for span in evidence.run.full_disks):
        return end.code == 1 and any(sign in end.last_line for sign in LEDGER_FULL)
    return False
