"""Delivery: the outbox in order, a few releases at a time, the same bytes until the collector acks.

The broker's acknowledgement says only that the broker has a release. It stays in the outbox until
the collector's own acknowledgement names its digest.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass

from agent.outbox import Key, Outbox
from fleet.messages import Ack, digest

LOG = logging.getLogger(__name__)

IN_FLIGHT = 8
FIRST_PATIENCE_SECONDS = 10.0
MOST_PATIENCE_SECONDS = 600.0
MOST_PAYLOAD_BYTES = (
    4 * 2**20
)  # Far below what MQTT allows and above what any broker is given here.

Send = Callable[[str, bytes], int]


@dataclass
class _Flight:
    """One release on its way. `message`: the client's number until the broker has it, then None.

    `patience_seconds`: how long the next transmission may stay without an ack.
    """

    message: int | None
    due: float
    patience_seconds: float


class Delivery:
    """Which release is sent when. `send(stream, payload)` returns the client's message number.

    Not safe for several threads; times are monotonic seconds.
    """

    def __init__(
        self, outbox: Outbox, send: Send, first_patience_seconds: float = FIRST_PATIENCE_SECONDS
    ) -> None:
        self._outbox, self._send = outbox, send
        self._first_patience_seconds = first_patience_seconds
        self._flights: dict[Key, _Flight] = {}
        self._broker_failure = ""
        self.refused = False

    def step(self, now: float) -> None:
        """Sends what is due. Call it only while the broker is there."""
        for key in [key for key in self._flights if key not in self._outbox]:
            del self._flights[key]
        waiting = (key for key in self._outbox.waiting() if key not in self._flights)
        for key in self._overdue(now):
            self._transmit(key, now)
        while len(self._flights) < IN_FLIGHT and (following := next(waiting, None)):
            self._transmit(following, now)

    def connected(self, now: float) -> None:
        """A new connection: what waits for its ack is due at once; the broker may be another."""
        for flight in self._flights.values():
            flight.patience_seconds = self._first_patience_seconds
            flight.due = now

    def handed_over(self, message: int, failure: str) -> None:
        """The broker has answered the message: has it, or (with a `failure`) will not have it."""
        for flight in self._flights.values():
            if flight.message == message:
                flight.message = None
        if failure and failure != self._broker_failure:
            LOG.error("the broker does not accept releases (%s); check its access rules", failure)
        self._broker_failure = failure

    def acknowledged(self, ack: Ack) -> None:
        """The collector has spoken. An ack for other bytes, or for nothing we have, is ignored."""
        key = Key(ack.sequence, ack.stream)
        payload = self._outbox.read(key)
        if payload is None or digest(payload) != ack.digest:
            return
        self._flights.pop(key, None)
        if ack.status != "refused":
            self._outbox.forget(key)
            return
        self._put_aside(key, f"refused by the collector ({ack.reason or 'no reason given'})")

    def _overdue(self, now: float) -> list[Key]:
        """Releases that the broker has, and the collector has not acknowledged in time."""
        flights = self._flights.items()
        return [key for key, flight in flights if flight.message is None and now >= flight.due]

    def _transmit(self, key: Key, now: float) -> None:
        payload = self._outbox.read(key)
        if payload is None:
            self._flights.pop(key, None)
            return
        if len(payload) > MOST_PAYLOAD_BYTES:
            self._put_aside(key, "larger than a message may be")
            return
        last = self._flights.get(key)
        patience = last.patience_seconds if last else self._first_patience_seconds
        following = min(2 * patience, MOST_PATIENCE_SECONDS)
        self._flights[key] = _Flight(self._send(key.stream, payload), now + patience, following)

    def _put_aside(self, key: Key, why: str) -> None:
        self._outbox.refuse(key)
        self.refused = True
        LOG.error("%s is %s; kept in %s/refused", key.filename, why, self._outbox.folder)
