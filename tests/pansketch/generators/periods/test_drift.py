"""Attributes that changed: found where they did, and not beyond the stated level where not."""

import numpy as np
import pytest
from scipy import stats

from pansketch import HierarchySpec, Privacy, View, ViewsSpec, WindowId, merge
from pansketch.domain import Attribute, Domain
from pansketch.generators import (
    TooFewReadings,
    holm,
    margin,
    margin_drift,
    pairwise,
)
from tests.seeded_noise import noise_of_test

FALSE_ALARM = 1e-6
ENTROPY = noise_of_test()
DOMAIN = Domain(
    [
        Attribute("temp", -40, 60, unit="degC"),
        Attribute("wind", categories=("calm", "north", "south")),
        Attribute("way", 0, 360, cyclic=True),
    ]
)
PRIVACY = Privacy(epsilon=1)
SPEC = ViewsSpec(
    DOMAIN,
    PRIVACY,
    (
        View(("temp",), (7,), 300_000),
        View(("temp", "wind"), (4, 2), 400_000),
        View(("way",), (5,), 300_000),
    ),
)
TREE = HierarchySpec(Domain(DOMAIN.attributes[:1]), PRIVACY, depth=12, k=64, width=256, rows=1)
REPEATS = 60


def readings(rng, count, warmer=0.0, calmer=0.0, turned=0.0):
    temp = np.clip(rng.normal(10 + warmer, 8, count), -40, 60)
    shares = [0.4 + calmer, 0.4 - calmer, 0.2]
    way = np.rad2deg(rng.vonmises(0, 1, count)) + turned
    return np.column_stack([temp, rng.choice(3, count, p=shares), way % 360])


def period(spec, rows, first=1, windows=2):
    """Merged releases of so many windows."""
    found = []
    for number, part in enumerate(np.array_split(rows, windows), first):
        sketch = spec.start(ENTROPY)
        sketch.update_many(part[:, : spec.domain.dimension])
        found.append(sketch.release(ENTROPY, WindowId("one", "s", number)))
    return merge(found)


def drift(rng, name, spec=SPEC, count=3000, **changes):
    before, after = readings(rng, count), readings(rng, 2 * count, **changes)
    return margin_drift([period(spec, before)], [period(spec, after, first=10)], name)


@pytest.mark.parametrize(
    ("spec", "name"), [(SPEC, "temp"), (SPEC, "wind"), (SPEC, "way"), (TREE, "temp")]
)
def test_without_a_change_p_values_reach_a_level_as_often_as_stated(spec, name):
    """At the level 0.1: more of 60 than a binomial gives with a probability of FALSE_ALARM fail."""
    rng = np.random.default_rng(5)
    found = np.array([drift(rng, name, spec).p_value for _ in range(REPEATS)])
    assert np.count_nonzero(found <= 0.1) <= stats.binom.isf(FALSE_ALARM, REPEATS, 0.1)
    assert np.count_nonzero(found > 0.5) >= stats.binom.ppf(FALSE_ALARM, REPEATS, 0.5)


@pytest.mark.parametrize(
    ("spec", "name", "changes", "size"),
    [
        (SPEC, "temp", {"warmer": 4.0}, 4.0),
        (SPEC, "wind", {"calmer": 0.15}, 0.15),
        (SPEC, "way", {"turned": 60.0}, None),
        (TREE, "temp", {"warmer": 4.0}, 4.0),
    ],
)
def test_control_a_change_is_found_with_its_size(spec, name, changes, size):
    """The p-value is the least that the draws give, and the size lies within six errors."""
    found = drift(np.random.default_rng(6), name, spec, **changes)
    assert found.p_value < 0.001
    assert found.distance > found.from_noise
    if size is not None:
        assert abs(found.distance - size) < 6 * found.standard_error


def test_control_p_values_without_the_noise_of_the_releases_are_too_small(monkeypatch):
    """The first test must fail of a null distribution that knows of sampling alone."""
    module = __import__("pansketch.generators.periods.drift", fromlist=["_covariance"])
    whole = module._covariance

    def sampling(first, second):
        none = np.zeros_like(first.covariance)
        exact = [type(e)(e.attribute, e.bits, e.value, none) for e in (first, second)]
        return whole(*exact)

    monkeypatch.setattr(module, "_covariance", sampling)
    rng = np.random.default_rng(7)
    found = np.array([drift(rng, "temp").p_value for _ in range(REPEATS)])
    assert np.count_nonzero(found <= 0.1) > stats.binom.isf(FALSE_ALARM, REPEATS, 0.1)


def test_an_answer_repeats_itself():
    rng = np.random.default_rng(8)
    one, other = period(SPEC, readings(rng, 2000)), period(SPEC, readings(rng, 2000), first=10)
    assert margin_drift([one], [other], "temp") == margin_drift([one], [other], "temp")


def test_counts_of_almost_no_noise_are_compared():
    """Precisions of resolutions that differ by many powers of ten are one regular equation."""
    views = (View(("temp",), (7,), 10_000_000), View(("temp", "wind"), (4, 2), 90_000_000))
    spec = ViewsSpec(Domain(DOMAIN.attributes[:2]), Privacy(epsilon=100), views)
    before, after = (np.full((400, 2), (temp, 1.0)) for temp in (20.0, 30.0))
    for rows, size in ((after, 10), (before, 0)):
        found = margin_drift([period(spec, before)], [period(spec, rows, first=10)], "temp")
        assert abs(found.distance - size) <= found.from_noise + 6 * found.standard_error
        assert found.standard_error < 1


def test_too_few_readings_and_other_sketches_are_refused():
    rng = np.random.default_rng(9)
    many, few = period(SPEC, readings(rng, 3000)), period(SPEC, readings(rng, 4), first=10)
    with pytest.raises(TooFewReadings):
        margin_drift([many], [few], "temp")
    with pytest.raises(ValueError, match="no release"):
        margin_drift([many], [], "temp")


def test_holm_rejects_by_rank():
    """The second must be below a half of the level, or it and all behind it stay."""
    p_values = {"a": 0.003, "b": 0.004, "c": 0.5}
    assert holm(p_values, 0.01) == {"a", "b"}
    assert holm(p_values | {"b": 0.006}, 0.01) == {"a"}
    assert holm({"a": 0.004, "b": 0.004, "c": 0.5}, 0.01) == set()
    assert holm({}, 0.01) == set()


@pytest.mark.parametrize("name", ["temp", "wind", "way"])
def test_the_model_of_one_attribute_answers_as_that_of_all(name):
    """Particles follow the margins to within a thousandth of the readings."""
    release = period(SPEC, readings(np.random.default_rng(10), 3000))
    alone, together = margin(release, name), pairwise(release).boxes
    assert alone.total == pytest.approx(together.total, rel=1e-3)
    if name == "wind":
        one, other = alone.share("wind = calm"), together.share("wind = calm")
    else:
        one, other = alone.mean(name), together.mean(name)
    assert abs(one.value - other.value) < 0.1 * other.standard_error
    assert 0.4 < one.standard_error / other.standard_error < 2.5
