"""The ridge of M2M against closed forms, and the directions that it works in."""

import numpy as np
import pytest
from scipy import linalg, stats

from pansketch.generators import m2m
from pansketch_audit.mechanisms.zero_noise import NoNoise
from tests.pansketch.generators.moments.releases import (
    SMALL,
    clusters,
    released,
    spec_of,
    training_of,
    variance,
)


def features_of(spec, rows):
    """The feature matrix, float64[n, size], as sketches of single readings."""
    sums = []
    for row in rows:
        sketch = spec.start(NoNoise())
        sketch.update_many(row[None])
        sums.append(sketch.release(NoNoise()).counters[1:] / spec.map.one)
    return np.array(sums)


@pytest.mark.parametrize("ridge", [None, "theorem1", "eq5"])
@pytest.mark.parametrize("features", SMALL)
def test_the_published_ridges_against_their_closed_form(features, ridge):
    """a minimises the mean of (f - a phi)^2 plus lambda |a|^2, by scipy. lambda is sigma_xi^2 / n^2
    in Theorem 1, which is the default, and sigma_xi^2 / n in Equation 5.

    Nearly: directions below 1e-12 of the largest are left out, and would add about 1e-6.
    """
    spec = spec_of(features)
    training = training_of(spec, 300, intercept=False)
    release = released(spec, clusters(4000, 1))
    model = m2m(release, training, as_published=True, ridge=ridge)
    phi = features_of(spec, training.rows)
    number = release.counters[0]
    strength = 2 * variance(spec.scales[1]) / spec.map.one**2 / number
    strength /= 1 if ridge == "eq5" else number
    gram = phi.T @ phi / len(phi) + strength * np.eye(spec.map.size)
    for function in (lambda x: x[:, 0], lambda x: np.exp(x[:, 1]), lambda x: x[:, 0] > 0.4):
        target = phi.T @ function(training.rows) / len(phi)
        a = linalg.solve(gram, target, assume_a="pos")
        expected = a @ release.counters[1:] / spec.map.one / number
        assert model.estimate(function).value == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize("features", SMALL)
def test_the_fitted_ridge_against_gaussian_conditioning_in_feature_space(features):
    """Each tau's posterior mean by scipy, weighted by the density of the sums given tau."""
    spec = spec_of(features)
    training = training_of(spec, 300)
    release = released(spec, clusters(4000, 2))
    phi = features_of(spec, training.rows)
    number = release.counters[0]
    noise = 2 * variance(spec.scales[1]) / spec.map.one**2 / number**2
    centred = phi - phi.mean(axis=0)
    found = release.counters[1:] / spec.map.one / number - phi.mean(axis=0)
    gram, unit = centred.T @ centred / len(phi), np.eye(spec.map.size)
    values = np.sin(5 * training.rows[:, 0])
    means, logs = [], []
    for spread in np.geomspace(1 / number + 1 / len(phi), 30, 48):
        whole = spread * gram + noise * unit
        weights = linalg.solve(whole, spread * centred.T @ values / len(phi), assume_a="pos")
        means.append(values.mean() + weights @ found)
        logs.append(stats.multivariate_normal(np.zeros(len(unit)), whole).logpdf(found))
    chances = np.exp(np.array(logs) - max(logs))
    expected = chances @ means / chances.sum()
    model = m2m(release, training)
    assert model.estimate(lambda x: np.sin(5 * x[:, 0])).value == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("features", SMALL)
def test_directions_are_uncorrelated_with_unit_variance(features):
    spec = spec_of(features)
    training = training_of(spec, 400)
    turned = np.array(
        [training.turned(row - training.mean) for row in features_of(spec, training.rows)]
    )
    assert np.allclose(turned.mean(axis=0), 0, atol=1e-3)
    # The least of them stand near the rounding of sums.
    assert np.allclose(turned.T @ turned / 400, np.eye(turned.shape[1]), atol=1e-3)


def test_of_very_many_features_the_leading_directions_are_kept():
    spec = spec_of("race", rows=45, width=24)
    training = training_of(spec, 400)
    whole = features_of(spec, training.rows)
    turned = (whole - training.mean) @ np.stack(
        [training.back(unit) for unit in np.eye(len(training.variances))], axis=1
    )
    assert 200 < turned.shape[1] <= 256
    assert np.allclose(turned.T @ turned / 400, np.eye(turned.shape[1]), atol=1e-3)
    explained = training.variances.sum() / whole.var(axis=0).sum()
    assert explained > 0.95
