"""Errors of an attribute's moments where most of its bounds are far from all readings."""

from dataclasses import replace

import numpy as np
import pytest

from benchmarks.error_bars.short_streams import exact, noisy
from pansketch import Attribute, Domain, Privacy, View, ViewsSpec
from pansketch.generators.pairwise import marginals, multiresolution
from pansketch.generators.pairwise.margin import margin
from pansketch.generators.pairwise.marginals import _falling
from pansketch.generators.pairwise.multiresolution import Fitted, Resolution, folded
from pansketch.generators.partition import moments, shares

READINGS, FLEETS, DEVICES = 20_000, 16, 10
PLACES = np.arange(100.0)  # of cells
# Times the real error. With curves that did not find back it was 7.3, 6.1 and 11.3.
WIDEST = {"skewed": 4.0, "heavy tail": 4.0, "narrow": 7.0}
SPEC = ViewsSpec(
    Domain([Attribute("x", low=0, high=500)]), Privacy(0.1), (View(("x",), (7,), 100_000),)
)


def with_atoms(spec, atoms):
    (attribute,) = spec.domain.attributes
    return replace(spec, domain=Domain([replace(attribute, atoms=atoms)]))


SHAPES = {
    "skewed": lambda rng: 5 * np.exp(0.8 * rng.normal(size=READINGS)),
    "heavy tail": lambda rng: 5 * rng.pareto(2.5, READINGS),
    "narrow": lambda rng: 250 + 8 * rng.normal(size=READINGS),
}


def means(shape, atoms=()):
    """How far means of a shape are from the truth, and their standard errors."""
    rng = np.random.default_rng([*shape.encode()])
    rows = np.clip(SHAPES[shape](rng), 0, 500)
    told = exact(with_atoms(SPEC, atoms), rows[:, None])
    found = [margin(noisy(told, DEVICES, rng), "x").mean("x") for _ in range(FLEETS)]
    errors = np.array([each.standard_error for each in found])
    return np.array([each.value for each in found]) - rows.mean(), errors


@pytest.mark.parametrize("shape", SHAPES)
def test_the_error_of_a_mean_is_neither_too_narrow_nor_far_too_wide(shape):
    """All randomness is seeded. Noise hides tails: those of a heavy tail have readings."""
    off, errors = means(shape)
    assert np.mean(abs(off) <= 2 * errors) >= 0.85
    assert np.sqrt(np.mean(errors**2)) <= WIDEST[shape] * np.sqrt(np.mean(off**2))


@pytest.mark.parametrize("shape", SHAPES)
def test_the_error_of_a_mean_between_atoms_is_as_without_them(shape, monkeypatch):
    """All randomness is seeded. Control: tails of the rough fits between atoms do not fall. There
    replicates alone tell the error, which hidden tails would add to."""

    def wider(errors, alone):
        return np.sqrt(np.mean(errors**2) / np.mean(alone**2))

    _, alone = means(shape)
    off, errors = means(shape, ("missing",))
    assert np.mean(abs(off) <= 2 * errors) >= 0.85
    assert wider(errors, alone) < 1.2
    monkeypatch.setattr(moments, "tails_of_mean", lambda *_: 0.0)
    _, alone = means(shape)
    monkeypatch.setattr(marginals, "_falling", lambda counts, *_: counts)
    _, errors = means(shape, ("missing",))
    assert wider(errors, alone) > 1.25


def test_the_error_of_a_young_mean_holds_the_tail_that_noise_hides():
    """All randomness is seeded. 3,500 readings of ten devices: records lack the upper tail."""
    domain = Domain([Attribute("x", low=0, high=12)])
    spec = ViewsSpec(domain, Privacy(0.3), (View(("x",), (9,), 300_000),))
    rng = np.random.default_rng(11)
    rows = np.clip(1.9 * np.exp(0.55 * rng.normal(size=3500)), 0, 12)
    found = [margin(noisy(exact(spec, rows[:, None]), 10, rng), "x").mean("x") for _ in range(40)]
    off = np.array([each.value for each in found]) - rows.mean()
    errors = np.array([each.standard_error for each in found])
    assert off.mean() < -0.05 * rows.std()
    assert np.mean(abs(off) <= 2 * errors) >= 0.9
    assert max(abs(off) / errors) < 4


@pytest.mark.parametrize("atoms", [(), (-1, "missing")])
def test_a_share_in_a_hidden_tail_has_the_error_of_its_noise(atoms, monkeypatch):
    """All randomness is seeded. Control: without the error of what noise hides."""
    domain = Domain([Attribute("x", low=0, high=12, atoms=atoms)])
    spec = ViewsSpec(domain, Privacy(0.3), (View(("x",), (9,), 300_000),))
    rng = np.random.default_rng(11)
    rows = np.clip(1.9 * np.exp(0.55 * rng.normal(size=3500)), 0, 12)
    models = [margin(noisy(exact(spec, rows[:, None]), 10, rng), "x") for _ in range(30)]

    def within():
        for x in np.quantile(rows, (0.03, 0.1, 0.2, 0.8, 0.9, 0.97)).tolist():
            for found in (each.cdf("x", x) for each in models):
                yield abs(found.value - np.mean(rows <= x)) <= 2 * found.standard_error

    assert np.mean(list(within())) >= 0.9
    for x in (12, 99):  # Beyond a bound nothing is hidden.
        found = [each.cdf("x", x) for each in models]
        assert [each.value for each in found] == [pytest.approx(1.0)] * len(models)
        assert max(each.standard_error for each in found) < 1e-9
    # A share up to a bound is the same question.
    for x in np.quantile(rows, (0.03, 0.97)).tolist():
        below, above = models[0].share({"x": (0, x)}), models[0].share({"x": (x, 12)})
        same = models[0].cdf("x", x)
        if atoms:  # It has the noise of the one below, too.
            assert below.standard_error == pytest.approx(same.standard_error, rel=0.05)
        else:
            assert below == same
        assert above.standard_error == pytest.approx(below.standard_error, rel=0.1)
    monkeypatch.setattr(shares, "MORE", 0.0)
    assert np.mean(list(within())) < (0.89 if atoms else 0.88)


def test_the_error_of_a_mean_beside_a_spike_holds_readings_that_noise_hides():
    """All randomness is seeded. Nine in ten readings are at the lower bound. Noise often hides all
    others, and then the records have one value."""
    domain = Domain([Attribute("x", low=-200, high=1200)])
    spec = ViewsSpec(domain, Privacy(0.3), (View(("x",), (9,), 300_000),))
    rng = np.random.default_rng(12)
    spread = np.clip(200 * np.exp(0.7 * rng.normal(size=3500)), -200, 1200)
    rows = np.where(rng.random(3500) < 0.9, -200.0, spread)
    found = [margin(noisy(exact(spec, rows[:, None]), 10, rng), "x").mean("x") for _ in range(30)]
    off = np.array([each.value for each in found]) - rows.mean()
    errors = np.array([each.standard_error for each in found])
    assert off.min() < -0.25 * rows.std()  # those where noise hides them
    assert max(abs(off) / errors) < 4


LOOSE = ViewsSpec(
    Domain([Attribute("x", low=0, high=60_000)]), Privacy(0.3), (View(("x",), (9,), 300_000),)
)


def far(values):
    """Readings in a hundredth of their bounds, but for so many of one value far from all others."""
    rows = np.clip(2000 + 200 * np.random.default_rng(6).normal(size=READINGS), 0, 60_000)
    rows[:values] = 45_000
    return rows


def models_of(rows, fleets, atoms=()):
    """And the standard deviation of the noise on a cell."""
    rng, told = np.random.default_rng(7), exact(with_atoms(LOOSE, atoms), rows[:, None])
    models = [margin(noisy(told, DEVICES, rng), "x") for _ in range(fleets)]
    return models, models[0].noise.sums[0][0].deviations[0]


def test_a_value_far_from_all_others_stands_out_of_its_cell(monkeypatch):
    """All randomness is seeded. The noise on 128 cells, which a tail up to the value has, is as
    large as the number of its readings. Control: values are not set apart."""
    rows = far(180)
    models, deviation = models_of(rows, 20)
    assert 8 * deviation < 180 < np.sqrt(128) * deviation

    def near(models):
        found = [each.covariance(("x",)).value[0, 0] / rows.var() for each in models]
        return np.mean([0.6 < each < 1.4 for each in found])

    assert near(models) >= 0.8
    monkeypatch.setattr(multiresolution, "STANDS_OUT", np.inf)
    assert near(models_of(rows, 20)[0]) <= 0.2


def test_points_of_a_step_do_not_stand_out_alone():
    """Seven cells are between two points. Control: the cells between them count, too."""
    points, counts = 8 * np.arange(30), np.zeros((1, 256))
    counts[0, points[:17]] = 90.0
    counts[0, points[[5, 12]]] = 130.0
    counts[0, points[26]] = 150.0
    resolutions = [
        Resolution(bits, folded(counts, 8 - bits), np.full(1 << bits, 1 / 21**2)) for bits in (0, 8)
    ]
    best = Fitted(counts, np.ones(256))
    for held, alone in ((points, [26]), (np.arange(256), [5, 12, 26])):
        left, _, apart = multiresolution.set_apart(resolutions, best, held)
        assert np.flatnonzero(apart[0]).tolist() == points[alone].tolist()
        np.testing.assert_allclose(left[-1].counts, counts - apart)
        np.testing.assert_allclose(left[0].counts[:, 0], (counts - apart).sum(axis=1))


@pytest.mark.parametrize("atoms", [(), (-200.0, "missing")])
def test_errors_hold_a_value_that_noise_hides(atoms, monkeypatch):
    """All randomness is seeded. The noise on a cell hides it. Controls: a variance without an error
    for a cluster, and a mean without one for tails too, which hold a part of it."""
    rows = far(30)
    models, deviation = models_of(rows, 16, atoms)
    assert 1 < 30 / deviation < 1.5

    def lowest():
        means = [each.mean("x") for each in models]
        both = [each.covariance(("x",))[0, 0] for each in models]
        return (
            min((each.value - rows.mean()) / each.standard_error for each in means),
            min((each.value - rows.var()) / each.standard_error for each in both),
        )

    assert min(lowest()) > -2
    known = moments._beyond
    monkeypatch.setattr(moments, "_beyond", lambda *args: (known(*args)[0], 0.0))
    assert lowest()[1] < -3
    monkeypatch.setattr(moments, "_beyond", lambda *_: (0.0, 0.0))
    # Between atoms rough fits put noise anywhere, which the error of a mean has too.
    assert lowest()[0] < (-2 if atoms else -3)


@pytest.mark.parametrize("order", [1, 2])
def test_a_tail_that_begins_at_the_median_has_no_distance(order):
    for near in (0.0, 1e-310):
        assert moments._moved(order, near, 40.0, 1.0) == 0.0
    assert moments._moved(order, 1.0, 40.0, 1.0) > 1.0


def variances(shape, fleets):
    """Errors of variances over their standard errors, and the root mean square of the latter."""
    parts = [1_000_000 // 3] * 2
    views = View(("x",), (8,), parts[0]), View(("y",), (8,), parts[1])
    domain = Domain([Attribute(name, low=-500, high=500) for name in "xy"])
    spec = ViewsSpec(
        domain, Privacy(1.0), (*views, View(("x", "y"), (4, 4), 1_000_000 - sum(parts)))
    )
    rng, found = np.random.default_rng(4), []
    for _ in range(fleets):
        rows = np.clip(shape(rng)[:, None] * [1, 1], -500, 500)
        one = margin(noisy(exact(spec, rows), 1, rng), "x").covariance(("x",))
        found.append((one.value[0, 0] - rows[:, 0].var(), one.standard_error[0, 0]))
    off, errors = np.array(found).T
    return off / errors, np.sqrt(np.mean(errors**2) / np.mean(off**2))


def test_the_error_of_a_variance_holds_tails_that_noise_hides():
    """Replicates draw how many readings a tail hides. By chance all of them may draw few."""
    off, ratio = variances(lambda rng: 15 * rng.standard_t(2, READINGS), 24)
    assert np.mean(abs(off) <= 2) >= 0.95
    assert off.min() > -2.1
    assert ratio < 2
    _, ratio = variances(lambda rng: 130 * rng.normal(size=READINGS), 6)
    assert ratio < 2  # The control: readings that fill their bounds have no tails.


def falling(counts, seen, fitted, places):
    """Of one row."""
    row = Fitted(fitted.counts[None], fitted.variances)
    return _falling(counts[None], seen, row, places)[0]


def test_a_tail_falls_with_the_distance_and_keeps_its_readings():
    counts, seen = np.full(100, 1.0), np.zeros(100)
    seen[80:] = 50.0
    found = falling(counts, seen, Fitted(counts, np.full(100, 900.0)), PLACES)
    assert found.sum() == pytest.approx(100.0)
    assert np.all(found >= -1e-12)
    below = np.cumsum(found)
    # The middle is cell 89; cells 0 to 80 hold too few seen readings to stand out from noise.
    assert below[10] == pytest.approx(below[80] * 9 / 79)
    np.testing.assert_allclose(found[81:], counts[81:])


def test_a_tail_that_is_seen_stays():
    counts = np.linspace(1.0, 3.0, 100)
    np.testing.assert_allclose(
        falling(counts, counts, Fitted(counts, np.full(100, 1e-6)), PLACES), counts
    )
    np.testing.assert_allclose(
        falling(counts, counts, Fitted(counts, np.full(100, 1e6)), PLACES), counts
    )


def test_a_tail_falls_with_the_distance_in_the_attributes_unit():
    """Cells of a learned scale are wide in the tails: by their numbers a tail would fall faster."""
    counts, seen = np.full(100, 1.0), np.zeros(100)
    seen[80:] = 50.0
    places = np.arange(100.0)
    places[:40] -= 1000.0
    below = np.cumsum(falling(counts, seen, Fitted(counts, np.full(100, 900.0)), places))
    assert below[10] == pytest.approx(below[80] * 9 / 1079)
    assert below[60] == pytest.approx(below[80] * 9 / 29)


def test_a_tail_that_noise_made_smaller_than_none_hides_as_many_readings():
    """Noise of -81 in cells 0 to 80: a fit leaves nothing there, and +81 would be as likely."""
    seen, best = np.zeros(100), np.full(100, -1.0)
    seen[80:] = best[80:] = 50.0
    counts = np.maximum(best, 0.0)
    counts[80] = 0.0
    found = falling(counts, seen, Fitted(best, np.full(100, 900.0)), PLACES)
    below = np.cumsum(found)
    moved = abs(best[:81].sum() - seen[:81].sum())
    assert below[80] == pytest.approx(moved)
    assert below[10] == pytest.approx(moved * 9 / 79)
    assert below[-1] == pytest.approx(counts.sum())
    assert found.min() >= 0
