"""What noise hides of tails and of bins."""

from math import erf, sqrt

import numpy as np
import pytest

from pansketch.generators.significance import (
    FASTEST,
    LESS,
    SLOWEST,
    Fits,
    Noise,
    squared_error,
    student,
    tail_power,
)

AWAY = np.geomspace(1000.0, 1e-3, 2000)  # distances from the median


def test_a_tail_of_nearly_no_readings_has_a_power():
    """A smooth curve ends in as few as a float can be, and a quotient of readings overflows."""
    held = np.array([0.0, 1e-310, 1.0, 5000.0])
    away = np.array([9.0, 8.0, 6.0, 1.0])
    assert tail_power(held, away, 1) == FASTEST
    assert tail_power(held, away, 0) == SLOWEST


@pytest.mark.parametrize("power", [1.2, 2.5, 3.0, 4.5, 8.0])
def test_the_power_of_a_tail_is_read_beside_it(power):
    held = np.minimum(AWAY**-power, 1.0) * 5000
    first = int(np.argmax(held > 20))
    found = tail_power(held, AWAY, first)
    assert found == pytest.approx(np.clip(LESS * power, SLOWEST, FASTEST), rel=0.02)


def test_a_tail_that_does_not_show_its_power_falls_slowest():
    held = np.linspace(0, 5000, len(AWAY))
    assert tail_power(held, AWAY, len(AWAY) - 20) == SLOWEST  # too near the median
    assert tail_power(np.full(len(AWAY), 30.0), AWAY, 5) == SLOWEST  # nothing beside it
    in_one_cell = np.where(np.arange(len(AWAY)) < 900, 0.0, 5000.0)
    assert tail_power(in_one_cell, AWAY, 900) == SLOWEST
    assert tail_power(np.zeros(len(AWAY)), AWAY, 0) == SLOWEST


def test_what_a_bin_hides_is_somewhere_in_the_bins_of_others():
    noise = Noise(1, 1.0, least={0: 6.0, 1: 8.0})
    mass = np.array([500.0, 300.0, 200.0])
    rows, columns = np.eye(3)[:2], np.eye(3)
    np.testing.assert_allclose(noise.least_of({0: rows}, mass), 6.0)
    both = noise.least_of({0: rows, 1: columns}, mass)
    assert both.shape == (2, 3)
    first, second = 0.006 + mass[:2] / 1000, 0.008 + mass / 1000
    np.testing.assert_allclose(both**2, 36.0 * second[None] + 64.0 * first[:, None])
    assert Noise(1, 1.0).least_of({0: rows, 1: columns}, mass).max() == 0


def test_noise_that_outweighs_the_readings_hides_them_in_any_bin():
    noise = Noise(1, 1.0, least={0: 60.0, 1: 80.0})
    bins = {axis: np.eye(4) for axis in range(2)}
    np.testing.assert_allclose(noise.least_of(bins, np.full(4, 10.0)), 100.0)


def test_a_bin_of_all_values_hides_nothing():
    noise, mass = Noise(1, 1.0, least={0: 6.0, 1: 8.0}), np.full(4, 100.0)
    whole, half = np.ones((1, 4)), np.array([[1.0, 1.0, 0.0, 0.0]])
    assert noise.least_of({0: whole}, mass) == 0
    np.testing.assert_allclose(noise.least_of({0: half, 1: whole}, mass), 6.0)


def test_replicates_of_fewer_boxes_are_compared_with_one_without_noise():
    """What all of them miss for lack of boxes is no noise, and the model misses a tenth of it."""
    apart = {number: np.array(3.0 + each) for number, each in enumerate((0.0, 1.0, -1.0))}
    assert squared_error(apart, Fits(fewer=0.1)) == pytest.approx(student(2) ** 2 + 0.3**2)
    assert squared_error(apart, Fits()) > 9  # the control


@pytest.mark.parametrize("fewer", [0.0, 0.1])
def test_rough_fits_show_a_part_of_the_error(fewer):
    """The first two follow noise wherever it leads; with fewer boxes their numbers are 1 and 2."""
    begin = 1 if fewer else 0
    answers = {begin + number: np.array(each) for number, each in enumerate((4.0, -4.0, 1.0, -1.0))}
    apart = {0: np.array(0.0), **answers}
    fits = Fits(fewer=fewer, rough=2)
    freedom = 2 / (0.25**2 + 0.75**2)
    assert squared_error(apart, fits, 0.25) == pytest.approx(4.75 * student(freedom) ** 2)
    only = {number: each for number, each in apart.items() if number < begin + 2}
    found = squared_error(only, fits, 0.25) / student(2) ** 2
    assert found == pytest.approx(16.0), "no smooth one has readings"


@pytest.mark.parametrize("rough", [0.0, 0.2, 0.5])
@pytest.mark.parametrize("many", [8, 12, 24])
def test_two_errors_of_few_replicates_hold_as_often_as_two_deviations(many, rough):
    """Of 400,000 answers, whose replicates have the noise that they have. A share of them has a
    standard deviation of 0.0003."""
    rng = np.random.default_rng(many)
    off, *drawn = rng.normal(0, 1, (1 + many, 400_000))
    squares = squared_error(dict(enumerate(drawn)), Fits(rough=many // 2), rough)
    held = np.mean(np.abs(off) < 2 * np.sqrt(squares))
    wanted = erf(2 / sqrt(2))
    assert held == pytest.approx(wanted, abs=0.006)
    parts = rough**2 + (1 - rough) ** 2
    alone = squares / student(many / 2 / parts) ** 2
    without = np.mean(np.abs(off) < 2 * np.sqrt(alone))  # the control
    assert without < wanted - 0.01
