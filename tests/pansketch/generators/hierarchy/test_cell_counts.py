"""Error bars hold what cells of one counter do to an answer."""

import numpy as np

from pansketch import Attribute, Domain, HierarchySpec, Privacy
from pansketch.generators import privhp
from tests.seeded_noise import seeded_noise

PLANE = Domain([Attribute("x", low=0, high=1), Attribute("y", low=0, high=1)])
DRAWN = np.random.default_rng(8)
ROWS = np.clip(DRAWN.normal(0.5, [0.05, 0.12], (20_000, 2)), 0, 1)
KEYS = 20


def held():
    """Over so many hash keys, how often both variances and the covariance lie within two standard
    errors: float64[3]."""
    truth, within = np.cov(ROWS.T)[[0, 1, 0], [0, 1, 1]], []
    for key in range(KEYS):
        spec = HierarchySpec(
            PLANE, Privacy(50.0), depth=10, k=16, width=32, rows=1, fanout=2, hash_key=key
        )
        noise = seeded_noise(key)
        sketch = spec.start(noise)
        sketch.update_many(ROWS)
        found = privhp(sketch.release(noise)).covariance()
        errors = (found.value[[0, 1, 0], [0, 1, 1]] - truth) / found.standard_error[
            [0, 1, 0], [0, 1, 1]
        ]
        within.append(np.abs(errors) < 2)
    return np.mean(within, axis=0)


def test_error_bars_cover_what_collisions_do(monkeypatch):
    """A normal cloud in a few counters, so that each hash key has errors of its own, which exceed
    the noise. In each of three runs 0.88 to 0.92 of them lie within two standard errors. The
    control has noise alone in its bars: 0.35 to 0.6. Draws move a share by one key in forty."""
    assert held().min() > 0.8

    def under_the_same_key(spec, blocks, fitted, generator, keys):
        return [(spec, blocks)] * 24

    monkeypatch.setattr(
        "pansketch.generators.hierarchy.privhp.hashed_otherwise", under_the_same_key
    )
    assert held().max() < 0.75
