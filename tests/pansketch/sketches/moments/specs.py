"""Moment specs and readings for their tests."""

import numpy as np

from pansketch import Attribute, Domain, MomentsSpec, Privacy

DOMAIN = Domain(
    [
        Attribute("temp", low=-40, high=60, unit="degC"),
        Attribute("pm25", low=0, high=1000, scale="log"),
        Attribute("wind", categories=("N", "E", "S")),
    ]
)
SIZES = {
    "rff": {"m": 20},
    "race": {"rows": 7, "width": 10},
    "hist": {"bins": 12},
}
UNIT = Domain([Attribute("x", low=0, high=1)])


def spec_of(features, domain=DOMAIN, **changes):
    privacy = changes.pop("privacy", Privacy(epsilon=1.0))
    return MomentsSpec(domain, privacy, features=features, **(SIZES[features] | changes))


def counters_of(spec, rows, entropy):
    sketch = spec.start(entropy)
    sketch.update_many(np.asarray(rows, np.float64))
    return sketch.release(entropy).counters


def readings(count, seed=0):
    generator = np.random.default_rng(seed)
    wind = generator.integers(0, 3, count)
    return np.column_stack([generator.normal(12, 9, count), generator.exponential(50, count), wind])
