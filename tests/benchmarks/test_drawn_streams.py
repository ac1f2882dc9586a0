"""Streams drawn at random: each seed's are the same again, and lie inside the bounds stated."""

import pickle

import numpy as np

from benchmarks.datasets.drawn_streams import POINTS, streams


def test_the_same_seed_draws_the_same_streams():
    first, again, others = streams(3, 4), streams(3, 4), streams(4, 4)
    for one, other in zip(first, pickle.loads(pickle.dumps(again)), strict=True):
        assert one.name == other.name
        assert one.domain == other.domain
        assert all(
            np.array_equal(*both) for both in zip(one.devices(), other.devices(), strict=True)
        )
    assert all(one.domain != other.domain for one, other in zip(first, others, strict=True))


def test_drawn_readings_are_inside_their_bounds_at_their_steps():
    drawn = streams(5, 40)
    assert {each.domain.dimension for each in drawn} == set(range(1, 8))
    stated = 0
    for each in drawn:
        rows = each.truth
        for attribute, column in zip(each.domain.attributes, rows.T, strict=True):
            assert attribute.low <= column.min()
            assert column.max() <= attribute.high
            assert column.min() < column.max()
            if attribute.step:
                stated += 1
                assert (
                    np.abs(column / attribute.step - np.round(column / attribute.step)).max() < 1e-6
                )
                assert attribute.high - attribute.low > POINTS * attribute.step
    assert stated > 20
