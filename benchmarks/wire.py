"""Bytes of a release on the wire beside the entropy of its noise: no code can do better."""

from math import ceil

import numpy as np

from benchmarks.beijing import TWO, FloatArray, default_spec, readings
from benchmarks.row import Row, at_most
from demo.fidelity import read_station
from demo.fleet import CONFIG, STATIONS, stations
from fleet.config import load
from pansketch import HierarchySpec, ViewsSpec, WindowId, encode, os_entropy

BAR = 1.25
READINGS = 720
SCALES_OF_TAIL = 60


def run(quick: bool) -> list[Row]:
    views = load(CONFIG, "agent", {}).streams[0].spec
    assert isinstance(views, ViewsSpec)
    two = readings()[0][:READINGS]
    six = read_station(STATIONS / f"{stations()[0]}.csv.gz", views.domain.names)[1][:READINGS]
    specs: dict[str, tuple[HierarchySpec | ViewsSpec, FloatArray]] = {
        "hierarchy, default sizes": (default_spec(), two),
        "hierarchy, planned sizes": (TWO, two),
        "views of config.yaml": (views, six),
    }
    return [
        _measured(f"{sizes}, {what}", spec, rows, 3 if quick else 20)
        for sizes, (spec, some) in specs.items()
        for what, rows in ((f"{READINGS} readings", some), ("no reading", some[:0]))
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
