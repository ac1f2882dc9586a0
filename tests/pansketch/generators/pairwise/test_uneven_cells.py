"""Errors of questions that cut a cell of a number: all parts of a cell err together.

Every truth here lies inside one cell, whose readings are far more than their noise: the errors are
of the cell and hardly differ from one release to the next. Of 100 releases none was beyond 1.58
standard errors, nor the control below 4.2, with deviations of 0.003 at most. A hundred of them are
left to either bound, so the chance of a false alarm is below 1e-9.
"""

from dataclasses import replace

import numpy as np
import pytest

from pansketch import Attribute, Domain, Privacy, Release, View, ViewsSpec, WindowId
from pansketch.generators import margin, pairwise
from pansketch.generators.pairwise.margin import cells_told
from pansketch.generators.pairwise.marginals import Margin
from pansketch.generators.pairwise.multiresolution import possible_step
from pansketch.generators.partition import box_overlap
from tests.seeded_noise import noise_of_test

BITS, COUNT = 5, 40_000
DOMAIN = Domain([Attribute("x", low=0, high=5), Attribute("y", low=0, high=1)])
PARTS = (View(("x",), (BITS,), 500_000), View(("x", "y"), (BITS, 2), 500_000))
SPEC = ViewsSpec(DOMAIN, Privacy(1.0), PARTS)
# Most readings are in the first cell, and there are hardly any at its lower end.
SKEWED = np.minimum(np.exp(0.8 * np.random.default_rng(1).standard_normal(COUNT) - 2.1), 5.0)


def released(x: np.ndarray) -> Release:
    sketch = SPEC.start(noise_of_test())
    sketch.update_many(np.column_stack([x, np.random.default_rng(2).random(COUNT)]))
    return sketch.release(noise_of_test())


@pytest.mark.parametrize("q", [0.1, 0.25, 0.5])
def test_errors_hold_the_density_inside_a_cell(q):
    model = margin(released(SKEWED), "x")
    at = float(np.quantile(SKEWED, q))
    assert at < 5 / 2**BITS
    for found, truth in ((model.cdf("x", at), q), (model.quantile("x", q), at)):
        assert abs(found.value - truth) < 2 * found.standard_error


def test_parts_of_a_cell_do_not_err_one_by_one():
    """The control: an error of the part that is cut is not enough."""
    model = replace(margin(released(SKEWED), "x"), cells={})
    at = float(np.quantile(SKEWED, 0.1))
    for found, truth in ((model.cdf("x", at), 0.1), (model.quantile("x", 0.1), at)):
        assert abs(found.value - truth) > 3 * found.standard_error


def test_errors_of_two_attributes_hold_it_too():
    at, model = float(np.quantile(SKEWED, 0.1)), pairwise(released(SKEWED))
    found = model.share({"x": (0.0, at), "y": (0.0, 0.5)})
    assert abs(found.value - 0.05) < 2 * found.standard_error
    bins = model.bin_shares([[f"x <= {at!r}", f"x > {at!r}"], ["y <= 0.5", "y > 0.5"]])
    assert bins.standard_error[0, 0] == pytest.approx(found.standard_error, rel=0.3)


def test_even_neighbours_make_an_error_small():
    """What a cell hides is judged by the cells beside it."""
    even = np.random.default_rng(3).uniform(0, 5, COUNT)
    inside, middle = 5 / 2**BITS * 8.5, 1 / 2**BITS * np.sqrt(1 / 12)
    sure, skewed = (margin(released(x), "x").cdf("x", inside) for x in (even, SKEWED))
    assert sure.standard_error < middle
    assert abs(sure.value - float((even <= inside).mean())) < 4 * sure.standard_error
    assert skewed.value > 0.9


def test_half_of_the_readings_may_be_on_the_value_that_a_cell_begins_with():
    spiked = np.where(np.arange(COUNT) % 2 == 0, 0.0, SKEWED)
    model = margin(released(spiked), "x")
    found = model.cdf("x", 0.0)
    assert abs(found.value - 0.5) < 2 * found.standard_error
    # The control: nothing is below the bound, and at the end of a cell that is even nothing piles.
    assert model.share("x < 0").standard_error < 0.01
    even = margin(released(np.random.default_rng(4).uniform(0, 5, COUNT)), "x")
    assert even.cdf("x", 2.5).standard_error < 0.02


def test_cells_twice_as_wide_tell_how_uneven_cells_are():
    """Without noise. A smooth density is halved nearly as it is, independent cells are not."""
    attribute, ends = Attribute("x", low=0, high=1), np.linspace(-4, 4, 257)
    smooth = 1e6 * np.diff(np.tanh(ends))
    assert cells_told(attribute, Margin(8, smooth)).rougher < 0.1
    rough = smooth * np.random.default_rng(5).uniform(0, 2, 256)
    assert 0.8 < cells_told(attribute, Margin(8, rough)).rougher < 3
    spiked = smooth + 0.0
    spiked[40] += 1e6  # It stands out, and has an error of its own.
    assert cells_told(attribute, Margin(8, spiked)).rougher < 0.1


def test_errors_of_a_smooth_density_are_narrow():
    """The control: by the difference between cells side by side alone they are far wider. A normal
    number is beyond 6 deviations with probability 2e-9, and 19 are asked."""
    rows = np.clip(np.random.default_rng(6).normal(2.5, 0.6, COUNT), 0, 5)
    model = margin(released(rows), "x")
    plain = replace(model, cells={0: model.cells[0]._replace(rougher=1.0)})
    places = np.quantile(rows, np.arange(1, 20) / 20).tolist()
    found, wider = ([each.cdf("x", x) for x in places] for each in (model, plain))
    off = [abs(each.value - q / 20) for q, each in enumerate(found, 1)]
    assert all(one <= 6 * each.standard_error for one, each in zip(off, found, strict=True))
    both = (sum(each.standard_error for each in some) for some in (found, wider))
    assert 2 * next(both) < next(both)


@pytest.mark.parametrize("spread", [0.8, 0.9, 1.0, 1.2])
def test_how_readings_begin_inside_a_cell_is_not_shown_by_others(spread, monkeypatch):
    """Loose bounds: half of the readings are in two cells, and all others are smooth. The control:
    by other cells alone, with no frequent value and no step, most shares in the first cell are
    beyond four standard errors."""
    rng = np.random.default_rng(1)
    rows = np.minimum(np.exp(spread * rng.standard_normal(100_000) - 3.9), 5.0)
    spec = ViewsSpec(Domain(DOMAIN.attributes[:1]), Privacy(1), (View(("x",), (9,), 1_000_000),))
    sketch = spec.start(noise_of_test())
    sketch.update_many(rows[:, None])
    model = margin(sketch.release(noise_of_test(), WindowId("a", "s", 1)), "x")

    def beyond(shares):
        asked = zip(np.quantile(rows, shares).tolist(), shares, strict=True)
        found = [(model.cdf("x", at), share) for at, share in asked]
        return np.array([abs(each.value - share) / each.standard_error for each, share in found])

    assert (beyond([0.02, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35]) < 2).all()
    monkeypatch.setattr(box_overlap, "ENDS", 0.0)
    monkeypatch.setattr(box_overlap, "STEEP", 1e9)
    monkeypatch.setattr(box_overlap, "ROUNDED", 0.0)
    assert (beyond([0.02, 0.05, 0.1]) > 4).all()


CELLS = np.linspace(0, 100, 513)
HIDING = 3000.0  # noise, beside which cells of 500 readings tell nothing


@pytest.mark.parametrize(
    ("step", "noise", "found"),
    [(0.1, 30.0, {0.1}), (0.5, 30.0, {0.25}), (0.0, 30.0, {0.0, 0.02}), (0.0, HIDING, {0.2, 0.25})],
)
def test_a_step_is_possible_as_long_as_no_count_excludes_it(step, noise, found):
    """Cells of 0.195. Of multiples of 0.1 one in twenty cells has one less. Of steps that cells
    would show at once the half is named. Noise that hides such cells leaves all steps possible."""
    rng = np.random.default_rng(7)
    rows = rng.normal(20, 3, COUNT)
    rows = np.round(rows / step) * step if step else rows
    counts = np.histogram(rows + 1e-9, CELLS)[0] + noise * rng.standard_normal(512)
    assert possible_step(CELLS[:-1], CELLS[1:], counts, noise) in found


def test_a_few_cells_that_no_step_explains_do_not_exclude_a_step():
    """Counts begin abruptly at 0, in cells of 1.17. Half of the step is enough: errors
    hold half of a cell then."""
    rng = np.random.default_rng(9)
    ends = np.linspace(-50, 550, 513)
    counts = np.histogram(rng.geometric(0.2, 10_000) - 1 + 1e-9, ends)[0]
    for _ in range(20):
        noisy = counts + 30 * rng.standard_normal(512)
        assert possible_step(ends[:-1], ends[1:], noisy, 30.0) in {0.5, 1.0}


@pytest.mark.parametrize(
    ("step", "high"), [(0.1, 100), (0.2, 100), (0.2, 128), (0.25, 128), (0.125, 50)]
)
def test_errors_hold_readings_that_are_multiples_of_an_unstated_step(step, high, monkeypatch):
    """Limits are such multiples, so a cell that they cut has its readings on one side. The control:
    without that possibility the errors do not hold them."""
    rng = np.random.default_rng(8)
    rows = np.round(rng.normal(0.4 * high, 3, 4 * COUNT) / step) * step
    domain = Domain([Attribute("x", low=0, high=high)])
    sketch = ViewsSpec(domain, Privacy(1), (View(("x",), (9,), 1_000_000),)).start(noise_of_test())
    sketch.update_many(rows[:, None])
    release = sketch.release(noise_of_test(), WindowId("a", "s", 1))
    shares = np.arange(1, 40) / 40
    limits = np.quantile(rows, shares, method="inverted_cdf").tolist()

    def within():
        found = [margin(release, "x").cdf("x", limit) for limit in limits]
        off = [abs(e.value - np.mean(rows <= x)) for e, x in zip(found, limits, strict=True)]
        return np.mean(
            [one <= 2 * each.standard_error for one, each in zip(off, found, strict=True)]
        )

    assert within() > 0.9
    monkeypatch.setattr(box_overlap, "ROUNDED", 0.0)
    assert within() < 0.6
