"""What the collector tells the process that answers: lines on that one's standard input."""

import os
from dataclasses import dataclass

_LINES = {True: b"broker connected", False: b"broker apart"}


@dataclass
class Told:
    """What was told last. `broker_connected`: the collector is let in and has its subscription;
    before it has said so, it is not."""

    broker_connected: bool = False

    def hear(self, line: bytes) -> None:
        """Another line than these two changes nothing."""
        for connected, known in _LINES.items():
            if line == known:
                self.broker_connected = connected


def line(broker_connected: bool) -> bytes:
    """What tells it; so short that a pipe takes the whole of it or nothing."""
    return _LINES[broker_connected] + b"\n"


def listen(descriptor: int, told: Told) -> None:
    """Hears every line until the end of the input. Raises OSError."""
    rest = b""
    while chunk := os.read(descriptor, 1024):
        *lines, rest = (rest + chunk).split(b"\n")
        for each in lines:
            told.hear(each)
