"""Learned scales: equally many knots apart. Positions, values, moments, encoders and refusals."""

from dataclasses import replace

import numpy as np
import pytest

from pansketch import Attribute, Domain
from pansketch.domain.cell_paths import PathEncoder
from pansketch.domain.fixed_point import MAX_POSITIONS, positions_of

KNOTS = (-40.0, 9.75, 10.0, 10.5, 11.0, 14.0, 30.0, 31.0, 60.0)
TEMP = Attribute("temp", low=-40, high=60, scale="learned", knots=KNOTS)
STEPPED = replace(TEMP, step=0.5, knots=tuple(k - 0.0005 if -40 < k < 60 else k for k in KNOTS))


def test_every_part_between_knots_has_as_much_of_the_unit_interval():
    np.testing.assert_array_equal(TEMP.scaling.positions(np.array(KNOTS)), np.arange(9) / 8)
    np.testing.assert_array_equal(TEMP.from_unit(np.arange(9) / 8), KNOTS)
    assert TEMP.to_unit(10.25) == 2.5 / 8
    assert (TEMP.to_unit(-1e308), TEMP.to_unit(1e308)) == (0.0, 1.0)
    units = np.random.default_rng(1).uniform(0, 1, 1000)
    np.testing.assert_allclose(TEMP.scaling.positions(TEMP.from_unit(units)), units, atol=1e-12)


@pytest.mark.parametrize(("low", "high"), [(0.01, 0.011), (0.0, 1.0), (0.2, 0.55), (0.124, 0.126)])
def test_moments_of_an_interval_are_those_of_even_points_in_it(low, high):
    """Against a fine sum; the control is the linear scale of the same bounds."""
    points = TEMP.from_unit(low + (high - low) * (np.arange(200_000) + 0.5) / 200_000)
    ends = np.array([low]), np.array([high])
    assert TEMP.cell_means(*ends)[0] == pytest.approx(points.mean(), rel=1e-8)
    assert TEMP.cell_variances(*ends)[0] == pytest.approx(points.var(), rel=1e-6)
    linear = replace(TEMP, scale="linear", knots=())
    assert linear.cell_means(*ends)[0] != pytest.approx(points.mean(), rel=1e-3)


def test_a_narrow_interval_far_from_zero_keeps_its_variance():
    far = Attribute("t", low=1e9, high=1e9 + 4, scale="learned", knots=(1e9, 1e9 + 1, 1e9 + 4))
    width = 2.0**-20
    found = far.cell_variances(np.array([0.25]), np.array([0.25 + width]))[0]
    assert found == pytest.approx((2 * width) ** 2 / 12, rel=1e-9)


def test_moments_with_a_step_are_those_of_the_points():
    points = STEPPED.lattice.points(np.arange(20.0, 28.0))  # 10 to 13.5
    low, high = (
        STEPPED.scaling.positions(np.array([9.9995])),
        STEPPED.scaling.positions(np.array([13.9])),
    )
    weights = np.diff(STEPPED.lattice.positions(np.arange(20.0, 29.0)))
    mean = np.average(points, weights=weights)
    assert STEPPED.cell_means(low, high)[0] == pytest.approx(mean, abs=0.002)
    variance = np.average((points - mean) ** 2, weights=weights)
    assert STEPPED.cell_variances(low, high)[0] == pytest.approx(variance, abs=0.01)
    # One point: a value with mass of its own.
    one = np.array([1 / 8]), np.array([2 / 8 - 1e-9])
    single = replace(STEPPED, knots=(-40.0, 9.9995, 10.4995, 60.0, 60.5), high=60.5)
    assert single.cell_means(np.array([0.25]), np.array([0.5]))[0] == 10.0
    assert single.cell_variances(np.array([0.25]), np.array([0.5]))[0] == 0.0
    assert (
        STEPPED.inside(*one, np.zeros(5, np.intp), np.linspace(0, 1, 5)).tolist() == [9.5 + 0.5] * 5
    )


@pytest.mark.parametrize("attribute", [TEMP, STEPPED])
def test_encoders_number_cells_as_places_do(attribute):
    rng = np.random.default_rng(2)
    values = np.concatenate([rng.uniform(-60, 80, 3000), KNOTS, [1.797e308, -1.797e308, 5e-324]])
    other = Attribute("other", low=0, high=1)
    rows = np.stack([values, rng.uniform(0, 1, len(values))], axis=1)
    domain = Domain([attribute, other])
    held = np.clip(values, -40, 60)
    if attribute.lattice is not None:
        held = attribute.lattice.points(attribute.lattice.nearest(held))
    found = attribute.scaling.positions(held)
    positions = np.minimum(np.floor(found * MAX_POSITIONS), MAX_POSITIONS - 1)
    np.testing.assert_array_equal(positions_of(domain, rows)[0], positions)
    paths = np.concatenate(
        [
            each.copy()
            for each in PathEncoder(Domain([attribute]), 12).encode(
                np.ascontiguousarray(rows[:, :1])
            )
        ]
    )
    np.testing.assert_array_equal(paths, np.minimum(np.floor(found * 4096), 4095))


@pytest.mark.parametrize(
    ("changed", "error"),
    [
        ({"knots": ()}, "a learned scale has knots, and no other has"),
        ({"scale": "linear"}, "a learned scale has knots, and no other has"),
        ({"knots": KNOTS[:-2] + KNOTS[-1:]}, "a power of two and one, from 3 to 1025, not 8"),
        ({"knots": (-40.0, 60.0)}, "a power of two and one"),
        ({"knots": (-40.0, 10.0, 10.0, 20.0, 60.0)}, "knots must rise"),
        ({"knots": (-40.0, 20.0, 10.0, 30.0, 60.0)}, "knots must rise"),
        ({"knots": (-40.0, float("nan"), 60.0)}, "knots must be finite"),
        ({"knots": (-41.0, 0.0, 60.0)}, "the first knot must be low"),
        ({"knots": (-40.0, 0.0, 59.0)}, "the last one high"),
        ({"cyclic": True}, "only a linear scale can be cyclic"),
    ],
)
def test_knots_that_make_no_scale_are_refused(changed, error):
    with pytest.raises(ValueError, match=error):
        replace(TEMP, **changed)


def test_knots_are_in_the_description_and_steps_are_not():
    assert TEMP.describe()["knots"] == list(KNOTS)
    assert replace(TEMP, step=0.5).describe() == TEMP.describe()
    with pytest.raises(ValueError, match="categories have no learned scale"):
        Attribute("wind", categories=("N", "E"), scale="learned", knots=(0.0, 1.0, 2.0))
