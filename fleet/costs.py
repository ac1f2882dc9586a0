"""What a unit pays, and what that makes in a day: the one place where it is counted and said, for
`pansketch-agent validate` and for the collector's page.

A unit pays epsilon as a whole, once: a reading in its one window, a span over all windows it
touches, a key in each window that it is in. How many spans or windows a day has is public.
"""

from collections.abc import Iterator

from fleet.privacy import MICRO
from fleet.quantities import duration_text
from pansketch import Guarantee, Span

DAY_SECONDS = 86400


def times_a_day(guarantee: Guarantee, window_seconds: int) -> int | None:
    """How often one source or key pays in 24 hours, at most: in each span, of which so many cover
    any 24 hours, or in each window that ends within them. None where readings pay one by one."""
    if guarantee.unit == "reading":
        return None
    each = guarantee.unit.seconds if isinstance(guarantee.unit, Span) else window_seconds
    return -(-DAY_SECONDS // each)


def day_micro(guarantee: Guarantee, window_seconds: int) -> int | None:
    """Micro-epsilon that one source or key pays in 24 hours, at most; None as above."""
    times = times_a_day(guarantee, window_seconds)
    return None if times is None else times * guarantee.epsilon_micro


def costs(guarantee: Guarantee, window_seconds: int) -> Iterator[tuple[str, str]]:
    """What somebody may ask the price of, and a sentence with it."""
    whole, reading = epsilon_text(guarantee.epsilon_micro), epsilon_text(guarantee.reading_micro)
    if guarantee.unit == "key":
        yield "an appearance", f"pays nothing more: all in one window pay {whole} together"
        yield "a key", f"pays {whole} in each window that it appears in: w windows cost w x {whole}"
        yield "a day", _day(guarantee, window_seconds, "a key", "window", window_seconds)
        return
    yield "a reading", f"pays {reading}: it is in one window only"
    if isinstance(guarantee.unit, Span):
        seconds = guarantee.unit.seconds
        yield "a span", f"pays {whole} as a whole, over all windows it touches"
        yield "a day", _day(guarantee, window_seconds, "a source", "span", seconds)
        return
    yield (
        "a day",
        f"{whole} for each reading in it: n readings of one source pay n x {whole}",
    )


def _day(guarantee: Guarantee, window_seconds: int, who: str, where: str, seconds: int) -> str:
    times, micro = times_a_day(guarantee, window_seconds), day_micro(guarantee, window_seconds)
    assert times is not None
    assert micro is not None
    so_many = f"{times} {where}{'' if times == 1 else 's'} of {duration_text(seconds)}"
    return f"{epsilon_text(micro)} at most, for {who} in every {where} ({so_many})"


def epsilon_text(micro: int) -> str:
    """Micro-epsilon as epsilon, without rounding what a budget may be."""
    return f"{micro / MICRO:.9g}"
