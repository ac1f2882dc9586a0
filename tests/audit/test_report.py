"""The audit itself: that its numbers are right, and that it can fail."""

import math
from fractions import Fraction
from functools import cache

import numpy as np
import pytest
from scipy import stats

from pansketch import Span, os_entropy
from pansketch_audit import report
from pansketch_audit.empirical import attacks
from pansketch_audit.empirical.loss_lower_bound import lower_bound, proportion_bounds
from pansketch_audit.exact.readings import TapeEntropy, largest_loss, neighbours
from pansketch_audit.mechanisms.mechanism import (
    PRODUCTION,
    Mechanism,
    claim,
    memory_of,
    publish,
    start,
    views_of,
)
from pansketch_audit.mechanisms.subjects import subjects
from pansketch_audit.planted_bugs.readings import bugs

SMALL = [s for s in subjects() if sum(s.spec.blocks) == 3 and s.unit == "reading"]
SEVERAL = [s for s in subjects() if s.name == "two sketches"]


# Two tests look at what it finds.
plant = cache(report.plant)


def named(subject):
    return f"{subject.name}-{subject.unit}-{subject.intrusion}"


@pytest.mark.parametrize("subject", [*SMALL, *SEVERAL], ids=named)
def test_production_loses_exactly_what_it_claims(subject):
    for view in views_of(subject):
        loss = largest_loss(PRODUCTION, subject, view, 0)
        assert loss.exact
        assert loss.value == float(claim(subject, view)) == 1.0


def test_more_than_one_draw_of_each_size_gives_the_same_loss():
    """Reach 1 on the terminal view: the ratio is the same over all outcomes of 27 tapes a side."""
    subject = next(s for s in SMALL if s.intrusion == "announced")
    near, far = (largest_loss(PRODUCTION, subject, "terminal", reach) for reach in (0, 1))
    assert near.value == far.value == 1.0
    assert far.outcomes == 27 * near.outcomes


# Those of coupled runs: tests/audit/coupling/test_planted.py.
ENUMERATED = [bug for bug in bugs() if bug.part not in ("draws", "agent")]


@pytest.mark.parametrize("bug", ENUMERATED, ids=lambda bug: bug.name)
def test_every_planted_bug_is_caught_and_fails_the_audit(bug):
    finding = plant(bug.name)
    assert not finding.holds
    assert finding.measured


@pytest.mark.parametrize(
    ("name", "times"),
    [
        ("half-scale", "2 times"),
        ("shared-noise", "inf times"),
        ("init-only", "inf times"),
        ("output-only", "inf times"),
        ("keys-half-scale", "2 times"),
        ("keys-bare-bitmap", "inf times"),
        ("keys-one-levels-noise", "inf times"),
        ("keys-one-draw", "inf times"),
        ("keys-unfrozen", "inf times"),
    ],
)
def test_planted_bugs_lose_the_epsilon_of_theory(name, times):
    assert times in plant(name).measured


def test_an_unknown_bug_is_refused_with_the_known_ones():
    with pytest.raises(ValueError, match="half-scale"):
        report.plant("no-such-bug")


def test_noise_that_depends_on_the_readings_is_an_infinite_loss():
    def publish_with_more(sketch, rng, readings):
        if readings:
            sketch.rerandomise(rng)
        return publish(sketch, rng, readings)

    loss = largest_loss(Mechanism(start, publish_with_more), SMALL[0], "joint", 0, 1.0)
    assert loss.value == math.inf


def test_scratch_that_is_not_erased_is_an_infinite_loss():
    """A mechanism that leaves the last path in memory."""

    def start_leaky(spec, rng):
        sketch = spec.start(rng)
        absorb = sketch.update_many

        def update_many(readings):
            absorb(readings)
            vars(sketch)["last"] = float(readings[0, 0])

        vars(sketch)["update_many"] = update_many
        return sketch

    assert largest_loss(Mechanism(start_leaky, publish), SMALL[0], "joint", 0).value == math.inf


def test_memory_is_everything_that_a_sketch_holds(make_spec):
    sketch = make_spec().start(os_entropy())
    before = memory_of(sketch)
    assert sketch._counters.tobytes() in before
    sketch._absorber._encoder._units[0, 3] = 21.5
    assert memory_of(sketch) != before


class Holder:
    """Something with these attributes."""

    def __init__(self, **held):
        vars(self).update(held)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (Holder(a=1, b=1, c=2), Holder(a=1, b=2, c=2)),
        (Holder(a=None, b=0), Holder(a=0, b=None)),
        (Holder(a={1: "x"}), Holder(a={2: "x"})),
        (Holder(a={3}), Holder(a={4})),
        (Holder(a=b"key"), Holder(a=b"kex")),
        (Holder(a=Holder(b=Fraction(1, 3))), Holder(a=Holder(b=Fraction(2, 3)))),
        (Holder(a=np.uint8(1)), Holder(a=np.uint8(0))),
        (Holder(a=np.zeros(1 << 15)), Holder(a=np.arange(1 << 15) / (1 << 60))),
    ],
)
def test_memories_that_differ_anywhere_are_distinguished(one, other):
    assert memory_of(one) != memory_of(other)
    assert memory_of(one) == memory_of(one)


def test_neighbours_are_all_pairs_with_all_snapshots():
    """One reading among at most one other, two values.

    Alone: 2 values, 2 moments. With another: 2 x 2 values, 2 orders, 3 moments. For each of the 2
    equal values, 2 of them are indistinguishable: 4 + 24 - 4.
    """
    found = list(neighbours(SMALL[0]))
    assert len(found) == len(set(found)) == 24
    for pair in found:
        assert len(pair.with_unit) == len(pair.without) + 1
        assert pair.with_at - pair.without_at in (0, 1)
    straddled = next(s for s in subjects() if isinstance(s.unit, Span))
    differences = {pair.with_at - pair.without_at for pair in neighbours(straddled)}
    assert differences == {0, 1, 2}


def test_tapes_give_each_draw_once_and_remember_its_scale():
    entropy = TapeEntropy((1, 2, 3))
    counters = np.zeros(2, np.int32)
    entropy.add_discrete_laplace(Fraction(5), counters)
    entropy.add_discrete_laplace(Fraction(7), counters)
    assert counters.tolist() == [4, 2]
    assert entropy.scales == [5, 5, 7, 7]


@pytest.mark.parametrize(("hits", "runs"), [(0, 10), (3, 10), (10, 10), (500, 4000)])
def test_proportion_bounds_are_clopper_and_pearsons(hits, runs):
    low, high = proportion_bounds(hits, runs, 1e-6)
    assert low == pytest.approx(stats.beta.ppf(1e-6, hits, runs - hits + 1) if hits else 0)
    expected = stats.beta.isf(1e-6, hits + 1, runs - hits) if hits < runs else 1
    assert high == pytest.approx(expected)


def test_the_sampled_bound_stays_below_the_claim():
    """Too high with probability 1e-6 each: the production code, before and after a snapshot.

    It is not above zero by accident: 2,000 runs leave eight deviations between the two shares.
    """
    for arrives in ("before", "after"):
        bound = lower_bound(PRODUCTION, SMALL[0], arrives, 2000)
        assert 0 < bound.epsilon <= 1


def test_rewinding_finds_nothing_in_the_product():
    broken, measured = attacks.rewound(os_entropy, SMALL[0])
    assert not broken
    assert "no generator" in measured


def test_claims_are_the_subjects_guarantees():
    """A key spends half of its epsilon for the state, and half for the release."""
    for subject in subjects():
        parts = {view: float(claim(subject, view)) for view in views_of(subject)}
        split = subject.unit == "key" and subject.intrusion == "silent"
        expected = dict.fromkeys(parts, 1.0) | ({"terminal": 0.5, "release": 0.5} if split else {})
        assert parts == expected


def test_a_task_that_raises_is_a_claim_that_is_not_shown(monkeypatch):
    def unseizable(quick):
        raise OSError("no such process")

    tasks = [report.Task("exact", 9_999, True, ("one", "two")), report.Task("sampler", 0, True)]
    monkeypatch.setattr(report, "_tasks", lambda quick, agents: iter(tasks))
    monkeypatch.setattr(report, "_seized", unseizable)
    told = []
    findings = report.run_audit(True, lambda *each: told.append(each))
    assert [(each.part, each.holds) for each in findings] == [
        ("seizure", False),
        ("exact", False),
        ("exact", False),
        ("exact", True),
    ]
    assert "no such process" in findings[0].measured
    assert "IndexError" in findings[1].measured
    assert told == [(each, number, 4) for number, each in enumerate(findings, 1)]
