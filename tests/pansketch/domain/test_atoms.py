"""Atoms: sections of the unit interval, and readings and cells that agree about them."""

from itertools import pairwise

import numpy as np
import pytest

from pansketch.domain import Attribute, Domain
from pansketch.domain.fixed_point import POSITION_BITS, PositionEncoder
from pansketch.domain.intervals import edge, interval, whole
from pansketch.sketches.views import MAX_VIEW_BITS

KNOTS = (-200.0, -50.0, 0.0, 1.0, 300.0)
RAIN = Attribute("rain", 0, 50, step=0.1, atoms=(0, "missing"))
SHAPES = {
    "sentinel": Attribute("x", 0, 10, atoms=(-200, "missing")),
    "missing alone": Attribute("x", 0, 96, step=1, atoms=("missing",)),
    "at both bounds": Attribute("x", 0, 10, step=0.1, atoms=(0, 10)),
    "inside": Attribute("x", -5, 20, step=0.5, atoms=(0, "missing")),
    "between steps": Attribute("x", -5, 20, step=1, atoms=(0.5, 7)),
    "logarithmic": Attribute("x", 0, 1e4, scale="log", atoms=(0, "missing")),
    "logarithmic steps": Attribute("x", 0, 1e3, scale="log", step=0.2, atoms=(0, 1e3)),
    "learned": Attribute("x", -200, 300, scale="learned", knots=KNOTS, atoms=(-200, 0, "missing")),
    "learned steps": Attribute("x", -200, 300, scale="learned", knots=KNOTS, step=1, atoms=(7,)),
    "a circle": Attribute("x", 0, 360, step=1, cyclic=True, atoms=(0, "missing")),
    "many": Attribute("x", 0, 1, atoms=(-3, -2, -1, 0, 0.25, 0.5, 1, 2)),
    "decimals": Attribute("x", 0, 1.3, step=0.1, atoms=(0.7, "missing")),
    "categories": Attribute("x", categories=("a", "b", "c", "d"), atoms=("missing",)),
    "one category": Attribute("x", categories=("a",), atoms=("missing",)),
}
EACH = pytest.mark.parametrize("attribute", SHAPES.values(), ids=list(SHAPES))


def _numbers(attribute: Attribute) -> np.ndarray:
    """Values that a sensor may give, atoms and bounds among them."""
    rng = np.random.default_rng(5)
    if attribute.categories is not None:
        values = np.arange(len(attribute.categories), dtype=float)
    else:
        values = rng.uniform(attribute.origin, attribute.highest, 400)
        if attribute.lattice is not None:
            number = np.arange(attribute.lattice.first, attribute.lattice.last + 1.0)
            values = attribute.lattice.points(number)
        else:
            values = np.append(values, [attribute.origin, attribute.highest])
    atoms = [np.nan if each == "missing" else each for each in attribute.atoms]
    return np.concatenate([values, np.array(atoms, float)])


def _cells(attribute: Attribute, values: np.ndarray, bits: int) -> np.ndarray:
    (positions,) = (
        p.copy() for p in PositionEncoder(Domain([attribute]), 8192).encode(values[:, None])
    )
    return np.asarray(positions[0] >> (POSITION_BITS - bits), np.intp)


def _positions(attribute: Attribute, values: np.ndarray) -> np.ndarray:
    if attribute.lattice is None:
        return attribute.scaling.positions(values)
    return attribute.lattice.positions(np.rint(values / float(attribute.lattice.step)))


@EACH
def test_every_atom_has_a_cell_of_its_own_at_every_resolution(attribute: Attribute) -> None:
    values = _numbers(attribute)
    atom = np.isin(values, attribute.numeric_atoms) | np.isnan(values)
    assert atom.any()
    most = min(MAX_VIEW_BITS, attribute.max_bits)
    for bits in range(attribute.least_bits or most, most + 1):
        cells = _cells(attribute, values, bits)
        assert len(set(cells[atom])) == len(attribute.atoms)
        assert not set(cells[atom]) & set(cells[~atom])


@pytest.mark.parametrize("scale", ["linear", "log"])
def test_atoms_and_values_stand_where_models_take_them_to_be_for_any_bounds(scale: str) -> None:
    """A number over an extent, times it, is often less: rounding.
    With such a factor an atom would be counted in the cell before its own."""
    rng = np.random.default_rng(7)
    widths = np.round(rng.uniform(1, 1000, 200), 1)
    lost = 0
    for width in widths.tolist():
        attribute = Attribute("x", 0, width, scale=scale, atoms=(width / 4, "missing"))
        lost += 65536 / attribute.extent * attribute.extent < 65536
        values = rng.uniform(0, width, 50)
        inside = attribute.scaling.positions(values) * (1 << 12)
        clear = np.abs(inside - np.rint(inside)) > 1e-6
        cells = _cells(attribute, values, 12)
        assert np.array_equal(cells[clear], np.floor(inside).astype(np.intp)[clear])
        starts = [place * (1 << 12) for _, place in attribute.atom_positions]
        assert _cells(attribute, np.array([width / 4, np.nan]), 12).tolist() == starts
    assert lost > 15


@EACH
def test_a_cell_gives_back_what_it_counted(attribute: Attribute) -> None:
    """Every value drawn from the cell of a reading is encoded to that cell again; atoms exactly."""
    values, bits = _numbers(attribute), min(6, attribute.max_bits)
    cells = _cells(attribute, values, bits)
    low, high = cells / (1 << bits), (cells + 1) / (1 << bits)
    shares = np.random.default_rng(1).random(len(values))
    drawn = attribute.inside(low, high, np.arange(len(values)), shares)
    assert np.array_equal(_cells(attribute, drawn, bits), cells)
    atom = np.isin(values, attribute.numeric_atoms) | np.isnan(values)
    assert np.array_equal(drawn[atom], values[atom], equal_nan=True)
    if attribute.categories is None:
        means, variances = attribute.cell_means(low, high), attribute.cell_variances(low, high)
        assert np.array_equal(means[atom], values[atom], equal_nan=True)
        assert not variances[atom].any()
        if attribute.scale == "linear":  # Of an even spread no value is farther from its mean.
            assert np.all(np.abs(values - means)[~atom] <= np.sqrt(12.1 * variances[~atom]) + 1e-9)


@EACH
def test_a_step_is_not_drawn_where_it_is_an_atom(attribute: Attribute) -> None:
    bits = min(6, attribute.max_bits)
    cells = np.unique(_cells(attribute, _numbers(attribute), bits))
    owners = np.repeat(np.arange(len(cells)), 64)
    shares = np.random.default_rng(2).random(len(owners))
    drawn = attribute.inside(cells / (1 << bits), (cells + 1) / (1 << bits), owners, shares)
    again = _cells(attribute, drawn, bits)
    # A cell whose only point is an atom gives that point: nothing else is in it.
    alone = 0 if attribute.lattice is None else len(attribute.numeric_atoms)
    assert len(set(cells[owners][again != cells[owners]])) <= alone


@pytest.mark.parametrize("name", [n for n in SHAPES if "categor" not in n and "circle" not in n])
def test_edges_part_what_is_below_a_value_from_what_is_not(name: str) -> None:
    attribute = SHAPES[name]
    values = _numbers(attribute)
    held = values[~np.isnan(values)]
    sections = attribute.placed.sections if attribute.placed else ()
    starts = {each.atom: each.start for each in sections if each.atom is not None}
    positions = np.array(
        [starts.get(v, p) for v, p in zip(held, _positions(attribute, held), strict=True)]
    )
    asked = {*attribute.numeric_atoms, attribute.origin, attribute.highest, -1e9, 1e9}
    for value in asked:
        before, after = edge(attribute, value, after=False), edge(attribute, value, after=True)
        atom = value in attribute.numeric_atoms
        if attribute.lattice is not None or atom or abs(value) == 1e9:
            assert np.array_equal(positions < before, held < value), value
            assert np.array_equal(positions < after, held <= value), value
    start, end = whole(attribute)
    assert ((start <= positions) & (positions < end)).all()
    if attribute.can_miss:
        assert interval(attribute, "missing") == (end, 1.0)
    rising = [edge(attribute, v, after=a) for v in np.unique(held) for a in (False, True)]
    assert all(one <= other for one, other in pairwise(rising))


def test_a_nan_is_left_out_where_missing_is_no_atom_and_an_infinity_always() -> None:
    domain = Domain([RAIN, Attribute("temp", -40, 60)])
    rows = np.array([[np.nan, 20.0], [0.0, np.nan], [np.inf, 20], [np.nan, np.inf], [1, 2]])
    (positions,) = (p.copy() for p in PositionEncoder(domain, 8).encode(rows))
    assert positions.shape == (2, 2)  # The first and the last: `temp` cannot be missing.
    few = [each.copy() for each in PositionEncoder(domain, 1).encode(rows)]
    assert np.array_equal(np.hstack(few), positions)


def test_nothing_stays_of_who_held_an_atom() -> None:
    attribute = Attribute("x", -40, 60, atoms=(-200, 0, 20, "missing"))
    encoder = PositionEncoder(Domain([attribute]), 64)
    atoms = encoder._clipper.atoms
    scratch = (atoms._marks, atoms._looked_up, atoms._whole, encoder._units)
    rows = np.array([[np.nan], [-200.0], [0.0], [20.0], [7.5]] * 10)
    for _ in encoder.encode(rows):
        assert all(each.any() for each in scratch)  # The erased values were in memory before.
    assert not any(each.any() for each in scratch)


def test_the_fingerprint_holds_atoms_and_their_order_does_not_matter() -> None:
    plain, same = Attribute("x", 0, 1), Attribute("x", 0, 1, atoms=())
    assert plain.describe() == same.describe() == {"name": "x", "low": 0.0, "high": 1.0}
    one, other = (
        Attribute("x", 0, 1, atoms=a) for a in (("missing", 0, -5), (-5.0, -0.0, "missing"))
    )
    assert one == other
    assert one.describe()["atoms"] == [-5.0, 0.0, "missing"]


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"low": 0, "high": 1, "atoms": (0, 0.0)}, "repeated"),
        ({"low": 0, "high": 1, "atoms": ("gone",)}, "a number or missing"),
        ({"low": 0, "high": 1, "atoms": (float("nan"),)}, "finite"),
        ({"low": 0, "high": 1, "atoms": tuple(range(9))}, "at most 8"),
        ({"low": 0, "high": 1, "atoms": (1e-12,)}, "too near"),
        ({"low": 0, "high": 360, "cyclic": True, "atoms": (90,)}, "cyclic"),
        ({"categories": ("a", "b"), "atoms": (0,)}, "only atom"),
        ({"categories": ("a", "missing"), "atoms": ("missing",)}, "either a category"),
        ({"constant": 1, "atoms": ("missing",)}, "no atoms"),
    ],
)
def test_atoms_that_cannot_be_are_refused(given: dict, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        Attribute("x", **given)


def test_a_reading_is_rounded_to_an_atom_of_its_step_and_to_no_other():
    """9.95 and the sentinel are no points of the step; 10 and the lower bound are."""
    atoms = (-200, 0, 9.95, 10, "missing")
    attribute = Attribute("x", 0, 100, step=0.1, atoms=atoms)
    places = dict(attribute.atom_positions)
    found = _cells(attribute, np.array([0.04, -3, 9.96, 9.95, 10.03, -200, -199.99, np.nan]), 12)
    missing = attribute.atom_positions[-1][1]
    expected = [places[each] for each in (0, 0, 10, 9.95, 10, -200, 0)]
    assert found.tolist() == [place * (1 << 12) for place in [*expected, missing]]
