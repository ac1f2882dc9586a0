"""Keeps a connection to the broker, one after another, for as long as it takes.

Without MQTT itself: what speaks it is each program's own. Every connection is made anew, so none
sends by itself what an earlier one left behind.
"""

import threading
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from fleet import tls
from fleet.dialect import Dialect, Version
from fleet.settings import Mqtt

KEEPALIVE_SECONDS = 30
SHORTEST_PAUSE_SECONDS = 1
LONGEST_PAUSE_SECONDS = 60
ANSWER_SECONDS = 10.0
QUESTION_SECONDS = 2.0  # for the answer of a broker that may not know the version
FAREWELL_SECONDS = 3.0
LOOK_SECONDS = 2.0
MOST_UNANSWERED = 20  # publications, where the broker does not ask for fewer
UNKNOWN_VERSION = "Unsupported protocol version"


@dataclass(frozen=True)
class Terms:
    """What a connection is made with. `asking`: the broker may not know the version."""

    version: Version
    most_unanswered: int
    asking: bool


@dataclass(frozen=True)
class Answer:
    """What the broker answers to CONNECT; `refusal` is empty when it lets the client in.

    `most_unanswered`: how many publications it takes before it has answered one; `most_bytes`: the
    largest packet, None where it does not say.
    """

    refusal: str
    most_unanswered: int = MOST_UNANSWERED
    most_bytes: int | None = None


class Connection(Protocol):
    """One connection. `answered`: set when the broker has answered to CONNECT, or never will;
    `over`: set at the end. `trial`: it is only to find out what the broker answers."""

    trial: bool
    answer: Answer | None
    answered: threading.Event
    over: threading.Event

    def open(self) -> None:
        """Raises OSError or ValueError when there is nothing to speak MQTT over."""

    def leave(self) -> None:
        """Says goodbye."""

    def close(self) -> None:
        """Ends it at once, and its thread with it."""


ConnectionT = TypeVar("ConnectionT", bound=Connection)


class Party(Protocol[ConnectionT]):
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


class Keeper(Generic[ConnectionT]):
    """Connects until `closed` is set, with growing pauses after what fails."""

    def __init__(self, party: Party[ConnectionT], mqtt: Mqtt, closed: threading.Event) -> None:
        self._party, self._mqtt, self._closed = party, mqtt, closed
        self._dialect = Dialect(mqtt.protocol)
        self._pause_seconds = SHORTEST_PAUSE_SECONDS
        self._most_unanswered = MOST_UNANSWERED

    def run(self) -> None:
        """Returns when `closed` is set and the connection over."""
        while not self._closed.is_set():
            if not self._once():
                self._closed.wait(self._pause_seconds)
                self._pause_seconds = min(2 * self._pause_seconds, LONGEST_PAUSE_SECONDS)

    def _once(self) -> bool:
        """One connection from its beginning to its end; whether another should follow at once."""
        asking = self._dialect.open_question
        try:
            connection = self._party.make(
                Terms(self._dialect.version, self._most_unanswered, asking)
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
        if self._dialect.not_understood(said=False):
            return True
        hung_up = connection.over.is_set()
        self._party.unanswered(tls.hung_up(self._mqtt, LOOK_SECONDS) if hung_up else "")
        return False

    def _refused(self, code: str) -> bool:
        if code == UNKNOWN_VERSION and self._dialect.not_understood(said=True):
            return True
        self._party.refused(code)
        return False

    def _let_in(self, connection: ConnectionT, answer: Answer) -> bool:
        lesser = self._dialect.understood()
        fewer = answer.most_unanswered < self._most_unanswered
        self._pause_seconds = SHORTEST_PAUSE_SECONDS
        if connection.trial or fewer:  # The next one has a will, or does not overrun the broker.
            self._most_unanswered = min(answer.most_unanswered, self._most_unanswered)
            connection.leave()
            connection.over.wait(FAREWELL_SECONDS)
            return True
        self._party.serve(connection, lesser)
        return False
