"""Histograms leave constants out, so that they cost nothing."""

import numpy as np
import pytest

from pansketch import Attribute, Domain, MomentsSpec, Privacy, os_entropy
from pansketch.generators import m2m

PLAIN = Domain([Attribute("temp", -40, 60, step=1), Attribute("wind", categories=("N", "E"))])
ALL = Domain([Attribute("site", constant=3), PLAIN.attributes[0], PLAIN.attributes[1]])


def test_histograms_of_constants_cost_nothing(no_noise):
    rows = np.random.default_rng(1).random((500, 2)) * [30, 2] // 1
    counters = []
    for domain, readings in ((PLAIN, rows), (ALL, np.column_stack([np.full(500, np.nan), rows]))):
        spec = MomentsSpec(domain, Privacy(1), features="hist")
        assert spec.map.sensitivity == 2
        sketch = spec.start(no_noise)
        sketch.update_many(readings)
        counters.append(sketch.release(no_noise).counters.tolist())
    assert counters[0] == counters[1]


def test_moments_answer_with_constants_and_give_multiples_of_the_step():
    sketch = MomentsSpec(ALL, Privacy(1), features="hist").start(os_entropy())
    rows = np.random.default_rng(1).normal(10, 3, 20_000)
    sketch.update_many(np.column_stack([rows, rows, rows > 9]))
    model = m2m(sketch.release(os_entropy()), points=1000)
    assert model.mean("temp").value == pytest.approx(10, abs=1)
    assert model.mean("site").value == pytest.approx(3)
    drawn = model.sampler().sample(500, np.random.default_rng(2))
    assert set(drawn[:, 0]) == {3.0}
    assert (drawn[:, 1] % 1 == 0).all()
    assert set(drawn[:, 2]) <= {0.0, 1.0}
