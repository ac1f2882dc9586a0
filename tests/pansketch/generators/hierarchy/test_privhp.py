"""PrivHP's growth: consistency, accuracy against ground truth, honest error bars."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import optimize, stats

from pansketch import Attribute, Domain, HierarchySpec, Privacy, merge
from pansketch.generators import EmptyModel, privhp
from pansketch.generators.hierarchy.cell_counts import halved
from pansketch.generators.hierarchy.growth import OURS, PUBLISHED, grow
from pansketch.generators.simplex import onto_simplex
from tests.seeded_noise import noise_of_test, seeded_noise

UNIT = Domain([Attribute("x", low=0, high=1)])
FAMILIES = hnp.arrays(np.float64, (3, 4), elements=st.floats(-1e4, 1e4))
PARENTS = hnp.arrays(np.float64, 3, elements=st.floats(0, 1e4))


def release_of(spec, rows, rng=None):
    sketch = spec.start(rng or noise_of_test())
    sketch.update_many(rows)
    return sketch.release(rng or noise_of_test())


def wasserstein(model, truth):
    sample = model.sample(20_000, np.random.default_rng(0))[:, 0]
    return stats.wasserstein_distance(sample, truth)


def error_of(spec, rows, truth):
    """W1 between the truth and one run."""
    return error_of_release(release_of(spec, rows), truth[:, 0])


def error_of_release(release, truth):
    """W1 between the truth and a release; a model without mass is as bad as one can be."""
    try:
        return wasserstein(privhp(release), truth)
    except EmptyModel:
        return 1.0


@given(FAMILIES, PARENTS)
def test_projection_is_consistent(families, parents):
    found = onto_simplex(families, parents)
    assert (found >= 0).all()
    assert np.allclose(found.sum(axis=1), parents, atol=1e-6)


@settings(max_examples=30, deadline=None)
@given(FAMILIES, PARENTS)
def test_projection_is_the_nearest_consistent_point(families, parents):
    """Against a general solver: no feasible point is nearer."""
    found = onto_simplex(families, parents)
    for family, parent, mine in zip(families, parents, found, strict=True):
        scale = max(1.0, np.abs(family).max(), parent)
        solved = optimize.minimize(
            lambda x, family=family, scale=scale: ((x - family / scale) ** 2).sum(),
            np.full(4, parent / scale / 4),
            bounds=[(0, None)] * 4,
            constraints={"type": "eq", "fun": lambda x, p=parent / scale: x.sum() - p},
            method="SLSQP",
        )
        mine_distance = ((mine - family) ** 2).sum() / scale**2
        assert mine_distance <= solved.fun + 1e-5


@given(hnp.arrays(np.float64, (3, 2), elements=st.floats(-1e4, 1e4)), PARENTS)
def test_published_consistency_is_consistent(families, parents):
    found = halved(families, parents)
    assert (found >= 0).all()
    assert np.allclose(found.sum(axis=1), parents, atol=1e-6)


def test_published_consistency_moves_half_of_the_surplus_to_each_child():
    assert halved(np.array([[6.0, 8.0]]), np.array([10.0])).tolist() == [[4.0, 6.0]]
    assert halved(np.array([[1.0, 20.0]]), np.array([10.0])).tolist() == [[0.0, 10.0]]
    assert halved(np.array([[-3.0, 4.0]]), np.array([10.0])).tolist() == [[3.0, 7.0]]


@pytest.mark.parametrize("as_published", [False, True])
def test_without_noise_and_collisions_growth_recovers_the_cells(no_noise, as_published):
    spec = HierarchySpec(UNIT, Privacy(epsilon=1.0), depth=8, k=64, width=1 << 12, rows=3, fanout=2)
    values = np.random.default_rng(1).beta(2, 6, (5000, 1))
    release = release_of(spec, values, no_noise)
    blocks = [block.astype(float) for block in release.split()]
    steps = PUBLISHED if as_published else replace(OURS, prunes=False)
    model = grow(spec, blocks, release.draws, steps)
    assert model.total == 5000
    edges = np.linspace(0, 1, 65)
    for low, high in pairwise(edges):
        inside = ((values >= low) & (values < high)).sum()
        assert model.count({"x": (low, high)}).value == pytest.approx(inside, abs=1)


def far_away(prunes):
    """Of readings in a thousandth of their bounds, the share that growth puts outside of it."""
    spec = HierarchySpec(UNIT, Privacy(1.0), depth=18, k=64, width=64, rows=1, fanout=8)
    values = np.random.default_rng(4).uniform(0.3701, 0.3711, (50_000, 1))
    release = merge([release_of(spec, values[part::10]) for part in range(10)])
    blocks = [block.astype(float) for block in release.split()]
    model = grow(spec, blocks, release.draws, replace(OURS, prunes=prunes))
    away = (model.high[:, 0] < 0.36) | (model.low[:, 0] > 0.38)
    return model.mass[away].sum() / model.mass.sum()


def test_noise_carries_no_readings_far_away_in_bounds_that_are_too_loose():
    """Of eight cells, seven are empty and one holds all readings. A false cell stands out by four
    deviations of a sum of twenty Laplace draws, with a chance of 2e-4 a cell. Of 300 runs none had
    one, so 8 of 20 have one with a chance below 1e-13. The control is growth without pruning: 281
    of 300 had one, so fewer than 8 of 20 have one with a chance below 1e-9."""
    assert sum(far_away(True) > 0 for _ in range(20)) < 8
    assert sum(far_away(False) > 0 for _ in range(20)) >= 8


def test_leaves_of_every_depth_carry_all_mass_and_do_not_overlap(make_spec, readings):
    model = privhp(release_of(make_spec(depth=20, k=8), readings(3000)))
    volume = (model.high - model.low).prod(axis=1)
    assert volume.sum() <= 1 + 1e-9
    assert len(np.unique(volume)) > 2  # Leaves of several depths.
    points = model.sample(500, np.random.default_rng(0))
    unit = np.column_stack(
        [
            [attribute.to_unit(v) for v in column]
            for attribute, column in zip(model.domain.attributes, points.T, strict=True)
        ]
    )
    inside = ((unit[:, None] >= model.low - 1e-12) & (unit[:, None] < model.high)).all(axis=2)
    assert (inside.sum(axis=1) <= 2).all()
    assert (inside.sum(axis=1) >= 1).mean() > 0.99


def test_privhp_beats_a_uniform_generator():
    """20 runs on a skewed stream, each ten times nearer than the uniform generator.

    Of 1,500 runs the worst was 0.0063 against a limit of 0.041. The tail falls by e for each 0.0006
    there, so 20 runs fail with probability below 1e-20. The control is a stream that is uniform.
    """
    spec = HierarchySpec(UNIT, Privacy(epsilon=1.0), depth=14, k=32, width=256, rows=3)
    values = np.random.default_rng(2).beta(2, 20, (5000, 1))
    limit = stats.wasserstein_distance(np.linspace(0, 1, 10_001), values[:, 0]) / 10
    errors = [error_of(spec, values, values) for _ in range(20)]
    assert max(errors) < limit
    flat = np.random.default_rng(3).random((5000, 1))
    assert min(error_of(spec, flat, values) for _ in range(3)) > limit


def test_error_falls_as_epsilon_grows():
    """Medians of 9 runs at epsilons ten times apart.

    Their logarithms lie 1.8 and 1.1 apart with deviations of 0.32 and 0.17 (60 medians each), so
    the order flips with probability below 1e-7.
    """
    values = np.random.default_rng(2).beta(2, 20, (20_000, 1))

    def median_error(epsilon):
        spec = HierarchySpec(UNIT, Privacy(epsilon=epsilon), depth=14, k=64, width=256, rows=3)
        return np.median([error_of(spec, values, values) for _ in range(9)])

    worst, middle, best = (median_error(epsilon) for epsilon in (0.02, 0.2, 2.0))
    assert worst > middle > best


def test_errors_bars_cover_the_truth():
    """30 models; each statistic within two standard errors of the truth. The noise is seeded.

    Of 1,500 models the bars cover 94 to 96 %, and a quarter of a bar 45 % at most (the control).
    """
    spec = HierarchySpec(UNIT, Privacy(epsilon=0.5), depth=10, k=32, width=128, rows=2)
    values = np.random.default_rng(5).beta(2, 5, (3000, 1))
    asked = {
        "mean": (lambda m: m.mean("x"), values.mean()),
        "median": (lambda m: m.quantile("x", 0.5), np.median(values)),
        "count": (lambda m: m.count({"x": (0.1, 0.3)}), ((values > 0.1) & (values < 0.3)).sum()),
        "total": (lambda m: m.count({}), 3000),
    }
    hits, short_hits = dict.fromkeys(asked, 0), dict.fromkeys(asked, 0)
    noise = seeded_noise(11)
    for _ in range(30):
        model = privhp(release_of(spec, values, noise))
        for name, (ask, truth) in asked.items():
            estimate = ask(model)
            off = abs(estimate.value - truth)
            hits[name] += off <= 2 * estimate.standard_error
            short_hits[name] += off <= 0.5 * estimate.standard_error
    assert all(hit >= 24 for hit in hits.values()), hits
    assert all(hit < 24 for hit in short_hits.values()), short_hits


def test_invalid_category_codes_get_no_mass():
    domain = Domain([Attribute("wind", categories=tuple("abcde")), Attribute("x", low=0, high=1)])
    spec = HierarchySpec(domain, Privacy(epsilon=0.5), depth=8, k=8, width=32, rows=2)
    # Many enough for a positive total, few enough that noise alone would fill impossible cells.
    rows = np.column_stack([np.arange(3000) % 5, np.linspace(0, 1, 3000)])
    model = privhp(release_of(spec, rows))
    sampled = model.sample(5000, np.random.default_rng(0))[:, 0]
    assert set(sampled) <= {0.0, 1.0, 2.0, 3.0, 4.0}
    assert (model.low[:, 0] < 5 / 8).all()
    assert (model.high[:, 0] <= 5 / 8 + 1e-12).all()


def test_merging_a_fleet_beats_its_single_devices():
    """Twelve devices of one distribution, 40 times: the merged model is nearer on average.

    The logarithms of the two errors differ by 0.94 with a deviation of 0.43 (300 fleets). So the
    mean of 40 is below 0.5 with probability 1e-10. The control is one device against the others.
    """
    spec = HierarchySpec(UNIT, Privacy(epsilon=0.2), depth=12, k=64, width=256, rows=1)
    values = np.random.default_rng(6).beta(2, 8, (12, 500, 1))
    truth = values.reshape(-1)
    gains, controls = [], []
    for _ in range(40):
        releases = [release_of(spec, rows) for rows in values]
        single = np.median([error_of_release(r, truth) for r in releases[:3]])
        gains.append(np.log(single / error_of_release(merge(releases), truth)))
        controls.append(np.log(single / error_of_release(releases[3], truth)))
    assert np.mean(gains) > 0.5
    assert np.mean(controls) < 0.5


def test_growth_answers_alike_every_time(make_spec, readings):
    release = release_of(make_spec(), readings(300))
    first, second = privhp(release), privhp(release)
    assert first.mean("temp") == second.mean("temp")
    assert (first.mass == second.mass).all()


def test_what_the_paper_does_not_define_is_refused(make_spec, readings):
    with pytest.raises(ValueError, match="fanout 2"):
        privhp(release_of(make_spec(fanout=4), readings(5)), as_published=True)
