"""The one place of the device program that reads a clock or sleeps."""

import ctypes
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
FIRST_YEAR = 2024  # Nothing earlier is the time of a device that runs this program.
_FIRST_SECOND = datetime(FIRST_YEAR, 1, 1, tzinfo=UTC).timestamp()


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
    return _moment(at).strftime("%Y-%m-%dT%H:%M:%SZ")


def year(at: float) -> int:
    """The year of a moment in unix seconds."""
    return _moment(at).year


def is_set(at: float) -> bool:
    """Whether a clock that says this can be right: one that wakes in 1970 was not set since."""
    return at >= _FIRST_SECOND


def _moment(at: float) -> datetime:
    """Beyond 2038 too, where the C library's own seconds may have 32 bits."""
    return EPOCH + timedelta(seconds=at)


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
