"""Steps: every point of a lattice lies in the box it is drawn from, as the encoder sees it."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pansketch import Attribute, Domain
from pansketch.domain.cell_paths import PathEncoder
from pansketch.domain.fixed_point import MAX_POSITIONS, positions_of

NUMBERS = [
    Attribute("temp", -40, 60, step=0.1),
    Attribute("wind", 0, 13.2, step=0.1),
    Attribute("seven", 0, 49, step=1),  # 49 * (1 / 49) is below 1 in binary.
    Attribute("half", 0, 98, step=0.7),
    Attribute("third", -1, 1, step=1 / 3),
    Attribute("odd", 0.05, 9.99, step=0.3),
    Attribute("pressure", 980, 1042.5, step=0.25),
    Attribute("coarse", 0, 1000, step=90),
    Attribute("far", 1e6, 1e6 + 7, step=0.01),
    Attribute("circle", 0, 360, step=0.5, cyclic=True),
    Attribute("pm25", 0, 1000, scale="log", step=1),
    Attribute("edges", 0, 1023, scale="log", step=1),  # log(32) is half of log(1024).
    Attribute("fine", 0, 7, scale="log", step=0.1, resolution=0.01),
    Attribute("dim", -3, 10_000, scale="log", step=0.7, resolution=20),
]
each_number = pytest.mark.parametrize("attribute", NUMBERS, ids=lambda a: a.name)


def points_of(attribute):
    lattice = attribute.lattice
    return lattice.points(np.arange(lattice.first, lattice.last + 1.0))


def encode(domain, depth, readings):
    return np.concatenate([part.copy() for part in PathEncoder(domain, depth).encode(readings)])


@each_number
def test_points_are_the_decimal_multiples_of_the_step_between_the_bounds(attribute):
    step, low, high = (
        Fraction(repr(float(each))) for each in (attribute.step, attribute.low, attribute.high)
    )
    numbers = range(-(-low // step), high // step + 1)
    expected = [float(step * k) for k in numbers if not (attribute.cyclic and step * k == high)]
    found = points_of(attribute)
    if attribute.name == "third":  # Its decimals do not fit a binary number twice.
        assert found == pytest.approx(expected, abs=1e-15)
    else:
        assert found.tolist() == expected


@each_number
def test_readings_are_counted_at_the_nearest_point(attribute):
    """Up to values that no float holds twice; on a circle the last point is beside the first."""
    points, rng = points_of(attribute), np.random.default_rng(3)
    own = rng.choice(points, 500)
    beside = own + attribute.step * rng.uniform(-0.499, 0.499, 500)
    beyond = [-1.797e308, attribute.low - 1.0, attribute.high + 1.0, 1.797e308]
    if attribute.cyclic:
        beside += attribute.extent * rng.integers(-3, 4, 500)
        beyond, own = [], np.append(own, points[0])
        beside = np.append(beside, attribute.high - attribute.step / 3)
    own = np.concatenate([own, np.repeat([points[0], points[-1]], len(beyond) // 2)])
    beside = np.concatenate([beside, beyond])
    domain = Domain([attribute])
    with np.errstate(all="raise"):
        found = encode(domain, 20, beside[:, None])
        positions = positions_of(domain, beside[:, None])
    np.testing.assert_array_equal(found, encode(domain, 20, own[:, None]))
    np.testing.assert_array_equal(positions, positions_of(domain, own[:, None]))
    places = attribute.lattice.positions(np.rint(own / attribute.step))
    np.testing.assert_array_equal(positions[0], np.floor(places * MAX_POSITIONS))


@pytest.mark.parametrize("attribute", [a for a in NUMBERS if not a.cyclic], ids=lambda a: a.name)
def test_a_reading_midway_between_points_is_counted_at_the_nearest_one(attribute):
    """Means of two readings have such values. All code rounds them alike."""
    points, lattice = points_of(attribute), attribute.lattice
    middles = np.round((points[1:] + points[:-1]) / 2, 9)
    nearest = lattice.points(lattice.nearest(middles))
    domain = Domain([attribute])
    found = encode(domain, 20, middles[:, None])
    np.testing.assert_array_equal(found, encode(domain, 20, nearest[:, None]))


def test_three_steps_of_a_tenth_are_three_tenths():
    lattice = Attribute("x", 0, 1, step=0.1).lattice
    assert lattice.points(np.array([3.0])).tolist() == [0.3]
    assert 3 * 0.1 != 0.3


@pytest.mark.parametrize(
    ("step", "decimals"), [(1, 0), (20, 0), (0.5, 1), (0.1, 1), (0.25, 2), (1e-7, 7)]
)
def test_points_are_written_in_full_with_the_decimals_of_the_step(step, decimals):
    attribute = Attribute("x", -1, 100, step=step)
    lattice = attribute.lattice
    assert lattice.decimals == decimals
    some = np.arange(min(1000.0, lattice.last - lattice.first + 1))
    points = lattice.points(lattice.first + some).tolist()
    assert [float(f"{point:.{decimals}f}") for point in points] == points


@pytest.mark.parametrize("depth", [1, 2, 3, 5, 8, 13, 22])
@each_number
def test_a_box_has_exactly_the_points_that_the_encoder_puts_there(attribute, depth):
    domain, points = Domain([attribute]), points_of(attribute)
    paths = encode(domain, depth, points[:, None])
    low, high = domain.boxes(np.unique(paths), depth)
    starts, ends = attribute.lattice.sections(low[:, 0], high[:, 0])
    numbers = [np.arange(start, end) for start, end in zip(starts, ends, strict=True)]
    assert np.concatenate(numbers).tolist() == sorted(
        range(attribute.lattice.first, attribute.lattice.last + 1)
    )
    owners = np.repeat(np.unique(paths), [len(each) for each in numbers])
    assert owners.tolist() == paths.tolist()
    # The control: half a cell further on, some box has other points.
    if depth < 5:
        moved = attribute.lattice.sections(low[:, 0] + 0.5**depth / 2, high[:, 0] + 0.5**depth / 2)
        assert (moved[0] != starts).any()


@pytest.mark.parametrize("depth", [3, 8, 16])
@each_number
def test_a_value_drawn_from_a_box_is_encoded_into_it(attribute, depth):
    """Both ends of every box are among the draws, where rounding could move them out."""
    domain = Domain([attribute])
    paths = np.unique(encode(domain, depth, points_of(attribute)[:, None]))
    low, high = (ends[:, 0] for ends in domain.boxes(paths, depth))
    shares = np.array([0.0, 5e-324, 1e-17, 0.25, 0.5, 0.75, 1 - 2**-53])
    owners = np.repeat(np.arange(len(paths)), len(shares))
    values = attribute.inside(low, high, owners, np.tile(shares, len(paths)))
    assert (encode(domain, depth, values[:, None]) == paths[owners]).all()
    assert np.isin(values, points_of(attribute)).all()


@each_number
def test_a_box_without_a_point_takes_the_nearest_one(attribute):
    domain, depth = Domain([attribute]), 18
    everything = np.arange(1 << depth, dtype=np.uint64)
    empty = everything[~np.isin(everything, encode(domain, depth, points_of(attribute)[:, None]))]
    assert len(empty)
    low, high = (ends[:, 0] for ends in domain.boxes(empty[:: len(empty) // 500 + 1], depth))
    drawn = attribute.inside(low, high, np.arange(len(low)), np.full(len(low), 0.3))
    middles = attribute.from_unit((low + high) / 2)
    points = points_of(attribute)
    nearest = np.abs(points[:, None] - middles).min(axis=0)
    assert np.abs(drawn - middles) == pytest.approx(nearest, abs=1e-9)


@each_number
def test_intervals_moved_once_stay(attribute):
    edges = np.append(np.linspace(0, 0.999, 38), [1 - 1e-9, 1.0])
    once = attribute.intervals(edges[:-1], edges[1:])
    twice = attribute.intervals(*once)
    assert np.array_equal(once, twice)


@each_number
def test_means_and_variances_are_those_of_the_points_by_their_weights(attribute):
    """Weights from brute force: a point has the scale from itself to the next. On a log scale the
    variance is not exact where the density falls within a step."""
    lattice = attribute.lattice
    edges = np.array([0.0, 0.013, 0.02, 0.07, 0.3, 0.31, 1.0])
    starts, ends = lattice.sections(edges[:-1], edges[1:])
    means = attribute.cell_means(edges[:-1], edges[1:])
    variances = attribute.cell_variances(edges[:-1], edges[1:])
    for start, end, mean, variance in zip(starts, ends, means, variances, strict=True):
        numbers = np.arange(start, end)
        weights = np.diff(lattice.positions(np.arange(start, end + 1)))
        expected = np.average(lattice.points(numbers), weights=weights)
        assert mean == pytest.approx(expected, abs=1e-4 * attribute.step)
        second = np.average((lattice.points(numbers) - expected) ** 2, weights=weights)
        relative, slack = (1e-6, 1e-7) if attribute.scale == "linear" else (2e-3, 0.3)
        assert variance == pytest.approx(second, rel=relative, abs=slack * attribute.step**2)


def test_points_of_one_box_weigh_the_same_on_a_linear_scale():
    """Evenly spaced shares, so nothing is left to chance."""
    attribute = NUMBERS[0]
    low, high = np.array([0.25]), np.array([0.75])
    shares = (np.arange(50_000) + 0.5) / 50_000
    drawn = attribute.inside(low, high, np.zeros(50_000, np.intp), shares)
    values, times = np.unique(drawn, return_counts=True)
    assert (values[0], values[-1], len(values)) == (-15.0, 34.9, 500)
    assert set(times) == {100}


@given(st.integers(-400, 600), st.integers(-400, 600))
def test_an_edge_stands_before_or_after_its_point(first, second):
    lattice = NUMBERS[0].lattice
    value, other = first / 10, second / 10
    before, after = (lattice.edge(value, after=after) for after in (False, True))
    assert before < after
    place = float(lattice.positions(np.array([float(second)]))[0])
    assert (place < before) == (other < value)
    assert (place < after) == (other <= value)
    between = value + 0.03
    assert lattice.edge(between, after=False) == lattice.edge(between, after=True) == after


def test_edges_beyond_the_bounds_hold_all_points_or_none():
    lattice = NUMBERS[0].lattice
    whole = lattice.edge(-40, after=False), lattice.edge(60, after=True)
    for low, high in ((-1e300, 1e300), (-np.inf, np.inf), (-40.01, 60.01)):
        assert (lattice.edge(low, after=True), lattice.edge(high, after=False)) == whole


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        ({"low": 0, "high": 1, "step": 0}, "x: step must be positive"),
        ({"low": 0, "high": 1, "step": -0.1}, "x: step must be positive"),
        ({"low": 0, "high": 1, "step": float("nan")}, "x: step must be positive"),
        ({"low": 0, "high": 1, "step": float("inf")}, "x: step must be positive"),
        ({"low": 0, "high": 1, "step": 1.5}, "x: step must not exceed the range"),
        ({"low": 1e9, "high": 1e9 + 1, "step": 1e-6}, "x: step 1e-06 is finer than numbers"),
        ({"categories": ("a", "b"), "step": 1}, "x: categories have no step"),
        ({"constant": 1, "step": 1}, "x: a constant has no low, no high and no step"),
    ],
)
def test_steps_that_make_no_sense_are_refused(wrong, text):
    with pytest.raises(ValueError, match=text) as caught:
        Attribute("x", **wrong)
    assert "\n" not in str(caught.value)
