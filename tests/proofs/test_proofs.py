"""The theorems: each is proved, each weaker one refuted, and each formula is that of the code."""

import math
import re
from fractions import Fraction
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import z3
from hypothesis import given
from hypothesis import strategies as st

from pansketch import Span
from pansketch.randomness.geometric import geometric
from pansketch.sketches.distinct.variants import chances
from pansketch_agent.windows.rate_limiter import SpanLimiter
from pansketch_fleet.sections.time_slots import MICROSECONDS, TimeSlots, polling_slots, slots_for
from proofs.__main__ import lemmas, main
from proofs.lemma import Lemma, Unproved, check
from proofs.spans import heard, ticked

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/explanation/proofs.md").read_text()
SPANS = st.builds(Span, st.integers(1, 100_000), st.integers(2, 1000))


@pytest.mark.parametrize("lemma", lemmas(), ids=lambda lemma: lemma.name)
def test_a_lemma_is_proved_and_the_weaker_one_has_a_counterexample(lemma):
    assert check(lemma).counterexample


@pytest.mark.parametrize("lemma", lemmas(), ids=lambda lemma: lemma.name)
def test_a_wrong_lemma_and_a_control_that_holds_are_refused(lemma):
    """Negative controls of the checker."""
    wrong = Lemma(lemma.name, "", lemma.weakened, lemma.weakened, "")
    with pytest.raises(Unproved, match="is wrong"):
        check(wrong)
    with pytest.raises(Unproved, match="holds too"):
        check(Lemma(lemma.name, "", lemma.claim, lemma.claim, ""))


def test_the_program_prints_each_and_ends_with_0(capsys):
    assert main() == 0
    said = capsys.readouterr().out
    count = len(lemmas())
    assert f"{count} of {count} lemmas are proved, and as many controls refuted" in said


def test_the_program_ends_with_1_if_one_is_wrong(capsys, monkeypatch):
    x = z3.Int("x")
    monkeypatch.setattr("proofs.__main__.lemmas", lambda: [Lemma("x", "", x > 0, x > 1, "")])
    assert main() == 1
    assert "FAIL     x is wrong: x = 0" in capsys.readouterr().out


def rows():
    """Of the page: (lemma, code, tests)."""
    found = re.findall(r"^\| `([\w-]+)` \|[^|]*\|([^|]*)\|([^|]*)\|$", PAGE, re.M)
    return {
        name: (re.findall(r"`([^`]*)`", code), re.findall(r"`([^`]*)`", tests))
        for name, code, tests in found
    }


def test_the_page_maps_every_lemma_to_code_and_tests_that_exist():
    assert list(rows()) == [lemma.name for lemma in lemmas()]
    for code, tests in rows().values():
        assert code
        assert tests
        for place in code:
            file, _, name = place.partition("::")
            assert re.search(rf"(?:def|class) {name}\b", (ROOT / file).read_text()), place
        for place in tests:
            file, _, name = place.partition("::")
            assert f"def {name}(" in (ROOT / "tests" / file).read_text(), place


def number(formula):
    return z3.simplify(formula).as_long()


@given(st.integers(1, 10**6), st.data())
def test_the_limiter_steps_as_its_lemmas(length, data):
    """Ticks and readings at random moments, on the production limiter and in the very formulas."""
    slots = TimeSlots(length, data.draw(st.integers(1, length)))
    limiter = SpanLimiter(slots, 0.0)
    moments = data.draw(
        st.lists(st.tuples(st.integers(0, 10 * length), st.booleans()), max_size=20)
    )
    following = z3.IntVal(limiter._next)
    for microseconds, reading in sorted(moments):
        at = microseconds / MICROSECONDS
        now, is_open = slots.number(at), slots.is_open(at)
        before = number(following)
        if reading:
            row = np.ones((1, 1))
            limiter.limit(np.array([at]), row)
            assert bool(np.isfinite(row[0, 0])) == (is_open and now >= before)
            following = heard(following, now) if is_open else following
        else:
            limiter.tick(at)
            following = ticked(following, now, z3.BoolVal(is_open))
        assert limiter._next == number(following)


@given(SPANS, st.none() | st.integers(1, 60))
def test_slots_have_the_length_that_the_lemma_asks_for(span, opened):
    """(c - 1) length >= S + 1 + O, in microseconds, also with slots that are open throughout."""
    slots = slots_for(span, opened)
    stretch = span.seconds * MICROSECONDS + 1
    assert 0 < slots.opened <= slots.length
    assert (span.max_readings - 1) * slots.length >= stretch + slots.opened


@given(SPANS)
def test_polling_slots_have_the_length_that_the_lemma_asks_for(span):
    assert (span.max_readings - 1) * polling_slots(span).length > span.seconds * MICROSECONDS


@given(st.fractions(Fraction(1, 100), 10**6))
def test_digits_are_those_of_the_split(scale):
    """The high digit has ratio q**size: the sizes and decays of all digits multiply as in it."""
    digits = geometric(scale)
    for (weight, digit), (below, lower) in pairwise(digits):
        assert weight == below * lower.size
        assert digit.decay == lower.decay * lower.size
    assert digits[-1][1].decay == 1 / scale


@pytest.mark.parametrize("micro", [1, 50_000, 1_000_000, 8_000_000])
def test_bits_have_the_chances_of_the_lemma(micro):
    odds = math.exp(micro / 1e6)
    absent, present = (chance.probability for chance in chances("optbern", micro))
    assert math.isclose(absent, 1 / (1 + odds), rel_tol=1e-12)
    assert math.isclose(present, odds / (1 + odds), rel_tol=1e-12)
