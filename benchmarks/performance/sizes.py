"""Time and bytes against readings, depth, k, width, attributes, devices, and windows.

One size varies at a time around the library's default of two attributes; views vary the number of
attributes. The default has depth 24, k 256, width 1024, and 3 rows. Each time is the fastest of
several runs in this process. Writes sizes.png. Bytes on the wire appear beside the entropy of their
noise, the minimum for any code.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import combinations
from math import ceil
from pathlib import Path

import matplotlib
import numpy as np

from benchmarks.datasets.stations import TWO, FloatArray, default_spec, readings
from benchmarks.harness.result import Row, at_most, fastest
from demo.comparison import read_station
from pansketch import (
    Attribute,
    Domain,
    HierarchySpec,
    Privacy,
    Release,
    View,
    ViewsSpec,
    WindowId,
    decode,
    encode,
    merge,
    os_entropy,
)
from pansketch.generators import privhp
from pansketch_fleet.config.loader import load_agent
from testbed.local_fleet import CONFIG, STATIONS, stations

matplotlib.use("Agg")
from matplotlib import pyplot as plt
from matplotlib.ticker import FixedLocator, NullLocator

READINGS = 65_536
VARIED: Mapping[str, tuple[int, ...]] = {
    "readings": (1, 16, 256, 4096, 65_536, 1_048_576),
    "depth": (12, 16, 20, 24, 32),
    "k": (64, 256, 1024, 4096),
    "width": (256, 1024, 4096, 16_384),
    "attributes": (3, 6, 10, 16),
    "releases": (1, 10, 100, 1000),
}
UNITS = {"update": "ns a reading", "release": "ms", "growth": "ms", "merge": "ms", "wire": "bytes"}
COLOURS = ("#2a6f97", "#d1495b", "#4d4d4d", "#66a182", "#edae49")


@dataclass(frozen=True)
class Cost:
    """The measurements of one choice of sizes: name of the cost -> the function to time, and its
    unit."""

    work: Mapping[str, Callable[[], object]]
    units: Mapping[str, float]
    wire_bytes: int = 0


def run_sizes(quick: bool) -> list[Row]:
    rows = []
    for varied, values in VARIED.items():
        chosen = values[:3] if quick else values
        rows += [row for value in chosen for row in _rows(varied, value, 3 if quick else 7)]
    return rows


def _rows(varied: str, value: int, repeats: int) -> list[Row]:
    cost = _cost(varied, value)
    times = fastest(list(cost.work.values()), repeats)
    found = {
        name: seconds * cost.units[name] for name, seconds in zip(cost.work, times, strict=True)
    }
    if cost.wire_bytes:
        found["wire"] = float(cost.wire_bytes)
    return [
        Row(f"{varied} {value:,}: {name}", figure, UNITS[name], detail={"size": float(value)})
        for name, figure in found.items()
    ]


def _cost(varied: str, value: int) -> Cost:
    if varied == "releases":
        return _merging(value)
    if varied == "attributes":
        return _sketching(_views(value), READINGS)
    if varied == "readings":
        return _sketching(default_spec(), value, whole=False)
    sizes = {"depth": 24, "k": 256, "width": 1024, "rows": 3} | {varied: value}
    return _sketching(HierarchySpec(default_spec().domain, Privacy(1.0), **sizes), READINGS)


def _sketching(spec: HierarchySpec | ViewsSpec, count: int, whole: bool = True) -> Cost:
    """Absorbing `count` readings at once; with `whole` also a release, its bytes and its growth."""
    readings = _readings(spec.domain, count)
    sketch = spec.start(os_entropy())
    work: dict[str, Callable[[], object]] = {"update": partial(sketch.update_many, readings)}
    units = {"update": 1e9 / count, "release": 1e3, "growth": 1e3}
    if not whole:
        return Cost(work, units)
    release = _released(spec, readings)
    work["release"] = partial(_released, spec, readings[:1])
    if isinstance(spec, HierarchySpec):
        work["growth"] = partial(privhp, release)
    return Cost(work, units, len(encode(release)))


def _released(spec: HierarchySpec | ViewsSpec, readings: FloatArray) -> Release:
    sketch = spec.start(os_entropy())
    sketch.update_many(readings)
    return sketch.release(os_entropy())


def _merging(count: int) -> Cost:
    """Decoding and adding up the releases of a fleet: devices and windows are the same here."""
    spec = HierarchySpec(default_spec().domain, Privacy(1.0), depth=10, k=1024)
    blobs = []
    for number in range(count):
        sketch = spec.start(os_entropy())
        blobs.append(encode(sketch.release(os_entropy(), WindowId("d", "air", number + 1))))
    return Cost({"merge": lambda: merge(decode(blob, spec) for blob in blobs)}, {"merge": 1e3})


def _views(count: int) -> ViewsSpec:
    names = [f"x{number}" for number in range(count)]
    sets = [(name,) for name in names] + list(combinations(names, 2))
    part = 1_000_000 // len(sets)
    parts = [part] * (len(sets) - 1) + [1_000_000 - part * (len(sets) - 1)]
    domain = Domain([Attribute(name, low=0, high=1) for name in names])
    views = [View(s, (8,) if len(s) == 1 else (4, 4), m) for s, m in zip(sets, parts, strict=True)]
    return ViewsSpec(domain, Privacy(1.0), tuple(views))


def _readings(domain: Domain, count: int) -> FloatArray:
    low = np.array([attribute.origin for attribute in domain.attributes])
    high = np.array([attribute.highest for attribute in domain.attributes])
    shares: FloatArray = np.random.default_rng(1).random((count, domain.dimension))
    return np.asarray(shares * (high - low) + low)


def draw(folder: Path, rows: list[Row]) -> list[Path]:
    """Writes sizes.png: one panel for each size that was varied, one line for each cost."""
    file = folder / "sizes.png"
    figure, axes = plt.subplots(2, 3, figsize=(11, 6.2), layout="constrained")
    for axis, varied in zip(axes.ravel(), VARIED, strict=True):
        for colour, (name, unit) in zip(COLOURS, UNITS.items(), strict=True):
            chosen = [r for r in rows if r.name.startswith(f"{varied} ") and r.name.endswith(name)]
            points = [(r.detail["size"], r.value) for r in chosen]
            if points:
                axis.plot(*zip(*points, strict=True), "o-", color=colour, label=f"{name}, {unit}")
        axis.set(xscale="log", yscale="log", xlabel=varied)
        axis.xaxis.set_major_locator(FixedLocator(VARIED[varied]))
        axis.xaxis.set_minor_locator(NullLocator())
        axis.xaxis.set_major_formatter("{x:,.0f}")
        axis.tick_params(axis="x", labelsize=7)
        axis.legend(frameon=False, fontsize=8)
    figure.savefig(file, dpi=130)
    plt.close(figure)
    return [file]


BAR = 1.25
WIRE_READINGS = 720
SCALES_OF_TAIL = 60


def run_wire(quick: bool) -> list[Row]:
    views = load_agent(CONFIG, {}).streams[0].spec
    assert isinstance(views, ViewsSpec)
    two = readings()[0][:WIRE_READINGS]
    six = read_station(STATIONS / f"{stations()[0]}.csv.gz", views.domain.names)[1][:WIRE_READINGS]
    specs: dict[str, tuple[HierarchySpec | ViewsSpec, FloatArray]] = {
        "hierarchy, default sizes": (default_spec(), two),
        "hierarchy, exact levels": (TWO, two),
        "views of config.yaml": (views, six),
    }
    return [
        _measured(f"{sizes}, {what}", spec, rows, 3 if quick else 20)
        for sizes, (spec, some) in specs.items()
        for what, rows in ((f"{WIRE_READINGS} readings", some), ("no reading", some[:0]))
    ]


def _measured(name: str, spec: HierarchySpec | ViewsSpec, rows: FloatArray, repeats: int) -> Row:
    """The mean over releases, whose lengths vary with their noise."""
    mean = float(np.mean([_length(spec, rows) for _ in range(repeats)]))
    entropy = noise_entropy_bits(spec) / 8
    note = f"{mean:.0f} bytes, entropy {entropy:.0f}, predicted {spec.release_nbytes}"
    return at_most(name, mean / entropy, "x entropy", BAR, note)


def _length(spec: HierarchySpec | ViewsSpec, rows: FloatArray) -> int:
    rng = os_entropy()
    sketch = spec.start(rng)
    sketch.update_many(rows)
    return len(encode(sketch.release(rng, WindowId("dongsi", "air", 1, 0, 2_592_000))))


def noise_entropy_bits(spec: HierarchySpec | ViewsSpec) -> float:
    """Entropy of all noise of one release in `silent` mode: two draws on every counter."""
    assert spec.guarantee.release_micro
    blocks = zip(spec.blocks, spec.scales, strict=True)
    return sum(size * _entropy_of_two(float(scale)) for size, scale in blocks)


def _entropy_of_two(scale: float) -> float:
    """Bits in the sum of two discrete Laplace draws, from its probabilities.

    With p = exp(-1/scale), P(z) = ((1 - p) / (1 + p))^2 p^|z| (|z| + (1 + p^2) / (1 - p^2)).
    """
    p = np.exp(-1 / scale)
    z = np.arange(ceil(SCALES_OF_TAIL * scale) + SCALES_OF_TAIL)
    chance = ((1 - p) / (1 + p)) ** 2 * p**z * (z + (1 + p**2) / (1 - p**2))
    chance = np.concatenate([chance[:0:-1], chance])
    chance = chance[chance > 0]
    return float(-(chance * np.log2(chance)).sum())
