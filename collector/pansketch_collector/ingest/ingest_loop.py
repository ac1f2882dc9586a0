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
from pansketch_collector.storage.tables.connection import ERRORS, passing, remedy
from pansketch_collector.validation.signatures import Signers, authenticate
from pansketch_collector.validation.validation import Rules, validate
from pansketch_collector.validation.verdicts import (
    Accepted,
    Duplicate,
    Outcome,
    Rejected,
    Validated,
)
from pansketch_fleet.errors import one_line
from pansketch_fleet.protocol.messages import Ack

BATCH = 512
IDLE_SECONDS = 0.5
RETRY_SECONDS = 5.0
REPORT_SECONDS = 10.0
MAX_REASON = 300
MAX_SOURCES = 8  # named in the log, for each reason
MAX_NEW_OBJECTS = 20_000  # between two garbage collections; a few MiB

log = logging.getLogger("collector")


class MessageTransport(Protocol):
    """A source of messages, and the sender of their acknowledgements.

    The collector's is `pansketch_collector.mqtt.connection.CollectorClient`.
    """

    def receive(self, limit: int, timeout_seconds: float) -> list[Incoming]: ...
    def ack_broker(self, message: Incoming) -> None: ...
    def send_ack(self, device: str, ack: Ack) -> None: ...
    def flush(self) -> None: ...


@dataclass(frozen=True)
class IngestClock:
    """Clock functions: wall clock in unix seconds, and monotonic seconds."""

    now: Callable[[], int]
    uptime: Callable[[], float]


@dataclass
class RejectionLog:
    """Counts rejected messages and logs at most one line in REPORT_SECONDS."""

    counts: Counter[tuple[str, str]] = field(default_factory=Counter)
    reported_at: float | None = None

    def add(self, outcomes: Iterable[Outcome]) -> None:
        self.counts.update((v.reason, v.source) for v in outcomes if isinstance(v, Rejected))

    def report(self, uptime: float) -> None:
        due = self.reported_at is None or uptime - self.reported_at >= REPORT_SECONDS
        if self.counts and due:
            log.warning("quarantined: %s; see `quarantine list`", self._reasons())
            self.counts.clear()
            self.reported_at = uptime

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


def tune_gc() -> None:
    """Makes Python's cyclic garbage collection rarer; call it at the end of the start.

    Decoding a release allocates many short-lived objects, and none of them is in a cycle.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(MAX_NEW_OBJECTS, 20, 20)


def serve(
    transport: MessageTransport,
    store: Store,
    rules: Rules,
    clock: IngestClock,
    stop: threading.Event,
    heartbeat: Callable[[], object],
    on_committed: Callable[[Incoming, Outcome], object] | None = None,
) -> None:
    """Ingests messages until `stop` is set. Raises CommandError when the database is unusable.

    The loop calls `heartbeat` at each turn, and while it waits for a full disk: the watchdog must
    not restart the process then. It calls `on_committed` for each message after the commit.
    """
    refusals = RejectionLog()
    while not stop.is_set():
        heartbeat()
        batch = transport.receive(BATCH, IDLE_SECONDS)
        if batch:
            outcomes = _commit(store, batch, rules, clock.now(), stop, heartbeat)
            refusals.add(outcomes)
            for message, outcome in zip(batch, outcomes, strict=False):
                _acknowledge(transport, message, outcome)
                if on_committed is not None:
                    on_committed(message, outcome)
            transport.flush()
        refusals.report(clock.uptime())


def _commit(
    store: Store,
    batch: Sequence[Incoming],
    rules: Rules,
    at: int,
    stop: threading.Event,
    heartbeat: Callable[[], object],
) -> list[Outcome]:
    """Commits a batch and returns its outcomes. Returns none if `stop` comes before a commit."""
    complained = False
    while not stop.is_set():
        try:
            return commit_batch(store, batch, rules, at)
        except ERRORS as error:
            if not passing(error):
                text = f"database: {error}: restore a copy, or move it away"
                raise CommandError(text) from error
            if not complained:
                text = "cannot write the database (%s); retrying; %s"
                log.error(text, error, remedy(error))
            complained = True
            heartbeat()
            stop.wait(RETRY_SECONDS)
    return []


def validate_batch(store: Store, batch: Sequence[Incoming], rules: Rules) -> list[Validated]:
    """Validates a batch and checks its signatures. Raises one of ERRORS."""
    validated = validate(batch, rules)
    senders = {one.window.device for one in validated if isinstance(one, Accepted)}
    keys = enrolments.signing_keys(store.connection, senders)
    return authenticate(batch, validated, Signers(rules.fleet, keys, rules.signed))


def commit_batch(
    store: Store, batch: Sequence[Incoming], rules: Rules, at: int, trusted: bool = False
) -> list[Outcome]:
    """Validates a batch received at `at` (unix seconds) and stores it in one transaction.

    `trusted`: skips the signatures. Raises one of ERRORS.
    """
    validated = validate(batch, rules) if trusted else validate_batch(store, batch, rules)
    return store.commit(list(zip(batch, validated, strict=True)), at)


def _acknowledge(transport: MessageTransport, message: Incoming, outcome: Outcome) -> None:
    transport.ack_broker(message)
    match outcome:
        case Accepted(window):
            ack = Ack(window.stream, window.sequence, message.digest, "stored")
            transport.send_ack(window.device, ack)
        case Duplicate(window):
            ack = Ack(window.stream, window.sequence, message.digest, "duplicate")
            transport.send_ack(window.device, ack)
        case Rejected(reason, text, str(device), str(stream), sequence):
            line = one_line(f"{reason}: {text}")[:MAX_REASON]
            status: Literal["later", "refused"] = "refused" if outcome.final else "later"
            transport.send_ack(device, Ack(stream, sequence, message.digest, status, line))
        case _:
            pass
