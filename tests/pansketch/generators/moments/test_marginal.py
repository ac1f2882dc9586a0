"""Answers of histograms: about several attributes, whose dependence they do not show, and of steps.

Noise of a count has a deviation of about 4 readings of 20,000. Bars are compared with the noise and
bias of hundreds of these, so a false alarm has a probability below 1e-6.
"""

import numpy as np
import pytest

from pansketch import Attribute, Domain, MomentsSpec, Privacy
from pansketch.generators import m2m
from pansketch.generators.moments.marginal import together
from pansketch.generators.moments.ridge import Means
from tests.pansketch.generators.moments.releases import released, training_of

MANY, HUNDRED = 20_000, Domain([Attribute("x", 0, 100), Attribute("y", 0, 100)])


def model_of(rows, domain=HUNDRED, **sizes):
    spec = MomentsSpec(domain, Privacy(1.0), "hist", **sizes)
    return m2m(released(spec, rows), training_of(spec, 1000))


def opposite(drawn):
    first = 50 + 24 * drawn.normal(size=MANY)
    return np.clip(np.column_stack([first, 100 - first]), 0, 100)


def far_clusters(drawn):
    near = drawn.random((MANY, 1)) < 0.95
    return np.where(near, 10, 88) + 1.5 * drawn.normal(size=(MANY, 2))


def skewed(drawn):
    return np.clip(20 * drawn.pareto(1.1, (MANY, 2)), 0, 100)


def alike(drawn):
    return np.repeat(100 * drawn.random((MANY, 1)), 2, axis=1)


@pytest.mark.parametrize("shape", [opposite, far_clusters, skewed, alike])
def test_errors_of_two_attributes_cover_any_dependence(shape):
    """The skewed readings are independent, and were answered with a covariance of -180,000."""
    rows = shape(np.random.default_rng(1))
    model, (x, y) = model_of(rows), rows.T
    found, real = model.covariance()[0, 1], np.cov(x, y, bias=True)[0, 1]
    assert abs(found.value - real) < 2 * found.standard_error
    for part, other in ((0.5, 0.5), (0.3, 0.6), (0.9, 0.9)):
        one, two = (min(np.floor(np.quantile(c, q)), 98) + 0.5 for c, q in ((x, part), (y, other)))
        count = model.count(f"x > {one} & y <= {two}")
        inside = np.sum((x > one) & (y <= two))
        # Bins that a condition cuts, beside the dependence: the margin is for their noise.
        assert abs(count.value - inside) < 2.3 * count.standard_error


def test_independent_attributes_have_no_wider_errors_than_unknown_ones():
    """The control: at most the error of a share that may be anything."""
    model = model_of(100 * np.random.default_rng(2).random((MANY, 2)))
    assert model.covariance()[0, 1].standard_error < 1.1 * (100**2 / 12) / np.sqrt(3)
    assert model.share("x > 50 & y <= 50").standard_error < 1.1 * 0.5 / np.sqrt(12)
    assert model.share("x > 1 & y <= 99").standard_error < 0.01
    assert model.share("x > 50").standard_error < 0.01


def test_two_standard_errors_reach_every_share_that_the_attributes_allow():
    def known(share):
        return Means(np.array([share]), np.zeros(1), np.array([share]))

    for one, two in ((0.5, 0.5), (0.05, 0.95), (0.9, 0.9), (0.02, 0.01), (1.0, 0.3)):
        found = together([known(one), known(two)])
        reach = 2 * np.sqrt(found.variance.item())
        assert found.value.item() == pytest.approx(one * two)
        assert found.value.item() + reach >= min(one, two) - 1e-12
        assert found.value.item() - reach <= max(0.0, one + two - 1) + 1e-12
    assert together([known(0.3)]).variance == 0


@pytest.mark.parametrize("bins", [100, 37])
def test_values_of_a_step_stand_where_they_are_counted(bins):
    """Borders of the bins are at multiples of the step, and half a bin is far more than noise."""
    domain = Domain([Attribute("x", 0, 100, step=1)])
    rows = np.round(50 + 4 * np.random.default_rng(3).normal(size=(MANY, 1)))
    model = model_of(rows, domain, bins=bins)
    found = model.mean("x")
    assert abs(found.value - rows.mean()) < 6 * found.standard_error
    if bins == 100:
        assert abs(found.value - rows.mean()) < 0.2
        for value in (46, 50, 53):
            assert abs(model.cdf("x", value).value - np.mean(rows <= value)) < 0.02
