"""Problems with the broker, each logged once: outages, access rules, two clients of one name."""

import logging
from typing import Literal

from pansketch_agent.mqtt.events import TOO_LARGE, Disconnected

LOG = logging.getLogger(__name__)


class OutageLog:
    """Logs outages of the broker at `address`, each once."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._logged: set[str] = set()
        self._taken_over: set[str] = set()
        self._repeated = False  # Another client takes over each connection.

    def connected(self, version: str) -> None:
        """Log a connection in this MQTT version, and any later outage again.

        Two clients of one name end each other's connections for ever, so those are logged once.
        """
        self._logged.clear()
        if not self._repeated:
            LOG.info("connected to the broker at %s (MQTT %s)", self._address, version)

    def log(self, event: Disconnected) -> None:
        """Log one line until there is a connection, and one for each distinct refusal."""
        if event.renewed:
            return
        self._repeated = event.taken_over
        if event.taken_over:
            # A connection follows each time, so `connected` must not repeat this line.
            if event.reason not in self._taken_over:
                self._taken_over.add(event.reason)
                LOG.error("disconnected by the broker at %s: %s", self._address, event.reason)
            return
        refusal = event.reason if event.refused else ""
        if refusal in self._logged:
            return
        self._logged.add(refusal)
        if refusal:
            LOG.warning("rejected by the broker at %s: %s; retrying", self._address, refusal)
        else:
            why = event.reason
            LOG.warning("no broker at %s (%s); retrying until it is available", self._address, why)


# The device's name follows this text.
RULES = "the broker's access rules must allow its topics to this device's user, who is to be named"


class AclErrors:
    """Logs a missing authorization once, until the topic is allowed. `device`: its name in the
    fleet.
    """

    def __init__(self, device: str) -> None:
        self._device = device
        self._logged: dict[str, str] = {}

    def set_result(self, action: Literal["write", "hear"], topic: str, failure: str) -> None:
        """Handle the broker's answer for a topic; `failure` is empty if it was allowed."""
        if not failure:
            self._logged.pop(topic, None)
        elif failure not in (TOO_LARGE, self._logged.get(topic)):
            self._logged[topic] = failure
            LOG.error("%s", denial(action, topic, failure, self._device))


def denial(action: Literal["write", "hear"], topic: str, failure: str, device: str) -> str:
    """Return a single-line error with the fix."""
    verb = "write to" if action == "write" else "read"
    return (
        f"the broker does not authorize this device to {verb} {topic} ({failure}); {RULES} {device}"
    )


TAKEN_OVER = "Session taken over"  # reason code 0x8E
UNIQUE_NAME = "give each device its own agent.device"
SHORT_SECONDS, MIN_SHORT_CONNECTIONS = 15.0, 3


class ClientIdConflicts:
    """Detects a second client with the same name, from the ends of connections.

    A broker of MQTT 5 may report the takeover. Others close the connection when the second client
    connects again. That shows as several short connections in a row without an unanswered release.
    With one, the release may be too large (`OversizeDetector`). `count`: connections that another
    client ended, since the start.
    """

    def __init__(self) -> None:
        self.count = 0
        self._short_connections = 0

    def connection_lost(self, ending: str, duration_seconds: float, sending: bool) -> str:
        """Return a single line: why the broker ended a connection; empty if no other client caused
        it.

        `ending`: the broker's reason. `sending`: whether a release had no PUBACK.
        """
        if ending == TAKEN_OVER:
            self.count += 1
            return f"another client uses this name: {UNIQUE_NAME}"
        if sending or duration_seconds >= SHORT_SECONDS:
            self._short_connections = 0
            return ""
        self._short_connections += 1
        if self._short_connections < MIN_SHORT_CONNECTIONS:
            return ""
        self.count += 1
        return f"another client seems to use this name, for no connection lasts: {UNIQUE_NAME}"
