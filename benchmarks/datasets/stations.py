"""The twelve bundled stations as a fleet, and how far a generator is from their raw readings."""

from dataclasses import replace
from functools import cache

import numpy as np
import numpy.typing as npt

from demo.comparison import read_station
from pansketch import (
    Attribute,
    Domain,
    Entropy,
    HierarchySpec,
    Privacy,
    Release,
    WindowId,
    merge,
    os_entropy,
)
from pansketch.generators import Partition
from pansketch_audit.mechanisms.zero_noise import NoNoise
from testbed.local_fleet import STATIONS, stations
from testbed.metrics import STEPS

WINDOWS = 49  # of 720 hours: what a station's four years fill
RELEASES = 12 * WINDOWS
DRAWS_AT_ONCE = 1 << 20

Counts = npt.NDArray[np.int32]
FloatArray = npt.NDArray[np.float64]


DOMAIN = Domain(
    [
        Attribute("temp", low=-40, high=60, unit="degC", step=0.1),
        Attribute("pm25", low=0, high=1000, unit="ug/m3", scale="log", step=1),
    ]
)
# Exact levels alone, which suit readings that fill their bounds.
TWO = HierarchySpec(DOMAIN, Privacy(1.0), depth=10, k=1024, rows=1)


def sized(**sizes: int) -> HierarchySpec:
    """The spec of two attributes with other sizes."""
    return replace(TWO, **sizes)  # type: ignore[arg-type]


def default_spec(fanout: int = 4) -> HierarchySpec:
    """The library's default sizes over two attributes."""
    return HierarchySpec(DOMAIN, TWO.privacy, fanout=fanout)


@cache
def readings() -> tuple[FloatArray, ...]:
    """The complete readings of every station, float64[n, 2]."""
    names = DOMAIN.names
    return tuple(read_station(STATIONS / f"{name}.csv.gz", names)[1] for name in stations())


@cache
def truth() -> FloatArray:
    """All readings of the fleet."""
    return np.concatenate(readings())


def exact_counts(spec: HierarchySpec, rows: FloatArray) -> Counts:
    """The counters of a sketch without noise, int32[sum(spec.blocks)]."""
    return _sketched(spec, rows, NoNoise(), WindowId("", "", 0)).counters.astype(np.int32)


def noisy(spec: HierarchySpec, counts: Counts, releases: int) -> Release:
    """A merged release with these exact counts: the noise of so many releases, drawn one by one.

    Equal in law to a separate sketch of every window, because noise and counts only ever add up.
    """
    rng, counters = os_entropy(), counts.copy()
    draws = releases * draws_per_release(spec)
    for level in spec.levels:
        block = counters[level.offset : level.offset + level.size]
        for copies in _portions(draws, max(1, DRAWS_AT_ONCE // level.size)):
            drawn = np.zeros((copies, level.size), np.int32)
            rng.add_discrete_laplace(level.scale, drawn.reshape(-1))
            block += drawn.sum(axis=0, dtype=np.int32)
    labels = tuple(WindowId("fleet", "air", number) for number in range(releases))
    return Release(spec, labels, draws, counters.astype(np.int64))


def draws_per_release(spec: HierarchySpec) -> int:
    """Independent draws on every counter of one release."""
    return 2 if spec.guarantee.release_micro else 1


def chained(spec: HierarchySpec) -> Release:
    """Every window of every device, sketched and released separately, then merged."""
    rng = os_entropy()
    return merge(
        _sketched(spec, rows, rng, WindowId(device, "air", number))
        for device, station in zip(stations(), readings(), strict=True)
        for number, rows in enumerate(np.array_split(station, WINDOWS))
    )


def _sketched(spec: HierarchySpec, rows: FloatArray, rng: Entropy, window: WindowId) -> Release:
    sketch = spec.start(rng)
    sketch.update_many(rows)
    return sketch.release(rng, window)


def _portions(whole: int, most: int) -> list[int]:
    full, rest = divmod(whole, most)
    return [most] * full + [rest] * (rest > 0)


class Distance:
    """W1 of a model's marginals to those of raw readings, over the readings' deviation.

    From the model's own quantile functions, so that no error of sampling is in it.
    """

    def __init__(self, domain: Domain, rows: FloatArray) -> None:
        self._at = (np.arange(STEPS) + 0.5) / STEPS
        self._attributes = domain.attributes
        self._quantiles = np.sort(rows, axis=0)[(self._at * len(rows)).astype(np.int64)]
        self._deviations = rows.std(axis=0)

    def __call__(self, model: Partition) -> FloatArray:
        """W1/std of every attribute, float64[d]; NaN for a model that holds nothing."""
        if model.total <= 0:
            return np.full(len(self._attributes), np.nan)
        return np.array([self._of(model, i) for i in range(len(self._attributes))])

    def _of(self, model: Partition, position: int) -> float:
        edges, cumulative = model.filled(position)
        units = np.interp(self._at, cumulative, edges)
        values = self._attributes[position].from_unit(units)
        apart = np.abs(values - self._quantiles[:, position]).mean()
        return float(apart / self._deviations[position])
