"""For any reading, no arithmetic overflows or warns: it is clipped, or left out."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pansketch import Attribute, Domain
from pansketch.domain.cell_paths import PathEncoder
from pansketch.domain.fixed_point import PositionEncoder, positions_of

LARGEST, SMALLEST = np.finfo(float).max, 5e-324
EXTREMES = (LARGEST, -LARGEST, SMALLEST, -SMALLEST, 2.3e-308, -0.0, 1e304, -1e304, 1e20)
NOT_FINITE = (np.inf, -np.inf, np.nan)
WIDE = Domain(
    [
        Attribute("line", low=-40, high=60),
        Attribute("log", low=0, high=1e6, scale="log", resolution=1e-3),
        Attribute("circle", low=-180, high=180, cyclic=True),
        Attribute("wind", categories=("N", "E", "S")),
        Attribute("vast", low=-8e307, high=8e307),
        Attribute("far", low=1e308, high=1.5e308),
        Attribute("tiny", low=-1e-290, high=1e-290),
        Attribute("site", constant=1e308),
    ]
)
VALUES = st.one_of(st.sampled_from(EXTREMES + NOT_FINITE), st.floats())
ROWS = st.lists(
    st.lists(VALUES, min_size=WIDE.dimension, max_size=WIDE.dimension), min_size=1, max_size=40
)


def encoded(encoder, readings) -> list:
    """All that an encoder gives, in any order, with every floating-point fault an error."""
    with np.errstate(over="raise", invalid="raise", divide="raise"):
        return sorted(row for each in encoder.encode(readings) for row in each.T.tolist())


@given(ROWS)
def test_a_reading_is_encoded_as_what_its_bounds_make_of_it(rows):
    readings = np.array(rows)
    finite = readings[np.isfinite(readings[:, :-1]).all(axis=1)]
    clipped = finite.copy()
    for column, attribute in enumerate(WIDE.attributes):
        if not attribute.cyclic:
            clipped[:, column] = np.clip(clipped[:, column], attribute.origin, attribute.highest)
    for encoder in (PathEncoder(WIDE, 60), PositionEncoder(WIDE, 8)):
        assert encoded(encoder, readings) == encoded(encoder, clipped)


@pytest.mark.parametrize("value", EXTREMES)
def test_extremes_land_in_the_cells_of_the_bounds(value):
    low, high = -40.0, 60.0
    domain = Domain([Attribute("x", low=low, high=high)])
    bound = np.array([[min(max(value, low), high)]])
    assert positions_of(domain, np.array([[value]])) == positions_of(domain, bound)


@pytest.mark.parametrize("huge", [10**400, -(10**400), np.longdouble("1e400")])
def test_a_number_beyond_any_float_is_left_out_alone(huge):
    domain = Domain([Attribute("x", low=0, high=1), Attribute("y", low=0, high=9)])
    encoder = PathEncoder(domain, 6)
    assert encoded(encoder, [[huge, 1.0], [0.5, 1.0]]) == encoded(encoder, [[0.5, 1.0]])


@pytest.mark.parametrize(
    "bounds",
    [
        {"low": 0, "high": 5e-324},
        {"low": 0, "high": 1e308, "scale": "log", "resolution": 1e-10},
        {"low": 0, "high": 1e-320, "scale": "log", "resolution": 1},
    ],
)
def test_bounds_whose_scale_overflows_are_refused(bounds):
    with pytest.raises(ValueError, match="range from low to high is too small or too large"):
        Attribute("x", **bounds)
