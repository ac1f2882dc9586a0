"""The joint law of snapshots, release and answers of masked counters."""

from dataclasses import replace
from fractions import Fraction
from math import exp, inf, log

import numpy as np
import pytest

from pansketch.blinding import start
from pansketch.wire import encode_blinded
from pansketch_audit.exact import blinded
from pansketch_audit.exact.blinded import (
    CLAIM,
    SCENARIOS,
    Scenario,
    blinded_loss,
    law_of,
    pairs_of,
    wrapped,
)
from pansketch_audit.exact.readings import largest_loss
from pansketch_audit.mechanisms.blinded import (
    CORRUPT,
    FLEET,
    HONEST,
    SPEC,
    UNIVERSE,
    WINDOW,
    BlindedMechanism,
    IdealMasks,
    observe_blinded,
    once,
    twice_in_one,
    two_levels,
)
from pansketch_audit.mechanisms.mechanism import Mechanism
from pansketch_audit.mechanisms.subjects import Subject
from pansketch_audit.planted_bugs.blinded import Around, Redrawing


def law_of_noise(bits, scale=1):
    """The largest log-ratio of neighbouring values of discrete Laplace noise modulo 2**bits."""
    kernel = wrapped(Fraction(scale), 1 << bits)
    return max(abs(log(kernel[r] / kernel[r - 1])) for r in range(1 << bits))


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_all_that_is_seen_loses_what_one_answer_loses(scenario):
    """Snapshots and release add nothing to the noise of the one answer, or of two levels."""
    loss = blinded_loss(BlindedMechanism(), scenario, quick=True)
    expected = law_of_noise(scenario.bits)
    if scenario.ask is twice_in_one:
        expected = 0
    elif scenario.ask is two_levels:
        expected = 2 * law_of_noise(scenario.bits, 2)
    assert loss.value == pytest.approx(expected, abs=1e-9)
    assert loss.value <= CLAIM
    assert loss.pairs == 2 * scenario.snapshots
    assert loss.outcomes >= 512


class Squared(Around):
    """Masks that are the squares of what is drawn: not affine, and the same for 0 and 1."""

    def add(self, private, public, context, counters):
        drawn = np.zeros_like(counters)
        super().add(private, public, context, drawn)
        np.add(counters, drawn * drawn, out=counters)


@pytest.mark.parametrize("bends", [False, True])
def test_tapes_that_follow_from_others_give_the_law_of_all(monkeypatch, bends):
    """Of 256 tapes 127 have three or four draws that are not zero. The control has masks that are
    not affine: the quick audit detects it and runs every tape too."""
    monkeypatch.setattr(blinded, "FEW_TAPES", 0)
    monkeypatch.setattr(blinded, "OTHER_TAPES", 10)
    runs = []

    def masks(ideal):
        runs.append(ideal)
        return Squared(ideal, lambda context: context) if bends else ideal

    mechanism, scenario = BlindedMechanism(masks=masks), Scenario("one snapshot", 1, once)
    counts = []
    for quick in (False, True):
        runs.clear()
        (law,) = law_of(mechanism, scenario, ((0,), (1,)), quick).items()
        counts.append((len(runs), law))
    (every, slow), (some, fast) = counts
    assert every > 256
    assert (some > every) == bends
    assert slow[0] == fast[0]
    assert np.array_equal(slow[1], fast[1])


@pytest.mark.parametrize("bits", [1, 2, 3, 8])
def test_noise_modulo_a_power_of_two_is_the_sum_of_the_noise(bits):
    modulus, q = 1 << bits, exp(-1 / 3)
    kernel = wrapped(Fraction(3), modulus)
    for r, chance in enumerate(kernel):
        terms = (q ** abs(r + modulus * turn) for turn in range(-400, 401))
        assert chance == pytest.approx((1 - q) / (1 + q) * sum(terms))
    assert sum(kernel) == pytest.approx(1)


def test_pairs_are_all_readings_at_all_moments():
    """Two values at four moments; with one snapshot also beside two values at two moments."""
    two, one = (Scenario("", snapshots, once) for snapshots in (2, 1))
    assert len(list(pairs_of(two, quick=False))) == 8
    assert len(list(pairs_of(one, quick=False))) == 4 * (1 + 4)
    for without, with_reading in pairs_of(one, quick=False):
        assert sum(map(len, with_reading)) == sum(map(len, without)) + 1


def test_a_run_shows_the_draws_of_the_tape():
    """Masks of 0 but for those of the other keeper, which are 1: the counts show."""
    seen = observe_blinded(BlindedMechanism(), ((0,), (1, 1)), once, 4, ())
    assert seen.drawn == 4
    assert seen.counters == ((2, 1), (3, 0))
    assert seen.answers == (((0, 0), (Fraction(1), Fraction(1))),)
    masked = observe_blinded(BlindedMechanism(), ((0,), (1, 1)), once, 4, (1, 2, 3, 1))
    assert masked.counters == ((3, 3), (3, 3))
    assert masked.answers[0][0] == (0, 3)


def test_a_repeated_answer_is_one_answer():
    again = next(each for each in SCENARIOS if each.name == "the question again")
    kept = observe_blinded(BlindedMechanism(), ((), ()), again.ask, 4, ())
    redrawn = observe_blinded(BlindedMechanism(ledger=Redrawing), ((), ()), again.ask, 4, ())
    assert (len(kept.answers), len(redrawn.answers)) == (1, 2)
    assert kept.refused == redrawn.refused == ()


@pytest.mark.parametrize(("local_epsilon", "loss"), [(8.0, 8.0), (2.0, 2.0), (None, inf)])
def test_all_keepers_together_learn_the_local_epsilon_and_no_more(local_epsilon, loss):
    """To them every mask is a known number: what is left is the local mode at a weaker epsilon.
    Without one it is the control."""
    spec = replace(SPEC, privacy=replace(SPEC.privacy, local_epsilon=local_epsilon))
    mechanism = Mechanism(
        lambda spec, rng: start(spec, rng, FLEET, WINDOW, (HONEST, CORRUPT), IdealMasks(())),
        lambda sketch, rng, readings: encode_blinded(sketch.release(rng)),
    )
    subject = Subject("known masks", spec, UNIVERSE, lambda sketch: sketch._counters)
    found = largest_loss(mechanism, subject, "joint", 0)
    assert found.value == loss
    assert found.pairs == 48
