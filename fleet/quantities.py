"""Durations (30d, 10m, 5s) and sizes (4KiB, 64MiB) as people write them."""

import re

_NUMBER = re.compile(r"([0-9]{1,15}(?:\.[0-9]{1,6})?) ?([A-Za-z]*)")

SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0}
BYTES = {"B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}
_DECIMAL = {"k": "KiB", "kb": "KiB", "kib": "KiB", "m": "MiB", "mb": "MiB", "mib": "MiB"}


def seconds(text: str) -> float:
    """A duration in seconds. Raises ValueError, one line `problem; fix`."""
    number, unit = _split(text, "a duration", "write a number and a unit, such as 30d, 10m or 5s")
    if unit not in SECONDS:
        problem = f"has the unknown unit {unit!r}" if unit else "has no unit"
        raise ValueError(
            f"{text[:40]!r} {problem}; use ms, s, m, h, d or w, such as 30d, 10m or 5s"
        )
    return number * SECONDS[unit]


def size_bytes(text: str) -> int:
    """A size in bytes. Raises ValueError, one line `problem; fix`."""
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
    """A number without losing digits that somebody wrote: 0.1 -> "0.1", 1e6 -> "1000000"."""
    return f"{number:.15g}"


def duration_text(duration_seconds: float) -> str:
    """A duration in its largest unit that divides it: 2592000 -> "30d"."""
    for unit in ("d", "h", "m"):
        if duration_seconds and duration_seconds % SECONDS[unit] == 0:
            return f"{duration_seconds / SECONDS[unit]:.0f}{unit}"
    return f"{number_text(duration_seconds)}s"


def size_text(bytes_count: int) -> str:
    """A size in its largest unit that divides it: 65536 -> "64KiB"."""
    for unit in ("GiB", "MiB", "KiB"):
        if bytes_count and bytes_count % BYTES[unit] == 0:
            return f"{bytes_count // BYTES[unit]}{unit}"
    return f"{bytes_count}B"
