"""Contributions of a reading to each kind of moment sketch."""

from math import pi, sqrt

import numpy as np
from scipy import stats

from pansketch.domain.fixed_point import MAX_POSITIONS, PositionEncoder
from pansketch.sketches.moments.projections import ONE, Projections
from tests.pansketch.sketches.moments.specs import DOMAIN, counters_of, readings, spec_of


def test_features_are_cosines_and_sines_of_gaussian_frequencies(no_noise):
    spec = spec_of("rff")
    rows = readings(50)
    rows[:, 2] = 0
    unit = np.column_stack(
        [(rows[:, 0] + 40) / 100, np.log1p(rows[:, 1]) / np.log1p(1000), np.zeros(50)]
    )
    found = counters_of(spec, rows, no_noise)[1:] / ONE
    directions = spec.map.projections.directions.view(np.int32) / ONE * 2 * pi
    offsets = spec.map.projections.offsets[:, 0] / 2**32 * 2 * pi
    angles = unit @ directions.T + offsets
    expected = np.concatenate([np.cos(angles).sum(0), np.sin(angles).sum(0)])
    # An angle is known to half a part of 2**-16 turns, a position to one of 2**-16.
    step = (2 * pi / 2 + np.abs(directions).sum(1)) * 2**-16 + 2**-17
    assert (np.abs(found - expected) <= 50 * np.tile(step, 2)).all()


def test_directions_are_normal():
    """A fixed key gives fixed numbers, so there is no false alarm; half the bandwidth is
    distinguished."""
    sigma = 0.5
    directions = Projections.derive(3, "label", 500, 8, sigma).directions.view(np.int32)
    radians = directions.reshape(-1) / ONE * 2 * pi
    assert stats.kstest(radians * sigma, "norm").pvalue > 1e-3
    assert stats.kstest(radians * sigma * 2, "norm").pvalue < 1e-6


def test_race_counts_each_reading_once_in_each_row(no_noise):
    spec = spec_of("race")
    table = counters_of(spec, readings(300), no_noise)[1:].reshape(7, 10)
    assert (table.sum(axis=1) == 300).all()
    assert (table >= 0).all()


def test_histograms_count_bins_and_categories(no_noise):
    spec = spec_of("hist", bins=4)
    rows = [[-40, 0, 0], [-15.001, 999, 2], [60, 1000, 2], [10, 1e9, -5]]
    number, *bins = counters_of(spec, rows, no_noise).tolist()
    assert number == 4
    assert bins[:4] == [2, 0, 1, 1]
    assert bins[4:8] == [1, 0, 0, 3]
    assert bins[8:] == [2, 0, 2]


def test_positions_follow_scale_and_categories():
    encoder = PositionEncoder(DOMAIN, 10)
    rows = np.array([[10, sqrt(1001) - 1, 1], [60, 1000, 2], [-99, -5, 7.9], [59.99, 0, 0.5]])
    (found,) = (each.copy() for each in encoder.encode(rows))
    half, last = MAX_POSITIONS // 2, MAX_POSITIONS - 1
    assert found[0].tolist() == [half, last, 0, int(0.9999 * MAX_POSITIONS)]
    assert abs(int(found[1, 0]) - half) <= 1
    assert found[1, 1:].tolist() == [last, 0, 0]
    assert found[2].tolist() == [MAX_POSITIONS // 4, half, half, 0]
