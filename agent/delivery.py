"""Delivery: the outbox in order, a few releases at a time, the same bytes until the collector acks.

The broker's acknowledgement says only that the broker has a release. It stays in the outbox until
the collector's own acknowledgement names its digest. What is sent when depends on the schedule, on
the network, on sizes and on chance, never on a release's content.
"""

import logging
from collections.abc import Callable
from math import inf

from agent.events import TOO_LARGE
from agent.outbox import Key, Outbox
from agent.places import IN_FLIGHT, SEVERAL, Flight, Places
from agent.suspicion import Suspicion
from fleet.messages import Ack, digest

__all__ = ["IN_FLIGHT", "MOST_PAYLOAD_BYTES", "SEVERAL", "Delivery"]

LOG = logging.getLogger(__name__)

FIRST_PATIENCE_SECONDS = 10.0
NEW_PATIENCE_SECONDS = 4.0
NEW_SECONDS = 30.0  # So long a connection is new: whoever comes late to it is there by then.
MOST_PATIENCE_SECONDS = 600.0
REFUSED_PATIENCE_SECONDS = 300.0
SET_BACK_SECONDS = 3600.0
STALL_SECONDS = 60.0
MOST_PAYLOAD_BYTES = (
    4 * 2**20
)  # Far below what MQTT allows and above what any broker is given here.
SMALLER = "raise max_packet_size or message_size_limit of the broker, or lower the sketch's sizes"

Send = Callable[[str, bytes], int]


def no_limit(stream: str) -> int:
    """The room for a release where the broker states no limit."""
    return MOST_PAYLOAD_BYTES


class Delivery:
    """Which release is sent when. `send(stream, payload)` returns the client's message number;
    `room(stream)`: the largest release, in bytes, that the broker of this connection takes.

    `chance`: uniform in [0, 1), for the jitter. Not safe for several threads; times are monotonic
    seconds.
    """

    def __init__(
        self,
        outbox: Outbox,
        send: Send,
        chance: Callable[[], float],
        room: Callable[[str], int] = no_limit,
    ) -> None:
        self.outbox, self._send, self._chance, self._room = outbox, send, chance, room
        self._places = Places(outbox)
        self._suspicion = Suspicion()
        self._said: set[tuple[str, str]] = set()
        self._connected_at = self._now = 0.0
        self._connected_from = 0
        self._stall_seconds = STALL_SECONDS
        self.refused = False

    def step(self, now: float) -> None:
        """Sends what is due. Call it only while the broker is there."""
        self._now = now
        self._places.forget_gone()
        for stream, waiting in self.outbox.counts().items():
            self._places.give_up(stream, waiting, now)
            for key in self._places.overdue(stream, now):
                self._transmit(key)
            for key in self._places.following(stream, waiting, now, self._connected_from):
                self._transmit(key)

    def connected(self, now: float) -> None:
        """A new connection: what waits for its ack is due at once; the broker may be another."""
        self._now = self._connected_at = now
        self._connected_from = self.outbox.put_so_far
        self._places.answered()
        self._places.wake(lambda rest: rest.until == inf)
        for flight in self._flights:
            # The client of the old connection has taken its messages with it.
            flight.message, flight.tries = None, 0
            flight.patience_seconds = self._first_patience()
            flight.due = now

    def disconnected(self) -> None:
        """The connection has ended by itself, as it does when a release is too large."""
        unanswered = self._places.unanswered()
        blamed = self._suspicion.ended(unanswered)
        if blamed is not None:
            why = f"the broker ends the connection when it is sent ({unanswered[blamed]} bytes)"
            self._hold_back(blamed, why, self._now + SET_BACK_SECONDS)

    def stalled(self, now: float) -> bool:
        """Whether the broker has left a release unanswered for so long that the connection should
        be another one; each time in a row after twice the time."""
        unanswered = (flight.sent for flight in self._flights if flight.message is not None)
        if now - min(unanswered, default=now) < self._stall_seconds:
            return False
        self._stall_seconds = min(2 * self._stall_seconds, MOST_PATIENCE_SECONDS)
        return True

    def handed_over(self, message: int, failure: str) -> None:
        """The broker has answered the message: has it, or (with a `failure`) will not have it."""
        self._stall_seconds = STALL_SECONDS
        flights = self._places.flights.items()
        for key, flight in [item for item in flights if item[1].message == message]:
            flight.message = None
            if not failure:
                self._taken(key, flight.size)
            elif failure == TOO_LARGE:
                why = f"the broker says that it is too large ({flight.size} bytes)"
                self._hold_back(key, why, self._now + SET_BACK_SECONDS)
            else:
                flight.patience_seconds = MOST_PATIENCE_SECONDS
                flight.due = self._now + self._jittered(REFUSED_PATIENCE_SECONDS)

    def acknowledged(self, ack: Ack) -> None:
        """The collector has spoken. An ack for other bytes, or for nothing we have, is ignored."""
        key = Key(ack.sequence, ack.stream)
        payload = self.outbox.read(key)
        if payload is None or digest(payload) != ack.digest:
            return
        self._places.forget(key)
        self._hurry()
        if ack.status != "refused":
            self.outbox.forget(key)
            return
        self._put_aside(key, f"refused by the collector ({ack.reason or 'no reason given'})")

    def attempts(self) -> dict[Key, int]:
        """How often each release that is on its way, or rests, was sent in this run."""
        return self._places.attempts()

    def held_back(self) -> dict[Key, str]:
        """Releases that are not sent for now, with the reasons."""
        return self._places.held_back()

    def retry(self) -> None:
        """Somebody asks for it: what waits for an ack is due at once."""
        self._places.answered()
        self._places.wake(lambda rest: True)
        for flight in self._flights:
            flight.due, flight.tries = self._now, 0
            flight.patience_seconds = FIRST_PATIENCE_SECONDS

    @property
    def _flights(self) -> list[Flight]:
        return list(self._places.flights.values())

    def _hurry(self) -> None:
        """The collector is there: what it has not answered need not wait for minutes."""
        self._places.answered()
        soon = self._now + self._jittered(FIRST_PATIENCE_SECONDS)
        for flight in self._flights:
            flight.due = min(flight.due, soon)

    def _transmit(self, key: Key) -> None:
        payload = self.outbox.read(key)
        if payload is None:
            self._places.forget(key)
            return
        if len(payload) > MOST_PAYLOAD_BYTES:
            self._put_aside(key, "larger than a message may be")
            return
        flight = self._places.take(key, len(payload), self._now, self._first_patience())
        if len(payload) > (limit := self._room(key.stream)):
            why = f"larger than the broker takes ({len(payload)} bytes, it takes {limit})"
            self._hold_back(key, why, inf)
        elif self._suspicion.may_send(len(payload), self._places.unanswered().values()):
            self._launch(flight, key.stream, payload)

    def _launch(self, flight: Flight, stream: str, payload: bytes) -> None:
        flight.message = self._send(stream, payload)
        flight.sent, flight.due = self._now, self._now + self._jittered(flight.patience_seconds)
        flight.patience_seconds = min(2 * flight.patience_seconds, MOST_PATIENCE_SECONDS)
        flight.attempts += 1
        flight.tries += 1

    def _taken(self, key: Key, size: int) -> None:
        self._suspicion.took(key, size)
        self._places.wake(lambda r: r.until < inf and self._suspicion.absolves(r.size))

    def _hold_back(self, key: Key, why: str, until: float) -> None:
        self._places.rest(key, until, why)
        said = (key.stream, why.partition(" (")[0])
        if said not in self._said:
            self._said.add(said)
            what = f"{key.stream}: release {key.sequence}"
            LOG.error("%s is held back in the outbox: %s; %s", what, why, SMALLER)

    def _first_patience(self) -> float:
        new = self._now - self._connected_at < NEW_SECONDS
        return NEW_PATIENCE_SECONDS if new else FIRST_PATIENCE_SECONDS

    def _jittered(self, seconds: float) -> float:
        """Up to a quarter more or less: a fleet that was cut off together comes back spread out."""
        return seconds * (0.75 + self._chance() / 2)

    def _put_aside(self, key: Key, why: str) -> None:
        self._places.forget(key)
        self.outbox.refuse(key)
        self.refused = True
        LOG.error("%s is %s; kept in %s/refused", key.filename, why, self.outbox.folder)
