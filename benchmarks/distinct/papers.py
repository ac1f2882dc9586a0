"""Distinct counting: the figures of the papers' density estimators, as published and repaired.

`python -m benchmarks.distinct.papers`: sample sizes, the actual privacy loss, and mean squared
errors. The errors are over epsilon and over the sample size, at equal sample size and at equal
bytes. Universe and stream have 100,000 keys, uniform and Zipf. The product's own speed, error bars,
and levels for any number of keys follow. State and output each get epsilon. Writes a PNG and a CSV
for every figure, and prints a table.
"""

import sys
from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

from benchmarks.distinct import levels, papers_pictures
from benchmarks.distinct.curves import (
    AS_PUBLISHED,
    BY_BYTES,
    CONTENDERS,
    FIXED_EPSILON,
    SIZES,
    by_product,
    error_probability,
    figure,
    over_epsilon,
    over_sizes,
)
from benchmarks.distinct.published import output_loss, state_loss
from benchmarks.distinct.simulation import streams
from benchmarks.harness import report
from benchmarks.harness.report import Watch
from benchmarks.harness.result import Row, at_least, at_most, fastest
from pansketch import DistinctSpec, Estimate, Privacy, Release, distinct_keys, os_entropy
from pansketch.planning import ESTIMATORS
from pansketch.sketches import Keys

PRIVACY = Privacy(epsilon=2.0, unit="key")
UNION_PRIVACY = Privacy(epsilon=4.0, unit="key")  # A union of noisy bitmaps needs more.
INTEGERS, TEXTS = 1_000_000, 200_000
INTEGER_RATE, TEXT_RATE = 1e6, 3e5
RUNS = 1000
LOWEST, HIGHEST = 0.93, 0.97
SLOTS = 4096
LOADS = (0.5, 1.0, 2.0, 3.0)

Question = Callable[[int], tuple[Estimate, int]]


def speed(quick: bool) -> list[Row]:
    """Keys a second, the best of several times, beside a set and a sort of the same keys."""
    repeats = 3 if quick else 7
    keys = np.random.default_rng(1).integers(1 << 40, size=INTEGERS)
    texts = [f"badge-{key:06}" for key in np.random.default_rng(2).integers(50_000, size=TEXTS)]
    small = keys % 100_000
    open_spec = DistinctSpec(PRIVACY, expected_keys=20_000)
    numbered = DistinctSpec(PRIVACY, universe=100_000)
    unguessed = DistinctSpec(PRIVACY)
    return [
        _speed("integers, open universe", open_spec, keys, INTEGER_RATE, repeats),
        _speed("integers, levels without a guess", unguessed, keys, INTEGER_RATE, repeats),
        _speed("integers, enumerated universe", numbered, small, INTEGER_RATE, repeats),
        _speed("texts, open universe", open_spec, texts, TEXT_RATE, repeats),
    ]


def _speed(name: str, spec: DistinctSpec, keys: Keys, bar: float, repeats: int) -> Row:
    sketch = spec.start(os_entropy())
    what, counted = ("numpy.unique", np.unique) if isinstance(keys, np.ndarray) else ("set", set)
    own, other = fastest([partial(sketch.update_many, keys), partial(counted, keys)], repeats)
    note = f"{other / own:.2g} x the rate of {what} in the same run"
    return at_least(f"update_many, {name}", len(keys) / own, "keys/s", bar, note)


def coverage(quick: bool) -> Iterator[Row]:
    """The share of truths within two standard errors, over RUNS windows each."""
    for name, question in _questions().items():
        answers = [question(run) for run in range(RUNS // 5 if quick else RUNS)]
        share = float(
            np.mean([abs(got.value - truth) <= 2 * got.standard_error for got, truth in answers])
        )
        error = float(np.mean([got.standard_error / truth for got, truth in answers]))
        bias = float(np.mean([got.value / truth - 1 for got, truth in answers]))
        note = f"standard error {error:.2%} of the keys, bias {bias:+.2%}, {len(answers)} runs"
        # With fewer runs the share is known less well: the bar is for all of them.
        meets = None if quick else LOWEST <= share <= HIGHEST
        bar = "" if quick else f"{LOWEST:.0%} to {HIGHEST:.0%}"
        yield Row(f"within 2 standard errors: {name}", 100 * share, "% of runs", bar, meets, note)


def _questions() -> dict[str, Question]:
    loads = {f"open universe, {load:g} keys a slot": partial(_open, load) for load in LOADS}
    return {
        "sum of 5 disjoint sets of keys, open": _disjoint_open,
        "sum of 5 disjoint sets of keys, enumerated": _disjoint_enumerated,
        "union of 3 overlapping bitmaps, epsilon 4": _union,
        **loads,
    }


def _release(spec: DistinctSpec, keys: Keys) -> Release:
    sketch = spec.start(os_entropy())
    sketch.update_many(keys)
    return sketch.release(os_entropy())


def _open(load: float, run: int) -> tuple[Estimate, int]:
    """Consecutive numbers as keys."""
    spec = DistinctSpec(PRIVACY, expected_keys=SLOTS, memory=SLOTS // 8, hash_key=run)
    keys = int(load * SLOTS)
    return _release(spec, np.arange(keys)).distinct(), keys


def _disjoint_open(run: int) -> tuple[Estimate, int]:
    spec = DistinctSpec(PRIVACY, expected_keys=2000, memory=256, hash_key=run)
    sizes = (100, 500, 1000, 2000, 3000)
    releases = [
        _release(spec, np.arange(size) + 10_000 * device) for device, size in enumerate(sizes)
    ]
    return distinct_keys(releases), sum(sizes)


def _disjoint_enumerated(run: int) -> tuple[Estimate, int]:
    spec = DistinctSpec(PRIVACY, universe=10_000, memory=256, hash_key=run)
    ends = np.cumsum([100, 500, 1000, 2000, 3000])
    releases = [_release(spec, part) for part in np.split(np.arange(ends[-1]), ends[:-1])]
    return distinct_keys(releases), int(ends[-1])


def _union(run: int) -> tuple[Estimate, int]:
    """Each key is seen by one, two or three devices."""
    spec = DistinctSpec(
        UNION_PRIVACY, expected_keys=6000, memory=2048, release="bitmap", hash_key=run
    )
    seen = (np.arange(3000), np.arange(1500, 4500), np.arange(2500, 6000))
    return distinct_keys([_release(spec, keys) for keys in seen], "shared"), 6000


LESS_ERROR = 15
LOSS_EPSILON = 0.5
PLANNED_EPSILONS = (0.5, 1.0)

Task = Callable[[], Iterator[Row]]


def run(quick: bool, watch: Watch = iter) -> list[Row]:
    return _summarised([row for task in watch(tasks(quick)) for row in task()])


def tasks(quick: bool) -> list[Task]:
    """The measurements in pieces, so that progress can be shown."""
    found: list[Task] = [partial(_rows, speed, quick), partial(coverage, quick), _losses]
    found.append(partial(levels.rows, quick))
    for stream in streams():
        for size in SIZES:
            found += [
                partial(_row, over_epsilon, contender, stream, size, quick)
                for contender in CONTENDERS
            ]
            found.append(partial(_row, by_product, stream, size, True, quick))
        found.append(partial(_row, by_product, stream, SIZES[1], False, quick))
        found += [partial(_row, over_sizes, contender, stream, quick) for contender in CONTENDERS]
    planned = [each for each in CONTENDERS if not each.equal_bytes]
    return found + [
        partial(_row, error_probability, contender, epsilon, streams()[0], quick)
        for contender in planned
        for epsilon in PLANNED_EPSILONS
    ]


def _row(function: Callable[..., Row], *arguments: object) -> Iterator[Row]:
    yield function(*arguments)


def _rows(function: Callable[[bool], list[Row]], quick: bool) -> Iterator[Row]:
    yield from function(quick)


def _losses() -> Iterator[Row]:
    """The actual privacy loss of one key over the stated one."""
    for estimator in ESTIMATORS:
        for part, loss in (("state", state_loss), ("output", output_loss)):
            spent = loss(estimator, LOSS_EPSILON) / LOSS_EPSILON
            name = f"loss of the {part}: {estimator}"
            note = f"epsilon {LOSS_EPSILON:g}"
            if estimator.as_published:
                yield Row(name, spent, "x epsilon", note=note)
            else:
                yield at_most(name, spent, "x epsilon", 1 + 1e-12, note)


def _summarised(rows: list[Row]) -> list[Row]:
    """The papers' order, and what the repairs change, in front."""
    summary = []
    for stream in streams():
        for size in SIZES:
            errors = {
                each.name: figure(
                    rows, f"{each.name}; {stream.name}; m {size}; over epsilon",
                    FIXED_EPSILON, "experiment",
                )
                for each in CONTENDERS
            }  # fmt: skip
            where = f"m {size}, epsilon {FIXED_EPSILON:g}, {stream.name}"
            dwork, optbern, ppds = (errors[each.name] for each in AS_PUBLISHED)
            summary += [
                at_most(f"as published, OptBern over Dwork: {where}", optbern / dwork, "x", 1),
                at_most(f"as published, PPDS over OptBern: {where}", ppds / optbern, "x", 1),
                at_least(
                    f"PPDS as published over repaired at equal bytes: {where}",
                    ppds / errors[BY_BYTES.name],
                    "x",
                    LESS_ERROR,
                    f"mean squared errors {ppds:.3g} and {errors[BY_BYTES.name]:.3g}",
                ),
            ]
    return summary + rows


if __name__ == "__main__":
    sys.exit(report.main("distinct.papers", __doc__, run, papers_pictures.draw, None))
