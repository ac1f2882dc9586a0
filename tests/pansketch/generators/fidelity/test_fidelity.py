"""What is predicted of pairs that cells hide, or that no view holds."""

from importlib import import_module
from math import isnan

import numpy as np
import pytest

from pansketch import Attribute, Domain, HierarchySpec, Privacy
from pansketch.generators import fidelity, pairwise, privhp
from pansketch.generators.fidelity import boxes
from pansketch.sketches.views import View, ViewsSpec
from testbed.metrics import distances
from tests.seeded_noise import noise_of_test, seeded_noise

READINGS = 50_000
DOMAIN = Domain([Attribute(name, low=-1000, high=1000) for name in "abc"])
CELL = 2000 / 16
MARGINS = [((name,), (10,)) for name in "abc"]


def released(views, rows, domain=DOMAIN):
    micro = 10_000_000 // len(views)
    spec = ViewsSpec(
        domain, Privacy(10.0 * micro * len(views) / 10_000_000), [View(*v, micro) for v in views]
    )
    sketch = spec.start(noise_of_test())
    sketch.update_many(rows)
    return sketch.release(noise_of_test())


def near_duplicates(spread):
    """In two hundredths of their bounds: all of them lie in four cells of 16 x 16."""
    drawn = np.random.default_rng(3)
    return drawn.normal(0, 10, (READINGS, 1)) + drawn.normal(0, spread, (READINGS, 3))


def test_a_pair_that_no_view_holds_is_never_predicted_to_be_perfect():
    found = fidelity([released(MARGINS, near_duplicates(1.0))])
    assert isnan(found.pair)
    assert min(found.upper.values()) > 0.9
    assert found.correlation >= 1
    assert len(found.unknown) == 3
    one = fidelity([released([*MARGINS, (("a", "b"), (4, 4))], near_duplicates(1.0))])
    assert set(one.pairs) == {("a", "b")}
    assert set(one.upper) == {("a", "b"), ("a", "c"), ("b", "c")}
    assert one.correlation >= 1


@pytest.mark.parametrize(
    ("spread", "turned"), [(1.0, True), (1.0, False), (10.0, False), (100.0, False)]
)
def test_the_upper_figure_holds_whatever_cells_hide(spread, turned):
    """Near-duplicates, dependent and independent attributes. Total variation is a mean over 50,000
    readings and as many records, so chance moves it by a hundredth at most; the upper figure is
    tenths above it. The control is the prediction. Attributes exceed it twofold that fall inside
    each of 16 cells where the other one rises, and rise from cell to cell."""
    rows = near_duplicates(spread)
    if turned:
        rows[:, 1] += CELL - 2 * (rows[:, 1] % CELL)
    release = released([*MARGINS, (("a", "b"), (4, 4))], rows)
    found = fidelity([release], READINGS)
    records = pairwise(release).sample(READINGS, np.random.default_rng(4))
    measured = distances(DOMAIN, rows, records).pairs[0]
    assert measured < found.upper["a", "b"]
    assert (measured > 2 * found.pairs["a", "b"]) == turned


def test_readings_that_crowd_at_a_bound_are_not_taken_for_the_bound(monkeypatch):
    """Two thirds are in the first cell, and the next cell has some too. One reading of noise moves
    a prediction by a hundredth. Control: they have the value of the bound."""
    rng = np.random.default_rng(5)
    fast, slow = np.exp(rng.normal([1.0, 4.5], [0.3, 0.7], (READINGS, 2))).T
    waits = np.where(rng.random(READINGS) < 0.6, fast, slow)
    domain = Domain([Attribute("a", low=0, high=60_000), *DOMAIN.attributes[1:]])
    rows = np.column_stack([waits, rng.normal(0, 250, (READINGS, 2))])
    release = released([*MARGINS, (("a", "b"), (4, 4))], rows, domain)
    records = pairwise(release).sample(READINGS, np.random.default_rng(4))
    measured = distances(domain, rows, records).pairs[0]
    assert measured / 2 < fidelity([release], READINGS).pairs["a", "b"] < measured
    module = import_module("pansketch.generators.fidelity.portrait")
    monkeypatch.setattr(module, "CONTINUED", np.inf)
    assert fidelity([release], READINGS).pairs["a", "b"] < measured / 2.5


def test_other_pairs_do_not_vouch_for_one_whose_cells_show_nothing(monkeypatch):
    """A copula explains how a and b hang together. All of c is in one of 16 cells, and depends on a
    as much. One reading of noise moves a prediction by a hundredth. The control takes for each pair
    what the others show."""
    rng = np.random.default_rng(3)
    both = rng.normal(0, 250, (READINGS, 1)) + rng.normal(0, 150, (READINGS, 3))
    rows = both.clip(-1000, 1000) * (1, 1, 0.05) + np.array([0, 0, CELL / 2])
    pairs = [(names, (4, 4)) for names in (("a", "b"), ("a", "c"), ("b", "c"))]
    release = released([*MARGINS, *pairs], rows)
    records = pairwise(release).sample(READINGS, np.random.default_rng(4))
    measured = distances(DOMAIN, rows, records).pairs[1]
    assert measured / 2 < fidelity([release], READINGS).pairs["a", "c"] < measured
    module = import_module("pansketch.generators.fidelity.tables")
    monkeypatch.setattr(module, "USUAL", 0.0)
    assert not fidelity([release], READINGS).pairs["a", "c"] > measured / 5


def test_narrow_cells_of_smooth_numbers_hide_little(monkeypatch):
    """Independent normal numbers, whose readings are in about ten of 16 cells. One reading of noise
    moves a prediction by a hundredth. The control takes three times the least part."""
    rows = np.random.default_rng(3).normal(0, 250, (READINGS, 3)).clip(-1000, 1000)
    pairs = [(names, (4, 4)) for names in (("a", "b"), ("a", "c"), ("b", "c"))]
    release = released([*MARGINS, *pairs], rows)
    records = pairwise(release).sample(READINGS, np.random.default_rng(4))
    measured = float(distances(DOMAIN, rows, records).pairs.mean())
    assert 2 / 3 < fidelity([release], READINGS).pair / measured < 1.5
    module = import_module("pansketch.generators.fidelity.fidelity")
    monkeypatch.setattr(module, "LEAST_PART", 0.3)
    assert not fidelity([release], READINGS).pair / measured < 1.5


def test_readings_that_saturate_are_on_the_wrong_side_of_their_value():
    """Three in ten at full scale: records spread them over the last cell, below full scale."""
    drawn = np.random.default_rng(4)
    rows = np.clip(drawn.normal(200, 250, (READINGS, 3)), -1000, 1000)
    full = np.where(drawn.random((READINGS, 1)) < 0.3, 1000.0, rows)
    views = [*MARGINS, (("a", "b"), (4, 4)), (("b", "c"), (4, 4)), (("a", "c"), (4, 4))]
    for truth, low, high in ((full, 0.5, 1.5), (rows, 0.0, 3.0)):
        release = released(views, truth)
        told = fidelity([release], 20_000)
        records = pairwise(release).sample(20_000, np.random.default_rng(5))
        measured = float(distances(DOMAIN, truth, records).pairs.mean())
        assert low <= told.pair / measured <= high
        assert min(told.upper.values()) >= measured


def test_a_value_with_mass_in_a_cell_of_its_own_is_not_taken_for_hidden_dependence():
    """Nine in ten at zero, in steps of 2, which the finest cells tell apart: records have that
    value. Chance moves the measured distance by a hundredth. The control is the same without a
    step: readings may do anything inside such a cell, so that the upper figure holds far more."""
    drawn = np.random.default_rng(6)
    rows = np.where(drawn.random((READINGS, 3)) < 0.9, 0.0, drawn.exponential(200, (READINGS, 3)))
    rows = np.clip(2 * np.rint(rows / 2), 0, 1000)
    for step, bar in ((2, 0.1), (None, 1.0)):
        domain = Domain([Attribute(name, low=-1000, high=1000, step=step) for name in "abc"])
        release = released([*MARGINS, (("a", "b"), (4, 4))], rows, domain)
        found = fidelity([release], READINGS)
        records = pairwise(release).sample(READINGS, np.random.default_rng(4))
        measured = distances(domain, rows, records).pairs[0]
        upper = found.upper["a", "b"]
        assert measured < upper + 0.01
        assert (upper < 0.1) == (bar < 1.0)
        assert found.pair < bar


@pytest.mark.parametrize("spread", [10.0, 50.0])
def test_a_hierarchy_is_predicted_from_its_releases(spread):
    """Crowded readings hide in boxes, and others do not. A mean over 50,000 readings moves by a
    hundredth by chance; the bars leave ten times that. The control: boxes hide most of the former.
    """
    rows = near_duplicates(spread)[:, :2]
    domain = Domain([Attribute(name, low=-1000, high=1000) for name in "ab"])
    sketch = HierarchySpec(domain, Privacy(10.0), depth=14).start(noise_of_test())
    sketch.update_many(rows)
    release = sketch.release(noise_of_test())
    found = fidelity([release], READINGS)
    records = privhp(release).sample(READINGS, np.random.default_rng(4))
    measured = distances(domain, rows, records)
    assert 1 / 1.5 <= found.pair / measured.pairs[0] <= 1.5
    assert measured.pairs[0] < found.upper["a", "b"]
    assert (found.pair > 0.09) == (spread == 10.0)
    assert set(found.marginals) == {"a", "b"}
    assert not found.unknown


def cascade(generator, count):
    """Spots within spots: each of nine quarterings shares the readings unevenly."""
    shares = np.ones((1, 1))
    for _ in range(9):
        parts = generator.dirichlet([0.5] * 4, shares.size).reshape(*shares.shape, 2, 2)
        nested = shares[..., None, None] * parts
        shares = nested.transpose(0, 2, 1, 3).reshape(2 * len(shares), -1)
    cells = generator.choice(shares.size, count, p=shares.ravel())
    corners = np.stack(np.unravel_index(cells, shares.shape), axis=1)
    return (corners + generator.random((count, 2))) / len(shares)


def test_spots_inside_of_boxes_are_expected_from_more_than_one_halving(monkeypatch):
    """Of 14 streams, each with its own spots, predicted over measured distances err by a factor of
    1.45, as a root mean square of logarithms. The control learns from one halving: 1.59."""
    domain = Domain([Attribute(name, low=0, high=1) for name in "ab"])
    spec, apart = HierarchySpec(domain, Privacy(20.0), depth=6, fanout=4), []
    for seed in range(14):
        rows, noise = cascade(np.random.default_rng(seed), 20_000), seeded_noise(seed)
        sketch = spec.start(noise)
        sketch.update_many(rows)
        release = sketch.release(noise)
        records = privhp(release).sample(20_000, np.random.default_rng(4))
        measured, told = distances(domain, rows, records).pairs[0], []
        for halvings in (2, 1):
            monkeypatch.setattr(boxes, "HALVINGS", halvings)
            told.append(fidelity([release], 20_000).pair)
        apart.append(np.log(np.array(told) / measured))
    found, control = np.sqrt(np.mean(np.square(apart), axis=0))
    assert found < 0.42 < control


def test_all_readings_at_one_value_have_finite_figures():
    """All readings are in the first cell, which holds one point: there is no deviation to state W1
    in, and noise puts some readings elsewhere."""
    numbers = [Attribute("a", low=0, high=1000, step=1), *DOMAIN.attributes[1:]]
    rows = near_duplicates(1.0)[:4000]
    rows[:, 0] = 0
    views = [(("a",), (10,)), *MARGINS[1:], (("a", "b"), (4, 4))]
    found = fidelity([released(views, rows, Domain(numbers))], READINGS)
    assert all(np.isfinite(each) for each in found.marginals.values())
    assert 0 <= found.marginals["a"] < 1000


@pytest.mark.parametrize("step", [1, None])
def test_readings_at_the_upper_bound_are_predicted_as_records_have_them(step):
    """Seven in ten readings are at the bound, where the last cell holds four points. With a step
    records have that value. Without one, the control, none has it exactly."""
    numbers = [Attribute(n, low=0, high=1000, step=s) for n, s in (("a", step), ("b", 1), ("c", 1))]
    rows = np.random.default_rng(6).uniform(0, 1000, (READINGS, 3)).round()
    rows[: 7 * READINGS // 10, 0] = 1000
    views = [((name,), (8,)) for name in "abc"]
    pairs = [(names, (4, 4)) for names in (("a", "b"), ("a", "c"), ("b", "c"))]
    release = released([*views, *pairs], rows, Domain(numbers))
    records = pairwise(release).sample(READINGS, np.random.default_rng(7))
    measured = distances(Domain(numbers), rows, records).pairs[:2].mean()
    predicted = np.mean([fidelity([release], READINGS).pairs["a", each] for each in "bc"])
    assert (measured < 0.2) == (step is not None)
    assert 0.5 < predicted / measured < 2
