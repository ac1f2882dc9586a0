"""Records and answers of views whose attributes have atoms: exact without noise, right with it.

Without noise a count is exact. With it, an atom's count has the noise of a few cells: 6 standard
errors of a normal number are exceeded with a probability of 2e-9 each.
"""

import numpy as np
import pytest

from pansketch import Attribute, Domain, Privacy, View, ViewsSpec, WindowId
from pansketch.generators import (
    EmptyModel,
    TooFewReadings,
    common_domain,
    learned_domain,
    margin,
    pairwise,
)
from pansketch.generators.partition.found_atoms import found_atoms
from pansketch.planning import Expected, plan_views
from pansketch_audit.mechanisms.zero_noise import NoNoise
from testbed.metrics import wasserstein
from tests.seeded_noise import noise_of_test

DOMAIN = Domain(
    [
        Attribute("rain", 0, 50, step=0.1, atoms=(0,)),
        Attribute("temp", -40, 60, step=0.1, atoms=("missing",)),
        Attribute("co", 0, 20, step=0.1, atoms=(-200, "missing")),
        Attribute("wind", categories=("N", "E", "S"), atoms=("missing",)),
    ]
)
WITHOUT = Domain(
    [
        Attribute("rain", 0, 50, step=0.1),
        Attribute("temp", -40, 60, step=0.1),
        Attribute("co", -200, 20, step=0.1),
        Attribute("wind", categories=("N", "E", "S")),
    ]
)
NAMES = ("rain", "temp", "co", "wind")


def rows_of(count, seed=1):
    """Rain in one hour of six, colder then; a sentinel; missing values that depend on rain."""
    generator = np.random.default_rng(seed)
    wet = generator.random(count) < 1 / 6
    rain = np.where(wet, np.clip(np.round(generator.gamma(2, 3, count), 1), 0.1, 50), 0.0)
    temp = np.clip(np.round(generator.normal(15, 6, count) - 9 * wet, 1), -40, 60)
    co = np.clip(np.round(generator.gamma(3, 1, count), 1), 0, 20)
    co[generator.random(count) < 0.3] = -200
    temp[generator.random(count) < np.where(wet, 0.5, 0.1)] = np.nan
    wind = generator.integers(0, 3, count).astype(float)
    wind[generator.random(count) < 0.2] = np.nan
    return np.column_stack([rain, temp, co, wind])


def released(domain, rows, epsilon=1.0, rng=None, device="one"):
    plan = plan_views(domain, Privacy(epsilon), 131_072, Expected(len(rows), 1, 1))
    sketch = plan.spec.start(rng or noise_of_test())
    sketch.update_many(rows.copy())
    return sketch.release(rng or noise_of_test(), WindowId(device, "s", 1))


@pytest.fixture(scope="module")
def rows():
    return rows_of(20_000)


@pytest.fixture(scope="module")
def exact(rows):
    return pairwise(released(DOMAIN, rows, epsilon=100, rng=NoNoise()))


@pytest.fixture(scope="module")
def noisy(rows):
    return pairwise(released(DOMAIN, rows), particles=1 << 14)


def near(found, truth, times=6, more=0.0):
    assert abs(found.value - truth) <= times * found.standard_error + more


def test_every_reading_counts_in_every_view(rows):
    """Also one that lacks values: the tables of all views add up to the same number."""
    release = released(DOMAIN, rows, rng=NoNoise())
    assert {int(block.sum()) for block in release.split()} == {len(rows)}


def test_shares_of_atoms_are_exact_without_noise(rows, exact):
    rain, temp, co, wind = rows.T
    for text, truth in {
        "rain = 0": rain == 0,
        "temp = missing": np.isnan(temp),
        "co = -200": co == -200,
        "co = missing": np.isnan(co),
        "wind = missing": np.isnan(wind),
        "wind = E": wind == 1,
        "temp = missing & rain = 0": np.isnan(temp) & (rain == 0),
        "rain > 0": rain > 0,
        "rain <= 0": rain <= 0,
        "temp >= -40": ~np.isnan(temp),
    }.items():
        assert exact.share(text).value == pytest.approx(truth.mean(), abs=2e-3), text
    assert exact.share({"temp": "missing"}).value == exact.share("temp = missing").value


def test_answers_are_over_the_readings_that_have_a_value(rows, noisy):
    for name, column in zip(NAMES[:3], rows.T, strict=False):
        held = column[~np.isnan(column)]
        near(noisy.mean(name), held.mean())
        for x in (0.0, 5.0, 12.0):
            near(noisy.cdf(name, x), (held <= x).mean(), more=1e-3)
    assert noisy.quantile("rain", 0.5).value == 0
    assert noisy.quantile("co", 0.1).value == -200
    truth = np.ma.cov(np.ma.masked_invalid(rows[:, :3]), rowvar=False).data
    found = noisy.covariance(NAMES[:3])
    assert (np.abs(found.value - truth) <= 8 * found.standard_error).all()


def test_the_cdf_beside_a_spike_is_right_with_atoms_and_wrong_without(rows, noisy):
    """Of one sixth of the hours with rain: without an atom the dry ones are spread near the bound,
    and the error says so."""
    truth = (rows[:, 0] <= 0.02).mean()
    assert abs(noisy.cdf("rain", 0.02).value - truth) < 0.02
    assert noisy.cdf("rain", -0.02).value == 0
    missing = np.isnan(rows).any(axis=1)
    loose = Domain([Attribute("rain", 0, 50), *WITHOUT.attributes[1:]])
    plain = pairwise(released(loose, rows[~missing]))
    found, held = plain.cdf("rain", 0.02), (rows[~missing, 0] <= 0.02).mean()
    assert 0.1 < held - found.value < 2 * found.standard_error
    even = 0.02 / 50 * (1 << margin(plain.releases[0], "rain").cells[0].bits)  # of a cell
    assert found.value > 2 * even  # the control: what the cell would hold below, spread evenly


def test_records_hold_atoms_exactly_and_their_dependence(rows, noisy):
    records = noisy.sample(50_000, np.random.default_rng(3))
    dry, lacking = records[:, 0] == 0, np.isnan(records[:, 1])
    truth = np.isnan(rows[:, 1])
    assert dry.mean() == pytest.approx((rows[:, 0] == 0).mean(), abs=0.03)
    assert lacking[~dry].mean() == pytest.approx(truth[rows[:, 0] > 0].mean(), abs=0.1)
    assert lacking[dry].mean() == pytest.approx(truth[rows[:, 0] == 0].mean(), abs=0.04)
    co = records[:, 2]
    assert set(co[co < 0]) == {-200.0}
    assert not np.isnan(records[:, 0]).any()
    assert records[~dry, 0].min() >= 0.1
    assert np.nanmean(records[dry, 1]) > np.nanmean(records[~dry, 1]) + 3
    values = [side[:, 2][side[:, 2] >= 0] for side in (rows, records)]
    assert wasserstein(*values) < 0.5


def test_one_attribute_alone_answers_as_all_do(rows):
    release = released(DOMAIN, rows)
    alone, whole = margin(release, "temp"), pairwise(release).boxes
    assert alone.mean("temp").value == pytest.approx(whole.mean("temp").value, abs=0.05)
    assert alone.share("temp = missing").value == pytest.approx(
        whole.share("temp = missing").value, abs=0.005
    )


def test_all_readings_missing_and_none_missing():
    generator = np.random.default_rng(2)
    domain = Domain(
        [Attribute("x", 0, 10, atoms=("missing",)), Attribute("y", 0, 1, atoms=("missing",))]
    )
    rows = np.column_stack([np.full(20_000, np.nan), generator.random(20_000)])
    model = pairwise(released(domain, rows, epsilon=100, rng=NoNoise()))
    assert model.share("x = missing").value == pytest.approx(1, abs=1e-6)
    assert model.share("y = missing").value == pytest.approx(0, abs=1e-6)
    with pytest.raises(EmptyModel, match="x is missing"):
        model.mean("x")
    assert model.mean("y").value == pytest.approx(0.5, abs=0.01)
    assert np.isnan(model.sample(100, generator)[:, 0]).all()


def test_values_that_the_noise_outweighs_are_refused_however_many_readings_lack_them():
    """A mean is one of the readings with a value, and 20 of these are less than the noise."""
    domain = Domain(
        [Attribute("x", 0, 10, atoms=("missing", 0)), Attribute("y", 0, 1, atoms=("missing",))]
    )
    rows = np.column_stack([np.full(20_000, np.nan), np.linspace(0, 1, 20_000)])
    rows[:20, 0] = 7.0
    model = pairwise(released(domain, rows, rng=NoNoise()))
    assert model.share("x = missing").value == pytest.approx(0.999, abs=1e-6)
    for ask in (
        lambda: model.mean("x"),
        lambda: model.cdf("x", 5),
        lambda: model.quantile("x", 0.5),
        lambda: model.covariance(("x",)),
        lambda: model.covariance(("x", "y")),
    ):
        with pytest.raises(TooFewReadings):
            ask()
    assert model.mean("y").value == pytest.approx(0.5, abs=0.05)
    rows[:10_000, 0] = 7.0  # The control.
    model = pairwise(released(domain, rows, rng=NoNoise()))
    assert model.mean("x").value == pytest.approx(7, abs=0.5)


def test_a_logarithmic_scale_with_zeros_and_a_circle_with_calms():
    generator = np.random.default_rng(4)
    pm = np.where(generator.random(30_000) < 0.4, 0.0, np.exp(generator.normal(3, 1, 30_000)))
    wind = np.mod(generator.normal(350, 30, 30_000), 360)
    wind[generator.random(30_000) < 0.25] = np.nan
    domain = Domain(
        [
            Attribute("pm", 0, 1000, scale="log", atoms=(0,)),
            Attribute("wind", 0, 360, cyclic=True, atoms=("missing",)),
        ]
    )
    model = pairwise(released(domain, np.column_stack([np.clip(pm, 0, 1000), wind])))
    near(model.share("pm = 0"), 0.4, more=0.01)
    near(model.mean("pm"), np.clip(pm, 0, 1000).mean())
    apart = (model.mean("wind").value - 350 + 180) % 360 - 180
    assert abs(apart) < 5
    held = wind[~np.isnan(wind)]
    near(model.count({"wind": (340, 20)}), ((held >= 340) | (held <= 20)).sum(), more=100)


def test_learned_scales_keep_atoms_and_are_answered_with_earlier_windows(rows):
    first = released(DOMAIN, np.tile(rows, (4, 1)))
    domain = learned_domain(pairwise(first))
    assert [a.atoms for a in domain.attributes] == [a.atoms for a in DOMAIN.attributes]
    assert domain.attributes[1].knots
    model = pairwise(first, released(domain, rows, device="two"))
    near(model.share("rain = 0"), (rows[:, 0] == 0).mean(), more=0.01)
    near(model.share("temp = missing"), np.isnan(rows[:, 1]).mean(), more=0.01)
    near(model.mean("temp"), np.nanmean(rows[:, 1]))


def test_windows_from_before_an_atom_was_declared_are_answered_too(rows):
    complete = rows[~np.isnan(rows).any(axis=1)]
    before, after = released(WITHOUT, complete), released(DOMAIN, rows, device="two")
    model = pairwise(before, after)
    assert model.domain.attributes[0].atoms == (0.0,)
    near(
        model.mean("rain"), (complete[:, 0].sum() + rows[:, 0].sum()) / (len(complete) + len(rows))
    )
    near(model.share("wind = missing"), np.isnan(rows[:, 3]).sum() / (len(complete) + len(rows)))
    loose = Domain([Attribute("rain", -50, 50, step=0.1), *WITHOUT.attributes[1:]])
    with pytest.raises(ValueError, match="inside other bounds"):
        common_domain([loose, DOMAIN])  # 0 is on a bound of one, and inside the other.


def test_a_spike_is_found_and_a_crowd_is_not():
    generator = np.random.default_rng(6)
    dry = generator.random(40_000) < 0.85
    rain = np.where(dry, 0.0, np.round(generator.gamma(2, 15, 40_000), 1))
    crowd = np.clip(generator.normal(101.2, 0.2, 40_000), 0, 1000)
    domain = Domain([Attribute("rain", 0, 200, step=0.1), Attribute("crowd", 0, 1000)])
    found = found_atoms(pairwise(released(domain, np.column_stack([np.clip(rain, 0, 200), crowd]))))
    assert [(each.name, each.value) for each in found] == [("rain", 0.0)]


def test_views_refuse_cells_that_would_hold_an_atom_and_values():
    with pytest.raises(ValueError, match="rain has atoms, so 3 bits"):
        ViewsSpec(DOMAIN, Privacy(1.0), (View(("rain",), (2,), 10**6),))
