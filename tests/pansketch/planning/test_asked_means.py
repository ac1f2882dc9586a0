"""`Expected.means`: a part of epsilon for means that are asked of few windows."""

import numpy as np
import pytest
from scipy.stats import binom

from benchmarks.error_bars.short_streams import exact, noisy
from pansketch import Attribute, Domain, Privacy
from pansketch.generators import TooFewReadings, pairwise
from pansketch.planning import Expected, NoPlan, plan_views
from pansketch.planning.view_plan import MEANS_PERCENT
from pansketch.sketches.views import MAX_VIEWS

SIX = tuple("abcdef")
MEMORY = 1 << 17
FALSE_ALARM = 1e-6
DEVICES = 10
HOUR = Expected(600, DEVICES, 720, (1, 24))
ASKED = Expected(600, DEVICES, 720, (1, 24), means=("a", "b"))


def numbers(*names, **more):
    return Domain([Attribute(name, low=0, high=1, **more) for name in names])


@pytest.mark.parametrize("epsilon", [0.123457, 1.0, 9.999999])
@pytest.mark.parametrize("asked", [SIX[:1], SIX[:3], SIX])
def test_the_means_have_equal_parts_and_all_parts_add_up(epsilon, asked):
    plan = plan_views(numbers(*SIX), Privacy(epsilon), MEMORY, Expected(600, 10, 720, means=asked))
    views, whole = plan.spec.views, plan.spec.guarantee.reading_micro
    assert sum(view.micro for view in views) == whole
    means = views[len(plan.sets) :]
    assert [view.names for view in means] == [(name,) for name in asked]
    assert {view.micro for view in means} == {whole * MEANS_PERCENT // (100 * len(asked))}
    assert all(min(view.bits) <= plan.single_bits for view in means)


def test_the_memory_holds_the_views_of_means_too():
    least = plan_views(numbers(*SIX), Privacy(1.0), 1 << 14, HOUR).nbytes
    plan = plan_views(numbers(*SIX), Privacy(1.0), 1 << 14, ASKED)
    assert plan.nbytes == plan.spec.nbytes <= 1 << 14
    with pytest.raises(NoPlan, match=f"memory of {8 * 4 * 2} bytes is too small"):
        plan_views(numbers("a", "b"), Privacy(1.0), 8 * 4 * 2, ASKED)
    assert least <= 1 << 14


def test_as_many_views_as_a_sketch_may_have():
    names = tuple(f"x{n}" for n in range(16))
    expected = Expected(600, 10, 720, means=names)
    plan = plan_views(numbers(*names), Privacy(10.0), 1 << 20, expected)
    assert len(plan.spec.views) <= MAX_VIEWS


@pytest.mark.parametrize(
    ("attribute", "epsilon", "error"),
    [
        (Attribute("a", categories=("x", "y")), 1.0, "a has no mean"),
        (Attribute("a", constant=1.0), 1.0, "a has no mean"),
        (Attribute("a", low=0, high=1), 0.000004, "epsilon is too small"),
    ],
)
def test_what_has_no_mean_has_no_plan(attribute, epsilon, error):
    domain = Domain([attribute, *numbers("b", "c").attributes])
    with pytest.raises(NoPlan, match=error):
        plan_views(domain, Privacy(epsilon), MEMORY, Expected(600, means=("a",)))


def hours_of(expected, rows, hours):
    """Of each hour's means of the asked attributes: error and standard error; None: refused."""
    domain = numbers(*SIX)
    whole, rng, found = (
        exact(plan_views(domain, Privacy(1.0), MEMORY, expected).spec, rows),
        np.random.default_rng(5),
        [],
    )
    for _ in range(hours):
        model = pairwise(noisy(whole, DEVICES, rng))
        for name in ASKED.means:
            try:
                answer = model.mean(name)
            except TooFewReadings:
                found.append(None)
            else:
                truth = rows[:, domain.index(name)].mean()
                found.append((answer.value - truth, answer.standard_error))
    return found


def test_standard_errors_of_one_hour_are_smaller_and_honest():
    """More misses than normal numbers have: FALSE_ALARM. benchmarks/streams/asked_means.py measures
    the errors."""
    rows = np.clip(np.random.default_rng(4).normal(0.5, 0.15, (6000, len(SIX))), 0, 1)
    plain, asked = np.array(hours_of(HOUR, rows, 3)), np.array(hours_of(ASKED, rows, 10))
    assert np.median(asked[:, 1]) < 0.75 * np.median(plain[:, 1])
    bound = binom.isf(FALSE_ALARM, len(asked), 0.05)
    assert (np.abs(asked[:, 0]) > 2 * asked[:, 1]).sum() <= bound
    # Negative control: errors a tenth as large would be found out.
    assert (np.abs(asked[:, 0]) > 0.2 * asked[:, 1]).sum() > bound


def test_means_of_few_readings_are_answered_where_finer_questions_are_not():
    rows = np.clip(np.random.default_rng(4).normal(0.5, 0.15, (600, len(SIX))), 0, 1)
    assert None not in hours_of(ASKED, rows, 3)
    assert None in hours_of(HOUR, rows, 3)
    spec = plan_views(numbers(*SIX), Privacy(1.0), MEMORY, ASKED).spec
    model = pairwise(noisy(exact(spec, rows), DEVICES, np.random.default_rng(6)))
    with pytest.raises(TooFewReadings):
        model.quantile("a", 0.5)
    with pytest.raises(TooFewReadings):
        pairwise(noisy(exact(spec, rows[:60]), DEVICES, np.random.default_rng(6))).mean("a")
