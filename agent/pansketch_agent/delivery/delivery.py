"""Delivery: the outbox in order, a few releases at a time, the same bytes until the collector acks.

The broker's acknowledgement says only that the broker has a release. It stays in the outbox until
the collector's own acknowledgement names its digest. What is sent when depends on the schedule, on
the network, on sizes and on chance, never on a release's content.
"""

import logging
from collections.abc import Callable
from math import inf

from pansketch_agent.delivery.deferrals import Deferrals
from pansketch_agent.delivery.in_flight import IN_FLIGHT, SEVERAL, InFlight, InFlightRelease
from pansketch_agent.delivery.oversize_detector import OversizeDetector
from pansketch_agent.mqtt.events import TOO_LARGE, Publication
from pansketch_agent.outbox.outbox import Key, Outbox
from pansketch_fleet.backoff import Backoff
from pansketch_fleet.protocol.messages import Ack

__all__ = ["IN_FLIGHT", "MAX_PAYLOAD_BYTES", "SEVERAL", "Delivery"]

LOG = logging.getLogger(__name__)

FIRST_PATIENCE_SECONDS = 10.0
NEW_PATIENCE_SECONDS = 4.0
NEW_SECONDS = 30.0  # So long a connection is new: whoever comes late to it is there by then.
MAX_PATIENCE_SECONDS = 600.0
REFUSED_PATIENCE_SECONDS = 300.0
SET_BACK_SECONDS = 3600.0
STALL_SECONDS = 60.0
MAX_PAYLOAD_BYTES = 4 * 2**20  # Far below what MQTT allows and above what any broker is given here.
SMALLER = "raise max_packet_size or message_size_limit of the broker, or lower the sketch's sizes"

Send = Callable[[str, bytes], Publication]


def no_limit(stream: str) -> int:
    """The room for a release where the broker states no limit."""
    return MAX_PAYLOAD_BYTES


class Delivery:
    """Which release is sent when. `send(stream, payload)` publishes, and returns the publication;
    `room(stream)`: the largest release, in bytes, that the broker of this connection takes.

    `wall`: unix seconds, for how long acknowledged releases are kept. `chance`: uniform in [0, 1),
    for the jitter. Not safe for several threads; times are monotonic seconds.
    """

    def __init__(
        self,
        outbox: Outbox,
        send: Send,
        chance: Callable[[], float],
        room: Callable[[str], int] = no_limit,
        wall: Callable[[], float] = lambda: 0.0,
    ) -> None:
        self.outbox, self._send, self._room = outbox, send, room
        self._wall = wall
        self._backoff = Backoff(NEW_PATIENCE_SECONDS, MAX_PATIENCE_SECONDS, chance=chance)
        self._places = InFlight(outbox)
        self._suspicion = OversizeDetector()
        self._deferrals = Deferrals(chance)
        self._said: set[tuple[str, str]] = set()
        self._connected_at = self._now = 0.0
        self._connected_from = 0
        self._stall_seconds = STALL_SECONDS
        self.refused = False

    def step(self, now: float) -> None:
        """Sends what is due. Call it only while the broker is there."""
        self._now = now
        self._places.forget_gone()
        self._deferrals.forget_gone(self.outbox)
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
        self._stall_seconds = self._backoff.after(self._stall_seconds)
        return True

    def publish_acknowledged(self, publication: Publication, failure: str) -> None:
        """PUBACK: the broker has the publication, or (with a `failure`) does not take it."""
        self._stall_seconds = STALL_SECONDS
        flights = self._places.flights.items()
        for key, flight in [item for item in flights if item[1].message == publication]:
            flight.message = None
            if not failure:
                self._taken(key, flight.size)
            elif failure == TOO_LARGE:
                why = f"the broker reports that it is too large ({flight.size} bytes)"
                self._hold_back(key, why, self._now + SET_BACK_SECONDS)
            else:
                flight.patience_seconds = MAX_PATIENCE_SECONDS
                flight.due = self._now + self._backoff.jittered(REFUSED_PATIENCE_SECONDS)

    def acknowledged(self, ack: Ack) -> None:
        """The collector has spoken. An ack for other bytes, or for nothing we have, is ignored."""
        key = self._named(ack)
        facts = None if key is None else self.outbox.facts(key)
        if key is None or facts is None or facts.digest != ack.digest:
            return
        self._hurry()
        if ack.status == "later":
            if self._places.pauses(key, self._now):
                return  # It was sent twice, and is answered twice.
            until = self._deferrals.defer(key, ack, self._now)
            self._places.defer(key, facts.size, until, f"not taken yet: {ack.reason}")
            return
        self._places.forget(key)
        if ack.status == "refused":
            self._deferrals.forget(key)
            self._put_aside(key, f"refused by the collector ({ack.reason or 'no reason given'})")
            return
        # A clock that is behind for a while, as before its first synchronisation, ages no release.
        self.outbox.acknowledged(key, max(self._wall(), facts.window_end))
        taken = self._deferrals.taken(key)
        self._places.wake_deferred(taken)

    def deferred(self) -> dict[str, int]:
        """How many releases the collector does not take yet, by the class of its reason."""
        return self._deferrals.counts()

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
        self._deferrals.hurry()
        for flight in self._flights:
            flight.due, flight.tries = self._now, 0
            flight.patience_seconds = FIRST_PATIENCE_SECONDS

    @property
    def _flights(self) -> list[InFlightRelease]:
        return list(self._places.flights.values())

    def _named(self, ack: Ack) -> Key | None:
        """The release that an ack is about. A collector that cannot read a release's header knows
        its digest only, and says sequence 0."""
        if ack.sequence:
            return Key(ack.sequence, ack.stream)
        for key in [key for key in self._places.flights if key.stream == ack.stream]:
            facts = self.outbox.facts(key)
            if facts is not None and facts.digest == ack.digest:
                return key
        return None

    def _hurry(self) -> None:
        """The collector is there: what it has not answered need not wait for minutes."""
        self._places.answered()
        soon = self._now + self._backoff.jittered(FIRST_PATIENCE_SECONDS)
        for flight in self._flights:
            flight.due = min(flight.due, soon)

    def _transmit(self, key: Key) -> None:
        payload = self.outbox.read(key)
        if payload is None:
            self._places.forget(key)
            return
        if len(payload) > MAX_PAYLOAD_BYTES:
            self._put_aside(key, "larger than a message may be")
            return
        flight = self._places.take(key, len(payload), self._now, self._first_patience())
        if len(payload) > (limit := self._room(key.stream)):
            why = f"larger than the broker takes ({len(payload)} bytes, it takes {limit})"
            self._hold_back(key, why, inf)
        elif self._suspicion.may_send(len(payload), self._places.unanswered().values()):
            self._launch(flight, key.stream, payload)

    def _launch(self, flight: InFlightRelease, stream: str, payload: bytes) -> None:
        flight.message = self._send(stream, payload)
        flight.sent, flight.due = (
            self._now,
            self._now + self._backoff.jittered(flight.patience_seconds),
        )
        flight.patience_seconds = self._backoff.after(flight.patience_seconds)
        flight.attempts += 1
        flight.tries += 1

    def _taken(self, key: Key, size: int) -> None:
        self._suspicion.took(key, size)
        self._places.wake(
            lambda r: r.until < inf and not r.deferred and self._suspicion.absolves(r.size)
        )

    def _hold_back(self, key: Key, why: str, until: float) -> None:
        self._places.rest(key, until, why)
        said = (key.stream, why.partition(" (")[0])
        if said not in self._said:
            self._said.add(said)
            what = f"{key.stream}: release {key.sequence}"
            LOG.error("%s is on hold in the outbox: %s; %s", what, why, SMALLER)

    def _first_patience(self) -> float:
        new = self._now - self._connected_at < NEW_SECONDS
        return NEW_PATIENCE_SECONDS if new else FIRST_PATIENCE_SECONDS

    def _put_aside(self, key: Key, why: str) -> None:
        try:
            self.outbox.refuse(key)
        except OSError as error:
            self._places.defer(key, 0, self._now + SET_BACK_SECONDS, why)
            LOG.error(
                "%s cannot be moved to refused (%s); free the disk", key.filename, error.strerror
            )
            return
        self._places.forget(key)
        self.refused = True
        LOG.error("%s is %s; kept in %s/refused", key.filename, why, self.outbox.folder)
