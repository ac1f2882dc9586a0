"""The span limiter: no stretch of a span's length costs more than its readings.

The state after the open part of a slot is independent of its readings.
"""

import threading

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pansketch import Span
from pansketch_agent.host.clock import Clock
from pansketch_agent.sources.polling import polled
from pansketch_agent.windows.rate_limiter import SpanLimiter
from pansketch_fleet.sections.time_slots import (
    MICROSECONDS,
    MIN_OPEN_SHARE,
    TimeSlots,
    polling_slots,
    refusal,
    slots_for,
)

SPANS = st.builds(Span, st.integers(1, 40), st.integers(2, 9))
SLOTS = st.tuples(SPANS, st.none() | st.integers(1, 30))
TIMES = st.lists(st.integers(0, 4000).map(lambda tenth: tenth / 10), max_size=120).map(sorted)
SOON = 1_700_000_000.0


def taken(times, limiter, block=1000) -> list[float]:
    """The times of the rows that the limiter leaves, given to it in blocks."""
    left = []
    for begin in range(0, len(times), block):
        at = np.array(times[begin : begin + block])
        rows = np.ones((len(at), 2))
        limiter.limit(at, rows)
        assert (np.isinf(rows).all(axis=1) | (rows == 1).all(axis=1)).all()
        left += at[np.isfinite(rows[:, 0])].tolist()
    return left


def most_in_any(times, seconds) -> int:
    """The most of these times in any closed stretch of that length, wherever it begins."""
    return max((sum(a <= t <= a + seconds for t in times) for a in times), default=0)


@settings(max_examples=400, deadline=None)
@given(SLOTS, TIMES, st.floats(0, 1000))
def test_any_stretch_of_a_span_holds_less_than_its_readings(chosen, times, offset):
    """One is spare, for a reading that steps into a slot of one that is taken away."""
    span, seconds = chosen
    left = taken([SOON + offset + at for at in times], SpanLimiter(slots_for(span, seconds)))
    assert most_in_any(left, span.seconds) <= span.max_readings - 1


@given(st.integers(2, 30), st.integers(1, 100))
def test_plain_slots_would_let_one_too_many_in(count, seconds):
    """The control: slots of span / max_readings, and a stretch that begins inside one."""
    slot = seconds / count
    times = [slot - slot / 8, *(n * slot for n in range(1, count)), count * slot + slot / 16]
    assert len({int(at / slot + 1e-9) for at in times}) == len(times)
    assert most_in_any(times, seconds) > count


@settings(max_examples=400, deadline=None)
@given(SLOTS, TIMES, st.floats(0, 400))
def test_taking_a_whole_stretch_away_changes_no_more_than_its_readings(chosen, times, begin):
    """Readings that step into a freed slot count, too: epsilon must cover them."""
    span, seconds = chosen
    end = begin + span.seconds
    rest = [at for at in times if not begin <= at <= end]
    slots = slots_for(span, seconds)
    with_it, without = taken(times, SpanLimiter(slots)), taken(rest, SpanLimiter(slots))
    lost = [at for at in set(with_it + without) if with_it.count(at) != without.count(at)]
    changes = sum(abs(with_it.count(at) - without.count(at)) for at in lost)
    assert changes <= span.max_readings


@settings(max_examples=200, deadline=None)
@given(SLOTS, TIMES, st.integers(1, 7))
def test_blocks_make_no_difference(chosen, times, block):
    slots = slots_for(*chosen)
    assert taken(times, SpanLimiter(slots), block) == taken(times, SpanLimiter(slots))


@settings(deadline=None)
@given(SPANS, st.lists(st.integers(0, 400).map(float), max_size=60))
def test_out_of_order_rows_admit_no_more(span, times):
    left = taken(times, SpanLimiter(slots_for(span)), 5)
    assert most_in_any(left, span.seconds) <= span.max_readings
    assert left == sorted(left)


@settings(max_examples=300, deadline=None)
@given(SLOTS, st.lists(TIMES, min_size=2, max_size=4), st.integers(0, 50), st.data())
def test_a_restart_lets_nothing_more_in(chosen, lives, pause, data):
    """Each run knows nothing of the one before. They follow at once or after a while, and after a
    reboot the clock restarts.
    """
    span, seconds = chosen
    left, begun = [], 0.0
    for times in lives:
        boot = data.draw(st.sampled_from([0.0, begun]))
        limiter = SpanLimiter(slots_for(span, seconds), begun - boot)
        left += [boot + at for at in taken([begun - boot + at for at in times], limiter)]
        begun += (times[-1] if times else 0) + pause / 10
    assert most_in_any(left, span.seconds) <= span.max_readings - 1


@settings(max_examples=300, deadline=None)
@given(SLOTS, TIMES, TIMES, st.integers(0, 10**9))
def test_after_the_open_part_nothing_is_left_of_a_reading(chosen, some, others, later):
    """For any readings, the state is a function of the clock from the end of the open part on."""
    slots = slots_for(*chosen)
    number = slots.number(401.0) + 1
    at = (number * slots.length + slots.opened + later % slots.length) / MICROSECONDS + 1e-6
    states = []
    for times in (some, others):
        limiter = SpanLimiter(slots, 0.0)
        for moment in times:
            limiter.tick(moment)
            taken([moment], limiter)
        limiter.tick(at)
        states.append(vars(limiter))
    assert states[0] == states[1]


@given(SPANS, st.integers(1, 30))
def test_within_the_open_part_one_bit_differs(span, seconds):
    """The control: this is what a seizure would find in these seconds."""
    slots = slots_for(span, seconds)
    with_it, without = SpanLimiter(slots, 0.0), SpanLimiter(slots, 0.0)
    at = 5 * slots.length / MICROSECONDS + 1e-6
    for limiter in (with_it, without):
        limiter.tick(at)
    taken([at], with_it)
    assert with_it._next == without._next + 1


@given(TIMES)
def test_a_malformed_reading_uses_its_slot_like_any_other(times):
    limiter, control = (SpanLimiter(slots_for(Span(10, 5))) for _ in range(2))
    limiter.limit(np.array(times), np.full((len(times), 2), np.nan))
    control.limit(np.array(times), np.ones((len(times), 2)))
    assert vars(limiter) == vars(control)


@pytest.mark.parametrize(
    ("most", "open_seconds", "length", "opened"),
    [
        (60, None, 600 / 58, 600 / 58),
        (3, None, 600, 600),
        (2, None, 1200, 600),
        (60, 10, 610 / 59, 10),
        (60, 11, 600 / 58, 600 / 58),
        (3, 10, 305, 10),
        (2, 10, 610, 10),
        (2, 60, 660, 60),
    ],
)
def test_slots_are_as_documented(most, open_seconds, length, opened):
    slots = slots_for(Span(600, most), open_seconds)
    assert slots.length == pytest.approx(length * MICROSECONDS, abs=3)
    assert slots.opened == pytest.approx(opened * MICROSECONDS, abs=3)


@pytest.mark.parametrize("slots", [slots_for, polling_slots])
def test_a_span_of_one_reading_has_no_slots(slots):
    with pytest.raises(ValueError, match="a step-in"):
        slots(Span(600, 1))


@given(SPANS, st.integers(1, 60))
def test_what_a_refusal_advises_is_accepted(span, seconds):
    long = Span(span.seconds * 3600, span.max_readings)
    problem = refusal(long, seconds)
    if problem is None:
        assert slots_for(long, seconds).share >= MIN_OPEN_SHARE
        return
    enough = int(problem.partition("max_readings: ")[2].partition(" ")[0])
    assert refusal(Span(long.seconds, enough), seconds) is None
    assert refusal(Span(long.seconds, enough - 1), seconds) is not None


def test_a_steady_source_is_accepted_once_a_slot():
    times = [at / 2 for at in range(12_000)]
    left = taken(times, SpanLimiter(slots_for(Span(600, 60))), 100)
    assert len(left) == pytest.approx(6000 / (600 / 58), abs=2)
    left = taken(times, SpanLimiter(slots_for(Span(600, 60), 10)), 100)
    assert len(left) == pytest.approx(6000 / (610 / 59), abs=2)


class Poller:
    """A sensor under a fake clock whose wall time is set at will; each poll takes its time."""

    def __init__(self, lags, jumps) -> None:
        self.wall = self.up = 0.0
        self._lags, self._jumps = iter(lags), iter(jumps)
        self.polls: list[tuple[float, float]] = []  # of each poll its begin and its end

    def wait(self, stop: threading.Event, seconds: float) -> bool:
        jump = next(self._jumps, None)
        self.wall, self.up = self.wall + seconds + (jump or 0), self.up + seconds
        return jump is None

    def measure(self, values: np.ndarray) -> None:
        begun = self.up
        lag = next(self._lags, 0.0)
        self.wall, self.up = self.wall + lag, self.up + lag
        self.polls.append((begun, self.up))
        values[0] = 1.0

    def run(self, span: Span, interval: float) -> None:
        clock = Clock(lambda: self.wall, lambda: self.up, self.wait)
        stop = threading.Event()
        for _ in polled(self.measure, 1, interval, clock, stop, polling_slots(span)):
            pass


JUMPS = st.lists(st.sampled_from([0.0] * 8 + [-3.0, 2.5, -40.0]), max_size=150)


@settings(max_examples=300, deadline=None)
@given(SPANS, st.integers(1, 30), JUMPS, st.lists(st.floats(0, 9), max_size=150), st.data())
def test_polls_of_any_stretch_are_no_more_than_its_readings(span, tenths, jumps, lags, data):
    """For any moment of a value within its poll, and for any wall clock."""
    poller = Poller(lags, jumps)
    poller.run(span, tenths / 10)
    moments = [data.draw(st.sampled_from(each)) for each in poller.polls]
    assert most_in_any(moments, span.seconds) <= span.max_readings


@settings(max_examples=100, deadline=None)
@given(SPANS, st.integers(1, 30), st.lists(st.integers(20, 80), min_size=2, max_size=4), st.data())
def test_polls_of_several_lives_are_no_more_either(span, tenths, lives, data):
    moments, begun = [], 0.0
    for polls in lives:
        poller = Poller([], [0.0] * polls)
        boot = data.draw(st.sampled_from([0.0, begun]))
        poller.up = begun - boot
        poller.run(span, tenths / 10)
        moments += [boot + at for at, _ in poller.polls]
        begun = boot + poller.up
    assert most_in_any(moments, span.seconds) <= span.max_readings


def test_a_sensor_is_asked_nearly_as_often_as_a_span_allows():
    poller = Poller([], [0.0] * 6000)
    poller.run(Span(600, 60), 1.0)
    assert len(poller.polls) == pytest.approx(6000 / 600 * 59, abs=4)


def middles(slots, first, count):
    """The middle of the open part of each slot, from the number `first` on, in seconds."""
    return [
        (n * slots.length + slots.opened / 2) / MICROSECONDS for n in range(first, first + count)
    ]


@pytest.mark.parametrize("begin", [-4e9, -1e6, 0.0, 4e9])
def test_a_replay_may_be_of_any_year(begin):
    """Numbers of slots before 1970 are negative, and none of them counts as taken."""
    slots = slots_for(Span(8 * 3600, 3), None)
    times = middles(slots, slots.number(begin), 4)
    assert taken(times, SpanLimiter(slots)) == times


@pytest.mark.parametrize("inside", [0.01, 0.5, 0.99])
def test_a_live_source_takes_a_reading_after_one_whole_slot(inside):
    """Not before: the process before it may have taken one. And no later."""
    slots = slots_for(Span(8 * 3600, 3), None)
    number = slots.number(SOON)
    limiter = SpanLimiter(slots, (number + inside) * slots.length / MICROSECONDS)
    times = middles(slots, number, 5)
    assert taken(times, limiter) == times[2:]


def test_a_slot_is_open_to_the_microsecond():
    """A reading at the end of the open part is late, like one after the tick of that moment."""
    slots = TimeSlots(20 * MICROSECONDS, 10 * MICROSECONDS)
    for at, last in ((100.0, 110.0), (1e9, 1e9 + 10), (-100.0, -90.0)):
        assert taken([at, last], SpanLimiter(slots)) == [at]
        assert taken([last, at + 20], SpanLimiter(slots)) == [at + 20]
        before = last - 2 / MICROSECONDS
        for moment, kept in ((before, [before]), (last, [])):
            limiter = SpanLimiter(slots)
            limiter.tick(moment)
            assert taken([before], limiter) == kept


def test_a_late_row_is_dropped_wherever_it_stands_and_costs_a_later_one_nothing():
    slots = TimeSlots(10 * MICROSECONDS, 10 * MICROSECONDS)
    for late in ([31.0, 45.0], [45.0, 41.0, 49.9], [5.0, 41.0], [49.0]):
        limiter = SpanLimiter(slots)
        assert taken([42.0], limiter) == [42.0]
        assert taken([*late, 51.0, 52.0, 67.0], limiter) == [51.0, 67.0]
