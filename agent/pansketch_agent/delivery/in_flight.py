"""The in-flight window: a few releases of each stream, in turn.

A release without acknowledgement after several transmissions yields its slot to queued releases and
is requeued. So a release that is never acknowledged cannot block the others.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from math import inf

from pansketch_agent.mqtt.events import Publication
from pansketch_agent.outbox.outbox import Key, Outbox

IN_FLIGHT = 4  # Of each stream: a rejected stream must not block another.
SHORT_QUEUE = 16  # A longer queue sends live releases first.
TRIES_BEFORE_YIELD = 3  # transmissions, after which a release yields its slot to others


@dataclass
class InFlightRelease:
    """One release in flight. `message`: its publication until the PUBACK, then None.

    `sent`, `due`: times of the last and of the next transmission. `timeout_seconds`: the next
    retransmission timeout, before jitter. `attempts`: transmissions in this run; `tries`: in this
    slot. `requeued_before`: the release has yielded a slot before.
    """

    size: int
    due: float
    timeout_seconds: float
    attempts: int = 0
    tries: int = 0
    requeued_before: bool = False
    message: Publication | None = None
    sent: float = -inf


@dataclass(frozen=True)
class Requeued:
    """A release without a slot. `until`: its earliest transmission; inf: on a new connection.

    `reason`: for people, of a release on hold; "" if it only waits for a slot. `deferred`: the
    collector deferred it, so a PUBACK of another release does not unblock it.
    """

    size: int
    timeout_seconds: float
    attempts: int
    until: float = -inf
    reason: str = ""
    deferred: bool = False


class InFlight:
    """The unacknowledged releases that were sent: `entries` in slots, and `requeued` without one.

    Times are monotonic seconds.
    """

    def __init__(self, outbox: Outbox) -> None:
        self._outbox = outbox
        self.entries: dict[Key, InFlightRelease] = {}
        self.requeued: dict[Key, Requeued] = {}  # in the order of their next transmissions
        # Of new entries after a timeout, so that an unavailable collector receives few.
        self._timeouts: dict[str, float] = {}

    def forget_removed(self) -> None:
        """Forget releases that have left the outbox."""
        for key in [key for key in (*self.entries, *self.requeued) if key not in self._outbox]:
            self.forget(key)

    def forget(self, key: Key) -> None:
        self.entries.pop(key, None)
        self.requeued.pop(key, None)

    def attempts(self) -> dict[Key, int]:
        """Return the transmissions of each release that was sent in this run."""
        sent = {key: entry.attempts for key, entry in self.entries.items()}
        requeued = {key: entry.attempts for key, entry in self.requeued.items()}
        return {key: count for key, count in (sent | requeued).items() if count}

    def on_hold(self) -> dict[Key, str]:
        """Return the reasons of the releases on hold."""
        return {key: entry.reason for key, entry in self.requeued.items() if entry.reason}

    def overdue(self, stream: str, now: float) -> list[Key]:
        """Return the releases with a PUBACK whose retransmission timeout has passed."""
        entries = self._of(stream).items()
        return [key for key, entry in entries if entry.message is None and now >= entry.due]

    def unanswered(self) -> dict[Key, int]:
        """Return the sizes of the releases without PUBACK."""
        return {key: f.size for key, f in self.entries.items() if f.message is not None}

    def yield_slots(self, stream: str, waiting: int, now: float) -> None:
        """Requeue releases after several transmissions, if others of the `waiting` need a slot."""
        blocked = sum(key.stream == stream for key in self.requeued) - len(self._due(stream, now))
        if waiting - blocked <= len(self._of(stream)):
            return
        for key in self.overdue(stream, now):
            if self.entries[key].tries >= TRIES_BEFORE_YIELD:
                self._timeouts[stream] = self.entries[key].timeout_seconds
                self.requeue(key)

    def next_keys(self, stream: str, waiting: int, now: float, live_from: int) -> list[Key]:
        """Return the releases to send next.

        In a long queue, live releases (put after the `live_from`th) precede older ones, except the
        oldest. One slot is for requeued releases; they get more only if no other release needs one.
        """
        entries = self._of(stream)
        free = IN_FLIGHT - len(entries)
        if free <= 0:
            return []
        due = self._due(stream, now)
        one = [] if any(entry.requeued_before for entry in entries.values()) else due[:1]
        fresh = self._fresh(stream, waiting, free - len(one), live_from)
        return [*fresh, *one, *due[len(one) : free - len(fresh)]]

    def occupy(self, key: Key, size: int, now: float, timeout_seconds: float) -> InFlightRelease:
        """Return the slot of a release: its own, or a new one with this timeout."""
        entry = self.entries.get(key)
        if entry is None:
            timeout_seconds = self._timeouts.get(key.stream, timeout_seconds)
            entry = InFlightRelease(size, now, timeout_seconds)
            before = self.requeued.pop(key, None)
            if before is not None:
                entry.attempts, entry.requeued_before = before.attempts, True
                entry.timeout_seconds, entry.tries = before.timeout_seconds, TRIES_BEFORE_YIELD - 1
            self.entries[key] = entry
        return entry

    def requeue(self, key: Key, until: float = -inf, reason: str = "") -> None:
        """Take the slot of a release away."""
        entry = self.entries.pop(key)
        self.requeued[key] = Requeued(
            entry.size, entry.timeout_seconds, entry.attempts, until, reason
        )

    def defer(self, key: Key, size: int, until: float, reason: str) -> None:
        """Take the slot of a release away, if it has one, until the collector may store it."""
        last = self.entries.pop(key, None) or self.requeued.pop(key, None)
        timeout, attempts = (last.timeout_seconds, last.attempts) if last else (0.0, 0)
        self.requeued[key] = Requeued(size, timeout, attempts, until, reason, deferred=True)

    def is_deferred(self, key: Key, now: float) -> bool:
        """Return whether the collector deferred the release and it is not due yet."""
        entry = self.requeued.get(key)
        return entry is not None and entry.deferred and now < entry.until

    def unblock(self, which: Callable[[Requeued], bool]) -> None:
        """Let selected requeued releases be retransmitted."""
        for key, entry in self.requeued.items():
            if which(entry):
                self.requeued[key] = replace(entry, until=-inf, reason="", deferred=False)

    def unblock_keys(self, keys: Iterable[Key]) -> None:
        """Let these releases be retransmitted: the collector stored one with the same reason."""
        for key in keys:
            if key in self.requeued:
                self.requeued[key] = replace(
                    self.requeued[key], until=-inf, reason="", deferred=False
                )

    def reset_timeouts(self) -> None:
        """Use the first timeout for new entries again: the collector is, or may be, available."""
        self._timeouts.clear()

    def _of(self, stream: str) -> dict[Key, InFlightRelease]:
        return {key: entry for key, entry in self.entries.items() if key.stream == stream}

    def _due(self, stream: str, now: float) -> list[Key]:
        """Return the requeued releases that may be sent, the longest requeued first."""
        requeued = self.requeued.items()
        return [key for key, entry in requeued if key.stream == stream and entry.until <= now]

    def _fresh(self, stream: str, waiting: int, count: int, live_from: int) -> list[Key]:
        live: list[Key] = []
        excluding = {*self.entries, *self.requeued}
        if waiting > SHORT_QUEUE:
            newer = self._outbox.newer(stream, live_from, count, excluding)
            live = newer[: max(1, count - 1)]
        return [*live, *self._outbox.oldest(stream, count - len(live), {*excluding, *live})]
