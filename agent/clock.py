"""The one place of the device program that reads a clock or sleeps."""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime


@dataclass(frozen=True)
class Clock:
    """Time as an argument.

    `now`: unix seconds, may jump. `monotonic`: seconds that only grow. `wait(stop, seconds)`:
    sleeps until `stop` is set or the seconds are over, and says whether it is set.
    """

    now: Callable[[], float]
    monotonic: Callable[[], float]
    wait: Callable[[threading.Event, float], bool]


def system_clock() -> Clock:
    """The clock of this host."""
    return Clock(time.time, time.monotonic, lambda stop, seconds: stop.wait(max(0.0, seconds)))


def utc_text(at: float) -> str:
    """Unix seconds as people read them: 2013-03-01T00:00:00Z."""
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
