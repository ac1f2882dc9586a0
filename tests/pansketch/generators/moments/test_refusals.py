"""Questions that a moment model refuses, and releases that cannot become one."""

import numpy as np
import pytest

from pansketch import (
    HierarchySpec,
    Privacy,
    Release,
    WindowId,
)
from pansketch.generators import EmptyModel, m2m
from tests.pansketch.generators.moments.releases import (
    SQUARE,
    STATION,
    even,
    noiseless,
    released,
    spec_of,
    station,
    training_of,
)


def test_an_empty_release_gives_no_answers():
    spec = spec_of("rff")
    counters = np.zeros(sum(spec.blocks), np.int64)
    model = m2m(Release(spec, (WindowId("d", "s", 1),), 2, counters), training_of(spec, 100))
    for ask in (lambda: model.mean("a"), lambda: model.weights(), lambda: model.count("a<.5")):
        with pytest.raises(EmptyModel, match="outweighs"):
            ask()
    histograms = spec_of("hist")
    empty = Release(histograms, (WindowId("d", "s", 1),), 2, np.zeros(41, np.int64))
    with pytest.raises(EmptyModel, match="outweighs"):
        m2m(empty, training_of(histograms, 100)).mean("a")


@pytest.fixture(scope="module")
def station_model():
    spec = spec_of("hist", STATION)
    return m2m(noiseless(spec, station(100)), training_of(spec, 100))


@pytest.mark.parametrize(
    ("ask", "error"),
    [
        (lambda m: m.mean("rain"), "unknown attribute 'rain'"),
        (lambda m: m.mean("wind"), "wind has categories"),
        (lambda m: m.moment("temp", 0), "order of a moment"),
        (lambda m: m.moment("temp", 1.5), "order of a moment"),
        (lambda m: m.cdf("temp", float("nan")), "finite number"),
        (lambda m: m.histogram("temp", 0), "number of bins"),
        (lambda m: m.histogram("wind", 3), "leave the bins out"),
        (lambda m: m.covariance(("temp", "wind")), "wind has categories"),
        (lambda m: m.estimate(lambda x: x), r"numbers \[n\]"),
        (lambda m: m.estimate(lambda x: 1.0), r"numbers \[n\]"),
        (lambda m: m.estimates(lambda x: x[:, 0]), r"numbers \[n, k\]"),
        (
            lambda m: m.estimate(lambda x: x[:, 0] / np.zeros(len(x))),
            "finite number at every point",
        ),
        (lambda m: m.estimate(lambda x: x[:, 0].astype(str)), "finite number at every point"),
        (lambda m: m.weights(np.zeros((3, 2))), "must have shape"),
        (lambda m: m.weights(np.full((3, 3), np.nan)), "finite numbers"),
    ],
)
def test_a_wrong_question_is_refused_with_a_single_line_error(station_model, ask, error):
    with np.errstate(all="ignore"), pytest.raises(ValueError, match=error) as caught:
        ask(station_model)
    assert "\n" not in str(caught.value)


def test_what_cannot_be_a_model_is_refused():
    spec, other = spec_of("rff"), spec_of("rff", m=40)
    release = released(spec, even(100, 1))
    with pytest.raises(ValueError, match="other features"):
        m2m(release, training_of(other, 50))
    with pytest.raises(ValueError, match="other method"):
        m2m(release, training_of(spec, 50), as_published=True)
    with pytest.raises(ValueError, match="one of theorem1, eq5, not 'eq6'"):
        m2m(release, as_published=True, ridge="eq6")
    with pytest.raises(ValueError, match="give as_published=True too"):
        m2m(release, training_of(spec, 50), ridge="eq5")
    with pytest.raises(ValueError, match="at least two points"):
        m2m(release, np.zeros(4))
    with pytest.raises(ValueError, match="must have shape"):
        m2m(release, np.zeros((4, 3)))
    hierarchy = HierarchySpec(SQUARE, Privacy(epsilon=1.0), depth=4, k=4, width=8, rows=1)
    with pytest.raises(ValueError, match="not a release of family hierarchy"):
        m2m(released(hierarchy, even(10, 1)))


def test_feature_sums_do_not_answer_how_many_readings_are_on_a_bound():
    """All readings are on a bound. A training has no point there, so its answer was 0 ± 0.

    Fresh noise gives the last control 1.15 with a standard deviation of 0.10: six of them fail it.
    """
    spec = spec_of("rff")
    model = m2m(released(spec, np.zeros((100_000, 2))), training_of(spec, 1000))
    for condition in ("a <= 0", "a > 0", "a < 1", "a >= 1", "a < .5 & b > 0"):
        with pytest.raises(ValueError, match="on a bound"):
            model.count(condition)
        with pytest.raises(ValueError, match="on a bound"):
            model.share(condition)
    with pytest.raises(ValueError, match="on a bound: ask for another value of a than 0"):
        model.cdf("a", 0)
    # The controls: no condition separates a bound from the values beside it.
    assert model.cdf("a", 1).value == pytest.approx(1, abs=0.01)
    assert model.share("a >= 0").value == pytest.approx(1, abs=0.01)
    assert model.share("a < 0").value == pytest.approx(0, abs=0.01)
    assert model.cdf("a", 0.5).value > 0.5
    bins = spec_of("hist")
    counted = m2m(released(bins, np.zeros((20_000, 2))), training_of(bins, 1000))
    assert abs(counted.cdf("a", 0).value - 1) < 3 * counted.cdf("a", 0).standard_error
