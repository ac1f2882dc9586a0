"""Keeps a program connected to its broker, with one connection after another.

This module has no MQTT client: each program has its own. Every connection is a new client, so none
sends messages of an earlier one.

A program uses MQTT 5 if the broker supports it, 3.1.1 otherwise. A broker without MQTT 5 rejects
the version, closes the connection, or does not answer. Then the program tries the other version at
once. If the broker accepts that one, it stays until the program's next start. No feature needs MQTT
5.
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

MAX_SILENT_FAILURES = 3  # in a row; after fewer, a broker that supported MQTT 5 is restarting
KEEPALIVE_SECONDS = 30
MIN_DELAY_SECONDS = 1
MAX_DELAY_SECONDS = 60
ANSWER_SECONDS = 10.0
PROBE_SECONDS = 2.0  # for the answer of a broker that may not support the version
DISCONNECT_SECONDS = 3.0
HANDSHAKE_SECONDS = 2.0
MAX_UNANSWERED = 20  # publications, unless the broker states fewer
UNLIMITED_BYTES = 2**28
UNKNOWN_VERSION = "Unsupported protocol version"
UNSPECIFIED = "Unspecified error"  # paho's code for a connection that just ended


def stated_end(code: object) -> str:
    """Return the broker's reason for the end of a connection; empty if it stated none."""
    return "" if str(code) == UNSPECIFIED else str(code)


class VersionNegotiation:
    """Chooses the `version` of the next connection."""

    def __init__(self, wanted: mqtt_schema.Protocol) -> None:
        self.version: Version = "3.1.1" if wanted == "3.1.1" else "5"
        self._settled = wanted != "auto"
        self._supports_5 = False
        self._failures = 0

    @property
    def may_be_unsupported(self) -> bool:
        """True if the broker may not support the next version."""
        return not self._settled and not self._supports_5 and self.version == "5"

    def accepted(self) -> bool:
        """Record an answer in this version; return whether this is the first fallback to 3.1.1."""
        self._failures = 0
        self._supports_5 = self._supports_5 or self.version == "5"
        if self._settled or self.version == "5":
            return False
        self._settled = True
        return True

    def rejected(self, reported: bool) -> bool:
        """Record a missing answer, or a reported unknown version (`reported`).

        Returns whether to try another version at once.
        """
        self._failures += 1
        if self._settled:
            return False
        if self.version == "3.1.1":
            self.version = "5"
            return False
        if self._supports_5 and not reported and self._failures < MAX_SILENT_FAILURES:
            return False
        self.version = "3.1.1"
        return True


@dataclass(frozen=True)
class SessionOptions:
    """The options of one connection. `probing`: the broker may not support the version."""

    version: Version
    max_unanswered: int
    probing: bool


@dataclass(frozen=True)
class Connack:
    """The broker's CONNACK; `refusal` is empty if it accepts the client.

    `max_unanswered`: its receive maximum, in publications. `max_bytes`: its maximum packet size,
    None if not stated.
    """

    refusal: str
    max_unanswered: int = MAX_UNANSWERED
    max_bytes: int | None = None

    @classmethod
    def of(cls, code: Any, properties: object) -> "Connack":
        """Read paho's reason code and properties, which are None with MQTT 3.1.1."""
        return cls(
            str(code) if code.is_failure else "",
            getattr(properties, "ReceiveMaximum", MAX_UNANSWERED),
            getattr(properties, "MaximumPacketSize", None),
        )

    def max_payload_bytes(self, topic: str, version: Version) -> int:
        """Return the largest payload, in bytes, that the broker surely accepts under `topic`."""
        return (
            UNLIMITED_BYTES
            if self.max_bytes is None
            else max_payload_bytes(topic, self.max_bytes, version)
        )


def max_payload_bytes(topic: str, max_bytes: int, version: Version) -> int:
    """Return the largest payload, in bytes, of a QoS 1 publication within `max_bytes`.

    Negative if not even an empty payload fits.
    """
    # The topic with its length, the packet's number, and for MQTT 5 the empty list of properties.
    header = 2 + len(topic.encode()) + 2 + (version == "5")
    lengths = (1, 2, 3, 4)  # digits of the packet's own length, to the base of 128
    bodies: list[int] = [min(max_bytes - 1 - n, int(128**n) - 1) for n in lengths]
    return max(bodies) - header


class Connection(Protocol):
    """One connection. `trial`: it only finds out the broker's answer.

    `answered`: set after the CONNACK, or when none will come; `over`: set at the end.
    """

    trial: bool
    answer: Connack | None
    answered: threading.Event
    over: threading.Event

    def open(self) -> None:
        """Connect. Raises OSError or ValueError when there is no network connection."""

    def leave(self) -> None:
        """Disconnect gracefully."""

    def close(self) -> None:
        """End the connection and its thread at once."""


ConnectionT = TypeVar("ConnectionT", bound=Connection)


class ConnectionOwner(Protocol[ConnectionT]):
    """The program that owns the connection."""

    def make(self, options: SessionOptions) -> ConnectionT:
        """Return a connection, not open yet. Raises TlsFilesError."""

    def serve(self, connection: ConnectionT, is_fallback: bool) -> None:
        """Use an accepted connection until it is over. `is_fallback`: the first one with MQTT
        3.1.1.
        """

    def unreachable(self, error: Exception) -> None:
        """Handle a connection that could not be opened."""

    def refused(self, code: str) -> None:
        """Handle a broker that rejects the client."""

    def unanswered(self, why: str) -> None:
        """Handle a broker that does not answer; `why` has the fix, or is empty."""


class Reconnector(Generic[ConnectionT]):
    """Connects until `closed` is set, with exponential backoff and jitter after a failure."""

    def __init__(
        self, owner: ConnectionOwner[ConnectionT], mqtt: Mqtt, closed: threading.Event
    ) -> None:
        self._owner, self._closed = owner, closed
        self._backoff = Backoff(MIN_DELAY_SECONDS, MAX_DELAY_SECONDS)
        self.renew(mqtt)

    def renew(self, mqtt: Mqtt) -> None:
        """Reset the knowledge about the broker, from the next connection on."""
        self._mqtt, self._negotiation = mqtt, VersionNegotiation(mqtt.protocol)
        self._delays, self._max_unanswered = self._backoff.delays(), MAX_UNANSWERED

    def run(self) -> None:
        """Reconnect until `closed` is set and the connection is over."""
        while not self._closed.is_set():
            if not self._once():
                self._closed.wait(next(self._delays))

    def _once(self) -> bool:
        """Run one connection; return whether another should follow at once."""
        probing = self._negotiation.may_be_unsupported
        try:
            connection = self._owner.make(
                SessionOptions(self._negotiation.version, self._max_unanswered, probing)
            )
            connection.open()
        except (OSError, ValueError) as error:
            self._owner.unreachable(error)
            return False
        try:
            connection.answered.wait(PROBE_SECONDS if probing else ANSWER_SECONDS)
            if connection.answer is None:
                return self._unanswered(connection)
            if connection.answer.refusal:
                return self._refused(connection.answer.refusal)
            return self._accepted(connection, connection.answer)
        finally:
            connection.close()

    def _unanswered(self, connection: ConnectionT) -> bool:
        if self._closed.is_set():
            return False
        if self._negotiation.rejected(reported=False):
            return True
        was_closed = connection.over.is_set()
        self._owner.unanswered(
            tls.closed_connection_reason(self._mqtt, HANDSHAKE_SECONDS) if was_closed else ""
        )
        return False

    def _refused(self, code: str) -> bool:
        if code == UNKNOWN_VERSION and self._negotiation.rejected(reported=True):
            return True
        self._owner.refused(code)
        return False

    def _accepted(self, connection: ConnectionT, answer: Connack) -> bool:
        is_fallback = self._negotiation.accepted()
        fewer = answer.max_unanswered < self._max_unanswered
        self._delays = self._backoff.delays()
        if connection.trial or fewer:  # The next connection has a last will, or fewer publications.
            self._max_unanswered = min(answer.max_unanswered, self._max_unanswered)
            connection.leave()
            connection.over.wait(DISCONNECT_SECONDS)
            return True
        self._owner.serve(connection, is_fallback)
        return False
