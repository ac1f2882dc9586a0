"""What the broker does not let the device say or hear: one line for each topic."""

import logging
from typing import Literal

from agent.events import TOO_LARGE

LOG = logging.getLogger(__name__)

# What follows is the device's name.
RULES = "the broker's access rules must allow its topics to this device's user, who is to be named"


class Denials:
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
    verb = "write to" if what == "write" else "hear"
    return f"the broker does not let this device {verb} {topic} ({failure}); {RULES} {device}"
