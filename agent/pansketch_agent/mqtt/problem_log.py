"""Problems with the broker, each logged once: outages, access rules, two clients of one name."""

import logging
from typing import Literal

from pansketch_agent.mqtt.events import TOO_LARGE, Disconnected

LOG = logging.getLogger(__name__)


class OutageLog:
    """Remembers what was said since the last connection to the broker at `place`."""

    def __init__(self, place: str) -> None:
        self._place = place
        self._said: set[str] = set()
        self._taken: set[str] = set()

    def over(self) -> None:
        """There is a connection; whatever comes after it is news again."""
        self._said.clear()

    def say(self, absent: Disconnected) -> None:
        """One line until there is a connection, and one for each different refusal."""
        if absent.taken:
            # A connection follows each time, which makes nothing new of it.
            if absent.reason not in self._taken:
                self._taken.add(absent.reason)
                LOG.error("disconnected by the broker at %s: %s", self._place, absent.reason)
            return
        refusal = absent.reason if absent.refused else ""
        if refusal in self._said:
            return
        self._said.add(refusal)
        if refusal:
            LOG.warning("rejected by the broker at %s: %s; retrying", self._place, refusal)
        else:
            why = absent.reason
            LOG.warning("no broker at %s (%s); retrying until it is available", self._place, why)


# What follows is the device's name.
RULES = "the broker's access rules must allow its topics to this device's user, who is to be named"


class AclErrors:
    """Says a denial once, until the topic is allowed. `device`: its name in the fleet."""

    def __init__(self, device: str) -> None:
        self._device = device
        self._said: dict[str, str] = {}

    def answered(self, what: Literal["write", "hear"], topic: str, failure: str) -> None:
        """The broker's answer for a topic; `failure` is empty when it was allowed."""
        if not failure:
            self._said.pop(topic, None)
        elif failure not in (TOO_LARGE, self._said.get(topic)):
            self._said[topic] = failure
            LOG.error("%s", denial(what, topic, failure, self._device))


def denial(what: Literal["write", "hear"], topic: str, failure: str, device: str) -> str:
    """What it means and what to do, in one line."""
    verb = "write to" if what == "write" else "read"
    return (
        f"the broker does not authorize this device to {verb} {topic} ({failure}); {RULES} {device}"
    )


TAKEN_OVER = "Session taken over"  # reason code 0x8E
UNIQUE_NAME = "give each device its own agent.device"
SHORT_SECONDS, RUNNING = 15.0, 3


class ClientIdConflicts:
    """Finds a second client with the same name, from the ends of connections.

    A broker of MQTT 5 may report the takeover. Others close the connection as soon as the second
    client is back. That shows as several short connections in a row on which no release was
    unanswered: an unanswered release may be too large (`OversizeDetector`).
    `count`: the connections that another client ended, since the start.
    """

    def __init__(self) -> None:
        self.count = 0
        self._running = 0

    def ended(self, ending: str, lived_seconds: float, sending: bool) -> str:
        """The broker has ended a connection; why, in one line, or empty where this is not why.

        `ending`: what it says. `sending`: whether a release was unanswered.
        """
        if ending == TAKEN_OVER:
            self.count += 1
            return f"another client uses this name: {UNIQUE_NAME}"
        if sending or lived_seconds >= SHORT_SECONDS:
            self._running = 0
            return ""
        self._running += 1
        if self._running < RUNNING:
            return ""
        self.count += 1
        return f"another client seems to use this name, for no connection lasts: {UNIQUE_NAME}"
