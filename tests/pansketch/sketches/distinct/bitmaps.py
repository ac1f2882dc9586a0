"""Releases of distinct counters with known keys."""

import numpy as np

from pansketch import (
    DistinctSpec,
    Privacy,
    Release,
    WindowId,
)
from tests.seeded_noise import noise_of_test


def key_privacy(epsilon, intrusion="silent"):
    return Privacy(epsilon=epsilon, unit="key", intrusion=intrusion)


def released(spec, keys, device="d"):
    noise = noise_of_test()
    sketch = spec.start(noise)
    sketch.update_many(keys)
    return sketch.release(noise, WindowId(device, "s", 1))


def release_of(spec, counters, devices=1):
    windows = tuple(WindowId(f"d{place}", "s", 1) for place in range(devices))
    return Release(spec, windows, 2 * devices, np.array(counters, np.int64))


def hashed(epsilon=2.0, **sizes):
    return DistinctSpec(key_privacy(epsilon), **{"expected_keys": 4096, "memory": 512} | sizes)


def sampled(epsilon=1.0, **sizes):
    return DistinctSpec(key_privacy(epsilon), **{"universe": 20_000, "memory": 512} | sizes)
