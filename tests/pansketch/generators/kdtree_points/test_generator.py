"""KD-trees over releases and over points: brute-force counts, mass, bounds, honest error bars."""

import numpy as np
import pytest

from pansketch import Attribute, CellsSpec, Domain, HierarchySpec, Privacy, merge
from pansketch.generators import EmptyModel, kdtree, kdtree_points
from pansketch.generators.kdtree_points.growth import Layer
from pansketch.generators.kdtree_points.least_squares import fitted, least_squares
from tests.seeded_noise import noise_of_test

UNIT = Domain([Attribute("x", low=0, high=1)])
SQUARE = Domain([Attribute("x", low=-2, high=2), Attribute("y", low=0, high=10)])
ONE = Privacy(epsilon=1.0)


def release_of(spec, rows, rng=None):
    sketch = spec.start(rng or noise_of_test())
    sketch.update_many(rows)
    return sketch.release(rng or noise_of_test())


def skewed(count, seed=1):
    generator = np.random.default_rng(seed)
    return np.column_stack([generator.normal(-0.5, 0.4, count), generator.gamma(2, 1, count)])


def brute_force(rows, domain, low, high):
    """Rows in every box of the unit cube, the upper ends of the domain included."""
    ends = [(0.0, 4.0, -2.0), (0.0, 10.0, 0.0)][: domain.dimension]
    unit = np.column_stack([(c - o) / e for c, (_, e, o) in zip(rows.T, ends, strict=True)])
    unit = np.clip(unit, 0, 1 - 1e-12)
    inside = (unit[:, None] >= low) & (unit[:, None] < high)
    return inside.all(axis=2).sum(axis=0)


def test_the_call_of_the_documentation_runs_as_written(make_spec, readings):
    releases = [release_of(make_spec(), readings(4000, seed)) for seed in range(3)]
    points, weights = kdtree(
        merge(releases), tau=None, decision_scale=..., leaf_scale=...
    ).weighted_points()
    assert points.shape == (len(weights), 2)
    assert (weights > 0).all()
    assert weights.sum() == pytest.approx(12_000, rel=0.2)
    low, high = np.array([[-40, 0], [60, 1000]])
    assert ((points >= low) & (points <= high)).all()


@pytest.mark.parametrize("fanout", [2, 4, 8])
def test_without_noise_a_release_gives_the_counts_of_its_cells(no_noise, fanout):
    """Leaves of every height, also between the hierarchy's levels, hold what brute force finds."""
    rows = skewed(3000)
    spec = HierarchySpec(SQUARE, ONE, depth=9, k=512, width=64, rows=1, fanout=fanout)
    model = kdtree(release_of(spec, rows, no_noise), tau=40).partition
    expected = brute_force(rows, SQUARE, model.low, model.high)
    assert np.allclose(model.mass, expected, atol=1e-6)
    assert model.total == pytest.approx(3000)
    heights = set(-np.log2((model.high - model.low).prod(axis=1)).round(6))
    assert len(heights) >= 4


def test_without_noise_and_collisions_a_table_gives_the_counts_of_its_cells(no_noise):
    rows = skewed(2000)
    spec = HierarchySpec(SQUARE, ONE, depth=10, k=16, width=1 << 14, rows=3, fanout=4)
    model = kdtree(release_of(spec, rows, no_noise), tau=200).partition
    assert ((model.high - model.low).prod(axis=1) < 2.0**-4).any()  # Beyond the exact levels.
    assert np.allclose(model.mass, brute_force(rows, SQUARE, model.low, model.high), atol=2)


def test_both_sources_grow_one_tree(no_noise):
    rows = skewed(3000)
    spec = HierarchySpec(SQUARE, ONE, depth=10, k=1024, width=64, rows=1)
    released = kdtree(release_of(spec, rows, no_noise), tau=25).weighted_points()
    local = kdtree_points(rows, SQUARE, ONE, no_noise, depth=10, tau=25).weighted_points()
    assert len(local[0]) > 50
    assert np.allclose(released[0], local[0])
    assert np.allclose(released[1], local[1])


@pytest.mark.parametrize("as_published", [False, True])
def test_without_noise_points_are_counted_as_brute_force_counts_them(no_noise, as_published):
    rows = skewed(3000)
    model = kdtree_points(
        rows,
        SQUARE,
        ONE,
        no_noise,
        depth=12,
        height=3,
        tau=60,
        threshold=0,
        empty="explicit",
        as_published=as_published,
    ).partition
    assert np.allclose(model.mass, brute_force(rows, SQUARE, model.low, model.high))
    assert model.total == pytest.approx(3000)


def test_equal_bins_keep_what_exceeds_the_threshold(no_noise):
    """Algorithm 1: h = h'. No noise: the bins of a histogram, those with more than 20 points."""
    rows = skewed(3000)
    sizes = {"depth": 8, "height": 8, "threshold": 20, "empty": "explicit"}
    model = kdtree_points(rows, SQUARE, ONE, no_noise, **sizes)
    points, weights = model.weighted_points()
    edges = np.linspace(-2, 2, 17), np.linspace(0, 10, 17)
    histogram, *_ = np.histogram2d(*np.clip(rows, [-2, 0], [2, 10]).T, bins=edges)
    assert sorted(weights) == sorted(histogram[histogram > 20])
    # Centres of the bins, in the attributes' units.
    assert np.allclose((points - [-2, 0]) / [0.25, 0.625] % 1, 0.5)


def test_points_out_of_bounds_are_clipped_and_those_not_finite_dropped(no_noise):
    rows = np.array([[-9.0, 5.0], [9.0, 99.0], [np.nan, 5.0], [0.0, np.inf]])
    sizes = {"depth": 2, "height": 2, "threshold": 0, "empty": "explicit"}
    model = kdtree_points(rows, SQUARE, ONE, no_noise, **sizes)
    points, weights = model.weighted_points()
    assert weights.tolist() == [1.0, 1.0]
    assert points.tolist() == [[-1.0, 7.5], [1.0, 7.5]]


@pytest.mark.parametrize("epsilon", [0.5, 5.0])
@pytest.mark.parametrize(
    "sizes", [{}, {"depth": 30, "height": 4, "tau": 300}, {"depth": 10, "height": 10}], ids=str
)
def test_samples_and_centres_lie_within_the_public_bounds(epsilon, sizes):
    """Threshold 0: for any points, noise alone leaves some cells."""
    rows, rng = skewed(2000) * 3, noise_of_test()
    model = kdtree_points(rows, SQUARE, Privacy(epsilon), rng, threshold=0, **sizes)
    points, weights = model.weighted_points()
    for found in (points, model.sample(3000, np.random.default_rng(0))):
        assert ((found >= [-2, 0]) & (found <= [2, 10])).all()
    assert weights.sum() == pytest.approx(model.partition.total)


def test_categories_that_do_not_exist_hold_nothing():
    """Five categories in three bits: noise alone would fill the three codes beyond them."""
    domain = Domain([Attribute("wind", categories=tuple("abcde")), Attribute("x", low=0, high=1)])
    rows = np.column_stack([np.arange(3000) % 5, np.linspace(0, 1, 3000)])
    spec = HierarchySpec(domain, Privacy(0.5), depth=8, k=8, width=32, rows=2)
    rng = noise_of_test()
    for model in (
        kdtree(release_of(spec, rows), height=3),
        kdtree_points(rows, domain, Privacy(0.5), rng, depth=8, tau=0),
        kdtree_points(rows, domain, Privacy(0.5), rng, depth=6, height=6, threshold=0),
        kdtree_points(rows, domain, Privacy(0.5), rng, depth=8, tau=0, as_published=True),
    ):
        assert set(model.sample(5000, np.random.default_rng(0))[:, 0]) <= {0.0, 1.0, 2.0, 3.0, 4.0}
        assert (model.partition.high[:, 0] <= 5 / 8 + 1e-12).all()
        assert set(model.weighted_points()[0][:, 0]) <= {0.0, 1.0, 2.0, 3.0, 4.0}
        assert all((each.low[:, 0] < 5 / 8).all() for each in model.partition.replicates)


def test_the_root_is_the_least_squares_estimate_of_all_counts():
    """Against a general solver, for a tree of three heights with unequal noise."""
    counts = [[9.0], [4.0, 3.0], [2.5, 0.5]]
    halved = [[True], [True, False], [False, False]]
    layers = [
        Layer(
            bits,
            np.array(paths, np.uint64),
            np.array(halved[bits]),
            np.ones(len(paths), bool),
            np.array(counts[bits]),
            (3.0, 1.0),
        )
        for bits, paths in enumerate([[0], [0, 1], [0, 1]])
    ]
    # Unknown: the three leaves 00, 01, 1. Every count is a sum of them.
    design = np.array([[1, 1, 1], [1, 1, 0], [0, 0, 1], [1, 0, 0], [0, 1, 0]], float)
    weights = 1 / np.array([3.0, 3.0, 1.0, 1.0, 1.0])
    observed = np.array([9.0, 4.0, 3.0, 2.5, 0.5])
    leaves = np.linalg.lstsq(design * weights[:, None], observed * weights, rcond=None)[0]
    assert least_squares(layers)[0][0] == pytest.approx(leaves.sum())
    masses = fitted(layers)
    assert masses[0][0] == pytest.approx(masses[1].sum())
    assert masses[1][0] == pytest.approx(masses[2].sum())


def test_a_tree_answers_alike_every_time(make_spec, readings):
    release = release_of(make_spec(), readings(300))
    first, second = kdtree(release).partition, kdtree(release).partition
    assert first.mean("temp") == second.mean("temp")
    assert (first.mass == second.mass).all()


def test_a_tree_without_readings_generates_no_records():
    rows = np.zeros((0, 2))
    model = kdtree_points(rows, SQUARE, ONE, noise_of_test(), depth=4, height=4, threshold=200)
    for ask in (model.weighted_points, lambda: model.sample(1, np.random.default_rng())):
        with pytest.raises(EmptyModel):
            ask()
    assert model.partition.count({}).value == 0


def test_no_more_than_k_cells_of_one_height_are_halved(no_noise, make_spec, readings):
    """With tau 0 every cell that holds a reading would be; the deepest leaves are 2 k at most."""
    release = release_of(make_spec(depth=20, k=8), readings(500), no_noise)
    model = kdtree(release, tau=0).partition
    volumes, many = np.unique((model.high - model.low).prod(axis=1), return_counts=True)
    assert volumes.min() == pytest.approx(2.0**-20)
    assert many.max() <= 16


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"tau": -1}, "tau must be a number of 0 or more"),
        ({"tau": float("nan")}, "tau must be a number"),
        ({"decision_scale": 0.0}, "decision_scale must be a positive"),
        ({"leaf_scale": float("inf")}, "leaf_scale must be a positive"),
        ({"height": 5, "depth": 4}, "height <= depth"),
        ({"depth": 13}, "depth <= 12"),
        ({"height": 1.5}, "whole number, not float"),
    ],
)
def test_numbers_that_cannot_be_are_refused_for_a_release(make_spec, readings, options, text):
    release = release_of(make_spec(), readings(5))
    with pytest.raises(ValueError, match=text) as caught:
        kdtree(release, **options)
    assert "\n" not in str(caught.value)


def test_a_height_beyond_all_memory_is_refused(readings):
    spec = HierarchySpec(SQUARE, ONE, depth=30, k=4, width=16, rows=1)
    with pytest.raises(ValueError, match="height must be at most 20"):
        kdtree(release_of(spec, skewed(5)), height=21)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"tau": -1}, "tau must be a whole number"),
        ({"tau": 1.5}, "tau must be a whole number"),
        ({"threshold": True}, "threshold must be a whole number"),
        ({"decisions": 1}, "share of decisions"),
        ({"empty": "none"}, "implicit, explicit"),
        ({"depth": 49}, "depth <= 48"),
        ({"height": 25, "depth": 24}, "height <= depth"),
        ({"height": 40, "depth": 40, "threshold": 0}, "would pass"),
        ({"height": 30, "depth": 30, "empty": "explicit"}, "too many to visit"),
        ({"privacy": Privacy(1.0, unit="key")}, "counts readings, not keys"),
        ({"points": np.zeros((3, 5))}, "shape"),
        ({"points": np.float64(3)}, "shape"),
    ],
)
def test_numbers_that_cannot_be_are_refused_for_points(options, text):
    given = {
        "points": skewed(5),
        "domain": SQUARE,
        "privacy": ONE,
        "rng": noise_of_test(),
    } | options
    with pytest.raises(ValueError, match=text) as caught:
        kdtree_points(**given)
    assert "\n" not in str(caught.value)


def test_another_family_is_refused():
    spec = CellsSpec(SQUARE, ONE, depth=6, width=64, rows=2)
    with pytest.raises(ValueError, match="not from a release of family cells"):
        kdtree(release_of(spec, skewed(5)))


def test_the_error_of_a_pruned_hierarchy_knows_that_cells_share_counters():
    """At epsilon 100 noise is nothing. Before, errors were seven of the stated ones."""
    box = Domain([Attribute("x", low=0, high=1), Attribute("y", low=0, high=1)])
    chance = np.random.default_rng(5)
    crowd = [chance.normal([0.3, 0.6], 0.02, (3000, 2)), chance.random((1000, 2))]
    truth = np.concatenate(crowd).clip(0, 1)
    apart = []
    for number in range(16):
        spec = HierarchySpec(
            box, Privacy(100.0), depth=16, fanout=4, k=64, width=256, rows=1, hash_key=number
        )
        found = kdtree(release_of(spec, truth)).partition.mean("x")
        apart.append((found.value - truth[:, 0].mean()) / found.standard_error)
    assert np.sqrt(np.mean(np.square(apart))) < 3
