"""The planner of hierarchies: golden sizes, stated sizes, and the error when nothing fits."""

import re
from itertools import pairwise

import pytest

from pansketch import Attribute, Domain, Guarantee, HierarchySpec, Privacy
from pansketch.planning import Expected, NoPlan, hierarchy_planner, plan_hierarchy
from pansketch.planning import hierarchy_errors as hierarchy_errors_module
from pansketch.planning.hierarchy_errors import hierarchy_errors
from pansketch.planning.hierarchy_planner import StatedSizes, hierarchy_plans
from pansketch.planning.selection import DEEP, cases_of, regrets

PAIR = Domain([Attribute("a", low=0, high=1), Attribute("b", low=0, high=1)])
ONE = Domain([Attribute("a", low=0, high=1)])
MONTHS = Expected(720, devices=12, windows=49)


# Devices and collectors of a fleet must agree on these, so a change breaks fleets.
@pytest.mark.parametrize(
    ("domain", "epsilon", "expected", "depth", "nbytes", "fingerprint"),
    [
        (PAIR, 1.0, MONTHS, 22, 30_036, "d31deabdfd72a1a4"),
        (PAIR, 0.1, MONTHS, 20, 7_508, "5f3165c57e54c2f1"),
        (PAIR, 1.0, Expected(43_200, 10), 24, 34_132, "6c71c8b4a793dc77"),
        (ONE, 1.0, MONTHS, 16, 5_460, "2dac016a66d8ed27"),
        (ONE, 10.0, Expected(10**6), 18, 51_492, "f812844282241978"),
    ],
)
def test_golden_plans(domain, epsilon, expected, depth, nbytes, fingerprint):
    spec = plan_hierarchy(domain, Privacy(epsilon), 1 << 16, expected, 7).spec
    assert (spec.depth, spec.nbytes, spec.hash_key) == (depth, nbytes, 7)
    assert spec.fingerprint.hex() == fingerprint


def test_readings_still_crowd_where_a_learned_scale_spreads_each_attribute(monkeypatch):
    """As those of a city's streets do. Cells of single parts of both scales divide them; the
    control, without crowds, has cells of two parts and more."""
    scale = {"scale": "learned", "knots": tuple(part / 128 for part in range(129))}
    domain = Domain([Attribute(name, low=0, high=1, **scale) for name in "ab"])
    expected, memory = Expected(12_000, 10), 87_381
    assert plan_hierarchy(domain, Privacy(1.0), memory, expected).spec.depth >= 14
    monkeypatch.setattr(hierarchy_errors_module, "STILL_NARROW", 0)
    hierarchy_planner._predicted.cache_clear()
    assert plan_hierarchy(domain, Privacy(1.0), memory, expected).spec.depth < 14
    hierarchy_planner._predicted.cache_clear()


def test_more_memory_or_epsilon_is_never_worse():
    """In the worst case of the plan, up to a tenth. A plan takes fewer bytes for 3 %. More memory
    adds plans that are better in a case, which changes the worst case. The reference is the best of
    all memories and of one epsilon."""
    cases = cases_of(MONTHS, DEEP, Guarantee.of_linear_counters(Privacy(1.0)))

    def scores(plan):
        errors = (hierarchy_errors(plan.spec, c.draws, c.total, c.shape.narrow) for c in cases)
        return [each.score for each in errors]

    ladder = [
        scores(plan_hierarchy(PAIR, Privacy(2.0), 1 << bits, MONTHS)) for bits in range(13, 20)
    ]
    worst = regrets(ladder)
    assert all(after <= 1.1 * before for before, after in pairwise(worst)), worst
    assert worst[-1] < worst[0] / 1.2
    quieter = [
        sum(scores(plan_hierarchy(PAIR, Privacy(e), 1 << 17, MONTHS))) for e in (0.1, 0.5, 1, 4, 16)
    ]
    assert quieter == sorted(quieter, reverse=True)


def test_every_plan_fits_and_the_chosen_one_is_the_smallest_of_the_good_ones():
    found = hierarchy_plans(PAIR, Privacy(1.0), 1 << 16, MONTHS)
    assert all(plan.spec.nbytes <= 1 << 16 for plan in found)
    good = [plan for plan in found if plan.score <= 1.03 * min(p.score for p in found)]
    assert found[0].nbytes == min(plan.nbytes for plan in good)


def test_stated_sizes_are_kept_and_the_rest_fits_around_them():
    for stated in (
        StatedSizes(depth=24),
        StatedSizes(k=64),
        StatedSizes(depth=20, rows=3),
        StatedSizes(depth=13, fanout=8, width=512),
        StatedSizes(10, 64, 256, 1, 2),
    ):
        spec = plan_hierarchy(PAIR, Privacy(5.0), 1 << 16, MONTHS, 0, stated).spec
        for name in ("depth", "k", "width", "rows", "fanout"):
            assert getattr(stated, name) in (None, getattr(spec, name))
        if stated.rows is None:
            assert spec.nbytes <= 1 << 16


def test_a_depth_that_is_stated_has_as_many_exact_levels_as_the_memory_bears():
    depths = {}
    for bits in (14, 16, 20):
        spec = plan_hierarchy(PAIR, Privacy(5.0), 1 << bits, MONTHS, 0, StatedSizes(depth=16)).spec
        depths[bits] = spec.exact_levels[-1].bits
    assert depths[14] < depths[16] < depths[20] == 16


def test_coarse_cells_are_not_planned_however_noisy_it_is():
    """Too fine is only noisy, for coarse levels come along; too coarse cannot be repaired."""
    noisy = plan_hierarchy(PAIR, Privacy(0.01), 1 << 16, Expected(10, 1, 1000)).spec
    assert noisy.depth >= 8
    categories = Domain([Attribute("c", categories=("x", "y", "z"))])
    assert plan_hierarchy(categories, Privacy(0.01), 1 << 16, Expected(10)).spec.depth == 2


def test_the_error_of_a_small_memory_names_a_sufficient_one():
    with pytest.raises(NoPlan, match="memory of 100 bytes is too small") as caught:
        plan_hierarchy(PAIR, Privacy(1.0), 100, MONTHS)
    (needed,) = re.findall(r"takes (\d+)$", str(caught.value))
    assert plan_hierarchy(PAIR, Privacy(1.0), int(needed), MONTHS).nbytes == int(needed)
    with pytest.raises(NoPlan):
        plan_hierarchy(PAIR, Privacy(1.0), int(needed) - 1, MONTHS)


@pytest.mark.parametrize(
    ("stated", "error"),
    [
        (StatedSizes(depth=0), "^depth must lie between"),
        (StatedSizes(depth=999), "^depth must lie between"),
        (StatedSizes(k=0), "^k must lie between"),
        (StatedSizes(k=10**23), "^k must lie between"),
        (StatedSizes(width=1000), "^width must be a power of two"),
        (StatedSizes(rows=0), "^rows must lie between"),
        (StatedSizes(fanout=0), "^fanout must be 2, 4, 8 or 16"),
    ],
)
def test_stated_sizes_that_cannot_be_are_refused(stated, error):
    with pytest.raises(ValueError, match=error):
        plan_hierarchy(PAIR, Privacy(1.0), 1 << 16, MONTHS, 0, stated)


def test_an_epsilon_that_is_too_small_for_deep_levels_has_fewer():
    assert plan_hierarchy(PAIR, Privacy(0.000001), 1 << 16, MONTHS).spec.depth >= 8


def test_noise_and_coarse_cells_are_errors():
    def error(depth, epsilon, total):
        spec = HierarchySpec(PAIR, Privacy(epsilon), depth=depth, k=1 << depth)
        return hierarchy_errors(spec, 20, total)

    quiet = [error(depth, 100.0, 10**8) for depth in (4, 6, 8, 10)]
    assert [e.pair for e in quiet] == sorted((e.pair for e in quiet), reverse=True)
    noisy = [error(10, epsilon, 10**5) for epsilon in (10.0, 1.0, 0.1)]
    assert [e.marginal for e in noisy] == sorted(e.marginal for e in noisy)
    assert error(14, 0.01, 10**5).pair > error(8, 0.01, 10**5).pair


def test_hashed_levels_are_predicted_to_be_worse_than_exact_ones():
    """Fewer counters, shared: the reason for the planner's choice of exact levels."""
    exact = HierarchySpec(PAIR, Privacy(1.0), depth=12, k=4096)
    hashed = HierarchySpec(PAIR, Privacy(1.0), depth=12, k=256, width=1024, rows=1)
    assert hierarchy_errors(hashed, 20, 10**6).pair > hierarchy_errors(exact, 20, 10**6).pair
