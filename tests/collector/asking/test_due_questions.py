"""Which questions are due."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pansketch_collector.asking.due_questions import WaitingPeriod, due, over, parts
from pansketch_fleet.settings.device_spec import schedule_offset
from pansketch_fleet.settings.settings import AnswerLevel

HOUR = 3_600
HOURLY = AnswerLevel(HOUR, Fraction(1))
DAILY = AnswerLevel(24 * HOUR, Fraction(1))


def asked(waiting, last, level, now, lateness=600):
    held = [WaitingPeriod(period, at, at) for period, at in waiting]
    found = due(held, last, level, HOUR, lateness, now)
    return [(each.period, each.listed) for each in found]


def test_a_period_is_due_when_its_last_window_has_ended_and_lateness_has_passed():
    end = 11 * HOUR + 360  # The latest schedule of a device begins a tenth of a window later.
    waiting = [(10, 10 * HOUR)]
    assert asked(waiting, None, HOURLY, end + 599) == []
    assert asked(waiting, None, HOURLY, end + 600) == [(10, (10,))]


@given(st.text(min_size=1, max_size=20), st.integers(1, 10**6), st.integers(1, 50))
def test_no_window_of_a_period_ends_after_it_is_over(device, window, times):
    level = AnswerLevel(window * times, Fraction(1))
    last = (times - 1) * window + schedule_offset(device, window)
    assert last // level.every_seconds == 0
    assert last + window <= over(0, level, window)


def test_a_backlog_waits_for_lateness_and_then_has_a_question_for_each_period():
    now = 1_000_000 * HOUR
    waiting = [(10, now), (11, now + 5), (12, now + 9)]
    assert asked(waiting, None, HOURLY, now + 599) == []
    assert asked(waiting, None, HOURLY, now + 605) == [(10, (10,)), (11, (11,))]


def test_a_backlog_that_still_comes_is_waited_for_but_not_for_ever():
    now = 1_000_000 * HOUR

    def is_due(last, at):
        return bool(due([WaitingPeriod(10, now, last)], None, HOURLY, HOUR, 600, at))

    assert not is_due(now + 500, now + 1_099)
    assert is_due(now + 500, now + 1_100)
    assert not is_due(now + 5_990, now + 5_999)
    assert is_due(now + 5_990, now + 6_000)


def test_releases_that_came_while_the_clock_was_ahead_wait_for_no_clock():
    end, ahead = 11 * HOUR + 360, 10**6 * HOUR
    assert asked([(10, ahead)], None, HOURLY, end + 599) == []
    assert asked([(10, ahead)], None, HOURLY, end + 600) == [(10, (10,))]
    held = [WaitingPeriod(10, end, ahead)]
    assert due(held, None, HOURLY, HOUR, 600, end + 599) == []
    assert [each.period for each in due(held, None, HOURLY, HOUR, 600, end + 600)] == [10]


def test_what_is_late_joins_the_period_after_the_last_one_that_was_asked():
    now = 14 * HOUR
    waiting = [(3, now), (9, now), (11, 12 * HOUR)]
    assert asked(waiting, 10, HOURLY, now) == [(11, (3, 9, 11))]
    assert asked(waiting[:2], 10, HOURLY, now) == []  # Its own lateness has not passed.
    assert asked(waiting[:2], 10, HOURLY, now + 600) == [(11, (3, 9))]


def test_what_is_late_waits_until_the_next_period_is_over():
    assert asked([(3, 5 * HOUR)], 10, HOURLY, 11 * HOUR) == []


def test_levels_have_periods_of_their_own():
    assert asked([(0, HOUR)], None, DAILY, 24 * HOUR + 959) == []
    assert asked([(0, HOUR)], None, DAILY, 24 * HOUR + 960) == [(0, (0,))]


@given(
    st.lists(st.tuples(st.integers(0, 50), st.integers(0, 60 * HOUR)), max_size=20),
    st.none() | st.integers(0, 40),
    st.integers(0, 100 * HOUR),
)
def test_every_waiting_period_is_in_one_question_at_last_and_in_none_twice(waiting, last, now):
    now_asked = [each for _, listed in asked(waiting, last, HOURLY, now) for each in listed]
    at_last = asked(waiting, last, HOURLY, 1_000 * HOUR)
    listed = sorted(each for _, found in at_last for each in found)
    assert listed == sorted(period for period, _ in waiting)
    assert len(now_asked) == len([n for n in now_asked if n in listed])
    assert all(last is None or period > last for period, _ in at_last)
    assert all(each <= period for period, found in at_last for each in found)


@pytest.mark.parametrize(("windows", "most"), [(0, 1), (1, 1), (7, 3), (9, 3), (100, 7), (5, 100)])
def test_parts_are_whole_and_as_few_as_can_be(windows, most):
    for loads, limit in (([1 / most - 1e-9] * windows, 1000), ([1e-9] * windows, most)):
        found = [list(range(windows))[part] for part in parts(loads, limit)]
        assert [each for part in found for each in part] == list(range(windows))
        assert all(0 < len(part) <= most for part in found)
        assert len(found) == -(-windows // most)


def test_one_large_window_splits_no_others():
    loads = [0.01] * 40 + [0.5] + [0.01] * 9
    assert parts(loads, 1000) == [slice(0, 50)]
    assert parts([0.01, 3.0, 0.01], 1000) == [slice(0, 1), slice(1, 2), slice(2, 3)]
