"""Do the error bars hold? The share of truths within two standard errors, over repeated fleets."""

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

from benchmarks.datasets.stations import (
    RELEASES,
    TWO,
    FloatArray,
    exact_counts,
    noisy,
    readings,
    truth,
)
from benchmarks.harness.result import Row
from pansketch import Estimate
from pansketch.generators import Partition, privhp

NOMINAL = 0.95
LOWEST, HIGHEST = 0.9, 1.0
WINDOW = 720

Question = tuple[str, str, float, Callable[[Partition], Estimate]]

# Between the values that the stations write, so that a truth has no ties.
THRESHOLDS = {"temp": (-5.05, 3.05, 14.05, 22.05, 28.05), "pm25": (12.5, 35.5, 75.5, 150.5, 300.5)}
RANGES = {
    "temp": ((-10.05, 0.05), (10.05, 20.05), (25.05, 40.05)),
    "pm25": ((0.0, 20.5), (35.5, 75.5), (150.5, 500.5)),
}


def run(quick: bool) -> list[Row]:
    repeats = 20 if quick else 100
    first_windows = np.concatenate([station[:WINDOW] for station in readings()])
    return [
        *_covered(f"{RELEASES} releases", truth(), RELEASES, repeats),
        *_covered("12 releases", first_windows, 12, repeats),
    ]


def _covered(fleet: str, rows: FloatArray, releases: int, repeats: int) -> list[Row]:
    spec = TWO
    counts = exact_counts(spec, rows)
    questions = list(_questions(rows, spec.domain.names))
    held: dict[tuple[str, str], list[bool]] = {}
    for _ in range(repeats):
        model = privhp(noisy(spec, counts, releases))
        for kind, what, expected, ask in questions:
            found = ask(model)
            inside = abs(found.value - expected) <= 2 * found.standard_error
            held.setdefault((kind, what), []).append(inside)
    shares: dict[str, dict[str, float]] = {}
    for (kind, what), answers in held.items():
        shares.setdefault(kind, {})[what] = float(np.mean(answers))
    return [_row(f"{fleet}: {kind}", by_question) for kind, by_question in shares.items()]


def _row(name: str, shares: dict[str, float]) -> Row:
    """All questions of a kind together; the note names the worst one."""
    share = float(np.mean(list(shares.values())))
    worst = min(shares, key=lambda what: shares[what])
    note = f"nominal {NOMINAL:g}; lowest of {len(shares)}: {shares[worst]:.2f} ({worst})"
    bar = f"{LOWEST:g} to {HIGHEST:g}"
    return Row(name, share, "share", bar, LOWEST <= share <= HIGHEST, note, shares)


def _questions(rows: FloatArray, names: tuple[str, ...]) -> Iterator[Question]:
    """(kind, its words, the truth, how to ask) for both attributes, and for both together."""
    for name, column in zip(names, rows.T, strict=True):
        yield "mean", name, float(column.mean()), partial(Partition.mean, name=name)
        for q in (0.25, 0.5, 0.9):
            kind = "median" if q == 0.5 else "quantile"
            expected = float(np.quantile(column, q))
            yield kind, f"{name} {q:g}", expected, partial(Partition.quantile, name=name, q=q)
        for x in THRESHOLDS[name]:
            expected = float((column <= x).mean())
            yield "cdf", f"{name} {x:g}", expected, partial(Partition.cdf, name=name, x=x)
        for span in RANGES[name]:
            yield _count(rows, names, {name: span})
    yield _count(rows, names, {"temp": (10.05, 20.05), "pm25": (35.5, 75.5)})
    yield _count(rows, names, {"temp": (-10.05, 0.05), "pm25": (75.5, 300.5)})


def _count(
    rows: FloatArray, names: tuple[str, ...], wanted: dict[str, tuple[float, float]]
) -> Question:
    inside = np.ones(len(rows), np.bool_)
    for name, (low, high) in wanted.items():
        column = rows[:, names.index(name)]
        inside &= (column >= low) & (column <= high)
    words = ", ".join(f"{name} {low:g} to {high:g}" for name, (low, high) in wanted.items())
    return "count", words, float(inside.sum()), partial(Partition.count, wanted=wanted)
