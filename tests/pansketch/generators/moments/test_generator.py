"""Models of feature sums: against references, against the truth, and in their errors."""

import numpy as np
import pytest
from scipy import stats

from pansketch import (
    Attribute,
    Domain,
    Estimate,
    HierarchySpec,
    MomentsSpec,
    Privacy,
    merge,
)
from pansketch.generators import m2m, privhp
from tests.pansketch.generators.moments.releases import (
    SMALL,
    SQUARE,
    STATION,
    clusters,
    even,
    noiseless,
    released,
    spec_of,
    station,
    training_of,
    variance,
)
from tests.seeded_noise import noise_of_test

FALSE_ALARM = 1e-6


def test_it_runs_as_documented():
    domain = Domain([Attribute("a0", low=0, high=1), Attribute("a1", low=0, high=1)])
    rows = np.random.default_rng(0).random((20_000, 2))
    privacy = Privacy(epsilon=1.0, unit="reading", intrusion="announced")
    spec = MomentsSpec(domain, privacy, features="rff")
    sketch = spec.start(noise_of_test())
    sketch.update_many(rows)
    model = m2m(sketch.release(noise_of_test()))
    for found in (model.mean("a0"), model.estimate(lambda x: x[:, 0] ** 2)):
        assert isinstance(found, Estimate)
    covariance = model.covariance()
    assert covariance.shape == (2, 2)
    assert isinstance(covariance[0, 1], Estimate)
    assert covariance[0][1] == covariance[0, 1] == covariance[1, 0]


@pytest.mark.parametrize("features", SMALL)
def test_without_noise_smooth_functions_are_found(features):
    spec, rows = spec_of(features), clusters(5000, 3)
    model = m2m(noiseless(spec, rows), training_of(spec))
    for name, column in (("a", rows[:, 0]), ("b", rows[:, 1])):
        assert model.mean(name).value == pytest.approx(column.mean(), abs=0.01)
        assert model.moment(name, 2).value == pytest.approx((column**2).mean(), abs=0.01)
    assert model.readings.value == 5000
    assert model.readings.standard_error == 0


def test_fourier_features_see_dependence_and_histograms_report_none():
    rows = clusters(5000, 4)
    truth = np.cov(rows.T)[0, 1]
    fourier, histograms = (
        m2m(noiseless(spec, rows), training_of(spec)).covariance()[0, 1]
        for spec in (spec_of("rff"), spec_of("hist"))
    )
    assert fourier.value == pytest.approx(truth, abs=2e-3)
    assert abs(histograms.value - truth) < 2 * histograms.standard_error
    assert histograms.standard_error > 10 * fourier.standard_error


def test_estimates_are_linear_and_weights_give_the_same():
    spec = spec_of("rff")
    model = m2m(released(spec, clusters(3000, 5)), training_of(spec))
    first, second = (lambda x: x[:, 0], lambda x: x[:, 1] ** 3)
    both = model.estimate(lambda x: 2 * first(x) - second(x)).value
    assert both == pytest.approx(
        2 * model.estimate(first).value - model.estimate(second).value, abs=1e-9
    )
    weights = model.weights()
    assert weights.mean() == pytest.approx(1)
    assert (weights * first(model.rows)).mean() == pytest.approx(model.mean("a").value, abs=1e-9)
    assert np.allclose(model.weights(model.rows[:50]), weights[:50])
    constant = model.estimate(lambda x: np.full(len(x), 7.0))
    assert (constant.value, constant.standard_error) == pytest.approx((7.0, 0.0), abs=1e-6)


QUESTIONS = (
    lambda x: x[:, 0],
    lambda x: (x[:, 0] < 0.6) & (x[:, 1] > 0.3),
    lambda x: x[:, 0] * x[:, 1],
    lambda x: x[:, 1] <= 0.45,
)


def covered(features, draw, width):
    """Number of 120 estimates, one for each release, that lie within `width` standard errors."""
    spec = spec_of(features)
    training = training_of(spec, 4000)
    inside = 0
    for seed in range(120):
        rows, question = draw(10_000, seed), QUESTIONS[seed % 4]
        found = m2m(released(spec, rows, seed), training).estimate(question)
        inside += abs(found.value - question(rows).mean()) <= width * found.standard_error
    return inside


# If at least 90 % are covered, fewer than this many of 120 are seen with probability 1e-6.
LEAST = int(stats.binom.ppf(FALSE_ALARM, 120, 0.9))


@pytest.mark.parametrize("draw", [even, clusters])
@pytest.mark.parametrize("features", SMALL)
def test_error_bars_of_two_deviations_cover_at_least_nine_tenths(features, draw):
    """False alarm below 1e-6: a binomial bound over 120 independent releases."""
    assert covered(features, draw, 2) >= LEAST


def test_the_bound_on_coverage_can_fail():
    """The control: a tenth of the error bars passes with probability below 1e-6."""
    assert covered("rff", clusters, 2 / 10) < LEAST


def test_the_fitted_ridge_beats_the_published_one_where_readings_are_even():
    """Over 32 releases its error is about a fifth. False alarm below 1e-6: equality is seven
    deviations of the ratio's logarithm away."""
    spec = spec_of("rff", epsilon=0.3)
    errors = {False: 0.0, True: 0.0}
    for published in errors:
        training = training_of(spec, 4000, intercept=not published)
        for seed in range(32):
            rows = even(10_000, seed)
            model = m2m(released(spec, rows), training, as_published=published)
            errors[published] += abs(model.mean("a").value - rows[:, 0].mean())
    assert errors[True] > errors[False]


def test_counts_and_their_errors_add_up_in_merged_releases():
    spec = spec_of("hist")
    parts = [released(spec, even(2000, seed), seed) for seed in range(4)]
    training = training_of(spec, 2000)
    one, four = m2m(parts[0], training), m2m(merge(parts), training)
    assert four.readings.standard_error == pytest.approx(2 * one.readings.standard_error)
    assert four.readings.value == sum(part.counters[0] for part in parts)
    errors = [model.histogram("a", 20)[0].standard_error[3] for model in (one, four)]
    assert 1.8 < errors[1] / errors[0] < 2.5


def test_histograms_of_histograms_are_their_counters_made_to_add_up():
    spec = spec_of("hist", STATION, bins=8)
    release = released(spec, station(3000))
    model = m2m(release, training_of(spec, 1000))
    for name, counters in zip(STATION.names, np.split(release.counters[1:], [8, 16]), strict=True):
        missing = release.counters[0] - counters.sum()
        counts, edges = model.histogram(name, None if name == "wind" else 8)
        assert np.allclose(counts.value, counters + missing / len(counters))
        assert len(edges) == len(counters) + 1
        assert counts.value.sum() == pytest.approx(model.readings.value)
    east = model.histogram("wind")[0][1]
    assert model.count("wind = E").value == pytest.approx(east.value)
    assert model.histogram("pm25", 2)[1] == pytest.approx([0, 1001**0.5 - 1, 1000])
    warm = model.histogram("temp", 8)[0].value[4:].sum()
    assert model.count("temp > 10 & temp <= 60").value == pytest.approx(warm)


def test_the_error_of_a_histograms_bin_is_its_noise():
    """From the declared scales: a bin keeps 7/8 of its noise. It takes 1/8 of the seven others' and
    of the number's."""
    spec = spec_of("hist", bins=8)
    counts, _ = m2m(released(spec, even(5000, 1)), training_of(spec, 100)).histogram("a", 8)
    number, bin_ = (2 * variance(scale) for scale in spec.scales)
    expected = bin_ * (1 - 1 / 8) + number / 64
    assert counts.standard_error == pytest.approx(np.full(8, expected**0.5), rel=1e-6)


@pytest.mark.parametrize("features", SMALL)
def test_counts_shares_and_distributions_agree(features):
    spec, rows = spec_of(features, STATION), station(20_000)
    model = m2m(noiseless(spec, rows), training_of(spec))
    for text, truth in (
        ("temp > 20", rows[:, 0] > 20),
        ("temp > 10 & pm25 < 50", (rows[:, 0] > 10) & (rows[:, 1] < 50)),
        ("wind = N", rows[:, 2] == 0),
    ):
        count, share = model.count(text), model.share(text)
        assert count.value == pytest.approx(20_000 * share.value, rel=1e-6)
        assert abs(share.value - truth.mean()) < 4 * share.standard_error + 0.02
    whole = model.cdf("temp", 60)
    assert (whole.value, whole.standard_error) == pytest.approx((1, 0), abs=1e-9)
    below = model.cdf("temp", 12.0).value
    assert below == pytest.approx(model.share("temp <= 12").value)
    counts, _ = model.histogram("temp", 5)
    assert counts.value.sum() == pytest.approx(20_000, rel=1e-6)


def test_answers_repeat_themselves():
    """Of 20 deviations of the noise on their number: refused, as below four, with probability
    below 1e-12."""
    spec = spec_of("rff")
    release = released(spec, even(2000, 1))
    first, second = (m2m(release, points=500).mean("a") for _ in range(2))
    assert first == second
    other = m2m(release, points=500, generator=np.random.default_rng(5)).mean("a")
    assert other != first


def test_the_fleets_own_generator_is_a_training_distribution():
    """Trained near the readings, features resolve what an even spread of points only guesses at.
    Of 177 such pairs of releases one is not on either side of the limit; these are."""
    rows = 0.42 + 0.02 * even(200_000, 2)
    hierarchy = HierarchySpec(SQUARE, Privacy(epsilon=10.0), depth=12, k=64, width=256, rows=1)
    partition = privhp(released(hierarchy, rows))
    spec = spec_of("rff", epsilon=10.0)
    release = released(spec, rows)
    wide, near = (m2m(release, training, points=5000) for training in (None, partition))
    truth = (rows[:, 0] < 0.424).mean()
    errors = [abs(m.share("a < 0.424").value - truth) for m in (wide, near)]
    assert errors[1] < 0.12 < errors[0]
