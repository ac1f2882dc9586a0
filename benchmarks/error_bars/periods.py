"""Levels over time and changes between periods, on releases whose truth is known.

A stream of one attribute has 48 windows of 400 readings at epsilon 1 (silent mode). The mean of
each window is known: constant, a random walk, or a jump. A row is the mean of one window with its
error. `smooth_levels` computes the level from all rows. Coverage is the share of windows whose true
mean lies within two standard errors.

`margin_drift` compares two periods of 8 windows. Without a change it may report one as often as its
level allows. The power is how often it finds a shift of the mean.
"""

from collections.abc import Iterator, Sequence

import numpy as np

from benchmarks.datasets.stations import FloatArray
from benchmarks.harness.report import Watch
from benchmarks.harness.result import Row, at_least, at_most
from pansketch import Attribute, Domain, Privacy, Release, View, ViewsSpec, merge, os_entropy
from pansketch.generators import margin, margin_drift, smooth_levels

WINDOWS, PERIOD, READINGS = 48, 8, 400
DEVIATION = 6.0  # of the readings of a window
STEP, JUMP = 0.5, 8.0  # of the walk in a window, and of the jump
DOMAIN = Domain([Attribute("x", low=-40, high=60)])
SPEC = ViewsSpec(DOMAIN, Privacy(1.0), (View(("x",), (6,), 1_000_000),))
# Of a band of two standard errors. The band holds a jump on average over the series only.
COVERED = {"constant": 0.93, "random walk": 0.93, "jump": 0.9}
LEVEL, ABOVE = 0.05, 3.0  # of the test, and standard deviations of a share that the bar leaves
SHIFTS = (0.1, 0.2, 0.4)  # in deviations of the readings
POWER = 0.95


def run(quick: bool, watch: Watch = iter) -> list[Row]:
    series, tests = (3, 40) if quick else (12, 200)
    rows = [row for shape in watch(list(COVERED)) for row in _levels(shape, series)]
    return [*rows, *_drift(tests)]


def _means(shape: str, rng: np.random.Generator) -> FloatArray:
    """The true mean of every window."""
    if shape == "random walk":
        return np.asarray(10 + np.cumsum(rng.normal(0, STEP, WINDOWS)))
    jump = JUMP * (np.arange(WINDOWS) >= WINDOWS // 2)
    return np.asarray(10 + (jump if shape == "jump" else np.zeros(WINDOWS)))


def _released(mean: float, rng: np.random.Generator) -> Release:
    rows = rng.normal(0, DEVIATION, (READINGS, 1))
    sketch = SPEC.start(os_entropy())
    sketch.update_many(mean + rows - rows.mean())
    return sketch.release(os_entropy())


def _levels(shape: str, series: int) -> Iterator[Row]:
    truth, values, errors = (np.empty((WINDOWS, series)) for _ in range(3))
    for number in range(series):
        rng = np.random.default_rng(number)
        truth[:, number] = _means(shape, rng)
        for at, mean in enumerate(truth[:, number]):
            found = margin(_released(float(mean), rng), "x").mean("x")
            values[at, number], errors[at, number] = found.value, found.standard_error
    levels = smooth_levels(values, errors, np.arange(float(WINDOWS)))
    of_rows = float(np.mean(np.abs(values - truth) <= 2 * errors))
    covered = np.abs(levels.value - truth) <= 2 * levels.standard_error
    note = f"rows {of_rows:.3f}; {series} series"
    if shape == "jump":
        near = covered[WINDOWS // 2 - 2 : WINDOWS // 2 + 2]
        note += f"; four windows around the jump {near.mean():.3f}"
    name = f"periods: {shape}; level within two standard errors"
    yield at_least(name, float(covered.mean()), "", COVERED[shape], note)
    gain = _rms(levels.value - truth) / _rms(values - truth)
    yield Row(f"periods: {shape}; error of the level, of that of a row", gain, "x")


def _rms(errors: FloatArray) -> float:
    return float(np.sqrt(np.mean(errors**2)))


def _drift(tests: int) -> Iterator[Row]:
    alarms = _rejected(0.0, tests)
    deviation = np.sqrt(LEVEL * (1 - LEVEL) / tests)
    name = f"periods: drift reported without a change, level {LEVEL:g}"
    yield at_most(name, alarms, "", LEVEL + ABOVE * float(deviation), f"{tests} pairs of periods")
    for shift in SHIFTS:
        name = f"periods: a shift of {shift:g} deviations is found, level {LEVEL:g}"
        found = _rejected(shift, tests // 4)
        if shift == SHIFTS[-1]:
            yield at_least(name, found, "", POWER)
        else:
            yield Row(name, found, "")


def _rejected(shift: float, tests: int) -> float:
    """The share of comparisons that find a shift of the mean by so many deviations."""
    rng = np.random.default_rng(int(100 * shift))
    found: list[float] = []
    for _ in range(tests):
        one, other = (_period(10 + DEVIATION * part, rng) for part in (0.0, shift))
        found.append(margin_drift(one, other, "x").p_value)
    return float(np.mean(np.array(found) <= LEVEL))


def _period(mean: float, rng: np.random.Generator) -> Sequence[Release]:
    """Merged releases of readings drawn independently, as the test takes them."""
    releases = []
    for _ in range(PERIOD):
        sketch = SPEC.start(os_entropy())
        sketch.update_many(rng.normal(mean, DEVIATION, (READINGS, 1)))
        releases.append(sketch.release(os_entropy()))
    return [merge(releases)]
