"""Slopes inside cells: nearer to what is smooth, and nothing is moved from one cell to another."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pansketch import Attribute
from pansketch.generators.pairwise.margin import ends_of, placed_inside, share_at_top, shares_inside

BITS = 5
CELLS = 1 << BITS
NUMBER = Attribute("x", low=0, high=1)
STEPPED = Attribute("x", low=0, high=100, step=1)
ENDS = np.linspace(0, 1, CELLS + 1)


def decay(x):
    """The share below x of readings that are exponential within 0 and 1."""
    return (1 - np.exp(-12 * x)) / (1 - np.exp(-12))


def apart(shares, counts, truth):
    """Total variation in the parts of cells, of the shares of them."""
    found = (counts[:, None] * shares).reshape(-1)
    return float(np.abs(found - truth).sum() / 2)


def test_parts_of_cells_follow_a_smooth_density():
    """The error inside cells is a tenth of that of an even spread, or less; even is the control."""
    counts = np.diff(decay(ENDS))
    shares = shares_inside(NUMBER, BITS, counts)
    parts = shares.shape[1]
    truth = np.diff(decay(np.linspace(0, 1, CELLS * parts + 1)))
    even = np.full_like(shares, 1 / parts)
    limit = 0.1 * apart(even, counts, truth)
    assert apart(shares, counts, truth) < limit
    assert not apart(even, counts, truth) < limit


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.floats(0, 1e6), min_size=3, max_size=64),
    st.sampled_from([NUMBER, STEPPED, Attribute("x", low=0, high=9, scale="log", step=0.1)]),
)
def test_shares_are_shares(counts, attribute):
    bits = (len(counts) - 1).bit_length()
    padded = np.zeros(1 << bits)
    padded[: len(counts)] = counts
    shares = shares_inside(attribute, bits, padded)
    assert (shares >= 0).all()
    np.testing.assert_allclose(shares.sum(axis=1), 1.0)


@pytest.mark.parametrize("place", [0, 9, CELLS - 1])
def test_a_spike_stays_one_box(place):
    """A value with mass of its own says nothing of where its cell's other readings are."""
    counts = np.diff(decay(ENDS)) * 1e4
    counts[place] += 1e6
    low, high = ends_of(shares_inside(NUMBER, BITS, counts), np.array([place]), np.array([0]))
    if 0 < place < CELLS - 1:
        assert (low[0], high[0]) == (place, place + 1)
    cells = np.arange(CELLS)
    low, high = ends_of(shares_inside(NUMBER, BITS, counts), cells, np.zeros(CELLS, int))
    assert (high - low < 1).sum() >= CELLS - 4  # the control: others have slopes


@pytest.mark.parametrize("end", [0, -1], ids=["first", "last"])
def test_readings_at_a_bound_fall_off_as_fast_inside_their_cell(end):
    """An exponential density that falls by a factor of 20 over a cell, against an even spread."""
    ends = np.exp(-np.log(20) * np.arange(CELLS * 16 + 1) / 16)
    finest = -np.diff(ends)[:: 1 if end == 0 else -1]
    counts = finest.reshape(CELLS, 16).sum(axis=1)
    shares = shares_inside(NUMBER, BITS, counts)[end]
    truth = finest.reshape(CELLS, len(shares), -1).sum(axis=2)[end] / counts[end]
    assert np.abs(shares - truth).sum() / 2 < 0.02
    assert np.abs(1 / len(shares) - truth).sum() / 2 > 0.3  # the control


@pytest.mark.parametrize("end", [0, -1], ids=["first", "last"])
def test_a_frequent_value_at_a_bound_has_most_of_its_records(end):
    """Of a cell with three or four points. Negative control: the middle of the bounds."""
    counts = np.full(CELLS, 10.0)
    counts[end] = 1e4
    shares = shares_inside(STEPPED, BITS, counts)[end]
    outermost = shares[np.flatnonzero(shares)[end]]
    assert outermost > 0.8
    if end == -1:
        assert share_at_top(STEPPED, BITS, counts) == pytest.approx(outermost)
        assert share_at_top(NUMBER, BITS, counts) == 0
        assert share_at_top(STEPPED, BITS, np.full(CELLS, 10.0)) == pytest.approx(1 / 4, abs=0.05)
    inside = np.full(CELLS, 10.0)
    inside[CELLS // 2] = 1e4
    assert shares_inside(STEPPED, BITS, inside)[CELLS // 2, 0] == 1.0


def test_parts_without_a_point_of_a_step_have_none():
    counts = np.diff(decay(ENDS))
    shares = shares_inside(STEPPED, BITS, counts)
    cells, parts = np.nonzero(shares)
    low, high = (each / CELLS * 100 for each in ends_of(shares, cells, parts))
    high[-1] += 1  # The last cell holds the bound as well.
    assert (np.ceil(low) < high).all()
    finest = np.linspace(0, 100, shares.size + 1)
    assert not (np.ceil(finest[:-1]) < finest[1:]).all()  # the control


@pytest.mark.parametrize(
    "attribute",
    [
        Attribute("x", categories=tuple(map(str, range(CELLS)))),
        Attribute("x", low=0, high=1, atoms=(0,)),
    ],
)
def test_these_have_no_slopes(attribute):
    counts = np.diff(decay(ENDS))
    np.testing.assert_array_equal(shares_inside(attribute, BITS, counts), np.ones((CELLS, 1)))
    assert shares_inside(NUMBER, BITS, counts).shape[1] > 1  # the control


LEARNED = Attribute(
    "x", low=0, high=1, scale="learned", knots=(*np.linspace(0, 0.2, 30).tolist(), 0.5, 0.7, 1)
)


@pytest.mark.parametrize("rate", [6, 12, 25])
def test_readings_of_a_wide_learned_cell_are_where_the_narrow_ones_are(rate):
    """The mean of an exponential density in the three widest cells, of which the first has nearly
    all readings. In the control they are spread evenly over the part of the scale."""

    def below(x):
        return -np.expm1(-rate * x) / -np.expm1(-rate)

    edges = LEARNED.from_unit(ENDS)
    counts = np.diff(below(edges))
    shares = shares_inside(LEARNED, BITS, counts)
    ends = LEARNED.from_unit(np.linspace(0, 1, shares.size + 1))
    middles = ((ends[:-1] + ends[1:]) / 2).reshape(shares.shape)
    places = np.linspace(0, 1, 20_001) * (1 - edges[-4]) + edges[-4]
    truth = np.average((places[:-1] + places[1:]) / 2, weights=np.diff(below(places)))

    def mean(inside):
        return np.average((inside * middles).sum(axis=1)[-3:], weights=counts[-3:])

    def off(inside):
        return abs(mean(inside) - truth)

    even = np.full_like(shares, 1 / shares.shape[1])
    assert off(shares) < 0.5 * off(even), (off(shares), off(even))
    assert (np.diff(shares[-3]) < 0).all()


def test_particles_take_parts_by_their_shares():
    """Of each cell's weight a part has its share, up to one particle."""
    generator = np.random.default_rng(1)
    counts = np.diff(decay(ENDS))
    shares = shares_inside(NUMBER, BITS, counts)
    cells = generator.integers(CELLS, size=20_000)
    weights = generator.random(len(cells))
    parts = placed_inside(shares, cells, weights, 3)
    many = shares.shape[1]
    held = np.bincount(cells * many + parts, weights, CELLS * many).reshape(CELLS, many)
    wanted = shares * held.sum(axis=1, keepdims=True)
    assert np.abs(held - wanted).max() <= weights.max()
    # The control: with the same order of all attributes' parts, they would hang together.
    other = placed_inside(shares, cells, weights, 4)
    assert abs(np.corrcoef(parts, other)[0, 1]) < 0.2
    assert not abs(np.corrcoef(parts, placed_inside(shares, cells, weights, 3))[0, 1]) < 0.2
