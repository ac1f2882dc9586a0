"""Durations (30d, 10m, 5s), sizes (4KiB, 64MiB) and times as people write them."""

import re
from datetime import UTC, datetime, timedelta
from functools import lru_cache

NUMBER_PATTERN = r"[0-9]{1,15}(?:\.[0-9]{1,6})?"
_NUMBER = re.compile(rf"({NUMBER_PATTERN}) ?([A-Za-z]*)")

SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MAX_EXACT = 120  # of a unit; a predicted duration of more is rounded in a larger one
BYTES = {"B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}
_DECIMAL = {"k": "KiB", "kb": "KiB", "kib": "KiB", "m": "MiB", "mb": "MiB", "mib": "MiB"}


def seconds(text: str) -> float:
    """Parse a duration to seconds. Raises ValueError, one line `problem; fix`."""
    number, unit = _split(text, "a duration", "write a number and a unit, such as 30d, 10m or 5s")
    if unit not in SECONDS:
        problem = f"has the unknown unit {unit!r}" if unit else "has no unit"
        raise ValueError(
            f"{text[:40]!r} {problem}; use ms, s, m, h, d or w, such as 30d, 10m or 5s"
        )
    return number * SECONDS[unit]


def size_bytes(text: str) -> int:
    """Parse a size to bytes. Raises ValueError, one line `problem; fix`."""
    number, unit = _split(text, "a size", "write a number and a unit, such as 64KiB or 16MiB")
    if unit not in BYTES:
        problem = f"has the unknown unit {unit!r}" if unit else "has no unit"
        meant = _DECIMAL.get(unit.lower())
        fix = f"write {text[: -len(unit)].strip()}{meant}" if meant else "use B, KiB, MiB or GiB"
        raise ValueError(f"{text[:40]!r} {problem}; {fix}")
    return int(number * BYTES[unit])


def _split(text: str, kind: str, fix: str) -> tuple[float, str]:
    match = _NUMBER.fullmatch(text)
    if match is None:
        raise ValueError(f"{text[:40]!r} is not {kind}; {fix}")
    return float(match[1]), match[2]


def number_text(number: float) -> str:
    """Return a number with all digits of its source: 0.1 -> "0.1", 1e6 -> "1000000"."""
    return f"{number:.15g}"


def duration_text(duration_seconds: float) -> str:
    """Return a duration in its largest unit that divides it: 2592000 -> "30d"."""
    for unit in ("d", "h", "m"):
        if duration_seconds and duration_seconds % SECONDS[unit] == 0:
            return f"{duration_seconds / SECONDS[unit]:.0f}{unit}"
    return f"{number_text(duration_seconds)}s"


def size_text(bytes_count: int) -> str:
    """Return a size in its largest unit that divides it: 65536 -> "64KiB"."""
    for unit in ("GiB", "MiB", "KiB"):
        if bytes_count and bytes_count % BYTES[unit] == 0:
            return f"{bytes_count // BYTES[unit]}{unit}"
    return f"{bytes_count}B"


def rounded_duration_text(seconds: int) -> str:
    """Return a duration rounded down, at least two of its unit: 200000 -> "2d"."""
    for unit in ("d", "h", "m"):
        if seconds >= 2 * SECONDS[unit]:
            return f"{seconds // int(SECONDS[unit])}{unit}"
    return f"{seconds}s"


def lag_text(seconds: int) -> str:
    """Return a lag with at most one decimal: 9000 -> "2.5 h"; "0 s" for a later window."""
    for unit, size in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= size:
            return f"{seconds / size:.1f}".removesuffix(".0") + f" {unit}"
    return f"{max(seconds, 0)} s"


def about_text(seconds: int) -> str:
    """Return a predicted duration: 7200 -> "2h", as `duration_text`; 8450 -> "2.3 h"."""
    exact = duration_text(seconds)
    return exact if int(exact[:-1]) <= MAX_EXACT or exact.endswith("d") else lag_text(seconds)


def rounded_size_text(bytes_count: float) -> str:
    """Return a size with one decimal: 1536 -> "1.5 KiB"."""
    for unit in ("MiB", "KiB"):
        if bytes_count >= BYTES[unit]:
            return f"{bytes_count / BYTES[unit]:.1f} {unit}"
    return f"{bytes_count:.0f} bytes"


@lru_cache(maxsize=4_096)  # The windows of many devices end in the same seconds.
def utc_text(seconds: int) -> str:
    """Return unix seconds as an ISO 8601 time in UTC: the date alone at midnight."""
    moment = _EPOCH + timedelta(seconds=seconds)  # beyond 2038 on any machine
    if moment.hour == moment.minute == moment.second == 0:
        return f"{moment:%Y-%m-%d}"
    return f"{moment:%Y-%m-%dT%H:%M:%SZ}"
