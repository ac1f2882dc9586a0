"""Covariances of boxes, and conditions in text over them: against points drawn in the boxes."""

import numpy as np
import pytest

from benchmarks.error_bars.short_streams import exact, noisy
from pansketch import (
    Attribute,
    CellsSpec,
    Domain,
    HierarchySpec,
    Privacy,
    View,
    ViewsSpec,
)
from pansketch.generators import EmptyModel, Partition, density, margin, privhp
from tests.seeded_noise import noise_of_test

DOMAIN = Domain(
    [
        Attribute("temp", -40, 60),
        Attribute("wind", categories=("calm", "north", "south")),
        Attribute("pm25", 0, 1000, scale="log"),
    ]
)
POINTS = 400_000


def boxes(seed=3, count=40, replicate=tuple, widest=0.5):
    """Boxes of one category each, anywhere in the cube."""
    rng = np.random.default_rng(seed)
    low = rng.random((count, 3)) * (1 - widest)
    high = low + widest * rng.random((count, 3)) + 1e-9
    low[:, 1] = rng.integers(0, 3, count) / 4
    high[:, 1] = low[:, 1] + 0.25
    return Partition(DOMAIN, low, high, rng.random(count) * 100, replicate)


def test_covariances_are_those_of_points_drawn_in_the_boxes():
    """Boxes and points are seeded, so nothing here is left to chance. Four standard errors of a
    covariance of that many points, fourth moments included, are below 3 % of the deviations'
    product. This also holds on the log scale, whose tail is heavy."""
    model = boxes()
    drawn = model.sample(POINTS, np.random.default_rng(4))[:, [0, 2]]
    expected = np.cov(drawn.T, bias=True)
    tolerance = 0.03 * np.sqrt(np.outer(expected.diagonal(), expected.diagonal()))
    found = model.covariance().value
    assert np.all(np.abs(found - expected) < tolerance)
    assert model.covariance(("pm25", "temp")).value == pytest.approx(found[::-1, ::-1])
    # The control: without what is inside the boxes the variances would be further off than that.
    narrow = Partition(
        DOMAIN,
        (model.low + model.high) / 2 - 1e-9,
        (model.low + model.high) / 2 + 1e-9,
        model.mass,
    )
    assert abs(narrow.covariance().value[0, 0] - expected[0, 0]) > tolerance[0, 0]


def test_readings_of_one_value_have_an_error_of_their_variance():
    """All readings of a young stream are in the first cell, which holds a single point."""
    domain = Domain([Attribute("rain", 0, 100, step=1), Attribute("temp", -40, 60)])
    views = View(("rain",), (8,), 300_000), View(("temp",), (8,), 300_000)
    spec = ViewsSpec(domain, Privacy(1.0), (*views, View(("rain", "temp"), (4, 4), 400_000)))
    rng = np.random.default_rng(5)
    rows = np.column_stack([np.zeros(4000), rng.normal(15, 6, 4000)])
    found = margin(noisy(exact(spec, rows), 10, rng), "rain").covariance(("rain",))
    assert found.value[0, 0] == 0
    assert 0 < found.standard_error[0, 0] < np.inf


@pytest.mark.parametrize("width", [1e-9, 1e-6, 1e-3, 0.9])
def test_narrow_boxes_lose_no_digits(width):
    """One box of a log attribute, against a quadrature of its variance."""
    low, high = np.full((1, 3), 0.05), np.full((1, 3), 0.05)
    high[:, [0, 2]] += width
    found = Partition(DOMAIN, low, high + 1e-12, np.ones(1)).covariance(("pm25",)).value[0, 0]
    nodes, weights = np.polynomial.legendre.leggauss(40)
    extent = DOMAIN.attributes[2].extent
    steps = np.expm1((nodes / 2) * (high - low)[0, 2] * extent)
    middle = np.exp((low + high)[0, 2] / 2 * extent)
    mean = weights @ steps / 2
    expected = middle**2 * (weights @ (steps - mean) ** 2) / 2
    # Below a billionth of the cube the difference of the ends has seven digits left itself.
    assert found == pytest.approx(expected, rel=1e-4, abs=1e-15 * middle**2)


def test_the_standard_error_holds_the_spread_of_replicates_and_the_width_of_boxes():
    shifted = [boxes(seed) for seed in range(10, 20)]
    model = boxes(replicate=lambda: shifted, widest=1e-6)
    found = model.covariance()
    spread = [(each.covariance().value - found.value) ** 2 for each in shifted]
    assert np.all(found.standard_error >= np.sqrt(np.mean(spread, axis=0)))
    errors = [boxes(widest=widest).covariance().standard_error[0, 0] for widest in (1e-6, 0.1, 0.5)]
    assert errors == sorted(errors)
    assert errors[0] < 1e-3 < errors[2]


def test_wide_replicates_widen_the_error_of_a_fine_model():
    """A density sketch's replicates have few boxes: how wide these are is not known any better."""
    wide = boxes(widest=0.5)
    fine = Partition(DOMAIN, wide.low, wide.low + 1e-6, wide.mass, lambda: [wide])
    assert np.all(fine.covariance().standard_error >= wide.covariance().standard_error)


def test_what_has_no_covariance():
    with pytest.raises(ValueError, match="unknown attribute 'rain'; there is temp, wind, pm25"):
        boxes().covariance(("rain",))
    with pytest.raises(ValueError, match="wind has categories"):
        boxes().covariance(("wind",))
    with pytest.raises(ValueError, match="without an attribute that is a number"):
        boxes().covariance(())
    with pytest.raises(EmptyModel):
        Partition(DOMAIN, np.zeros((1, 3)), np.ones((1, 3)), np.zeros(1)).covariance()


PLANE = Domain([Attribute("temp", -40, 60), Attribute("humid", 0, 100)])


@pytest.mark.parametrize(
    ("spec", "model_of"),
    [
        (HierarchySpec(PLANE, Privacy(1), depth=10, fanout=4, k=1024, width=1024), privhp),
        (CellsSpec(PLANE, Privacy(10), depth=10), lambda release: density(release).partition),
    ],
    ids=["hierarchy", "cells"],
)
def test_covariances_of_releases_lie_within_six_standard_errors(spec, model_of):
    """Of 40 releases the errors had means of at most 1.4 and deviations of at most 0.8 standard
    errors. Six are beyond 5.7 deviations, so the chance of a false alarm is below 1e-7."""
    first, second = np.random.default_rng(1).normal(size=(2, 20_000))
    temp, humid = 15 + 8 * first, 50 + 12 * (0.8 * second - 0.6 * first)
    sketch = spec.start(noise_of_test())
    sketch.update_many(np.column_stack([temp, humid]))
    model = model_of(sketch.release(noise_of_test()))
    found, truth = model.covariance(), np.cov(temp, humid, bias=True)
    assert np.all(np.abs(found.value - truth) < 6 * found.standard_error)
    # The control: the noise explains no covariance of the other sign.
    assert abs(found.value[0, 1] + truth[0, 1]) > 6 * found.standard_error[0, 1]


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("temp >= 20", {"temp": (20, 60)}),
        ("temp <= 20 & pm25 >= 50", {"temp": (-40, 20), "pm25": (50, 1000)}),
        ("temp >= 10 & wind = north & temp <= 20", {"temp": (10, 20), "wind": "north"}),
        ("temp > -1000 & pm25 < 1e9", {"temp": (-40, 60)}),
    ],
)
def test_conditions_in_text_count_what_ranges_do(text, wanted):
    model = boxes(replicate=lambda: [boxes(5)])
    assert model.count(text) == model.count(wanted)
    assert model.share(text) == model.share(wanted)


@pytest.mark.parametrize(
    "text", ["temp > 20 & temp < 10", "wind = calm & wind = north", "temp > 60", "temp < -40"]
)
def test_conditions_that_nothing_meets_count_nothing(text):
    found = boxes(replicate=lambda: [boxes(5)]).count(text)
    assert (found.value, found.standard_error) == (0.0, 0.0)
