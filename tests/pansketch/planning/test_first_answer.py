"""The predicted first answer against the generators, which refuse until readings outweigh noise."""

from fractions import Fraction

import numpy as np
import pytest

from pansketch import (
    Attribute,
    CellsSpec,
    DistinctSpec,
    Domain,
    HierarchySpec,
    MomentsSpec,
    Privacy,
    Release,
    Span,
    ViewsSpec,
    WindowId,
)
from pansketch.generators import TooFewReadings, density, m2m, pairwise, privhp
from pansketch.planning import Answering, Expected, plan_hierarchy, plan_views, windows_needed
from pansketch.planning.first_answer import MAX_WINDOWS
from tests.pansketch.conftest import NoNoise

READINGS = 40
EXPECTED = Expected(READINGS, 10, 1000, (1, 100))


def domain(attributes):
    return Domain([Attribute(f"x{n}", low=0, high=100) for n in range(attributes)])


def views(attributes, epsilon):
    return plan_views(domain(attributes), Privacy(epsilon), 1 << 14, EXPECTED).spec


def hierarchy(attributes, epsilon):
    return plan_hierarchy(domain(attributes), Privacy(epsilon), 1 << 14, EXPECTED).spec


SPECS = {
    "views of one": (views(1, 1.0), pairwise),
    "views of three": (views(3, 1.0), pairwise),
    "views of six, silent": (views(6, 0.3), pairwise),
    "hierarchy of two": (hierarchy(2, 0.5), privhp),
    "a shallow hierarchy": (HierarchySpec(domain(2), Privacy(0.5), depth=2, k=4), privhp),
    "announced": (
        plan_views(domain(2), Privacy(0.5, intrusion="announced"), 1 << 14, EXPECTED).spec,
        pairwise,
    ),
    "cells": (
        CellsSpec(domain(2), Privacy(0.5), depth=10),
        lambda release: density(release).partition,
    ),
    "moments": (
        MomentsSpec(domain(2), Privacy(0.5), features="hist", bins=8, count_share=0.1),
        lambda release: m2m(release, points=500),
    ),
}


def answered(spec, fit, windows):
    """True if every mean of so many windows is answered. The model knows the noise's variance, and
    the counters have no noise."""
    rows = np.random.default_rng(0).uniform(20, 80, (READINGS, spec.domain.dimension))
    sketch = spec.start(NoNoise())
    sketch.update_many(rows)
    one = sketch.release(NoNoise(), WindowId("", "", 0))
    labels = tuple(WindowId("one", "s", number) for number in range(windows))
    model = fit(Release(spec, labels, windows * one.draws, windows * one.counters))
    try:
        for name in spec.domain.names:
            model.mean(name)
    except TooFewReadings:
        return False
    return True


@pytest.mark.parametrize("name", SPECS)
def test_the_predicted_windows_are_those_after_which_a_generator_answers(name):
    spec, fit = SPECS[name]
    found = windows_needed(spec, Expected(READINGS))
    assert answered(spec, fit, found)
    assert found == 1 or not answered(spec, fit, found - 1)


def test_the_cases_are_no_single_window():
    """Control: a prediction of one window for any noise is wrong for most of them."""
    needed = [windows_needed(spec, Expected(READINGS)) for spec, _ in SPECS.values()]
    assert sum(each > 4 for each in needed) >= 5


def test_devices_share_the_windows():
    spec = views(3, 0.3)
    alone = windows_needed(spec, Expected(READINGS))
    assert windows_needed(spec, Expected(READINGS, devices=10)) == -(-alone // 10)


def test_what_is_left_of_the_first_window_counts():
    spec = views(3, 0.3)
    whole = windows_needed(spec, Expected(READINGS))
    assert windows_needed(spec, Expected(READINGS), 0.5) in (whole, whole + 1)
    assert windows_needed(views(1, 8.0), Expected(READINGS)) == 1
    assert windows_needed(views(1, 8.0), Expected(READINGS), 0.001) == 2


def test_a_hopeless_stream_has_a_number_too():
    assert windows_needed(views(1, 1e-4), Expected(1)) == MAX_WINDOWS


def test_a_blinded_stream_needs_the_windows_of_its_shortest_level():
    privacy = Privacy(1.0, aggregation="blinded")
    answering = Answering(2, ((24, Fraction(1)),))
    expected = Expected(10_000, 10, 240, (), answering)
    spec = plan_views(domain(2), privacy, 1 << 14, expected).spec
    assert isinstance(spec, ViewsSpec)
    assert windows_needed(spec, expected) == 24


def test_keys_have_an_answer_for_each_window():
    with pytest.raises(ValueError, match="an answer for each window"):
        windows_needed(DistinctSpec(Privacy(1.0, unit="key"), expected_keys=100), Expected(1))


@pytest.mark.parametrize("epsilon", [0.001, 0.5, 20.0, 100.0])
@pytest.mark.parametrize("depth", [1, 4, 12])
def test_any_noise_has_a_prediction(depth, epsilon):
    """The noise of the levels may differ by many powers of ten."""
    shape = {"depth": depth, "k": 4, "width": 8, "rows": 1, "fanout": 2}
    found = [
        windows_needed(HierarchySpec(domain(count), Privacy(epsilon, unit), **shape), EXPECTED)
        for count in (1, 2)
        for unit in ("reading", Span(600, 3))
    ]
    assert all(1 <= each <= MAX_WINDOWS for each in found)
    assert epsilon < 20 or max(found) == 1
