"""What the log says of a broker that is not there, or that does not let the device in: once."""

import logging

from agent.events import Absent

LOG = logging.getLogger(__name__)


class Absence:
    """Remembers what was said since the last connection to the broker at `place`."""

    def __init__(self, place: str) -> None:
        self._place = place
        self._said: set[str] = set()

    def over(self) -> None:
        """There is a connection; whatever comes after it is news again."""
        self._said.clear()

    def say(self, absent: Absent) -> None:
        """One line until there is a connection, and one for each different refusal."""
        refusal = absent.reason if absent.refused else ""
        if refusal in self._said:
            return
        self._said.add(refusal)
        if refusal:
            LOG.warning("not let in by the broker at %s: %s; trying again", self._place, refusal)
        else:
            why = absent.reason
            LOG.warning("no broker at %s (%s); trying until it is there", self._place, why)
