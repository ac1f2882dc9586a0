"""`serve`: from the queue through the judgement into the store, and the answers back.

One batch is one transaction. Only after its commit are the broker and the devices told, so a crash
at any point costs a repetition and never a release.
"""

import gc
import logging
import sqlite3
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from collector.failure import CommandError
from collector.inbox import (
    Accepted,
    Checkup,
    Duplicate,
    Judged,
    Presence,
    Refused,
    Rules,
    Verdict,
    compare,
    judge_all,
    supersedes,
)
from collector.link import Incoming
from collector.store import Store
from fleet.errors import one_line
from fleet.messages import Ack

BATCH = 512
IDLE_SECONDS = 0.5
RETRY_SECONDS = 5.0
REPORT_SECONDS = 10.0
MOST_REASON = 300
MOST_NEW_OBJECTS = 20_000  # before the next look for cycles; a few MiB

log = logging.getLogger("collector")


class Post(Protocol):
    """Where messages come from and answers go: `collector.link.Link`."""

    def take(self, most: int, timeout_seconds: float) -> list[Incoming]: ...
    def done(self, message: Incoming) -> None: ...
    def answer(self, device: str, ack: Ack) -> None: ...
    def flush(self) -> None: ...


@dataclass(frozen=True)
class Clock:
    """The wall clock in unix seconds, and one that never jumps, as functions."""

    now: Callable[[], int]
    uptime: Callable[[], float]


@dataclass
class Refusals:
    """What was refused since the last log line: one line in ten seconds, whatever arrives."""

    counts: Counter[str] = field(default_factory=Counter)
    said_at: float | None = None

    def report(self, uptime: float) -> None:
        due = self.said_at is None or uptime - self.said_at >= REPORT_SECONDS
        if self.counts and due:
            reasons = ", ".join(f"{reason} {n}" for reason, n in sorted(self.counts.items()))
            log.warning("refused into quarantine: %s; see `pansketch-collector devices`", reasons)
            self.counts.clear()
            self.said_at = uptime


def spare_collections() -> None:
    """Has Python look for garbage in cycles less often, from the end of the start on: a release is
    many small objects for a moment, and none of them a cycle.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(MOST_NEW_OBJECTS, 20, 20)


def serve(
    post: Post,
    store: Store,
    rules: Rules,
    clock: Clock,
    stop: threading.Event,
    alive: Callable[[], object],
    heard: Callable[[Incoming, Verdict], object] | None = None,
) -> None:
    """Takes messages until `stop` is set. Raises CommandError when the database is beyond use.

    `alive` is called at every turn, and while a full disk is waited for: that is no standstill.
    `heard` is told of each message that is on the disk.
    """
    refusals = Refusals()
    while not stop.is_set():
        alive()
        batch = post.take(BATCH, IDLE_SECONDS)
        if batch:
            verdicts = _commit(store, batch, rules, clock.now(), stop, alive)
            refusals.counts.update(v.reason for v in verdicts if isinstance(v, Refused))
            for message, verdict in zip(batch, verdicts, strict=False):
                _tell(post, message, verdict)
                if heard is not None:
                    heard(message, verdict)
            post.flush()
        refusals.report(clock.uptime())


def _commit(
    store: Store,
    batch: Sequence[Incoming],
    rules: Rules,
    at: int,
    stop: threading.Event,
    alive: Callable[[], object],
) -> list[Verdict]:
    """Verdicts of a batch, on the disk; none if it cannot be written until `stop`."""
    complained = False
    while not stop.is_set():
        try:
            return settle(store, batch, rules, at)
        except sqlite3.OperationalError as error:  # full or locked: it may pass
            if not complained:
                log.error("cannot write the database (%s): trying again; free its disk", error)
            complained = True
            alive()
            stop.wait(RETRY_SECONDS)
        except sqlite3.DatabaseError as error:
            raise CommandError(f"database: {error}: restore a copy, or move it away") from error
    return []


def settle(store: Store, batch: Sequence[Incoming], rules: Rules, at: int) -> list[Verdict]:
    """Judges and stores a batch received at `at` in one transaction. Raises sqlite3.Error."""
    judged = judge_all([(message.topic, message.payload) for message in batch], rules)
    with store.batch():
        return [_record(store, m, j, at) for m, j in zip(batch, judged, strict=True)]


def _record(store: Store, message: Incoming, judged: Judged, at: int) -> Verdict:
    """The verdict in the light of what is stored, stored itself."""
    verdict: Verdict = judged
    if isinstance(judged, Accepted):
        verdict = _keep(store, judged, at)
    elif isinstance(judged, Presence | Checkup) and not store.has_room_for(judged):
        verdict = Refused("devices", "more devices than a fleet may have", judged.device)
    match verdict:
        case Presence(device, status):
            if supersedes(status, store.session(device)):
                store.note(verdict, at)
        case Checkup():
            store.note_health(verdict, at)
        case Refused():
            store.quarantine(
                message.topic, verdict, message.payload, message.size, message.digest, at
            )
        case Duplicate(window):
            store.count_duplicate(window.device)
    return verdict


def _keep(store: Store, release: Accepted, at: int) -> Accepted | Duplicate | Refused:
    """Stores what is new. Two releases under one sequence number are both set aside."""
    try:
        store.add(release, at)
        return release
    except sqlite3.IntegrityError:  # asked only then: nearly every release is new
        held = store.held(release.window)
    verdict = compare(release, held)
    if isinstance(verdict, Refused) and held.digest is not None and not held.disputed:
        store.set_aside(release.window, at)
    return verdict


def _tell(post: Post, message: Incoming, verdict: Verdict) -> None:
    post.done(message)
    match verdict:
        case Accepted(window):
            ack = Ack(window.stream, window.sequence, message.digest, "stored")
            post.answer(window.device, ack)
        case Duplicate(window):
            ack = Ack(window.stream, window.sequence, message.digest, "duplicate")
            post.answer(window.device, ack)
        case Refused(reason, text, str(device), str(stream), sequence):
            line = one_line(f"{reason}: {text}")[:MOST_REASON]
            post.answer(device, Ack(stream, sequence, message.digest, "refused", line))
        case _:
            pass
