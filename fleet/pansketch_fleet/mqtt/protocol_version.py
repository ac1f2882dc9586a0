"""Which version of MQTT a program speaks: 5 where the broker does, 3.1.1 otherwise.

A broker without MQTT 5 says so, or ends the connection, or is silent. Then the other version is
tried at once; if that one is let in, it stays until the program's next start. Nothing depends on 5.
"""

from typing import Literal

from pansketch_fleet.settings.mqtt_schema import Protocol

Version = Literal["5", "3.1.1"]

SILENT_ENDS = 3  # in a row; fewer of a broker that has spoken MQTT 5 are a broker that restarts


class Dialect:
    """`version`: what the next connection speaks."""

    def __init__(self, wanted: Protocol) -> None:
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
