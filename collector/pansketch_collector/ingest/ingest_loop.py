"""Ingest loop of `serve`: validate a batch, commit it in one transaction, then acknowledge it.

The broker and the devices receive acknowledgements only after the commit. So a crash at any point
costs a retransmission and never a release.
"""

import gc
import logging
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

from pansketch_collector.errors import CommandError
from pansketch_collector.mqtt.connection import Incoming
from pansketch_collector.storage.store import Store
from pansketch_collector.storage.tables import enrolments
from pansketch_collector.storage.tables.connection import ERRORS, passing
from pansketch_collector.validation.signatures import Signers, authenticate
from pansketch_collector.validation.validation import Rules, validate
from pansketch_collector.validation.verdicts import Accepted, Duplicate, Judged, Refused, Verdict
from pansketch_fleet.errors import one_line
from pansketch_fleet.protocol.messages import Ack

BATCH = 512
IDLE_SECONDS = 0.5
RETRY_SECONDS = 5.0
REPORT_SECONDS = 10.0
MAX_REASON = 300
MAX_SOURCES = 8  # are named in one line, for each reason
MAX_NEW_OBJECTS = 20_000  # before the next look for cycles; a few MiB

log = logging.getLogger("collector")


class MessageTransport(Protocol):
    """Where messages come from and acknowledgements go.

    The collector's is `pansketch_collector.mqtt.connection.CollectorClient`.
    """

    def take(self, most: int, timeout_seconds: float) -> list[Incoming]: ...
    def done(self, message: Incoming) -> None: ...
    def answer(self, device: str, ack: Ack) -> None: ...
    def flush(self) -> None: ...


@dataclass(frozen=True)
class IngestClock:
    """The wall clock in unix seconds, and one that never jumps, as functions."""

    now: Callable[[], int]
    uptime: Callable[[], float]


@dataclass
class RefusalLog:
    """What was refused since the last log line: one line in ten seconds, whatever arrives."""

    counts: Counter[tuple[str, str]] = field(default_factory=Counter)
    said_at: float | None = None

    def add(self, verdicts: Iterable[Verdict]) -> None:
        self.counts.update((v.reason, v.source) for v in verdicts if isinstance(v, Refused))

    def report(self, uptime: float) -> None:
        due = self.said_at is None or uptime - self.said_at >= REPORT_SECONDS
        if self.counts and due:
            log.warning("quarantined: %s; see `quarantine list`", self._reasons())
            self.counts.clear()
            self.said_at = uptime

    def _reasons(self) -> str:
        """`fingerprint 3 (attic/zigbee 2, kitchen/zigbee 1), topic 1`: the most frequent first."""
        totals = Counter[str]()
        sources: dict[str, list[str]] = {}
        for (reason, source), n in self.counts.most_common():
            totals[reason] += n
            if source:
                sources.setdefault(reason, []).append(f"{source} {n}")
        found = sorted(totals.items())
        return ", ".join(f"{reason} {n}{_listed(sources.get(reason, []))}" for reason, n in found)


def _listed(sources: Sequence[str]) -> str:
    more = ", ..." if len(sources) > MAX_SOURCES else ""
    return f" ({', '.join(sources[:MAX_SOURCES])}{more})" if sources else ""


def spare_collections() -> None:
    """Has Python look for garbage in cycles less often, from the end of the start on: a release is
    many small objects for a moment, and none of them a cycle.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(MAX_NEW_OBJECTS, 20, 20)


def serve(
    post: MessageTransport,
    store: Store,
    rules: Rules,
    clock: IngestClock,
    stop: threading.Event,
    alive: Callable[[], object],
    heard: Callable[[Incoming, Verdict], object] | None = None,
) -> None:
    """Takes messages until `stop` is set. Raises CommandError when the database is beyond use.

    `alive` is called at every turn, and while a full disk is waited for: that is no standstill.
    `heard` is told of each message that is on the disk.
    """
    refusals = RefusalLog()
    while not stop.is_set():
        alive()
        batch = post.take(BATCH, IDLE_SECONDS)
        if batch:
            verdicts = _commit(store, batch, rules, clock.now(), stop, alive)
            refusals.add(verdicts)
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
        except ERRORS as error:
            if not passing(error):
                text = f"database: {error}: restore a copy, or move it away"
                raise CommandError(text) from error
            if not complained:
                log.error("cannot write the database (%s); retrying; free its disk", error)
            complained = True
            alive()
            stop.wait(RETRY_SECONDS)
    return []


def judge(store: Store, batch: Sequence[Incoming], rules: Rules) -> list[Judged]:
    """Validates a batch, and checks the signatures in it. Raises one of ERRORS."""
    judged = validate(batch, rules)
    senders = {one.window.device for one in judged if isinstance(one, Accepted)}
    keys = enrolments.signing_keys(store.connection, senders)
    return authenticate(batch, judged, Signers(rules.fleet, keys, rules.signed))


def settle(
    store: Store, batch: Sequence[Incoming], rules: Rules, at: int, vouched: bool = False
) -> list[Verdict]:
    """Validates and stores a batch received at `at`, in one transaction. `vouched`: signatures are
    not asked for. Raises one of ERRORS."""
    judged = validate(batch, rules) if vouched else judge(store, batch, rules)
    return store.settle(list(zip(batch, judged, strict=True)), at)


def _tell(post: MessageTransport, message: Incoming, verdict: Verdict) -> None:
    post.done(message)
    match verdict:
        case Accepted(window):
            ack = Ack(window.stream, window.sequence, message.digest, "stored")
            post.answer(window.device, ack)
        case Duplicate(window):
            ack = Ack(window.stream, window.sequence, message.digest, "duplicate")
            post.answer(window.device, ack)
        case Refused(reason, text, str(device), str(stream), sequence):
            line = one_line(f"{reason}: {text}")[:MAX_REASON]
            status: Literal["later", "refused"] = "refused" if verdict.final else "later"
            post.answer(device, Ack(stream, sequence, message.digest, status, line))
        case _:
            pass
