"""The accounting: what became of every release that was ever debited, each in one class.

A pure function of the evidence. Whatever fits no class, or two that exclude each other, is a
failure.
"""

import signal
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from agent.outbox import HOLD_SECONDS
from chaos.evidence import Evidence, Run, count_by_device
from chaos.programs import End
from chaos.site import devices, patient_among
from chaos.witness import Name
from fleet.messages import digest

MERGED = "merged"
WAITING = "waiting"
REFUSED = "refused"
DROPPED = "dropped"
DAMAGED = "damaged"
RISKED = "risked"
CRASHED = "crashed"
NOWHERE = "nowhere"
# In this order: what is merged may wait for its ack still, or have been dropped on the device.
CLASSES: Mapping[str, str] = {
    MERGED: "stored by the collector, once, with the device's bytes",
    WAITING: "in the outbox still",
    REFUSED: "refused by the collector, set aside and named",
    DROPPED: "dropped by the outbox's policy or a full disk, counted and named",
    DAMAGED: "lost in a segment that the run itself has damaged",
    RISKED: "lost in memory by a kill, as `persist: when_unacknowledged` says",
    CRASHED: "debited, and not on the disk when its process ended",
    NOWHERE: "LOST",
}
# A busy host needs so long to come to writing what is due.
LATE_SECONDS = 5.0
# Why a program may end by itself; it is started again.
LEDGER_FULL = (
    "cannot be used",
    "refuses the debit",
    "the disk is full",
    "No space left",
    "File too large",
)
NOT_DRAINED = "not acknowledged after"
DATABASE_AWAY = ("locked", "full", "I/O", "No space left", "unable to open", "File too large")


@dataclass(frozen=True)
class Account:
    """Every debited release with its class, and all that is wrong, a line each."""

    classes: Mapping[Name, str]
    failures: tuple[str, ...]

    def totals(self) -> dict[str, int]:
        counted = Counter(self.classes.values())
        return {name: counted[name] for name in CLASSES}

    def by_device(self) -> dict[str, Counter[str]]:
        found: dict[str, Counter[str]] = {}
        for name, where in self.classes.items():
            found.setdefault(name.device, Counter())[where] += 1
        return found


def account(evidence: Evidence) -> Account:
    """What became of each, and what must not be."""
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
        *_wrong_refusals(evidence, classes),
    ]
    if evidence.integrity != "ok":
        failures.append(f"the collector's database is damaged: {evidence.integrity}")
    failures += [f"{name}: disputed, as if it had been made twice" for name in evidence.disputed]
    return Account(classes, tuple(failures))


def _classes(evidence: Evidence) -> dict[Name, str]:
    """The class of each debit: the first of its places."""
    places: dict[str, Collection[Name]] = {
        MERGED: {row.name for row in evidence.stored},
        WAITING: evidence.waiting.keys(),
        REFUSED: evidence.refused,
        DROPPED: evidence.dropped,
        DAMAGED: evidence.run.damaged,
        RISKED: at_risk(evidence.run),
        CRASHED: evidence.run.lost_with_process - evidence.made.keys(),
    }
    return {
        debit.name: next((where for where in places if debit.name in places[where]), NOWHERE)
        for debit in evidence.debits
    }


def at_risk(run: Run) -> set[Name]:
    """What the option lets a kill take: held by a device under it, for no longer than it says."""
    patient, longest = patient_among(len(run.devices)), HOLD_SECONDS + LATE_SECONDS
    return {
        held.name
        for held in run.held
        if held.name.device in patient and held.code == -signal.SIGKILL and held.seconds <= longest
    }


def _wrong_debits(evidence: Evidence) -> Iterator[str]:
    yield from evidence.ledger_problems
    counted = Counter(debit.name for debit in evidence.debits)
    yield from (f"{name}: debited {n} times" for name, n in counted.items() if n > 1)
    for name in evidence.made.keys() - counted.keys():
        yield f"{name}: made without a debit"
    for name in evidence.waiting.keys() - counted.keys():
        yield f"{name}: in the outbox without a debit"


def _wrong_rows(evidence: Evidence) -> Iterator[str]:
    spans = {debit.name: (debit.start, debit.end) for debit in evidence.debits}
    for row in evidence.stored:
        made = evidence.made.get(row.name, {})
        if row.name not in spans:
            yield f"{row.name}: stored without a debit"
        elif spans[row.name] != (row.start, row.end):
            yield f"{row.name}: stored with another window than the debit's"
        if digest(row.payload) != row.digest or row.digest not in made:
            yield f"{row.name}: stored with other bytes than the device's"


def _stored_again(evidence: Evidence) -> Iterator[str]:
    """The tables allow none of it; this does not believe them."""
    rows = evidence.stored
    names = Counter(str(row.name) for row in rows)
    contents = Counter(row.digest for row in rows)
    windows = Counter(f"{row.name.device}/{row.name.stream} from {row.start}" for row in rows)
    for what, counted in (("release", names), ("content", contents), ("window", windows)):
        yield from (f"{what} {which}: stored {n} times" for which, n in counted.items() if n > 1)


def _made_twice(evidence: Evidence) -> Iterator[str]:
    for name, payloads in evidence.made.items():
        if len(payloads) > 1:
            yield f"{name}: made {len(payloads)} times, with different bytes"


def _wrong_bytes_waiting(evidence: Evidence) -> Iterator[str]:
    for name, found in evidence.waiting.items():
        if found not in evidence.made.get(name, {}):
            yield f"{name}: in the outbox with other bytes than were seen before"


def _wrong_counts(evidence: Evidence) -> Iterator[str]:
    """A device counts what it drops. A crash may come between count and log line, and a full disk
    may keep the count in memory only."""
    small = {device.name for device in devices(len(evidence.run.devices)) if device.small_outbox}
    named, ends = count_by_device(evidence.dropped), Counter(e.program for e in evidence.run.ends)
    for device, counted in evidence.counted_dropped.items():
        if named[device] and device not in small | evidence.run.full_disks:
            yield f"{device}: has dropped {named[device]} releases, and there was room for them"
        short = named[device] - counted
        if short > 0 and device not in evidence.run.full_disks:
            yield f"{device}: names {named[device]} dropped releases and counts {counted}"
        if -short > ends[device]:
            yield f"{device}: counts {counted} dropped releases and names {named[device]}"
        waiting = sum(name.device == device for name in evidence.waiting)
        if evidence.listed[device] != (waiting, counted):
            yield f"{device}: `outbox list` does not show what is on its disk"


def _wrong_refusals(evidence: Evidence, classes: Mapping[Name, str]) -> Iterator[str]:
    if not evidence.run.faults.get("collector-misconfigured"):
        for name, where in classes.items():
            if where == REFUSED:
                yield f"{name}: refused, and the collector's configuration was never another"


def _wrong_ends(evidence: Evidence) -> Iterator[str]:
    yield from (f"{name}: something unforeseen, see this log" for name in evidence.tracebacks)
    for end in evidence.run.ends:
        if not end.ours and not _explained(end, evidence):
            yield f"{end.program}: ended by itself with {end.code}: {end.said}"


def _explained(end: End, evidence: Evidence) -> bool:
    if end.code == 0 or end.program in ("holder", "broker"):
        return True  # A broker that fails by itself is one more fault, and not ours.
    if NOT_DRAINED in end.said:
        return True  # What is left is in the outbox, and counted there.
    if end.program == "collector":
        return end.code == 1 and any(sign in end.said for sign in DATABASE_AWAY)
    if end.program in evidence.run.full_disks:
        return end.code == 1 and any(sign in end.said for sign in LEDGER_FULL)
    return False
