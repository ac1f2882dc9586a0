"""Readings on a bound, where a sensor saturates or values beyond are clipped.

A release does not show which readings of the outermost cell are on the bound. So an answer that
depends on it has an error that covers all of them. Errors of noise are compared with 6 standard
errors: a normal number exceeds them with a probability of 2e-9.
"""

import numpy as np
import pytest

from pansketch import Attribute, Domain, HierarchySpec, Privacy, WindowId
from pansketch.generators import margin, privhp
from pansketch.planning import Expected, plan_views
from tests.seeded_noise import noise_of_test

X, Y = Attribute("x", -40, 60), Attribute("y", 0, 100)
MANY = 20_000


def released(spec, rows):
    sketch = spec.start(noise_of_test())
    sketch.update_many(rows.copy())
    return sketch.release(noise_of_test(), WindowId("one", "s", 1))


def of_views(column):
    domain = Domain([X])
    plan = plan_views(domain, Privacy(1.0), 131_072, Expected(MANY, 1, 1))
    return margin(released(plan.spec, column[:, None]), "x")


def of_hierarchy(column):
    spec = HierarchySpec(Domain([X]), Privacy(1.0), depth=12, k=64, width=4096, rows=1, fanout=4)
    return privhp(released(spec, column[:, None]))


def of_two_attributes(column):
    rows = np.column_stack([column, np.random.default_rng(1).uniform(20, 30, MANY)])
    spec = HierarchySpec(
        Domain([X, Y]), Privacy(1.0), depth=20, k=256, width=4096, rows=1, fanout=4
    )
    return privhp(released(spec, rows))


MODELS = [of_views, of_hierarchy, of_two_attributes]


@pytest.mark.parametrize("model_of", MODELS)
@pytest.mark.parametrize(
    ("bound", "beside", "included"), [(60.0, "x < 60", "x <= 60"), (-40.0, "x > -40", "x >= -40")]
)
def test_the_error_covers_readings_that_are_all_on_a_bound(model_of, bound, beside, included):
    model = model_of(np.full(MANY, bound))
    assert model.count(included).value == pytest.approx(MANY, rel=0.05)
    found = model.count(beside)
    assert abs(found.value - 0) <= 2.5 * found.standard_error
    share = model.share(beside)
    assert abs(share.value - 0) <= 2.5 * share.standard_error


@pytest.mark.parametrize("model_of", MODELS)
def test_readings_that_fall_off_towards_a_bound_need_no_wide_error(model_of):
    """The control: nothing stands out at either bound."""
    column = np.random.default_rng(2).uniform(-40, 60, MANY)
    model = model_of(column)
    for question in ("x < 60", "x > -40"):
        found = model.count(question)
        assert abs(found.value - MANY) <= 6 * found.standard_error
        assert found.standard_error < 0.05 * MANY


def test_a_value_beyond_the_bounds_includes_what_is_clipped():
    model = of_views(np.full(MANY, 60.0))
    for question in ("x < 61", "x <= 60", "x > -41"):
        assert model.count(question).value == pytest.approx(MANY, rel=0.05)
        assert model.count(question).standard_error < 0.05 * MANY
