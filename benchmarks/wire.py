"""Bytes of a release on the wire beside the entropy of its noise: no code can do better."""

from math import ceil

import numpy as np

from benchmarks.beijing import FloatArray, default_spec, readings, sized
from benchmarks.row import Row, at_most
from fleet.profiles import load_profile
from pansketch import HierarchySpec, WindowId, encode, os_entropy

BAR = 1.25
READINGS = 720
PROFILE = "pi-zero-2w"
SCALES_OF_TAIL = 60


def run(quick: bool) -> list[Row]:
    profile = load_profile(PROFILE).sketch
    specs = {
        "default sizes": default_spec(),
        PROFILE: sized(
            depth=profile.depth,
            k=profile.k,
            width=profile.width,
            rows=profile.rows,
            fanout=profile.fanout,
        ),
    }
    some = readings()[0][:READINGS]
    windows = {f"{READINGS} readings": some, "no reading": some[:0]}
    return [
        _measured(f"{sizes}, {what}", spec, rows, 3 if quick else 20)
        for sizes, spec in specs.items()
        for what, rows in windows.items()
    ]


def _measured(name: str, spec: HierarchySpec, rows: FloatArray, repeats: int) -> Row:
    """The mean over releases, whose lengths vary with their noise."""
    mean = float(np.mean([_length(spec, rows) for _ in range(repeats)]))
    entropy = noise_entropy_bits(spec) / 8
    note = f"{mean:.0f} bytes, entropy {entropy:.0f}, predicted {spec.release_nbytes}"
    return at_most(name, mean / entropy, "x entropy", BAR, note)


def _length(spec: HierarchySpec, rows: FloatArray) -> int:
    rng = os_entropy()
    sketch = spec.start(rng)
    sketch.update_many(rows)
    return len(encode(sketch.release(rng, WindowId("dongsi", "air", 1, 0, 2_592_000))))


def noise_entropy_bits(spec: HierarchySpec) -> float:
    """Entropy of all noise of one release in `silent` mode: two draws on every counter."""
    assert spec.guarantee.release_micro
    return sum(level.size * _entropy_of_two(float(level.scale)) for level in spec.levels)


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
