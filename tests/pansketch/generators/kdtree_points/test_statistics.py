"""KD-trees as random objects: false halvings, empty cells, honest error bars."""

from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from pansketch import Attribute, Domain, HierarchySpec, Privacy
from pansketch.generators import kdtree, kdtree_points, mmd
from pansketch.generators.kdtree_points.generator import Batch
from pansketch.generators.kdtree_points.growth import Growth, LayerPlan, tau_of
from pansketch.generators.kdtree_points.sparse_noise import chance_above
from tests.seeded_noise import noise_of_test, seeded_noise

UNIT = Domain([Attribute("x", low=0, high=1)])
SQUARE = Domain([Attribute("x", low=-2, high=2), Attribute("y", low=0, high=10)])


def release_of(spec, rows, rng):
    sketch = spec.start(rng)
    sketch.update_many(rows)
    return sketch.release(rng)


def skewed(count):
    generator = np.random.default_rng(1)
    return np.column_stack([generator.normal(-0.5, 0.4, count), generator.gamma(2, 1, count)])


def halvings_of(height, depth, scale, tau, empty, runs):
    """Number of halvings of an empty batch's tree, run by run."""
    plan = LayerPlan(UNIT, depth, height, tau, 0, scale, Fraction(2), empty)
    rng, found = noise_of_test(), []
    for _ in range(runs):
        batch = Batch(np.zeros((0, 1)), plan, rng)
        layers = Growth(plan, batch).layers()
        found.append(sum(int(layer.halved.sum()) for layer in layers))
    return np.array(found)


@pytest.mark.parametrize("empty", ["implicit", "explicit"])
def test_tau_halves_an_empty_domain_as_often_as_stated(empty):
    """1,200 empty trees; their mean number of halvings within 6 standard errors of the formula's.

    A false alarm has probability below 1e-8. The control is half of tau: more than twice the mean.
    """
    height, depth, scale, runs = 3, 12, Fraction(5), 1200

    def expected_at(tau):
        chance = chance_above(scale, tau)
        return 8 * chance * sum((2 * chance) ** level for level in range(depth - height))

    tau = tau_of(scale, 2.0**height, depth - height, 1.0)
    assert expected_at(tau) <= 1 < expected_at(tau - 1)
    found = halvings_of(height, depth, scale, tau, empty, runs)
    slack = 6 * found.std() / runs**0.5
    assert abs(found.mean() - expected_at(tau)) < slack
    control = halvings_of(height, depth, scale, tau // 2, empty, runs // 4)
    assert control.mean() - expected_at(tau) > 3 * slack


def test_trees_with_implicit_and_explicit_empty_cells_are_alike():
    """Two-sample tests of leaves and mass over 500 trees each, at 1e-7: a false alarm below 2e-7.

    The control: another threshold for first cells, which the number of leaves shows.
    """
    rows = skewed(60)

    def measured(**options):
        rng, sizes, masses = noise_of_test(), [], []
        for _ in range(500):
            model = kdtree_points(
                rows, SQUARE, Privacy(1.0), rng, depth=9, height=6, tau=9, **options
            )
            sizes.append(len(model.partition.mass))
            masses.append(model.partition.total)
        return sizes, masses

    explicit = measured(empty="explicit", threshold=4)
    implicit = measured(empty="implicit", threshold=4)
    control = measured(empty="implicit", threshold=7)
    for first, second in zip(explicit, implicit, strict=True):
        assert stats.ks_2samp(first, second).pvalue > 1e-7
    assert stats.ks_2samp(explicit[0], control[0]).pvalue < 1e-7


def covered(make, rows):
    """Number of 150 answers that lie within two standard errors of the truth, and within half of
    one, question by question."""
    asked = [
        (lambda m: m.mean("x"), rows.mean()),
        (lambda m: m.quantile("x", 0.5), np.median(rows)),
        (lambda m: m.count({"x": (0.1, 0.3)}), ((rows > 0.1) & (rows < 0.3)).sum()),
        (lambda m: m.count({}), len(rows)),
    ]
    off = []
    for _ in range(60):
        model = make().partition
        answers = [(ask(model), truth) for ask, truth in asked]
        off.append([abs(a.value - truth) / a.standard_error for a, truth in answers])
    return (np.array(off) <= 2).sum(axis=0), (np.array(off) <= 0.5).sum(axis=0)


@pytest.mark.parametrize("source", ["release", "points"])
def test_error_bars_cover_the_truth(source):
    """60 trees; four answers of each within two standard errors of the truth. The noise is seeded.

    Of 1,200 trees the bars cover 93.5 to 96 %, and a quarter of a bar 46 % at most (the control).
    """
    rows = np.random.default_rng(5).beta(2, 5, (3000, 1))
    spec = HierarchySpec(UNIT, Privacy(0.5), depth=10, k=32, width=128, rows=2)
    rng = seeded_noise(12)
    hits, short_hits = covered(
        {
            "release": lambda: kdtree(release_of(spec, rows, rng)),
            "points": lambda: kdtree_points(rows, UNIT, Privacy(0.2), rng, depth=8),
        }[source],
        rows,
    )
    assert (hits >= 48).all(), hits
    assert (short_hits < 48).all(), short_hits


def test_a_finer_epsilon_gives_a_nearer_tree():
    """Medians of 21 MMDs to the points at epsilons ten times apart.

    Their logarithms differ by 1.4 and 1.0. With medians of 9 the deviations are 0.29 and 0.12 (40
    of each), and less here. So the order flips with probability below 1e-8.
    """
    rows = skewed(5000)

    def median_distance(epsilon):
        rng, found = noise_of_test(), []
        for _ in range(21):
            points, weights = kdtree_points(rows, SQUARE, Privacy(epsilon), rng).weighted_points()
            found.append(mmd(rows[:1000], points, None, weights, bandwidth=1.0))
        return np.median(found)

    worst, middle, best = (median_distance(epsilon) for epsilon in (0.02, 0.2, 2.0))
    assert worst > middle > best
