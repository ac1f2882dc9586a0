"""The enumeration behind exact losses: streams, universes, draws and noise."""

import math
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest

from pansketch.randomness.exact_noise import LogOdds, Ratio
from pansketch_audit.exact.markov_chain import both, every_way
from pansketch_audit.exact.neighbouring_keys import COUNTS, key_neighbours
from pansketch_audit.mechanisms.subjects import TWO_LEVELS, key_subject, slot_of, subjects

KEYS = [subject for subject in subjects() if subject.unit == "key"]


def test_neighbours_differ_by_all_appearances_of_one_key():
    subject = key_subject("three", universe=3)
    found = list(key_neighbours(subject, quick=False))
    for without, with_unit in found:
        alone = [*without.before, *without.after]
        both_sides = [*with_unit.before, *with_unit.after]
        keys = Counter(key for action in both_sides for key in action.keys)
        keys.subtract(key for action in alone for key in action.keys)
        assert len([key for key, more in keys.items() if more]) == 1
    lonely = [pair for pair in found if pair[0] == ((), ())]
    counts = {(len(pair[1].before), len(pair[1].after)) for pair in lonely}
    assert counts == {(b, a) for b in COUNTS for a in COUNTS} - {(0, 0)}
    companies = {action.keys for pair in found for action in pair[0].before}
    assert {(0,), (1,), (2,), (0, 1), (0, 2), (1, 2)} == companies
    batches = {action.keys for pair in found for action in pair[1].before}
    assert (0, 1, 2, 0) in batches


def test_removals_come_after_appearances_and_before_them():
    subject = key_subject("two", universe=2, turnstile=True)
    verbs = {
        tuple(action.verb[0] for action in with_unit.before)
        for without, with_unit in key_neighbours(subject, quick=False)
        if not without.before
    }
    assert {(), ("u",), ("r",), ("u", "u"), ("u", "r"), ("r", "u")} <= verbs


def test_universes_hold_keys_that_share_a_slot_and_keys_that_are_not_tracked():
    slots = {
        subject.name: [slot_of(subject.spec, key) for key in subject.universe.tolist()]
        for subject in KEYS
    }
    shared = slots["distinct, hashed, sample counted"]
    assert shared[0] == shared[1] is not None
    assert shared[3] is None
    assert len(set(shared)) == 3
    first, second, third = slots["distinct, hashed, counted"]
    assert first == second != third
    levels = slots["distinct, levels, counted"]
    assert levels[0] == levels[1] >= TWO_LEVELS[0] > levels[2]
    sample = slots["distinct, sample counted"]
    assert None in sample
    assert len(set(sample)) == 3
    assert sorted(slots["distinct, four counted"]) == [0, 1, 2, 3]


def test_every_way_of_draws_that_depend_on_each_other_is_taken_once():
    def run(draws):
        first, second = np.zeros(1, np.uint8), np.zeros(2, np.uint8)
        draws.fill_bernoulli(Ratio(Fraction(1, 3)), first)
        if first[0]:
            draws.fill_bernoulli(Ratio(Fraction(1, 4)), second)
        return first[0], *second.tolist()

    found = {result: draws.probability for result, draws in every_way(run)}
    third, quarter = 1 / 3, 1 / 4
    assert found == pytest.approx(
        {
            (0, 0, 0): 2 * third,
            (1, 0, 0): third * (1 - quarter) ** 2,
            (1, 0, 1): third * quarter * (1 - quarter),
            (1, 1, 0): third * quarter * (1 - quarter),
            (1, 1, 1): third * quarter**2,
        }
    )


def test_noise_is_taken_each_way_within_reach_and_impossible_draws_are_not():
    def run(draws):
        counters, bits = np.zeros(1, np.int64), np.zeros(1, np.uint8)
        draws.add_discrete_laplace(Fraction(2), counters)
        draws.fill_bernoulli(Ratio(Fraction(1)), bits)
        return int(counters[0]), int(bits[0])

    found = {result: draws.probability for result, draws in every_way(run, reach=40)}
    assert set(found) == {(noise, 1) for noise in range(-40, 41)}
    assert found[3, 1] / found[0, 1] == pytest.approx(math.exp(-1.5))
    assert sum(found.values()) == pytest.approx(1, abs=1e-8)


def test_tiny_probabilities_keep_their_digits():
    assert both(LogOdds(Fraction(60)))[0] == pytest.approx(math.exp(-60), rel=1e-12)
    assert both(LogOdds(Fraction(-60)))[1] == pytest.approx(math.exp(-60), rel=1e-12)
    assert both(Ratio(Fraction(1, 4))) == (0.75, 0.25)
