"""Models over domains of other bounds, added: the answers of each stay the same, and sums are
right."""

import numpy as np
import pytest

from pansketch import Attribute, Domain, HierarchySpec, Privacy
from pansketch.generators import combine, privhp
from pansketch.generators.partition.rebasing import common_domain, rebased
from tests.seeded_noise import noise_of_test

WIND = Attribute("wind", categories=("calm", "N", "E"))


def domain(low, high, step=None, pm_high=1000.0, order=(0, 1, 2)):
    columns = [
        Attribute("temp", low=low, high=high, unit="degC", step=step),
        Attribute("pm25", low=0, high=pm_high, scale="log"),
        WIND,
    ]
    return Domain([columns[place] for place in order])


OLD, NEW = domain(-10, 40), domain(-40, 60, pm_high=2000.0)


def fitted(over, readings, epsilon=100.0):
    spec = HierarchySpec(over, Privacy(epsilon), depth=14, k=256, width=1024)
    sketch = spec.start(noise_of_test())
    sketch.update_many(readings)
    return privhp(sketch.release(noise_of_test()))


@pytest.fixture(scope="module")
def readings():
    rng = np.random.default_rng(5)
    return np.stack(
        [rng.normal(15, 6, 3000), rng.lognormal(3, 1, 3000), rng.integers(0, 3, 3000)], axis=1
    )


def test_a_rebased_model_gives_the_same_answers(readings):
    model = fitted(OLD, readings)
    moved = rebased(model, common_domain([NEW, OLD]))
    assert moved.domain == NEW
    for name, q in [("temp", 0.1), ("temp", 0.5), ("temp", 0.9), ("pm25", 0.5)]:
        assert moved.quantile(name, q).value == pytest.approx(model.quantile(name, q).value)
    for name in ("temp", "pm25"):
        ours, theirs = moved.mean(name), model.mean(name)
        assert ours.value == pytest.approx(theirs.value)
        assert ours.standard_error == pytest.approx(theirs.standard_error)
    for wanted in ("temp > 20 & wind = N", "pm25 <= 30", "temp > 45"):
        ours, theirs = moved.count(wanted), model.count(wanted)
        assert ours.value == pytest.approx(theirs.value, abs=1e-6)
        assert ours.standard_error == pytest.approx(theirs.standard_error, abs=1e-6)
    ours, theirs = moved.covariance(), model.covariance()
    np.testing.assert_allclose(ours.value, theirs.value, rtol=1e-9)
    np.testing.assert_allclose(ours.standard_error, theirs.standard_error, rtol=1e-9)


def test_sums_of_two_epochs_are_near_the_truth_of_both(readings):
    """The negative control: one of the two alone is far from it."""
    warmer = readings + np.array([30.0, 0.0, 0.0])
    both = np.concatenate([readings, warmer])
    models = [fitted(OLD, readings), fitted(NEW, warmer)]
    whole = common_domain([NEW, OLD])
    together = combine([rebased(model, whole) for model in models])
    assert together.total == pytest.approx(len(both), rel=0.02)
    assert together.mean("temp").value == pytest.approx(both[:, 0].mean(), abs=0.5)
    assert models[0].mean("temp").value != pytest.approx(both[:, 0].mean(), abs=5)
    for q in (0.1, 0.25, 0.75, 0.9):
        truth = np.quantile(both[:, 0], q)
        assert together.quantile("temp", q).value == pytest.approx(truth, abs=2.0)
    sample = together.sample(20_000, np.random.default_rng(6))
    assert sample[:, 0].mean() == pytest.approx(both[:, 0].mean(), abs=0.5)
    assert together.covariance(("temp",)).value[0, 0] == pytest.approx(both[:, 0].var(), rel=0.05)


def test_attributes_in_another_order_are_the_same_attributes(readings):
    turned = domain(-40, 60, pm_high=2000.0, order=(2, 0, 1))
    model = fitted(turned, readings[:, [2, 0, 1]])
    moved = rebased(model, common_domain([NEW, turned]))
    assert moved.domain == NEW
    for wanted in ("temp > 20", "wind = E", "pm25 > 20 & wind = N"):
        ours, theirs = moved.count(wanted), model.count(wanted)
        assert ours.value == pytest.approx(theirs.value)
        assert ours.standard_error == pytest.approx(theirs.standard_error)


def test_the_last_point_of_a_step_stays_a_point(readings):
    """Readings clipped to the old `high` are that value in the new domain, not the one before."""
    old, new = domain(0, 15, step=0.5), domain(0, 60, step=0.5)
    clipped = np.full((2000, 3), [15.0, 10.0, 1.0])
    moved = rebased(fitted(old, clipped), common_domain([new, old]))
    assert moved.quantile("temp", 0.9).value == 15.0
    assert moved.count("temp > 15").value == pytest.approx(0, abs=1)


@pytest.mark.parametrize(
    ("other", "error"),
    [
        (
            Domain([Attribute("temp", low=-10, high=40, unit="degC"), WIND]),
            "other attributes: pm25",
        ),
        (Domain([Attribute("temp", low=250, high=330, unit="K")]), "another unit of temp"),
        (Domain([Attribute("temp", low=1, high=330, unit="degC", scale="log")]), "another scale"),
        (Domain([Attribute("temp", low=0, high=360, unit="degC", cyclic=True)]), "another cyclic"),
        (Domain([Attribute("temp", categories=("cold", "warm"), unit="degC")]), "another categ"),
    ],
)
def test_what_does_not_fit_together_is_refused_with_what_differs(other, error):
    one = OLD if len(other.names) > 1 else Domain([OLD.attributes[0]])
    with pytest.raises(ValueError, match=error):
        common_domain([one, other])


def test_a_logarithmic_scale_that_begins_elsewhere_is_refused():
    one, other = (Domain([Attribute("p", low=low, high=9, scale="log")]) for low in (0, 1))
    with pytest.raises(ValueError, match="another beginning of the logarithmic scale of p"):
        common_domain([one, other])
