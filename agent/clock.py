"""The one place of the device program that reads a clock or sleeps."""

import ctypes
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime


@dataclass(frozen=True)
class Clock:
    """Time as an argument.

    `now`: unix seconds, may jump. `monotonic`: seconds that only grow. `wait(stop, seconds)`:
    sleeps until `stop` is set or the seconds are over, and says whether it is set. `synchronised`:
    whether `now` follows a better clock, None when nobody knows.
    """

    now: Callable[[], float]
    monotonic: Callable[[], float]
    wait: Callable[[threading.Event, float], bool]
    synchronised: Callable[[], bool | None] = lambda: None


def system_clock() -> Clock:
    """The clock of this host."""
    return Clock(
        time.time,
        time.monotonic,
        lambda stop, seconds: stop.wait(max(0.0, seconds)),
        clock_is_synchronised,
    )


def utc_text(at: float) -> str:
    """Unix seconds as people read them: 2013-03-01T00:00:00Z."""
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def year(at: float) -> int:
    """The year of a moment in unix seconds."""
    return datetime.fromtimestamp(at, UTC).year


class _Timex(ctypes.Structure):
    _fields_ = (
        ("modes", ctypes.c_uint),
        ("numbers", ctypes.c_long * 4),
        ("status", ctypes.c_int),
        ("rest", ctypes.c_char * 512),
    )


def clock_is_synchronised() -> bool | None:
    """Whether the kernel's clock follows a better one; None when the system does not tell."""
    unsynchronised, unable = 0x40, -1
    try:
        asked = _Timex()
        if ctypes.CDLL(None).adjtimex(ctypes.byref(asked)) == unable:
            return None
    except (AttributeError, OSError):
        return None
    return not asked.status & unsynchronised
