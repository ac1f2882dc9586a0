"""Which releases are on their way: a few of each stream, in turns.

A release that several transmissions brought no answer gives up its place to those that wait for
one, and has its turn again. So none that is never answered holds up the others.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from math import inf

from pansketch_agent.mqtt.events import Publication
from pansketch_agent.outbox.outbox import Key, Outbox

IN_FLIGHT = 4  # Of each stream: one that is not let through holds up no other.
SHORT_QUEUE = (
    16  # A queue no longer than this goes in order; in a longer one live releases go first.
)
SEVERAL = 3  # transmissions, after which a release gives up its place when others wait for it


@dataclass
class InFlightRelease:
    """One release on its way. `message`: its publication until the PUBACK, then None.

    `sent`, `due`: when it was sent, and when it is sent again without an ack.
    `patience_seconds`: how long the next transmission may stay without one, before jitter.
    `attempts`: transmissions in this run; `tries`: those since it has its place. `again`: it has
    rested before.
    """

    size: int
    due: float
    patience_seconds: float
    attempts: int = 0
    tries: int = 0
    again: bool = False
    message: Publication | None = None
    sent: float = -inf


@dataclass(frozen=True)
class Requeued:
    """One that has given up its place. `until`: not sent before; inf: not on this connection.

    `why`: the reason for people where it is held back, "" where it only waits for its next turn.
    `deferred`: the collector does not take it yet, so nothing that the broker takes wakes it.
    """

    size: int
    patience_seconds: float
    attempts: int
    until: float = -inf
    why: str = ""
    deferred: bool = False


class InFlight:
    """The releases of an outbox that were sent and are not acknowledged: `flights`, `resting`.

    Times are monotonic seconds.
    """

    def __init__(self, outbox: Outbox) -> None:
        self._outbox = outbox
        self.flights: dict[Key, InFlightRelease] = {}
        self.resting: dict[Key, Requeued] = {}  # in the order of their next turns
        # Of newcomers, where those before them had no answer: a collector that is away gets few.
        self._patience: dict[str, float] = {}

    def forget_gone(self) -> None:
        """Drops what is in the outbox no more."""
        for key in [key for key in (*self.flights, *self.resting) if key not in self._outbox]:
            self.forget(key)

    def forget(self, key: Key) -> None:
        self.flights.pop(key, None)
        self.resting.pop(key, None)

    def attempts(self) -> dict[Key, int]:
        """How often each was sent in this run, if it was."""
        flying = {key: flight.attempts for key, flight in self.flights.items()}
        resting = {key: rest.attempts for key, rest in self.resting.items()}
        return {key: count for key, count in (flying | resting).items() if count}

    def held_back(self) -> dict[Key, str]:
        """Why some are not sent for now."""
        return {key: rest.why for key, rest in self.resting.items() if rest.why}

    def overdue(self, stream: str, now: float) -> list[Key]:
        """Releases that the broker has, and the collector has not acknowledged in time."""
        flights = self._of(stream).items()
        return [key for key, flight in flights if flight.message is None and now >= flight.due]

    def unanswered(self) -> dict[Key, int]:
        """The sizes of those that the broker has not answered."""
        return {key: f.size for key, f in self.flights.items() if f.message is not None}

    def give_up(self, stream: str, waiting: int, now: float) -> None:
        """Those that several transmissions brought no answer rest, when others of the `waiting`
        wait for a place."""
        held = sum(key.stream == stream for key in self.resting) - len(self._ready(stream, now))
        if waiting - held <= len(self._of(stream)):
            return
        for key in self.overdue(stream, now):
            if self.flights[key].tries >= SEVERAL:
                self._patience[stream] = self.flights[key].patience_seconds
                self.rest(key)

    def following(self, stream: str, waiting: int, now: float, live_from: int) -> list[Key]:
        """What goes next. When the queue is long, live releases (put after the `live_from`th) go
        first, and the oldest always too.

        One place is for those that have rested, if there are any; more where nobody else wants it.
        """
        flights = self._of(stream)
        free = IN_FLIGHT - len(flights)
        if free <= 0:
            return []
        ready = self._ready(stream, now)
        again = [] if any(flight.again for flight in flights.values()) else ready[:1]
        fresh = self._fresh(stream, waiting, free - len(again), live_from)
        return [*fresh, *again, *ready[len(again) : free - len(fresh)]]

    def take(self, key: Key, size: int, now: float, patience_seconds: float) -> InFlightRelease:
        """The release's flight in its place: the one it has, or a new one with this patience."""
        flight = self.flights.get(key)
        if flight is None:
            patience_seconds = self._patience.get(key.stream, patience_seconds)
            flight = InFlightRelease(size, now, patience_seconds)
            rested = self.resting.pop(key, None)
            if rested is not None:
                flight.attempts, flight.again = rested.attempts, True
                flight.patience_seconds, flight.tries = rested.patience_seconds, SEVERAL - 1
            self.flights[key] = flight
        return flight

    def rest(self, key: Key, until: float = -inf, why: str = "") -> None:
        """Takes a release's place away."""
        flight = self.flights.pop(key)
        self.resting[key] = Requeued(
            flight.size, flight.patience_seconds, flight.attempts, until, why
        )

    def defer(self, key: Key, size: int, until: float, why: str) -> None:
        """Takes a release's place away, if it has one, until the collector may take it."""
        last = self.flights.pop(key, None) or self.resting.pop(key, None)
        patience, attempts = (last.patience_seconds, last.attempts) if last else (0.0, 0)
        self.resting[key] = Requeued(size, patience, attempts, until, why, deferred=True)

    def pauses(self, key: Key, now: float) -> bool:
        """Whether the collector has deferred it, and its next turn has not come."""
        rest = self.resting.get(key)
        return rest is not None and rest.deferred and now < rest.until

    def wake(self, which: Callable[[Requeued], bool]) -> None:
        """Those that are held back may have their turn after all."""
        for key, rest in self.resting.items():
            if which(rest):
                self.resting[key] = replace(rest, until=-inf, why="", deferred=False)

    def wake_deferred(self, keys: Iterable[Key]) -> None:
        """The collector has taken one that it had deferred: it may take these as well."""
        for key in keys:
            if key in self.resting:
                self.resting[key] = replace(self.resting[key], until=-inf, why="", deferred=False)

    def answered(self) -> None:
        """Somebody listens, or may do so from now on: newcomers need no long patience."""
        self._patience.clear()

    def _of(self, stream: str) -> dict[Key, InFlightRelease]:
        return {key: flight for key, flight in self.flights.items() if key.stream == stream}

    def _ready(self, stream: str, now: float) -> list[Key]:
        """Resting releases that may have their turn, the one that rests longest first."""
        resting = self.resting.items()
        return [key for key, rest in resting if key.stream == stream and rest.until <= now]

    def _fresh(self, stream: str, waiting: int, count: int, live_from: int) -> list[Key]:
        live: list[Key] = []
        besides = {*self.flights, *self.resting}
        if waiting > SHORT_QUEUE:
            newer = self._outbox.newer(stream, live_from, count, besides)
            live = newer[: max(1, count - 1)]
        return [*live, *self._outbox.oldest(stream, count - len(live), {*besides, *live})]
