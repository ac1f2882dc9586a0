"""What cells hide of a dependence, from how much of an attribute's spread is inside them."""

from dataclasses import replace

import numpy as np
import pytest

from benchmarks.error_bars.short_streams import exact, noisy
from pansketch import Attribute, Domain, Privacy, View, ViewsSpec, WindowId
from pansketch.generators import fidelity, pairwise
from pansketch.generators.fidelity.portrait import Grid, correlations
from pansketch.generators.fidelity.tables import attenuations, hidden, portrait
from pansketch.generators.pairwise import higher_order_error
from pansketch.generators.pairwise.contingency_tables import Table, tables_of
from pansketch.generators.pairwise.fit import ViewFit, fit_views
from pansketch.generators.pairwise.gaussian_copula import beyond_copula
from pansketch.generators.pairwise.higher_order_error import Dependence
from pansketch.generators.pairwise.marginals import Margin
from pansketch.generators.partition import moments
from tests.seeded_noise import noise_of_test

RHO, READINGS = 0.8, 100_000
DOMAIN = Domain([Attribute(name, low=-10, high=10) for name in "xy"])
COARSE, FINE = 3, 6  # cells of 2.5 and of 0.3 standard deviations
CLEAR = 100.0  # an epsilon whose noise is next to nothing


def readings():
    """A pair of normal numbers that go together, of a fixed seed."""
    generator = np.random.default_rng(3)
    x, other = generator.normal(size=(2, READINGS))
    return np.column_stack([x, RHO * x + np.sqrt(1 - RHO**2) * other])


def released(bits, domain=DOMAIN, rows=None, alone=(8, 8)):
    """Of a view of both in cells of so many bits, and one of each `alone`."""
    part = Privacy(CLEAR).epsilon_micro // 3
    sets = {("x",): alone[:1], ("y",): alone[1:], ("x", "y"): (bits, bits)}
    parts = [part, part, Privacy(CLEAR).epsilon_micro - 2 * part]
    views = [View(*view, part) for view, part in zip(sets.items(), parts, strict=True)]
    sketch = ViewsSpec(domain, Privacy(CLEAR), views).start(noise_of_test())
    sketch.update_many(readings() if rows is None else rows)
    return sketch.release(noise_of_test(), WindowId("a", "s", 0))


def shown(bits):
    """(the correlation that cells of so many bits show, attenuation)."""
    release = released(bits)
    fit = fit_views(DOMAIN, tables_of(release))
    grids = {i: Grid.of(DOMAIN.attributes[i], [fit.margins[i]]) for i in range(2)}
    found = float(correlations(portrait(fit, grids), grids)[0])
    return found, attenuations(fit, grids)[0, 1]


@pytest.mark.parametrize("bits", [COARSE, FINE])
def test_cells_show_the_attenuated_correlation(bits):
    """Seeded readings, no noise to speak of; the control is the correlation unattenuated. Of normal
    numbers there are terms in odd powers of RHO beyond the first, which coarse cells show too."""
    found, part = shown(bits)
    assert found / part == pytest.approx(RHO, rel=0.1 if bits == COARSE else 0.02)
    if bits == COARSE:
        assert found < 0.8 * RHO


def test_fine_cells_hide_next_to_nothing():
    coarse, fine = shown(COARSE), shown(FINE)
    assert fine[1] > 0.98 > coarse[1]


@pytest.mark.parametrize(("bits", "least", "most"), [(COARSE, 0.15, 0.5), (FINE, 0.0, 0.03)])
def test_the_predicted_correlation_error_is_what_cells_hide(bits, least, most):
    found, _ = shown(bits)
    told = fidelity([released(bits)]).correlation
    assert told == pytest.approx(RHO - found, rel=0.25, abs=0.01)
    assert least <= told <= most


def test_an_attribute_that_never_changes_has_no_correlation_and_hides_none():
    """All readings in one cell, which holds a single step."""
    domain = Domain([Attribute("rain", low=0, high=8, step=1), Attribute("y", low=-10, high=10)])
    grids = {
        i: Grid(domain.attributes[i], 4, np.arange(1, 16) / 16, np.zeros(16)) for i in range(2)
    }
    counts = np.zeros((16, 16))
    counts[0] = 10.0
    table = Table((0, 1), (4, 4), counts, 1e-9)
    fit = ViewFit({i: Margin(4, table.along(i)) for i in range(2)}, [table])
    assert grids[0].between(np.eye(16)[0], 4) == 1.0
    assert correlations(portrait(fit, grids), grids).tolist() == [0.0]
    assert np.isfinite(hidden(fit, grids, 1000, np.random.default_rng(1))[0, 1])


@pytest.mark.parametrize(("one", "two"), [(0.5, 0.5), (0.05, 0.95), (0.9, 0.9), (0.02, 0.01)])
def test_two_errors_reach_every_number_that_two_margins_allow(one, two):
    """No view joins the pair, and records are of independent attributes."""
    places = np.stack(np.meshgrid(*[(np.arange(100) + 0.5) / 100] * 2, indexing="ij"), axis=-1)
    low = places.reshape(-1, 2)
    dependence = Dependence(low, low, np.ones(len(low)), ())
    inside = {axis: (low[:, axis] < part)[None] * 1.0 for axis, part in enumerate((one, two))}
    reach = 2 * dependence.doubt(inside).item() / len(low)
    assert one * two + reach >= min(one, two) - 1e-9
    assert one * two - reach <= max(0.0, one + two - 1) + 1e-9
    # The control: it is no farther than all of what they allow.
    assert reach <= 2 * (min(one, two) - max(0.0, one + two - 1)) + 1e-9


@pytest.mark.parametrize(("clusters", "least", "most"), [(False, 0.0, 0.3), (True, 0.8, 1.0)])
def test_a_copula_that_explains_where_clusters_are_does_not_explain_their_insides(
    clusters, least, most
):
    """Both streams have nearly the same correlation, and hardly any noise."""
    rows = readings()
    if clusters:
        generator = np.random.default_rng(4)
        middle = np.where(generator.random((READINGS, 1)) < 0.5, -4, 4)
        rows = middle + generator.normal(size=rows.shape)
    views = (View(("x",), (7,), 1), View(("y",), (7,), 1), View(("x", "y"), (5, 5), 1))
    parts = [Privacy(CLEAR).epsilon_micro // 3] * 3
    parts[0] += Privacy(CLEAR).epsilon_micro - sum(parts)
    views = [View(v.names, v.bits, part) for v, part in zip(views, parts, strict=True)]
    sketch = ViewsSpec(DOMAIN, Privacy(CLEAR), views).start(noise_of_test())
    sketch.update_many(rows)
    fit = fit_views(DOMAIN, tables_of(sketch.release(noise_of_test(), WindowId("a", "s", 0))))
    (table,) = fit.tables
    assert least <= beyond_copula(table, fit.margins, fit.angles[0, 1]) <= most


def test_a_copula_that_shows_nothing_explains_nothing():
    """A quotient of what both show inside wider cells would overflow."""
    margins = {axis: Margin(2, np.full(4, 25.0)) for axis in (0, 1)}
    even = np.full((4, 4), 6.25)
    apart = even + np.tile([[1.0, -1.0], [-1.0, 1.0]], (2, 2))
    with np.errstate(over="raise", divide="raise", invalid="raise"):
        for angle in (0.0, 1e-308):
            assert beyond_copula(Table((0, 1), (2, 2), apart, 1.0), margins, angle) == 1.0
        assert beyond_copula(Table((0, 1), (2, 2), even, 1.0), margins, 0.0) == 0.0


@pytest.mark.parametrize("coarse", [3, 4])
def test_a_covariance_errs_by_what_wide_cells_hide(coarse, monkeypatch):
    """Nearly all of x is in the first cells of the pair's table, and y falls along them. There is
    hardly any noise. The control: without the tilt inside cells its error is far too small."""
    generator = np.random.default_rng(6)
    x = np.minimum(generator.exponential(2.0, READINGS), 100)
    rows = np.column_stack([x, np.clip(60 - 8 * x + generator.normal(0, 15, READINGS), 0, 100)])
    domain = Domain([Attribute(name, low=0, high=100) for name in "xy"])
    release = released(coarse, domain, rows, (9, 7))
    found = pairwise(release).covariance(("x", "y"))[0, 1]
    off = abs(found.value - np.cov(rows.T)[0, 1])
    assert off <= 2 * found.standard_error <= 8 * off
    monkeypatch.setattr(Dependence, "_tilted", lambda *_: 0.0)
    assert off > 2 * pairwise(release).covariance(("x", "y"))[0, 1].standard_error


@pytest.mark.parametrize("turned", [False, True])
def test_two_cells_tell_little_of_what_depends_on_them(turned, monkeypatch):
    """A gas is dosed in most light: then it is in a crowd of its own, which shares a cell with
    others. Two cells hold all of it, and a copula explains their table. There is hardly any
    noise. The control trusts that copula inside the cells."""
    generator = np.random.default_rng(11)
    sun = np.clip(np.sin(2 * np.pi * generator.random(READINGS)), 0, None)
    dosed = (sun > 0.2) & (generator.random(READINGS) < 0.7)
    crowd, others = generator.normal(10, 0.6, READINGS), 4.3 + generator.gamma(2, 0.8, READINGS)
    gas, light = np.where(dosed, crowd, others), 30 * sun * generator.beta(2, 1.5, READINGS)
    rows = np.clip(np.column_stack([gas, light]), 0, 100)
    rows = rows[:, ::-1] if turned else rows
    domain = Domain([Attribute(name, low=0, high=100) for name in "xy"])
    release = released(4, domain, rows, (9, 9))

    def off() -> float:
        found = pairwise(release).covariance(("x", "y"))[0, 1]
        return abs(found.value - np.cov(rows.T)[0, 1]) / found.standard_error

    assert 0.5 < off() < 1.1
    monkeypatch.setattr(Dependence, "_unknown_inside", lambda *_: 0.0)
    assert off() > 1.5


def test_a_covariance_doubts_what_noise_hides_in_a_cell_of_a_pair(monkeypatch):
    """A fault in 0.3 % of the readings drives two quiet numbers far out, both of them. Noise hides
    it in all tables. All randomness is seeded. The control counts no cell alone."""
    attributes = [Attribute(name, low=0, high=1000) for name in "xy"]
    views = *(View((each.name,), (9,), 25_000) for each in attributes), View("xy", (6, 6), 150_000)
    spec = ViewsSpec(Domain(attributes), Privacy(0.2), views)
    rng = np.random.default_rng(14)
    rows = rng.uniform(1, 8, (200_000, 2))
    fault = rng.random(len(rows)) < 0.003
    rows[fault] = rng.normal([180, 41], 20, (int(fault.sum()), 2)).clip(0, 1000)
    told, truth = exact(spec, rows), np.cov(rows.T)[0, 1]
    told = replace(told, counters=5 * told.counters)
    models = [pairwise(noisy(told, 300, rng), particles=2048) for _ in range(4)]

    def within() -> float:
        found = [each.covariance()[0, 1] for each in models]
        return np.mean([abs(e.value - truth) <= 2 * e.standard_error for e in found])

    assert within() == 1.0
    hidden = Dependence.hidden
    monkeypatch.setattr(Dependence, "hidden", lambda self, *of: hidden(self, *of[:3], 0.0))
    for each in models:
        each._nearer.clear()
    assert within() <= 0.5


@pytest.mark.parametrize("turned", [False, True])
def test_cells_that_hold_all_readings_tell_nothing_of_what_depends_on_them(turned, monkeypatch):
    """All readings of one number are in one cell of the table, and the other follows it. There is
    hardly any noise. A correlation of 1 is 1.7 deviations of an unknown one. The control takes a
    cell without neighbours for even."""
    generator = np.random.default_rng(7)
    x = generator.uniform(0.5, 6, READINGS)
    rows = np.column_stack([x, np.clip(16 * x + generator.normal(0, 3, READINGS), 0, 100)])
    rows = rows[:, ::-1] if turned else rows
    domain = Domain([Attribute(name, low=0, high=100) for name in "xy"])
    release = released(3, domain, rows, (9, 9))
    ends = (50, 3) if turned else (3, 50)
    held, inside = f"x < {ends[0]} & y < {ends[1]}", np.all(rows < ends, axis=1)

    def off() -> list[float]:
        model = pairwise(release)
        found = model.covariance(("x", "y"))[0, 1], model.count(held)
        pairs = zip(found, (np.cov(rows.T)[0, 1], inside.sum()), strict=True)
        return [abs(each.value - truth) / each.standard_error for each, truth in pairs]

    assert max(off()) < 2
    monkeypatch.setattr(higher_order_error, "_nothing_told", lambda _: 0.0)
    monkeypatch.setattr(Dependence, "_unknown_inside", lambda *_: 0.0)
    assert not min(off()) < 2


def test_the_error_of_a_covariance_counts_no_noise_where_no_reading_is(monkeypatch):
    """All randomness is seeded. Bounds are 20 standard deviations from the mean. Control: with the
    noise of all cells the error is more than twice as wide."""
    attributes = [Attribute(name, low=-40, high=40) for name in "xy"]
    views = *(View((each.name,), (7,), 300_000) for each in attributes), View("xy", (5, 5), 400_000)
    spec = ViewsSpec(Domain(attributes), Privacy(1.0), views)
    rng = np.random.default_rng(13)
    rows = rng.multivariate_normal([0, 0], [[4, 2.8], [2.8, 4]], 20_000)
    told, truth = exact(spec, rows), np.cov(rows.T)[0, 1]
    models = [pairwise(noisy(told, 10, rng), particles=2048) for _ in range(8)]

    def times_the_real():
        found = [each.covariance() for each in models]
        off = np.array([abs(each.value[0, 1] - truth) for each in found])
        errors = np.array([each.standard_error[0, 1] for each in found])
        assert np.mean(off <= 2 * errors) >= 7 / 8
        return np.sqrt(np.mean(errors**2) / np.mean(off**2))

    there = times_the_real()
    everywhere, centred = attributes[0].cell_means, moments._centred
    monkeypatch.setattr(moments, "_centred", lambda *of: (everywhere, centred(*of)[1]))
    assert there < 0.5 * times_the_real()
