"""What noise hides of tails and of bins."""

import numpy as np
import pytest

from pansketch.generators.significance import FASTEST, LESS, SLOWEST, Noise, tail_power

AWAY = np.geomspace(1000.0, 1e-3, 2000)  # distances from the median


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
    """Over all bins of another attribute the squares add up to those of the bin alone."""
    noise = Noise(1, 1.0, least={0: 6.0, 1: 8.0})
    shares = np.array([0.5, 0.3, 0.2])
    rows, columns = np.eye(3)[:2], np.eye(3)
    np.testing.assert_allclose(noise.least_of({0: rows}, shares), 6.0)
    both = noise.least_of({0: rows, 1: columns}, shares)
    assert both.shape == (2, 3)
    np.testing.assert_allclose(
        both**2, 6.0**2 * shares[None] + 8.0**2 * np.array([0.5, 0.3])[:, None]
    )
    assert Noise(1, 1.0).least_of({0: rows, 1: columns}, shares).max() == 0
