"""The only module of the device program that reads a clock or sleeps."""

import ctypes
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
FIRST_YEAR, LAST_YEAR = 2024, 2099  # This program is not older.
_FIRST_SECOND = datetime(FIRST_YEAR, 1, 1, tzinfo=UTC).timestamp()


@dataclass(frozen=True)
class Clock:
    """Time as an argument.

    `now`: unix seconds, may jump. `monotonic`: seconds that only increase. `wait(stop, seconds)`:
    sleep until `stop` is set or the time has passed, and return whether it is set. `synchronised`:
    whether `now` follows a reference clock, None if that is unknown.
    """

    now: Callable[[], float]
    monotonic: Callable[[], float]
    wait: Callable[[threading.Event, float], bool]
    synchronised: Callable[[], bool | None] = lambda: None


def system_clock() -> Clock:
    """Return the clock of this host."""
    return Clock(
        time.time,
        time.monotonic,
        _wait,
        clock_is_synchronised,
    )


def _wait(stop: threading.Event, seconds: float) -> bool:
    # A replay at a low speed may wait for centuries, which the system's own limit does not allow.
    return stop.wait(min(max(0.0, seconds), threading.TIMEOUT_MAX))


def utc_text(at: float) -> str:
    """Return unix seconds as text: 2013-03-01T00:00:00Z."""
    return _moment(at).strftime("%Y-%m-%dT%H:%M:%SZ")


def year(at: float) -> int:
    """Return the year of a moment in unix seconds."""
    return _moment(at).year


def implausible_year(at: float) -> str:
    """Return what is wrong with a clock that shows an impossible year, and the fix; or nothing."""
    if FIRST_YEAR <= (now := year(at)) <= LAST_YEAR:
        return ""
    return f"shows the year {now}; set it, windows are labelled by it"


def is_set(at: float) -> bool:
    """Return whether a clock may be right: a device without a battery starts in 1970."""
    return at >= _FIRST_SECOND


def _moment(at: float) -> datetime:
    """Return a datetime also beyond 2038, where the C library's own seconds may have 32 bits."""
    return EPOCH + timedelta(seconds=at)


class _Timex(ctypes.Structure):
    _fields_ = (
        ("modes", ctypes.c_uint),
        ("numbers", ctypes.c_long * 4),
        ("status", ctypes.c_int),
        ("rest", ctypes.c_char * 512),
    )


def clock_is_synchronised() -> bool | None:
    """Return whether the kernel's clock follows a reference; None if that is not reported."""
    unsynchronised, unable = 0x40, -1
    try:
        timex = _Timex()
        if ctypes.CDLL(None).adjtimex(ctypes.byref(timex)) == unable:
            return None
    except (AttributeError, OSError):
        return None
    return not timex.status & unsynchronised
