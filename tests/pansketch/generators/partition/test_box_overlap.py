"""Systematic draws: the same expectation as independent ones, and a far smaller error; and
intervals that are not the same."""

import numpy as np
import pytest

from pansketch import Attribute, Domain
from pansketch.generators import Partition
from pansketch.generators.partition.box_overlap import distinct, overlap, systematic

SHARES = np.random.default_rng(1).gamma(0.4, 1, 1000)
SHARES /= SHARES.sum()


def independent(shares, count, generator):
    """The reference for systematic draws."""
    return generator.choice(len(shares), count, p=shares)


def variation(draw, count, seed):
    """Total variation between the shares and those of what was drawn."""
    times = np.bincount(draw(SHARES, count, np.random.default_rng(seed)), minlength=len(SHARES))
    return np.abs(times / count - SHARES).sum() / 2


def within_one(draw, count, seed):
    times = np.bincount(draw(SHARES, count, np.random.default_rng(seed)), minlength=len(SHARES))
    return bool((np.abs(times - count * SHARES) < 1 + 1e-6).all())


@pytest.mark.parametrize("count", [1, 7, 1000, 65_536])
def test_every_index_comes_as_often_as_its_share_to_one(count):
    assert all(within_one(systematic, count, seed) for seed in range(20))


def test_independent_draws_do_not():
    assert not any(within_one(independent, 65_536, seed) for seed in range(20))


@pytest.mark.parametrize("count", [10_000, 100_000])
def test_the_total_variation_is_a_fraction_of_that_of_independent_draws(count):
    """Seeded, so nothing is left to chance; the control is that two independent draws differ little
    from each other."""
    found = [variation(systematic, count, seed) for seed in range(5)]
    usual = [variation(independent, count, seed) for seed in range(5)]
    assert max(found) < 0.4 * min(usual)
    assert not max(usual) < 0.8 * min(usual)


def test_draws_are_expected_as_often_as_their_shares():
    """Over 20,000 draws of three: times are Bernoulli between two whole numbers, so eight
    deviations of 1/2 leave a false alarm below 1e-14. The control has other shares."""
    shares = np.array([0.05, 0.31, 0.0, 0.64])
    generator = np.random.default_rng(2)
    times = np.zeros(4)
    for _ in range(20_000):
        times += np.bincount(systematic(shares, 3, generator), minlength=4)
    slack = 8 * 0.5 / np.sqrt(20_000)
    assert times / 20_000 == pytest.approx(3 * shares, abs=slack)
    assert times / 20_000 != pytest.approx(3 * shares[::-1], abs=slack)
    assert times[2] == 0


def test_the_order_is_random():
    """All orders of four draws of four equal shares. Each of 24 is expected in 1/24 of 24,000
    calls. Eight deviations leave a false alarm below 1e-13."""
    generator = np.random.default_rng(3)
    orders = [tuple(systematic(np.full(4, 0.25), 4, generator)) for _ in range(24_000)]
    _, times = np.unique(orders, axis=0, return_counts=True)
    assert len(times) == 24
    assert np.abs(times - 1000).max() < 8 * np.sqrt(1000)


def test_nothing_is_drawn_of_nothing_and_no_rounding_costs_a_draw():
    generator = np.random.default_rng(4)
    assert systematic(SHARES, 0, generator).tolist() == []
    tiny = np.full(3, 1 / 3) * 1e-300
    for count in (1, 3, 10, 99_999):
        assert len(systematic(tiny, count, generator)) == count
    assert set(systematic(np.array([0.0, 1.0, 0.0]), 50, generator)) == {1}


def test_records_of_a_partition_are_systematic_in_its_boxes():
    edges = np.linspace(0, 1, 1001)[:, None]
    model = Partition(Domain([Attribute("x", 0, 1)]), edges[:-1], edges[1:], SHARES)
    drawn = model.sample(50_000, np.random.default_rng(5))[:, 0]
    times = np.histogram(drawn, edges[:, 0])[0]
    assert np.abs(times - 50_000 * SHARES).max() < 1.001


def test_an_interval_whose_ends_are_exchanged_goes_round():
    low, high = np.array([[0.0], [0.25], [0.5]]), np.array([[0.25], [0.5], [1.0]])
    assert overlap(low, high, {0: (0.125, 0.75)}).tolist() == [0.5, 1, 0.5]
    assert overlap(low, high, {0: (0.75, 0.125)}).tolist() == [0.5, 0, 0.5]
    assert overlap(low, high, {0: (0.3, 0.3)}).tolist() == [0, 0, 0]
    assert overlap(low, high, {}).tolist() == [1, 1, 1]


@pytest.mark.parametrize("count", [1, 300, 20_000])
@pytest.mark.parametrize("cells", [1, 7, 1 << 10, 1 << 16, 1 << 20])
def test_intervals_are_found_once_each(count, cells):
    """On a grid without sorting, elsewhere with it: both are as sorting finds them."""
    low = np.random.default_rng(1).integers(0, cells, count) / cells
    high = low + 1 / cells
    starts, ends, which = distinct(low, high)
    np.testing.assert_array_equal(starts, np.unique(low))
    np.testing.assert_array_equal(starts[which], low)
    np.testing.assert_array_equal(ends[which], high)


@pytest.mark.parametrize("count", [10, 20_000])
def test_intervals_that_begin_alike_and_end_differently_are_all_kept(count):
    low, high = np.full(count, 0.25), np.linspace(0.5, 1.0, count)
    starts, ends, which = distinct(low, high)
    np.testing.assert_array_equal(starts[which], low)
    np.testing.assert_array_equal(ends[which], high)
