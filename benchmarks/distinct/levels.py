"""Distinct keys without a guess of their number, beside one level with a right and a wrong guess.

`python -m benchmarks.distinct.levels`: relative errors at epsilon 1 and 4 KiB, from 3,000 to
10,000,000 keys. Keys are thrown at slots at random, which is what the public hash does; bits, noise
and estimates are those of the product. Rows of the product's own hashing and sketch stand below.
"""

import sys
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from benchmarks.harness import report
from benchmarks.harness.report import Watch
from benchmarks.harness.result import Row, at_most
from pansketch import DistinctSpec, NoEstimate, Privacy, Release, WindowId, os_entropy

MEMORY_BYTES = 4096
ONE_DRAW = Privacy(epsilon=1.0, unit="key", intrusion="announced")
SILENT = Privacy(epsilon=1.0, unit="key")
NUMBERS = (3_000, 10_000, 30_000, 100_000, 300_000, 1_000_000, 3_000_000, 10_000_000)
WRONG_GUESSES = (20_000, 10_000_000)
RUNS, QUICK_RUNS = 1000, 100
OWN_NUMBERS, OWN_RUNS = (3_000, 100_000), 100
BAR = 5.0
FULL_LOAD = 40  # Keys a slot that leave it empty with probability below 1e-17.

Counters = npt.NDArray[np.int64]


def run(quick: bool, watch: Watch = iter) -> list[Row]:
    return [row for number in watch(NUMBERS) for row in _of_number(number, quick)] + [
        *_silent(quick),
        *_own(quick),
    ]


def rows(quick: bool) -> Iterator[Row]:
    """All of `run`, one by one."""
    yield from run(quick)


def _of_number(keys: int, quick: bool) -> Iterator[Row]:
    runs = QUICK_RUNS if quick else RUNS
    error, unit, note = _errors(_spec(None), keys, runs)
    name = f"{keys:,} keys, one draw, 4 KiB"
    yield at_most(f"levels, no guess: {name}", error, unit, BAR, note)
    for guess in (keys, *(each for each in WRONG_GUESSES if each != keys)):
        text = "right guess" if guess == keys else f"guess of {guess:,}"
        error, unit, note = _errors(_spec(guess), keys, runs)
        yield Row(f"one level, {text}: {name}", error, unit, note=note)


def _silent(quick: bool) -> Iterator[Row]:
    for keys in NUMBERS[::3]:
        error, unit, note = _errors(_spec(None, SILENT), keys, QUICK_RUNS if quick else RUNS)
        yield Row(f"levels, no guess: {keys:,} keys, silent, 4 KiB", error, unit, note=note)


def _own(quick: bool) -> Iterator[Row]:
    """Every key through the product's hash, sketch and release, in a new window each time."""
    spec = _spec(None)
    for keys in OWN_NUMBERS:
        found = []
        for window in range(OWN_RUNS // 5 if quick else OWN_RUNS):
            sketch = spec.for_window(window).start(os_entropy())
            sketch.update_many(np.arange(keys))
            found.append(sketch.release(os_entropy()).distinct().value)
        error, unit, note = _summary(np.array(found), keys, 0)
        yield Row(f"levels, the product itself: {keys:,} keys", error, unit, note=note)


def _spec(guess: int | None, privacy: Privacy = ONE_DRAW) -> DistinctSpec:
    return DistinctSpec(privacy, expected_keys=guess, memory=MEMORY_BYTES)


def _errors(spec: DistinctSpec, keys: int, runs: int) -> tuple[float, str, str]:
    """The root mean square of the relative errors, its unit, and a note.

    If most runs are refused, the share of refusals replaces the error.
    """
    found, refused = [], 0
    for run in range(runs):
        counters = _counters(spec, keys, np.random.default_rng([run, keys]))
        release = Release(spec, (WindowId("d", "s", run),), spec.guarantee.draws, counters)
        try:
            found.append(release.distinct().value)
        except NoEstimate:
            refused += 1
    return _summary(np.array(found), keys, refused)


def _summary(found: npt.NDArray[np.float64], keys: int, refused: int) -> tuple[float, str, str]:
    if len(found) <= refused:
        runs = len(found) + refused
        return 100 * refused / runs, "% refused", f"of {runs} runs"
    errors = 100 * np.abs(found / keys - 1)
    p95 = float(np.quantile(errors, 0.95))
    note = f"p95 {p95:.2f} %, bias {100 * (found.mean() / keys - 1):+.2f} %, {len(found)} runs"
    refusals = f", {refused} refused" if refused else ""
    return float(np.sqrt(np.mean(errors**2))), "% rms", note + refusals


def _counters(spec: DistinctSpec, keys: int, rng: np.random.Generator) -> Counters:
    """Released counts of so many keys."""
    sizes = np.array(spec.levels or (spec.tracked,), np.int64)
    powers = np.minimum(np.arange(1, len(sizes) + 1), max(1, len(sizes) - 1))
    shares = 0.5**powers if spec.levels else np.array([0.5**spec.level])
    left = max(0.0, 1 - shares.sum())
    thrown = rng.multinomial(keys, [*shares, left])[: len(sizes)]
    loads = zip(sizes.tolist(), thrown.tolist(), strict=True)
    full = np.array([_full(size, n, rng) for size, n in loads], np.int64)
    channel = spec.estimator.channel
    counters: Counters = rng.binomial(full, channel.full).astype(np.int64)
    counters += rng.binomial(sizes - full, channel.empty)
    if spec.guarantee.release_micro:
        decay = -np.expm1(-spec.guarantee.release_micro / 1e6)
        counters += rng.geometric(decay, len(sizes)) - rng.geometric(decay, len(sizes))
    return counters


def _full(size: int, keys: int, rng: np.random.Generator) -> int:
    """The number of slots, of `size`, that at least one of the keys selects."""
    if keys > FULL_LOAD * size:
        return size
    return int(np.count_nonzero(np.bincount(rng.integers(size, size=keys), minlength=size)))


if __name__ == "__main__":
    sys.exit(report.main("distinct.levels", __doc__, run, lambda _, rows: [], None))
