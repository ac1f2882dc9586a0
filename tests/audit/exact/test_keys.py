"""The audit of distinct counting: that its figures are right, and that it can fail."""

import math
from collections import Counter

import pytest

from pansketch import os_entropy
from pansketch_audit import report
from pansketch_audit.empirical import attacks
from pansketch_audit.empirical.loss_lower_bound import claim_at, lower_bound, moments_of
from pansketch_audit.exact import markov_chain
from pansketch_audit.exact.keys import KeyLosses
from pansketch_audit.exact.markov_chain import MARGIN, Chain, every_way
from pansketch_audit.exact.neighbouring_keys import Action, KeySequence
from pansketch_audit.findings import Finding, as_json, as_table
from pansketch_audit.mechanisms.mechanism import (
    PRODUCTION,
    Mechanism,
    memory_of,
    publish,
    start,
    views_of,
)
from pansketch_audit.mechanisms.subjects import key_subject, subjects
from pansketch_audit.planted_bugs.keys import APPEARANCES, PUBLISHED

KEYS = [subject for subject in subjects() if subject.unit == "key"]
SMALL = [subject for subject in KEYS if subject.draws <= 4 and len(subject.universe) <= 3]
HALF = 0.5
SET, UNSET = (1 / (1 + math.exp(-side * HALF)) for side in (1, -1))


# A key on both sides of the snapshot: its bit was 0, and the release is as low as a 0 makes it.
JOINT = HALF - math.log(UNSET + SET * math.exp(-HALF))


# A key that came before and was removed after: its bit was 1, and the release is as low.
REMOVED = HALF + math.log(UNSET + SET * math.exp(HALF))


def named(subject):
    return f"{subject.name}-{subject.intrusion}"


def times(count, key=0):
    return (Action("update_many", (key,)),) * count


@pytest.mark.parametrize("subject", SMALL, ids=named)
def test_production_loses_the_epsilon_of_theory(subject):
    """With equality for the state and for the release; jointly less, for the second appearance is
    itself a draw. A sketch that knows of the snapshot is frozen, and its release tells no more.
    Bits of 1/2 and 1/2 + epsilon/4 (dwork) are nearer each other than epsilon allows."""
    dwork = subject.spec.variant == "dwork"
    if subject.intrusion == "announced":
        expected = dict.fromkeys(views_of(subject), math.log(2) if dwork else 1.0)
    else:
        joint = REMOVED if subject.removes else JOINT
        expected = {"terminal": HALF, "release": HALF, "joint": joint, "known": HALF}
        if dwork:
            state, later = -math.log(0.75), -math.log(0.375 + 0.625 * math.exp(-HALF))
            expected |= {"terminal": state, "joint": state + later, "known": state}
    losses = KeyLosses(PRODUCTION, subject)
    found = {view: losses.largest(view, quick=True).value for view in views_of(subject)}
    assert found == pytest.approx(expected, abs=1e-9)


def test_more_appearances_lose_no_more():
    losses = KeyLosses(PRODUCTION, key_subject("counted", universe=4))
    for count in (*APPEARANCES, 1000):
        found = losses.of_pair("terminal", KeySequence(times(count), ()), KeySequence((), ()))
        assert found.loss == pytest.approx(HALF, abs=1e-9)


def test_the_published_level_loses_more_with_every_appearance():
    """ln(1 + e^0.5) each time: 0.97, 1.95, 4.87, 19.5 and 97.4. The control is the test above."""
    measured = report.plant("ppds-level").measured
    assert "0.974, 1.95, 4.87, 19.5, 97.4 at 1, 2, 5, 20, 100 times" in measured
    assert float(PUBLISHED.epsilon) == HALF
    figures = [f"{count * math.log(1 + math.exp(HALF)):.3g}" for count in APPEARANCES]
    assert ", ".join(figures) in measured


def test_the_published_output_noise_loses_ln_517_and_the_repaired_one_less_than_its_half():
    assert "1.64 = ln 5.17" in report.plant("ppds-output-noise").measured
    losses = KeyLosses(PRODUCTION, key_subject("counted", universe=4))
    repaired = losses.of_pair("joint", KeySequence((), ()), KeySequence((), times(1))).loss
    assert repaired == pytest.approx(math.log(UNSET + SET * math.exp(HALF)), abs=1e-9)
    assert repaired < HALF


def test_a_sticky_bit_loses_more_with_every_appearance():
    """100 draws that may each set the bit: 100 ln(1 + e^0.5) is 195 times 0.5."""
    assert "195 times" in report.plant("keys-sticky-bits").measured


@pytest.mark.parametrize("release", ["count", "bitmap"])
def test_the_chain_agrees_with_whole_streams_enumerated_draw_by_draw(release):
    """No assumption about memories here: every tape of a short stream, from its start to its
    bytes."""
    subject = key_subject("two", universe=2, release=release)
    before = (*times(1), *times(1, key=1))
    after = (Action("update_many", (0, 1, 0)),)

    def run(draws):
        sketch = PRODUCTION.start(subject.spec, draws)
        for action in before:
            action.on(sketch, subject, draws)
        memory = memory_of(sketch, draws)
        for action in after:
            action.on(sketch, subject, draws)
        return memory, PRODUCTION.publish(sketch, draws, 0)

    expected = Counter()
    for seen, draws in every_way(run, reach=2 + MARGIN):
        expected[seen] += draws.probability
    states = Chain(PRODUCTION, subject)
    joint = {
        (memory, wire): share * probability
        for memory, share in states.after(before).items()
        for wire, probability in states.published_after({memory: 1.0}, after).items()
    }
    assert len(joint) == len(expected) > 4
    assert joint == pytest.approx(dict(expected), rel=1e-12)


def test_releases_further_out_lose_no_more(monkeypatch):
    subject = key_subject("two", universe=2)
    near = KeyLosses(PRODUCTION, subject).largest("joint", quick=True)
    monkeypatch.setattr(markov_chain, "MARGIN", 6)
    far = KeyLosses(PRODUCTION, subject).largest("joint", quick=True)
    assert far.outcomes > 2 * near.outcomes
    assert far.value == pytest.approx(near.value, abs=1e-12)


def start_with(update):
    """A mechanism whose updates do something besides."""

    def begin(spec, rng):
        sketch = spec.start(rng)
        absorb = sketch.update_many

        def update_many(keys):
            absorb(keys)
            update(sketch, keys)

        vars(sketch)["update_many"] = update_many
        return sketch

    return Mechanism(begin, publish)


def test_a_key_that_stays_in_memory_is_an_infinite_loss():
    def keep(sketch, keys):
        sketch._words[0] = keys[0] + 1

    losses = KeyLosses(start_with(keep), key_subject("two", universe=2))
    assert losses.largest("terminal", quick=True).value == math.inf


def test_a_memory_that_draws_alone_do_not_decide_is_refused():
    """State outside of memory could carry a key past the snapshot, unseen by the chain."""
    calls = []

    def count(sketch, keys):
        calls.append(keys)
        vars(sketch)["calls"] = len(calls)

    losses = KeyLosses(start_with(count), key_subject("two", universe=2))
    with pytest.raises(ValueError, match="another memory"):
        losses.largest("joint", quick=True)


def test_a_release_that_only_one_stream_can_have_is_an_infinite_loss():
    def label(sketch, rng, readings):
        return bytes(sketch._bits)

    losses = KeyLosses(Mechanism(start, label), key_subject("two", universe=2))
    assert losses.largest("joint", quick=True).value == math.inf
    assert losses.largest("terminal", quick=True).value == pytest.approx(HALF)


def test_the_sampled_bounds_stay_below_the_claims():
    """Too high with probability 1e-6 each: production code and real entropy, in 2,000 runs.

    The bounds for a key that came before the snapshot, or on both sides, are above zero. Each would
    need a deviation of eight standard errors to reach zero (below 1e-14).
    """
    subject = next(s for s in KEYS if s.name == "distinct, hashed, bitmap")
    found = {m: lower_bound(PRODUCTION, subject, m, 2000).epsilon for m in moments_of(subject)}
    assert set(found) == {"before", "after", "both"}
    for moment, epsilon in found.items():
        assert epsilon <= float(claim_at(subject, moment))
    assert found["before"] > 0
    assert found["both"] > 0


def test_rewinding_finds_nothing_in_the_product():
    broken, measured = attacks.rewound(os_entropy, key_subject("many", universe=256, memory=32))
    assert not broken
    assert "no generator" in measured


def test_a_planted_generator_reveals_the_initial_bits():
    """Of 40 keys each changes its bit with probability 0.53: none does in 1e-13 of all runs."""
    measured = report.plant("keys-pcg64").measured
    assert "all 256 initial bits" in measured
    assert " and 0 that changed" not in measured


def test_the_report_tests_every_counter_in_every_view():
    """The quick one leaves out those with many slots or keys."""
    listed = subjects()
    every, few = (
        {
            named(listed[task.which]): task.details
            for task in report._tasks(quick, None)
            if task.part == "exact" and listed[task.which].unit == "key"
        }
        for quick in (False, True)
    )
    assert every == {named(subject): views_of(subject) for subject in KEYS}
    assert few == {named(subject): views_of(subject) for subject in SMALL}


def test_findings_report_how_near_the_claim_a_loss_comes():
    which = next(i for i, s in enumerate(subjects()) if s.name == "distinct, optbern")
    found = report.perform(report.Task("exact", which, True, views_of(subjects()[which])))
    assert all(finding.holds for finding in found)
    ratios = [finding.measured.partition(", ")[2].partition("x")[0] for finding in found]
    assert ratios == ["1.000", "1.000", "0.781", "0.500"]
    beyond = report._exact(subjects()[which], "joint", 1 + 1e-8, "")
    assert not beyond.holds


def test_the_report_names_the_unit_key_in_its_table_and_in_json():
    finding = Finding("exact", "something", "loss <= 1", "1", True)
    assert "a key is added or removed with all its appearances" in as_table([finding])
    assert '"key"' in as_json([finding])
