"""A clock that moves only when a caller waits."""

import threading
from dataclasses import dataclass

from pansketch_agent.host.clock import Clock


@dataclass
class ManualClock:
    """`at`: unix seconds, and seconds of the monotonic clock too."""

    at: float

    def clock(self) -> Clock:
        return Clock(lambda: self.at, lambda: self.at, self.wait)

    def wait(self, stop: threading.Event, seconds: float) -> bool:
        self.at += max(0.0, seconds)
        return stop.is_set()
