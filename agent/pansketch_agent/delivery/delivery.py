"""Delivery of the outbox: in order, with an in-flight window, and identical bytes at each retry.

A PUBACK states only that the broker has a release. The release stays in the outbox until the
collector's acknowledgement names its digest. Transmissions depend on the schedule, the network,
sizes and random jitter, never on the content of a release.
"""

import logging
from collections.abc import Callable
from math import inf

from pansketch_agent.delivery.deferrals import Deferrals
from pansketch_agent.delivery.in_flight import (
    IN_FLIGHT,
    TRIES_BEFORE_YIELD,
    InFlight,
    InFlightRelease,
)
from pansketch_agent.delivery.oversize_detector import OversizeDetector
from pansketch_agent.mqtt.events import TOO_LARGE, Publication
from pansketch_agent.outbox.outbox import Key, Outbox
from pansketch_fleet.backoff import Backoff
from pansketch_fleet.protocol.messages import Ack

__all__ = ["IN_FLIGHT", "MAX_PAYLOAD_BYTES", "TRIES_BEFORE_YIELD", "Delivery"]

LOG = logging.getLogger(__name__)

FIRST_TIMEOUT_SECONDS = 10.0
NEW_CONNECTION_TIMEOUT_SECONDS = 4.0
NEW_CONNECTION_SECONDS = 30.0  # Later subscribers have subscribed by then.
MAX_TIMEOUT_SECONDS = 600.0
REJECTED_DELAY_SECONDS = 300.0
ON_HOLD_SECONDS = 3600.0
STALL_SECONDS = 60.0
MAX_PAYLOAD_BYTES = 4 * 2**20  # Far below MQTT's limit, and above every release.
SIZE_FIX = "raise max_packet_size or message_size_limit of the broker, or lower the sketch's sizes"

Send = Callable[[str, bytes], Publication]


def no_limit(stream: str) -> int:
    """The largest release, in bytes, if the broker states no limit."""
    return MAX_PAYLOAD_BYTES


class Delivery:
    """Decides when the agent sends each release. Not safe for several threads.

    `send(stream, payload)` publishes, and returns the publication. `max_bytes(stream)`: the largest
    release that the current broker accepts. `wall_clock`: unix seconds, for the retention of
    acknowledged releases. `uniform`: draws from [0, 1), for the jitter. Times are monotonic
    seconds.
    """

    def __init__(
        self,
        outbox: Outbox,
        send: Send,
        uniform: Callable[[], float],
        max_bytes: Callable[[str], int] = no_limit,
        wall_clock: Callable[[], float] = lambda: 0.0,
    ) -> None:
        self.outbox, self._send, self._max_bytes = outbox, send, max_bytes
        self._wall_clock = wall_clock
        self._backoff = Backoff(
            NEW_CONNECTION_TIMEOUT_SECONDS, MAX_TIMEOUT_SECONDS, uniform=uniform
        )
        self._in_flight = InFlight(outbox)
        self._oversize = OversizeDetector()
        self._deferrals = Deferrals(uniform)
        self._logged: set[tuple[str, str]] = set()
        self._connected_at = self._now = 0.0
        self._connected_from = 0
        self._stall_seconds = STALL_SECONDS
        self.refused = False

    def step(self, now: float) -> None:
        """Send the releases that are due. Call it only while the broker is connected."""
        self._now = now
        self._in_flight.forget_removed()
        self._deferrals.forget_removed(self.outbox)
        for stream, waiting in self.outbox.counts().items():
            self._in_flight.yield_slots(stream, waiting, now)
            for key in self._in_flight.overdue(stream, now):
                self._transmit(key)
            for key in self._in_flight.next_keys(stream, waiting, now, self._connected_from):
                self._transmit(key)

    def connected(self, now: float) -> None:
        """Make unacknowledged releases due at once, for a connection to perhaps another broker."""
        self._now = self._connected_at = now
        self._connected_from = self.outbox.put_count
        self._in_flight.reset_timeouts()
        self._in_flight.unblock(lambda entry: entry.until == inf)
        for entry in self._entries:
            # The client of the old connection has dropped its messages.
            entry.message, entry.tries = None, 0
            entry.timeout_seconds = self._first_timeout()
            entry.due = now

    def disconnected(self) -> None:
        """Handle a connection that the other side ended, perhaps because a release is too large."""
        unanswered = self._in_flight.unanswered()
        oversized = self._oversize.connection_lost(unanswered)
        if oversized is not None:
            why = f"the broker ends the connection when it is sent ({unanswered[oversized]} bytes)"
            self._put_on_hold(oversized, why, self._now + ON_HOLD_SECONDS)

    def stalled(self, now: float) -> bool:
        """Return whether a PUBACK is missing for so long that the agent should reconnect.

        The limit doubles each time in a row.
        """
        unanswered = (entry.sent for entry in self._entries if entry.message is not None)
        if now - min(unanswered, default=now) < self._stall_seconds:
            return False
        self._stall_seconds = self._backoff.following(self._stall_seconds)
        return True

    def publish_acknowledged(self, publication: Publication, failure: str) -> None:
        """Handle a PUBACK: the broker has the publication, or rejects it with a `failure`."""
        self._stall_seconds = STALL_SECONDS
        entries = self._in_flight.entries.items()
        for key, entry in [item for item in entries if item[1].message == publication]:
            entry.message = None
            if not failure:
                self._accepted(key, entry.size)
            elif failure == TOO_LARGE:
                why = f"the broker reports that it is too large ({entry.size} bytes)"
                self._put_on_hold(key, why, self._now + ON_HOLD_SECONDS)
            else:
                entry.timeout_seconds = MAX_TIMEOUT_SECONDS
                entry.due = self._now + self._backoff.jittered(REJECTED_DELAY_SECONDS)

    def acknowledged(self, ack: Ack) -> None:
        """Handle the collector's ack; ignore one for other bytes or for an unknown release."""
        key = self._key_of(ack)
        facts = None if key is None else self.outbox.facts(key)
        if key is None or facts is None or facts.digest != ack.digest:
            return
        self._shorten_timeouts()
        if ack.status == "later":
            if self._in_flight.is_deferred(key, self._now):
                return  # A retransmission had a second answer.
            until = self._deferrals.defer(key, ack, self._now)
            self._in_flight.defer(key, facts.size, until, f"not taken yet: {ack.reason}")
            return
        self._in_flight.forget(key)
        if ack.status == "refused":
            self._deferrals.forget(key)
            self._dead_letter(key, f"refused by the collector ({ack.reason or 'no reason given'})")
            return
        # A clock that is behind, as before its first synchronisation, must not age a release.
        self.outbox.acknowledged(key, max(self._wall_clock(), facts.window_end))
        self._in_flight.unblock_keys(self._deferrals.acknowledged(key))

    def deferred(self) -> dict[str, int]:
        """Return the number of deferred releases, by class of the collector's reason."""
        return self._deferrals.counts()

    def attempts(self) -> dict[Key, int]:
        """Return the transmissions in this run of each release that is in flight or requeued."""
        return self._in_flight.attempts()

    def on_hold(self) -> dict[Key, str]:
        """Return the reasons of the releases on hold."""
        return self._in_flight.on_hold()

    def retry(self) -> None:
        """Make unacknowledged releases due at once, on request."""
        self._in_flight.reset_timeouts()
        self._in_flight.unblock(lambda entry: True)
        self._deferrals.reset_delays()
        for entry in self._entries:
            entry.due, entry.tries = self._now, 0
            entry.timeout_seconds = FIRST_TIMEOUT_SECONDS

    @property
    def _entries(self) -> list[InFlightRelease]:
        return list(self._in_flight.entries.values())

    def _key_of(self, ack: Ack) -> Key | None:
        """Return the release that an ack names.

        A collector that cannot read a release's header knows its digest only, and sends sequence 0.
        """
        if ack.sequence:
            return Key(ack.sequence, ack.stream)
        for key in [key for key in self._in_flight.entries if key.stream == ack.stream]:
            facts = self.outbox.facts(key)
            if facts is not None and facts.digest == ack.digest:
                return key
        return None

    def _shorten_timeouts(self) -> None:
        """Retry soon, because the collector is available."""
        self._in_flight.reset_timeouts()
        soon = self._now + self._backoff.jittered(FIRST_TIMEOUT_SECONDS)
        for entry in self._entries:
            entry.due = min(entry.due, soon)

    def _transmit(self, key: Key) -> None:
        payload = self.outbox.read(key)
        if payload is None:
            self._in_flight.forget(key)
            return
        if len(payload) > MAX_PAYLOAD_BYTES:
            self._dead_letter(key, "larger than a message may be")
            return
        entry = self._in_flight.occupy(key, len(payload), self._now, self._first_timeout())
        if len(payload) > (limit := self._max_bytes(key.stream)):
            why = f"larger than the broker takes ({len(payload)} bytes, it takes {limit})"
            self._put_on_hold(key, why, inf)
        elif self._oversize.may_send(len(payload), self._in_flight.unanswered().values()):
            self._publish(entry, key.stream, payload)

    def _publish(self, entry: InFlightRelease, stream: str, payload: bytes) -> None:
        entry.message = self._send(stream, payload)
        entry.sent, entry.due = (
            self._now,
            self._now + self._backoff.jittered(entry.timeout_seconds),
        )
        entry.timeout_seconds = self._backoff.following(entry.timeout_seconds)
        entry.attempts += 1
        entry.tries += 1

    def _accepted(self, key: Key, size: int) -> None:
        self._oversize.accepted(key, size)
        self._in_flight.unblock(
            lambda r: r.until < inf and not r.deferred and self._oversize.has_accepted(r.size)
        )

    def _put_on_hold(self, key: Key, why: str, until: float) -> None:
        self._in_flight.requeue(key, until, why)
        line_key = (key.stream, why.partition(" (")[0])
        if line_key not in self._logged:
            self._logged.add(line_key)
            what = f"{key.stream}: release {key.sequence}"
            LOG.error("%s is on hold in the outbox: %s; %s", what, why, SIZE_FIX)

    def _first_timeout(self) -> float:
        new = self._now - self._connected_at < NEW_CONNECTION_SECONDS
        return NEW_CONNECTION_TIMEOUT_SECONDS if new else FIRST_TIMEOUT_SECONDS

    def _dead_letter(self, key: Key, why: str) -> None:
        try:
            self.outbox.refuse(key)
        except OSError as error:
            self._in_flight.defer(key, 0, self._now + ON_HOLD_SECONDS, why)
            LOG.error(
                "%s cannot be moved to refused (%s); free the disk", key.filename, error.strerror
            )
            return
        self._in_flight.forget(key)
        self.refused = True
        LOG.error("%s is %s; kept in %s/refused", key.filename, why, self.outbox.folder)
