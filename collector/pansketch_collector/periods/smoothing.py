"""`--smooth`: the level of a series of answers, which also uses rows that noise outweighs."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import sqrt

import numpy as np

from pansketch import Estimate
from pansketch.generators import smooth_levels
from pansketch_collector.queries.answers import Answer


def pooled(
    answers: Sequence[Answer | None], together: Callable[[int, int], Answer | None]
) -> list[Answer | None]:
    """The answers, and those of neighbours that have none alone, at the middle one's place.

    Pairs of neighbours are asked together, then pairs of pairs, until their readings outweigh the
    noise. So each release is in one answer at most, and there are fewer fits than rows.

    Args:
        answers: of each row, None where noise outweighs it.
        together: what the releases of the rows from one to another one answer, both included; None
            where noise outweighs them too.

    Returns:
        An answer of several rows is that of one of them: readings are their average.
    """
    found = [*answers]
    parts = [(at, at) for at, answer in enumerate(answers) if answer is None]
    while parts:
        wider: list[tuple[int, int]] = []
        waiting: tuple[int, int] | None = None
        for part in parts:
            if waiting is None or waiting[1] + 1 != part[0]:
                waiting = part
                continue
            first, last = waiting[0], part[1]
            waiting = None
            answer = together(first, last)
            if answer is None:
                wider.append((first, last))
            else:
                found[(first + last) // 2] = _of_one(answer, last - first + 1)
        parts = wider
    return found


def _of_one(answer: Answer, rows: int) -> Answer:
    """A number of readings of several rows as that of one of them."""
    if answer.share is None:
        return answer
    value, error = answer.value / rows, answer.standard_error / rows
    return replace(answer, value=value, standard_error=error)


def smoothed(
    answers: Sequence[Answer | None], times: Sequence[float], bounds: tuple[float, float]
) -> tuple[list[Estimate | None], float] | None:
    """The level at each time, and the standard deviation of its steps; None without any answer.

    `bounds`: the range of an answer. A level is inside of them. A level whose error is no less than
    that of any number inside of them is refused. Few answers do not tell how far a level moves to a
    time without one.
    """
    told = [(each.value, each.standard_error) if each else (np.nan, np.nan) for each in answers]
    values, errors = np.array(told, dtype=np.float64).T
    unknown = ~(np.isfinite(values) & np.isfinite(errors) & (errors > 0))
    if unknown.all():
        return None
    values[unknown] = errors[unknown] = np.nan
    levels = smooth_levels(values[:, None], errors[:, None], np.array(times))
    low, high = bounds
    found = zip(np.clip(levels.value[:, 0], low, high), levels.standard_error[:, 0], strict=True)
    return (
        [
            Estimate(float(value), float(error)) if error < (high - low) / sqrt(12) else None
            for value, error in found
        ],
        float(np.sqrt(levels.step_variance[0])),
    )
