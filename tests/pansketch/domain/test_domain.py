"""Domains and paths: cells hold their own readings, scratch is erased, wrong arguments are
refused."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pansketch import Attribute, Domain
from pansketch.domain.cell_paths import BLOCK, READINGS_AT_ONCE, PathEncoder

MIXED = Domain(
    [
        Attribute("temp", low=-40, high=60),
        Attribute("wind", categories=("N", "E", "S", "W", "calm")),
        Attribute("pm25", low=0, high=1000, scale="log"),
    ]
)


def encode(domain, depth, readings):
    return np.concatenate(
        [
            np.zeros(0, np.uint64),
            *(part.copy() for part in PathEncoder(domain, depth).encode(readings)),
        ]
    )


@given(
    st.lists(
        st.tuples(st.floats(-40, 60), st.integers(0, 4), st.floats(0, 1000)),
        min_size=1,
        max_size=40,
    ),
    st.integers(1, 40),
)
def test_a_reading_lies_in_the_box_of_its_path(rows, depth):
    low, high = MIXED.boxes(encode(MIXED, depth, np.array(rows, float)), depth)
    unit = [[a.to_unit(x) for a, x in zip(MIXED.attributes, row, strict=True)] for row in rows]
    slack = 1e-9  # The encoder and `to_unit` round differently at an edge.
    assert (low - slack <= unit).all()
    assert (unit <= high + slack).all()


@given(st.integers(1, 40), st.integers(0, 2**40 - 1))
def test_a_path_survives_the_way_through_its_box(depth, raw):
    path = np.array([raw % (1 << depth)], np.uint64)
    low, high = MIXED.boxes(path, depth)
    centre = MIXED.from_unit((low + high) / 2)
    wind = MIXED.attributes[1]
    if low[0, 1] * wind.extent < len(wind.categories):
        again = encode(MIXED, depth, centre)
        assert again == path or (high - low)[0, 1] * wind.extent > 1


def test_bits_go_round_the_attributes_until_one_has_none_left():
    assert MIXED.split_order(12) == (0, 1, 2, 0, 1, 2, 0, 1, 2, 0, 2, 0)


def test_depth_beyond_the_bits_is_refused():
    with pytest.raises(ValueError, match="3 bits"):
        Domain([MIXED.attributes[1]]).split_order(4)


def test_values_out_of_bounds_are_clipped_and_rows_that_are_not_finite_dropped():
    given_rows = np.array(
        [
            [-400, 0, 5],
            [400, 4, 1e300],
            [np.nan, 1, 1],
            [1, np.inf, 1],
            [1, 1, -np.inf],
            [60, 4, 1000],
        ],
        float,
    )
    paths = encode(MIXED, 20, given_rows)
    expected = encode(MIXED, 20, np.array([[-40, 0, 5], [60, 4, 1000], [60, 4, 1000]], float))
    assert sorted(paths.tolist()) == sorted(expected.tolist())


def test_category_codes_beyond_the_last_are_clipped_to_it():
    assert encode(MIXED, 6, np.array([[0, 7, 1]], float)) == encode(
        MIXED, 6, np.array([[0, 4, 1]], float)
    )


@pytest.mark.parametrize("count", [1, BLOCK - 1, BLOCK + 1, READINGS_AT_ONCE + 3])
def test_many_readings_encode_as_each_alone(count, weather, readings):
    rows = readings(count)
    rows[:: max(1, count // 7), 0] = np.nan
    indices = np.unique(np.linspace(0, count - 1, 50).astype(int))
    together = encode(weather, 24, rows)
    assert len(together) == np.isfinite(rows).all(axis=1).sum()
    finite = indices[np.isfinite(rows[indices]).all(axis=1)]
    alone = encode(weather, 24, rows[finite])
    assert np.isin(alone, together).all()


def test_scratch_holds_nothing_once_the_paths_are_used(weather, readings):
    encoder = PathEncoder(weather, 24)
    for rows in (readings(5000), readings(3)):
        for paths in encoder.encode(rows):
            assert paths.any()
        held = [value for value in vars(encoder).values() if isinstance(value, np.ndarray)]
        scratch = [array for array in held if array.size >= BLOCK]
        assert len(scratch) == 7
        assert not any(array.any() for array in scratch)


def test_the_callers_array_is_left_alone_and_a_converted_copy_erased(weather):
    rows = np.array([[1, 2], [3, 4]])
    list(PathEncoder(weather, 8).encode(rows))
    assert rows.tolist() == [[1, 2], [3, 4]]


@pytest.mark.parametrize("shape", [(3,), (3, 1), (1, 3, 2)])
def test_another_shape_is_refused(weather, shape):
    with pytest.raises(ValueError, match=r"shape \[n, 2\]"):
        list(PathEncoder(weather, 8).encode(np.zeros(shape)))


@given(st.floats(0, 1))
def test_unit_interval_and_units_are_inverse(point):
    for attribute in (MIXED.attributes[0], MIXED.attributes[2]):
        value = float(attribute.from_unit(np.array([point]))[0])
        assert attribute.to_unit(value) == pytest.approx(point, abs=1e-9)


def test_cell_means_agree_with_integration():
    points = np.linspace(0.3, 0.6, 200_001)
    for attribute in (MIXED.attributes[0], MIXED.attributes[2]):
        mean = attribute.cell_means(np.array([0.3]), np.array([0.6]))[0]
        assert mean == pytest.approx(attribute.from_unit(points).mean(), rel=1e-5)


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        ({"name": ""}, "name"),
        ({"name": "a"}, "low and high"),
        ({"name": "a", "low": 1, "high": 1}, "less than"),
        ({"name": "a", "low": 2, "high": 1}, "less than"),
        ({"name": "a", "low": 0, "high": float("inf")}, "finite"),
        ({"name": "a", "low": 0, "high": 1, "scale": "cubic"}, "scale"),
        ({"name": "a", "low": 0, "high": 1, "resolution": 0}, "resolution"),
        ({"name": "a", "categories": ()}, "one or more"),
        ({"name": "a", "categories": ("x", "x")}, "one or more"),
        ({"name": "a", "low": 0, "high": 1, "categories": ("x", "y")}, "not both"),
    ],
)
def test_attributes_that_make_no_sense_are_refused(wrong, text):
    with pytest.raises(ValueError, match=text) as caught:
        Attribute(**wrong)
    assert "\n" not in str(caught.value)


def test_domains_need_attributes_of_different_names():
    with pytest.raises(ValueError, match="at least one"):
        Domain([])
    with pytest.raises(ValueError, match="same name"):
        Domain([MIXED.attributes[0], MIXED.attributes[0]])
