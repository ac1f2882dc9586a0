"""Privacy of KD-trees over points: sensitivity by brute force, exact loss by enumeration."""

from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from pansketch import Attribute, Domain, Privacy, Span
from pansketch.generators import kdtree_points
from pansketch.generators.kdtree_points.generator import Batch, _plan
from pansketch.generators.kdtree_points.growth import Growth, LayerPlan
from pansketch_audit.exact.readings import TapeEntropy

UNIT = Domain([Attribute("x", low=0, high=1)])
SQUARE = Domain([Attribute("x", low=0, high=1), Attribute("y", low=0, high=1)])
POINTS = hnp.arrays(np.float64, st.tuples(st.integers(1, 6), st.just(2)), elements=st.floats(-1, 2))


@settings(max_examples=60, deadline=None)
@given(POINTS, st.data())
def test_a_point_changes_one_count_of_every_height_by_one(no_noise_plan, points, data):
    """Over random batches and any point of them left out: all counts that ever get noise."""
    left_out = data.draw(st.integers(0, len(points) - 1))
    batches = [
        Batch(rows, no_noise_plan, None) for rows in (points, np.delete(points, left_out, axis=0))
    ]
    for bits in range(no_noise_plan.depth + 1):
        cells = np.arange(1 << bits, dtype=np.uint64)
        with_it, without = (batch.counts(bits, cells) for batch in batches)
        change = with_it - without
        assert change.sum() == 1
        assert np.abs(change).sum() == 1


@pytest.fixture(scope="module")
def no_noise_plan():
    return LayerPlan(SQUARE, 5, 2, 3, 1, Fraction(3), Fraction(2), "explicit")


@pytest.mark.parametrize("decisions", [Fraction(2, 3), Fraction(1, 5)])
@pytest.mark.parametrize("height", [0, 3])
@pytest.mark.parametrize(
    "privacy", [Privacy(0.7), Privacy(0.7, unit=Span(60, 7))], ids=["reading", "span"]
)
def test_the_scales_spend_epsilon_exactly(known_noise, privacy, height, decisions):
    """h' - h deciding heights and one leaf: their losses sum to the epsilon of a reading."""
    plan = _plan(UNIT, privacy, 9, height, 1, 0, decisions, "explicit")
    reading = Fraction(7, 10) / (7 if privacy.unit != "reading" else 1)
    assert (9 - height) / plan.decision_scale + 1 / plan.leaf_scale == reading
    assert (9 - height) / plan.decision_scale == decisions * reading
    noise = known_noise(3)
    kdtree_points(
        np.full((50, 1), 0.3),
        UNIT,
        privacy,
        noise,
        depth=9,
        height=height,
        tau=1,
        decisions=decisions,
        empty="explicit",
    )
    assert {scale for scale, _ in noise.draws} == {plan.decision_scale, plan.leaf_scale}


def test_equal_bins_spend_all_of_epsilon_on_their_counts(known_noise):
    noise = known_noise(3)
    kdtree_points(np.zeros((5, 1)), UNIT, Privacy(0.5), noise, depth=4, height=4, empty="explicit")
    assert {scale for scale, _ in noise.draws} == {Fraction(2)}


class SeenEntropy(TapeEntropy):
    """Writes down every noisy count, also of a leaf the one that was not enough to halve it: a
    tree is a function of them."""

    def __init__(self, tape):
        super().__init__(tape)
        self.seen = []

    def add_discrete_laplace(self, scale, counters):
        super().add_discrete_laplace(scale, counters)
        self.seen += [(scale, int(count)) for count in counters]


def outcomes(points, plan, reach):
    """Every possible view, with minus the logarithm of its probability as a rational, up to
    normalisers, and the largest draw. One tape leads to each view."""
    found = {}
    tapes = [()]
    while tapes:
        tape = tapes.pop()
        entropy = SeenEntropy(tape)
        batch = Batch(np.array(points, float).reshape(-1, 1), plan, entropy)
        layers = Growth(plan, batch).layers()
        if len(entropy.scales) > len(tape):
            tapes += [(*tape, draw) for draw in range(-reach, reach + 1)]
            continue
        released = [(layer.bits, *map(tuple, (layer.paths, layer.counts))) for layer in layers]
        key = tuple(released), tuple(entropy.seen)
        assert key not in found
        weight = sum(abs(z) / s for z, s in zip(tape, entropy.scales, strict=True))
        found[key] = weight, max(map(abs, tape), default=0)
    return found


def largest_loss(plan, batches, reach):
    """Over neighbouring batches, either way, and every tree in reach."""
    worst, compared = Fraction(0), 0
    known = {batch: outcomes(batch, plan, reach + 1) for batch in batches}
    for one, other in product(batches, repeat=2):
        if sorted(one) not in [sorted(other[:i] + other[i + 1 :]) for i in range(len(other))]:
            continue
        for first, second in ((one, other), (other, one)):
            wide = known[second]
            for released, (weight, furthest) in known[first].items():
                if furthest > reach:
                    continue
                assert released in wide, "an outcome that the neighbour cannot have"
                worst = max(worst, abs(weight - wide[released][0]))
                compared += 1
    return worst, compared


ONE_SPLIT = ([(), (0.1,), (0.9,), (0.1, 0.9), (0.1, 0.2), (0.1, 0.2, 0.9)], 1, 0, 4)
TWO_CELLS = ([(0.1, 0.7), (0.1, 0.2, 0.7), (0.1, 0.7, 0.9)], 2, 1, 1)


def plan_of(depth, height, epsilon, scale=Fraction(1)):
    """Without a threshold for leaves: to drop some is post-processing, and would hide the rest."""
    plan = _plan(UNIT, Privacy(epsilon), depth, height, 1, 0, Fraction(2, 3), "explicit")
    return LayerPlan(
        UNIT,
        depth,
        height,
        1,
        -100,
        plan.decision_scale * scale,
        plan.leaf_scale * scale,
        "explicit",
    )


@pytest.mark.parametrize("case", [ONE_SPLIT, TWO_CELLS], ids=["one split", "two cells"])
def test_the_exact_loss_is_epsilon_and_not_more(case):
    """Production code over every tape of noise in a range: rationals, no sampling."""
    batches, depth, height, reach = case
    loss, compared = largest_loss(plan_of(depth, height, 0.9), batches, reach)
    assert compared > 100
    assert loss == Fraction(9, 10)  # Nothing is wasted either: some tree attains it.


def test_half_of_the_noise_is_noticed():
    """The control: with noise of half the scale the loss is twice the claim."""
    batches, depth, height, reach = ONE_SPLIT
    loss, _ = largest_loss(plan_of(depth, height, 0.9, Fraction(1, 2)), batches, reach)
    assert loss == Fraction(9, 5)


def test_points_are_erased_from_the_batch(no_noise_plan):
    batch = Batch(np.random.default_rng(0).random((1000, 2)), no_noise_plan, None)
    assert batch._paths.any()
    occupied = batch.occupied()
    assert len(occupied) == 4
    batch.erase()
    assert not batch._paths.any()


def test_a_failing_source_of_noise_leaves_no_tree():
    """Without randomness there is an error, and no counts come out."""

    class Empty(TapeEntropy):
        def add_discrete_laplace(self, scale, counters):
            raise OSError("no randomness")

    with pytest.raises(OSError, match="no randomness"):
        kdtree_points(np.zeros((5, 1)), UNIT, Privacy(1.0), Empty(()), depth=4)
