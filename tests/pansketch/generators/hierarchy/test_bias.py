"""Errors of means hold the bias of fits that keep counts from being negative."""

import numpy as np
import pytest

from benchmarks.error_bars.short_streams import exact, noisy
from pansketch import Attribute, Domain, HierarchySpec, Privacy
from pansketch.domain.cell_paths import PathEncoder
from pansketch.generators import privhp
from pansketch.generators.hierarchy.cell_counts import held
from pansketch.generators.significance import UNSHOWN, Fits, squared_error, student


def test_replicates_that_depart_alike_show_a_bias():
    apart = {number: np.array([0.1, -0.2]) for number in range(6)}
    alone = student(6) ** 2 * np.array([0.01, 0.04])
    np.testing.assert_allclose(squared_error(apart, Fits()), alone)
    np.testing.assert_allclose(squared_error(apart, Fits(2)), (1 + UNSHOWN) * alone)
    assert squared_error({}, Fits(2)) == 0
    # One replicate does not tell a bias from chance.
    found = squared_error({1: np.ones(1), 2: np.ones(1)}, Fits(2))
    np.testing.assert_allclose(found, student(2) ** 2)


def test_what_chance_explains_is_no_bias():
    drawn = np.random.default_rng(1)
    found = [
        squared_error(dict(enumerate(drawn.normal(size=(24, 1)))), Fits(2)).item()
        for _ in range(2000)
    ]
    assert 1.0 < np.mean(found) / student(24) ** 2 < 1.3


def test_a_bias_that_grows_as_the_noise_is_found():
    """The positive part of noise around nothing has the mean 0.4 of its deviation."""
    drawn = np.random.default_rng(2)
    values = drawn.normal(size=(4000, 1, 50))
    model = np.maximum(values, 0.0).mean(axis=-1)
    again = np.maximum(values + drawn.normal(size=(4000, 24, 50)), 0.0).mean(axis=-1)
    found = [squared_error(dict(enumerate(shifts)), Fits(1)).item() for shifts in again - model]
    real = float(np.mean(model**2))
    assert 0.8 * real < np.mean(found) < 1.6 * real


@pytest.mark.parametrize("scale", ["linear", "log"])
def test_readings_are_in_cells_that_hold_values(scale):
    """Cells narrower than a step, most of which lie between two of its multiples."""
    domain = Domain(
        [
            Attribute("t", low=-30, high=50, step=0.1),
            Attribute("p", low=0, high=1000, step=1, scale=scale),
            Attribute("k", categories=("a", "b", "c")),
        ]
    )
    drawn = np.random.default_rng(3)
    rows = np.stack(
        [
            np.arange(-300, 501) / 10,
            np.linspace(0, 1000, 801).round(),
            drawn.integers(0, 3, 801),
        ],
        axis=1,
    )
    spec = HierarchySpec(domain, Privacy(1.0), depth=26, k=16, width=32, rows=1, fanout=2)
    paths = np.concatenate([each.copy() for each in PathEncoder(domain, 26).encode(rows)])
    for level in spec.levels:
        assert held(domain, level, paths >> np.uint64(26 - level.bits)).all()
    last = spec.levels[-1]
    others = drawn.integers(0, 1 << 26, 20_000).astype(np.uint64)
    found = held(domain, last, others)
    assert found.mean() < 0.5
    low, high = domain.boxes(others[found], 26)
    first, _ = domain.attributes[0].intervals(low[:, 0], high[:, 0])
    assert ((low[:, 0] <= first) & (first < high[:, 0])).all()


def test_replicates_of_a_hierarchy_that_are_grown_as_it_is(monkeypatch):
    """Without more noise they are the model. The others keep what pruning takes away."""
    module = "pansketch.generators.hierarchy.privhp"
    monkeypatch.setattr(f"{module}.with_noise", lambda spec, blocks, draws, _: (blocks, draws))
    monkeypatch.setattr(f"{module}.hashed_otherwise", lambda spec, blocks, *_: [(spec, blocks)] * 6)
    domain = Domain([Attribute("x", low=0, high=1000)])
    drawn = np.random.default_rng(5)
    told = exact(HierarchySpec(domain, Privacy(0.5), depth=12), drawn.normal(300, 9, (9000, 1)))
    model = privhp(noisy(told, 10, drawn))
    assert len(model.replicates) == 6
    for number, each in enumerate(model.replicates):
        alike = np.array_equal(each.low, model.low) and np.allclose(each.mass, model.mass)
        assert alike == (number % model.fits.alike == 0)


def test_the_error_of_a_mean_in_loose_bounds_is_not_as_wide_as_they_are():
    """All randomness is seeded. Replicates have twice the noise, which pruning has to know: with
    that of the model they keep readings anywhere inside the bounds."""
    domain = Domain([Attribute(name, low=-1000, high=1000) for name in "xy"])
    spec = HierarchySpec(domain, Privacy(1.0), depth=24, k=512, width=1024, rows=1, fanout=8)
    drawn = np.random.default_rng(3)
    rows = drawn.normal(10, 4, (40_000, 2))
    told = exact(spec, rows)
    found = [privhp(noisy(told, 10, drawn)).mean("x") for _ in range(10)]
    off = np.array([each.value for each in found]) - rows[:, 0].mean()
    errors = np.array([each.standard_error for each in found])
    assert np.all(abs(off) <= 3 * errors)
    assert np.sqrt(np.mean(errors**2) / np.mean(off**2)) < 3
