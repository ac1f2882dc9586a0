"""Maximum mean discrepancy against a double loop, and what it must do at its ends."""

from itertools import combinations
from math import exp

import numpy as np
import pytest

from pansketch.generators import mmd
from pansketch.generators.moments import mmd as module
from pansketch.generators.moments.mmd import kernel_mean, median_bandwidth

GENERATOR = np.random.default_rng(8)
POINTS, OTHERS = GENERATOR.normal(100, 5, (37, 3)), GENERATOR.normal(103, 6, (23, 3))
WEIGHTS, OTHER_WEIGHTS = GENERATOR.gamma(1, 1, 37), GENERATOR.gamma(1, 1, 23)


def naive(points, others, weights, other_weights, bandwidth):
    """MMD by its definition."""

    def mean(left, left_weights, right, right_weights):
        pairs = 0.0
        for x, w in zip(left, left_weights, strict=True):
            for y, v in zip(right, right_weights, strict=True):
                pairs += w * v * exp(-((x - y) ** 2).sum() / (2 * bandwidth**2))
        return pairs / sum(left_weights) / sum(right_weights)

    own = mean(points, weights, points, weights)
    theirs = mean(others, other_weights, others, other_weights)
    return (own + theirs - 2 * mean(points, weights, others, other_weights)) ** 0.5


@pytest.mark.parametrize("bandwidth", [0.5, 4.0, 100.0])
@pytest.mark.parametrize("block", [5, 1024])
def test_it_is_what_a_double_loop_finds(monkeypatch, bandwidth, block):
    monkeypatch.setattr(module, "BLOCK", block)
    found = mmd(POINTS, OTHERS, WEIGHTS, OTHER_WEIGHTS, bandwidth=bandwidth)
    expected = naive(POINTS, OTHERS, WEIGHTS, OTHER_WEIGHTS, bandwidth)
    assert found == pytest.approx(expected, rel=1e-9)
    unweighted = mmd(POINTS, OTHERS, bandwidth=bandwidth)
    assert unweighted == pytest.approx(naive(POINTS, OTHERS, [1] * 37, [1] * 23, bandwidth))
    assert unweighted != pytest.approx(found, rel=1e-3)


def test_a_weight_is_a_point_taken_so_often():
    counts = np.arange(1, 24)
    repeated = np.repeat(OTHERS, counts, axis=0)
    weighted = mmd(POINTS, OTHERS, other_weights=counts.astype(float), bandwidth=3.0)
    assert weighted == pytest.approx(mmd(POINTS, repeated, bandwidth=3.0), rel=1e-9)


def test_the_distance_is_zero_for_equal_sets_and_large_for_far_ones():
    assert mmd(POINTS, POINTS.copy(), bandwidth=3.0) < 1e-7
    one, other = np.zeros((4, 2)), np.full((5, 2), 1e6)
    assert mmd(one, other, bandwidth=3.0) == pytest.approx(2**0.5)


def test_the_median_of_all_distances_is_the_default_bandwidth():
    together = np.concatenate([POINTS, OTHERS])
    median = np.median([np.linalg.norm(x - y) for x, y in combinations(together, 2)])
    assert median_bandwidth(POINTS, OTHERS) == pytest.approx(median, rel=1e-9)
    assert mmd(POINTS, OTHERS) == mmd(POINTS, OTHERS, bandwidth=median_bandwidth(POINTS, OTHERS))


@pytest.mark.parametrize(
    ("ask", "text"),
    [
        (lambda: mmd(POINTS, OTHERS[:, :2]), "3 and of 2 attributes"),
        (lambda: mmd(POINTS, OTHERS[:, :2], bandwidth=1.0), "3 and of 2 attributes"),
        (lambda: mmd(POINTS, OTHERS[:0], bandwidth=1.0), "shape"),
        (lambda: mmd(POINTS[0], OTHERS, bandwidth=1.0), "shape"),
        (lambda: mmd(POINTS, OTHERS, bandwidth=0.0), "positive"),
        (lambda: mmd(POINTS, OTHERS, bandwidth=float("nan")), "positive"),
        (lambda: mmd(POINTS, np.full((2, 3), np.inf), bandwidth=1.0), "finite"),
        (lambda: mmd(POINTS, OTHERS, WEIGHTS[:5], bandwidth=1.0), r"shape \[37\]"),
        (lambda: mmd(POINTS, OTHERS, -WEIGHTS, bandwidth=1.0), "negative"),
        (lambda: mmd(POINTS, OTHERS, 0 * WEIGHTS, bandwidth=1.0), "not all zero"),
        (lambda: mmd(np.ones((3, 1)), np.ones((3, 1))), "give a bandwidth"),
        (lambda: kernel_mean(POINTS, OTHERS, bandwidth=-1.0), "positive"),
    ],
)
def test_wrong_input_is_refused_in_one_line(ask, text):
    with pytest.raises(ValueError, match=text) as caught:
        ask()
    assert "\n" not in str(caught.value)
