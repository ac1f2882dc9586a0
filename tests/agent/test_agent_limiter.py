"""The span limiter: no stretch of a span's length costs more than its readings, and one bit."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.limiter import MICROSECONDS, SpanLimiter, slots_for
from pansketch import Span

SPANS = st.builds(Span, st.integers(1, 40), st.integers(2, 9))
TIMES = st.lists(st.integers(0, 4000).map(lambda tenth: tenth / 10), max_size=120).map(sorted)
SOON = 1_700_000_000.0


def taken(times, limiter, block=1000) -> list[float]:
    """The times of the rows that the limiter leaves, given to it in blocks."""
    left = []
    for begin in range(0, len(times), block):
        at = np.array(times[begin : begin + block])
        rows = np.ones((len(at), 2))
        limiter.limit(at, rows)
        assert (np.isnan(rows).all(axis=1) | (rows == 1).all(axis=1)).all()
        left += at[~np.isnan(rows[:, 0])].tolist()
    return left


def most_in_any(times, seconds) -> int:
    """The most of these times in any closed stretch of that length, wherever it begins."""
    return max((sum(a <= t <= a + seconds for t in times) for a in times), default=0)


@settings(max_examples=400)
@given(SPANS, TIMES, st.floats(0, 1000))
def test_any_stretch_of_a_span_holds_at_most_its_readings(span, times, offset):
    left = taken([SOON + offset + at for at in times], SpanLimiter(span))
    assert most_in_any(left, span.seconds) <= span.max_readings


@given(st.integers(2, 30), st.integers(1, 100))
def test_plain_slots_would_let_one_too_many_in(count, seconds):
    """The control: slots of span / max_readings, and a stretch that begins inside one."""
    slot = seconds / count
    times = [slot - slot / 8, *(n * slot for n in range(1, count)), count * slot + slot / 16]
    assert len({int(at / slot + 1e-9) for at in times}) == len(times)
    assert most_in_any(times, seconds) > count


@settings(max_examples=400)
@given(SPANS, TIMES, st.floats(0, 400))
def test_taking_a_whole_stretch_away_changes_no_more_than_its_readings(span, times, begin):
    """Readings that step into a freed slot count too: this is what epsilon must pay for."""
    end = begin + span.seconds
    rest = [at for at in times if not begin <= at <= end]
    with_it, without = taken(times, SpanLimiter(span)), taken(rest, SpanLimiter(span))
    lost = [at for at in set(with_it + without) if with_it.count(at) != without.count(at)]
    changes = sum(abs(with_it.count(at) - without.count(at)) for at in lost)
    assert changes <= span.max_readings


@settings(max_examples=200)
@given(SPANS, TIMES, st.integers(1, 7))
def test_blocks_make_no_difference(span, times, block):
    assert taken(times, SpanLimiter(span), block) == taken(times, SpanLimiter(span))


@given(SPANS, st.lists(st.integers(0, 400).map(float), max_size=60))
def test_out_of_order_rows_do_not_let_more_in(span, times):
    left = taken(times, SpanLimiter(span), 5)
    assert most_in_any(left, span.seconds) <= span.max_readings
    assert left == sorted(left)


@settings(max_examples=300)
@given(SPANS, st.lists(TIMES, min_size=2, max_size=4), st.integers(0, 50))
def test_a_restart_lets_nothing_more_in(span, lives, pause):
    """Each life knows nothing of the one before, and they follow at once or after a while."""
    left, begun = [], 0.0
    for times in lives:
        left += taken([begun + at for at in times], SpanLimiter(span, begun))
        begun += (times[-1] if times else 0) + pause / 10
    assert most_in_any(left, span.seconds) <= span.max_readings


@given(SPANS, TIMES, TIMES)
def test_ticks_leave_a_state_that_knows_nothing_of_earlier_slots(span, some, others):
    later = 401 + 4 * span.seconds
    states = []
    for times in (some, others):
        limiter = SpanLimiter(span, 0.0)
        taken(times, limiter)
        limiter.tick(later)
        states.append(vars(limiter))
    assert states[0] == states[1]


@given(TIMES)
def test_a_malformed_reading_uses_its_slot_like_any_other(times):
    limiter, control = SpanLimiter(Span(10, 5)), SpanLimiter(Span(10, 5))
    limiter.limit(np.array(times), np.full((len(times), 2), np.nan))
    control.limit(np.array(times), np.ones((len(times), 2)))
    assert vars(limiter) == vars(control)


@pytest.mark.parametrize(("most", "seconds"), [(60, 600 / 58), (3, 600), (2, 1200), (1, 1200)])
def test_slots_are_as_documented(most, seconds):
    slots = slots_for(Span(600, most))
    assert slots.length == pytest.approx(seconds * MICROSECONDS, abs=3)
    assert slots.opened == (slots.length if most > 2 else slots.length // 2)


def test_a_steady_source_is_let_in_once_a_slot():
    times = [at / 2 for at in range(12_000)]
    left = taken(times, SpanLimiter(Span(600, 60)), 100)
    assert len(left) == pytest.approx(6000 / (600 / 58), abs=2)
