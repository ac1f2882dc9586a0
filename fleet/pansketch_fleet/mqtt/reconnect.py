"""Keeps a connection to the broker, one after another, for as long as it takes.

Without MQTT itself: what speaks it is each program's own. Every connection is made anew, so none
sends by itself what an earlier one left behind.

A program speaks MQTT 5 where the broker does, 3.1.1 otherwise. A broker without MQTT 5 says so, or
ends the connection, or is silent. Then the other version is tried at once; if that one is let in,
it stays until the program's next start. Nothing depends on 5.
"""

import threading
from dataclasses import dataclass
from typing import Any, Generic, Literal, Protocol, TypeVar

from pansketch_fleet.backoff import Backoff
from pansketch_fleet.mqtt import tls
from pansketch_fleet.settings import mqtt_schema
from pansketch_fleet.settings.sources import (
    Mqtt,
)

Version = Literal["5", "3.1.1"]

SILENT_ENDS = 3  # in a row; fewer of a broker that has spoken MQTT 5 are a broker that restarts
KEEPALIVE_SECONDS = 30
MIN_PAUSE_SECONDS = 1
MAX_PAUSE_SECONDS = 60
ANSWER_SECONDS = 10.0
QUESTION_SECONDS = 2.0  # for the answer of a broker that may not know the version
FAREWELL_SECONDS = 3.0
LOOK_SECONDS = 2.0
MAX_UNANSWERED = 20  # publications, where the broker does not ask for fewer
UNLIMITED_BYTES = 2**28
UNKNOWN_VERSION = "Unsupported protocol version"


class VersionNegotiation:
    """Which version the next connection speaks: `version`."""

    def __init__(self, wanted: mqtt_schema.Protocol) -> None:
        self.version: Version = "3.1.1" if wanted == "3.1.1" else "5"
        self._settled = wanted != "auto"
        self._spoke_5 = False
        self._ends = 0

    @property
    def open_question(self) -> bool:
        """Whether the broker may not know the version that comes next."""
        return not self._settled and not self._spoke_5 and self.version == "5"

    def understood(self) -> bool:
        """The broker has answered in this version; whether it is the lesser one, and news."""
        self._ends = 0
        self._spoke_5 = self._spoke_5 or self.version == "5"
        if self._settled or self.version == "5":
            return False
        self._settled = True
        return True

    def not_understood(self, said: bool) -> bool:
        """No answer came, or one that the version is unknown (`said`).

        Whether to try again at once, in another version.
        """
        self._ends += 1
        if self._settled:
            return False
        if self.version == "3.1.1":
            self.version = "5"
            return False
        if self._spoke_5 and not said and self._ends < SILENT_ENDS:
            return False
        self.version = "3.1.1"
        return True


@dataclass(frozen=True)
class Terms:
    """What a connection is made with. `asking`: the broker may not know the version."""

    version: Version
    max_unanswered: int
    asking: bool


@dataclass(frozen=True)
class Connack:
    """What the broker answers to CONNECT; `refusal` is empty when it lets the client in.

    `max_unanswered`: how many publications it takes before it has answered one; `max_bytes`: the
    largest packet, None where it does not say.
    """

    refusal: str
    max_unanswered: int = MAX_UNANSWERED
    max_bytes: int | None = None

    @classmethod
    def of(cls, code: Any, properties: object) -> "Connack":
        """From paho's reason code and properties, which are None with MQTT 3.1.1."""
        return cls(
            str(code) if code.is_failure else "",
            getattr(properties, "ReceiveMaximum", MAX_UNANSWERED),
            getattr(properties, "MaximumPacketSize", None),
        )

    def room(self, topic: str, version: Version) -> int:
        """The largest payload that the broker is known to take under `topic`, in bytes."""
        return UNLIMITED_BYTES if self.max_bytes is None else room(topic, self.max_bytes, version)


def room(topic: str, max_bytes: int, version: Version) -> int:
    """The largest payload of a QoS 1 publication on `topic` whose packet has at most `max_bytes`.

    Negative when not even an empty one fits.
    """
    # The topic with its length, the packet's number, and for MQTT 5 the empty list of properties.
    header = 2 + len(topic.encode()) + 2 + (version == "5")
    lengths = (1, 2, 3, 4)  # digits of the packet's own length, to the base of 128
    bodies: list[int] = [min(max_bytes - 1 - n, int(128**n) - 1) for n in lengths]
    return max(bodies) - header


class Connection(Protocol):
    """One connection. `answered`: set when the broker has answered to CONNECT, or never will;
    `over`: set at the end. `trial`: it is only to find out what the broker answers."""

    trial: bool
    answer: Connack | None
    answered: threading.Event
    over: threading.Event

    def open(self) -> None:
        """Raises OSError or ValueError when there is nothing to speak MQTT over."""

    def leave(self) -> None:
        """Says goodbye."""

    def close(self) -> None:
        """Ends it at once, and its thread with it."""


ConnectionT = TypeVar("ConnectionT", bound=Connection)


class ConnectionOwner(Protocol[ConnectionT]):
    """The program whose connection it is."""

    def make(self, terms: Terms) -> ConnectionT:
        """A connection, not open yet. Raises TlsFilesError."""

    def serve(self, connection: ConnectionT, lesser: bool) -> None:
        """It is let in; returns when it is over. `lesser`: it is news that this is MQTT 3.1.1."""

    def unreachable(self, error: Exception) -> None:
        """It could not be opened."""

    def refused(self, code: str) -> None:
        """The broker does not let the client in."""

    def unanswered(self, why: str) -> None:
        """The broker gave no answer; `why` has the fix, or is empty."""


class Reconnector(Generic[ConnectionT]):
    """Connects until `closed` is set, with exponential backoff and jitter after a failure."""

    def __init__(
        self, party: ConnectionOwner[ConnectionT], mqtt: Mqtt, closed: threading.Event
    ) -> None:
        self._party, self._closed = party, closed
        self._backoff = Backoff(MIN_PAUSE_SECONDS, MAX_PAUSE_SECONDS)
        self.renew(mqtt)

    def renew(self, mqtt: Mqtt) -> None:
        """Knows nothing of the broker any more, from the next connection on."""
        self._mqtt, self._negotiation = mqtt, VersionNegotiation(mqtt.protocol)
        self._pauses, self._max_unanswered = self._backoff.pauses(), MAX_UNANSWERED

    def run(self) -> None:
        """Returns when `closed` is set and the connection over."""
        while not self._closed.is_set():
            if not self._once():
                self._closed.wait(next(self._pauses))

    def _once(self) -> bool:
        """One connection from its beginning to its end; whether another should follow at once."""
        asking = self._negotiation.open_question
        try:
            connection = self._party.make(
                Terms(self._negotiation.version, self._max_unanswered, asking)
            )
            connection.open()
        except (OSError, ValueError) as error:
            self._party.unreachable(error)
            return False
        try:
            connection.answered.wait(QUESTION_SECONDS if asking else ANSWER_SECONDS)
            if connection.answer is None:
                return self._unanswered(connection)
            if connection.answer.refusal:
                return self._refused(connection.answer.refusal)
            return self._let_in(connection, connection.answer)
        finally:
            connection.close()

    def _unanswered(self, connection: ConnectionT) -> bool:
        if self._closed.is_set():
            return False
        if self._negotiation.not_understood(said=False):
            return True
        hung_up = connection.over.is_set()
        self._party.unanswered(tls.hung_up(self._mqtt, LOOK_SECONDS) if hung_up else "")
        return False

    def _refused(self, code: str) -> bool:
        if code == UNKNOWN_VERSION and self._negotiation.not_understood(said=True):
            return True
        self._party.refused(code)
        return False

    def _let_in(self, connection: ConnectionT, answer: Connack) -> bool:
        lesser = self._negotiation.understood()
        fewer = answer.max_unanswered < self._max_unanswered
        self._pauses = self._backoff.pauses()
        if connection.trial or fewer:  # The next one has a will, or does not overrun the broker.
            self._max_unanswered = min(answer.max_unanswered, self._max_unanswered)
            connection.leave()
            connection.over.wait(FAREWELL_SECONDS)
            return True
        self._party.serve(connection, lesser)
        return False
