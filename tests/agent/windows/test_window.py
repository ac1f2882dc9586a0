"""Windows: the schedule is public, and every window is released once, for any readings."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pansketch import Attribute, Domain, HierarchySpec, Privacy, os_entropy
from pansketch_agent.windows.window import (
    MAX_EMPTY,
    GapError,
    Schedule,
    WindowBounds,
    WindowClock,
    Windows,
    schedule_for,
)

ROOT = Path(__file__).parents[3]
ENTROPY = os_entropy()
SPEC = HierarchySpec(
    Domain((Attribute("temp", -40, 60), Attribute("wind", categories=("calm", "N")))),
    Privacy(epsilon=100),
    depth=2,
    k=2,
    width=2,
    rows=1,
    fanout=2,
)
TIMES = st.integers(0, 4_000_000_000)
SECONDS = st.integers(1, 40 * 86400)
NAMES = st.from_regex(r"[a-z0-9-]{1,64}", fullmatch=True)


def rows_of(*temps):
    return np.array([[temp, 0.0] for temp in temps]).reshape(-1, 2)


@given(NAMES, SECONDS, TIMES)
def test_every_moment_lies_in_exactly_one_window(device, window_seconds, at):
    schedule = schedule_for(device, window_seconds)
    index = schedule.index(at + 0.5)
    span = schedule.span(index)
    assert span.start <= at < span.end == span.start + window_seconds
    assert schedule.span(index + 1).start == span.end
    assert schedule.index(span.start) == index == schedule.index(span.end - 1e-6)


@given(NAMES, SECONDS)
def test_the_offset_is_small_and_from_the_name_only(device, window_seconds):
    offset = schedule_for(device, window_seconds).offset
    assert 0 <= offset <= min(window_seconds // 10, 600)
    assert offset == schedule_for(device, window_seconds).offset


def test_offsets_spread_a_fleet():
    offsets = {schedule_for(f"device-{number}", 86400).offset for number in range(100)}
    assert len(offsets) > 60


@given(TIMES, SECONDS, st.integers(0, 600))
def test_the_first_window_from_a_moment_begins_then_or_later(at, window_seconds, offset):
    schedule = Schedule(window_seconds, offset)
    first = schedule.first_from(at)
    assert schedule.span(first).start >= at > schedule.span(first - 1).start


@given(
    st.lists(st.integers(0, 2000), max_size=30).map(sorted), st.integers(1, 500), st.integers(0, 50)
)
def test_split_agrees_with_going_row_by_row(times, window_seconds, offset):
    epoch_seconds = max(1, window_seconds // 3)
    schedule = Schedule(window_seconds, offset, epoch_seconds)
    values = np.arange(2.0 * len(times)).reshape(-1, 2)
    indices = schedule.indices(np.array(times, float)).tolist()
    assert indices == [schedule.index(at) for at in times]
    expected = list(zip(indices, values.tolist(), strict=True))
    parts = list(schedule.split(np.array(times, float), values.copy()))
    got = [(i, row) for i, _, rows in parts for row in rows.tolist()]
    assert got == expected
    steps = [(index, epoch) for index, epoch, _ in parts]
    assert steps == sorted(set(steps))
    assert {(schedule.index(at), schedule.epoch(at)) for at in times} >= set(steps)
    plain = list(Schedule(window_seconds, offset).split(np.array(times, float), values.copy()))
    assert [(index, epoch) for index, epoch, _ in plain] == [(n, 0) for n in sorted(dict(steps))]


@given(st.lists(st.integers(0, 200), min_size=1, max_size=30), st.integers(0, 100))
def test_every_window_from_the_first_to_the_last_is_released_once(indices, floor_index):
    schedule = Schedule(10, 3)
    windows = Windows((SPEC,), schedule, ENTROPY, schedule.span(floor_index).start, live=False)
    spans: list[WindowBounds] = []
    for index in indices:
        spans += [closed.span for closed in windows.advance_to(index)]
        windows.absorb(index, rows_of(1.0))
    spans += [closed.span for closed in windows.finish()]
    first, last = max(indices[0], floor_index), max(indices)
    assert spans == [schedule.span(index) for index in range(first, last + 1)]


@given(st.lists(st.floats(-100, 100), max_size=8), st.lists(st.floats(-100, 100), max_size=8))
def test_the_schedule_does_not_see_the_readings(some, others):
    def spans(temps: list[float]) -> list[WindowBounds]:
        windows = Windows((SPEC,), Schedule(10, 0), ENTROPY)
        seen = []
        for index in range(5):
            seen += [closed.span for closed in windows.advance_to(index)]
            if temps and index < len(temps):
                windows.absorb(index, rows_of(*temps[index:]))
        return seen

    assert spans(some) == spans(others) == [WindowBounds(10 * i, 10 * i + 10) for i in range(4)]


def test_readings_reach_their_own_window():
    windows = Windows((SPEC,), Schedule(10, 0), ENTROPY, live=False)
    closed = []
    for index, count in ((0, 300), (1, 0), (2, 700)):
        closed += list(windows.advance_to(index))
        windows.absorb(index, rows_of(*[20.0] * count))
    windows.absorb(0, rows_of(*[20.0] * 900))  # too late
    closed += list(windows.finish())
    counts = [int(c.sketches[0].release(ENTROPY).counters[0:].max()) for c in closed]
    assert counts[1] < 20
    assert abs(counts[0] - 300) < 20
    assert abs(counts[2] - 700) < 20


def test_a_live_reading_survives_a_clock_that_was_set_back():
    windows = Windows((SPEC,), Schedule(10, 0), ENTROPY, live=True)
    list(windows.advance_to(5))
    list(windows.advance_to(3))
    windows.absorb(None, rows_of(*[20.0] * 500))
    (closed,) = windows.advance_to(6)
    assert closed.span == WindowBounds(50, 60)
    assert abs(int(closed.sketches[0].release(ENTROPY).counters.max()) - 500) < 20


def test_a_clock_that_is_set_for_the_first_time_skips_the_years_between():
    windows = Windows((SPEC,), Schedule(10, 0), ENTROPY, live=True)
    list(windows.advance_to(0))
    assert [closed.span.start for closed in windows.advance_to(MAX_EMPTY + 1)] == [0]
    assert windows.open_start == 10 * MAX_EMPTY + 10


def test_a_replay_does_not_release_thousands_of_windows_for_one_wrong_year():
    windows = Windows((SPEC,), Schedule(10, 0), ENTROPY, live=False)
    list(windows.advance_to(0))
    with pytest.raises(GapError):
        list(windows.advance_to(MAX_EMPTY + 1))


def test_nothing_is_released_again_when_all_of_it_was():
    windows = Windows((SPEC,), Schedule(10, 0), ENTROPY, released_until=60, live=False)
    for index in range(6):
        assert not list(windows.advance_to(index))
        windows.absorb(index, rows_of(1.0))
    assert not list(windows.finish())


def test_an_open_window_keeps_its_spec_and_later_ones_have_the_new_one():
    """The windows of ten seconds begin at 3: those that start at 33 or later have it."""
    other = replace(SPEC, depth=3)
    windows = Windows((SPEC,), Schedule(10, 3), ENTROPY)
    list(windows.advance_to(1))
    windows.rescale([(31, other)])
    assert windows.base is SPEC
    closed = list(windows.advance_to(5))
    assert [each.span.start for each in closed] == [13, 23, 33, 43]
    assert [each.sketches[0].release(ENTROPY).spec for each in closed] == [SPEC, SPEC, other, other]
    assert windows.base is other
    windows.rescale([(31, other), (70, SPEC)])
    later = [each.sketches[0].release(ENTROPY).spec for each in windows.advance_to(8)]
    assert later == [other, other, SPEC]


def test_a_published_scale_holds_from_its_start_and_a_withdrawn_one_never():
    other, third = replace(SPEC, depth=3), replace(SPEC, depth=4)
    windows = Windows((SPEC,), Schedule(10, 3), ENTROPY)
    list(windows.advance_to(1))
    windows.rescale([(23, other), (43, third)])
    assert specs_of(windows.advance_to(5)) == [[SPEC], [other], [other], [third]]
    windows.rescale([(63, other), (83, third)])
    windows.rescale([(73, other)])
    assert specs_of(windows.advance_to(9)) == [[third], [SPEC], [other], [other]]
    windows.rescale([])
    assert specs_of(windows.advance_to(11)) == [[other], [SPEC]]


def test_a_published_scale_is_of_the_first_sketch_and_the_others_keep_their_specs():
    second, third, other = (replace(SPEC, depth=depth) for depth in (3, 4, 5))
    windows = Windows((SPEC, second, third), Schedule(10, 0), ENTROPY)
    assert windows.base is SPEC
    for at in (20, 30):
        windows.rescale([(at, other)])
    list(windows.advance_to(1))
    assert windows.base is SPEC
    closed = list(windows.advance_to(4))
    assert windows.base is other
    plain, scaled = [SPEC, second, third], [other, second, third]
    assert specs_of(closed) == [plain, plain, scaled]


def specs_of(closed):
    return [[sketch.release(ENTROPY).spec for sketch in each.sketches] for each in closed]


def test_a_live_source_begins_with_the_first_window_since_1970_and_a_replay_with_any():
    """And neither with one that was released before."""
    assert Windows((SPEC,), Schedule(10, 0), ENTROPY).open_start == 0
    assert Windows((SPEC,), Schedule(10, 9), ENTROPY).open_start == 9
    assert Windows((SPEC,), Schedule(10, 9), ENTROPY, 21).open_start == 29
    assert Windows((SPEC,), Schedule(10, 9), ENTROPY, 21, live=False).open_start == 29
    replay = Windows((SPEC,), Schedule(10, 9), ENTROPY, live=False)
    assert replay.open_start is None
    closed = [*replay.advance_to(-50), *replay.advance_to(-48), *replay.finish()]
    assert [each.span.start for each in closed] == [-491, -481, -471]


def test_skipped_windows_are_not_released_and_what_was_counted_in_them_is_dropped():
    windows = Windows((SPEC,), Schedule(10, 3), ENTROPY, live=False)
    assert not list(windows.advance_to(2))
    windows.absorb(2, rows_of(*[20.0] * 500))
    windows.skip_until(44)
    assert windows.open_start == 53
    assert not list(windows.finish())
    windows.absorb(None, rows_of(*[20.0] * 500))
    assert not list(windows.advance_to(5))
    (closed,) = windows.finish()
    assert (closed.span.start, count_in(closed) < 20) == (53, True)


@pytest.mark.parametrize("until", [24, 33, 0])
def test_a_window_that_begins_then_or_later_is_not_skipped(until):
    windows = Windows((SPEC,), Schedule(10, 3), ENTROPY)
    list(windows.advance_to(3))
    windows.absorb(3, rows_of(*[20.0] * 500))
    windows.skip_until(until)
    (closed,) = windows.advance_to(4)
    assert (closed.span.start, abs(count_in(closed) - 500) < 20) == (33, True)


def count_in(closed):
    """The largest counter of the first sketch: a number of readings, and noise."""
    return int(closed.sketches[0].release(ENTROPY).counters.max())


@pytest.mark.parametrize("released_until", [0, 63])
def test_before_the_first_window_skipping_moves_it_on_and_never_back(released_until):
    windows = Windows((SPEC,), Schedule(10, 3), ENTROPY, released_until, live=False)
    for until, start in ((34, 43), (53, 53), (20, 53), (90, 93)):
        windows.skip_until(until)
        assert windows.open_start == max(start, released_until)
    assert not list(windows.advance_to(5))
    assert windows.open_start == 93


@pytest.mark.parametrize("live", [True, False])
@pytest.mark.parametrize("begin", [0, 5_000_000])
def test_a_gap_of_as_many_windows_as_are_allowed_is_released_as_empty(monkeypatch, live, begin):
    monkeypatch.setattr("pansketch_agent.windows.window.MAX_EMPTY", 3)
    windows = Windows((SPEC,), Schedule(10, 0), ENTROPY, live=live)
    list(windows.advance_to(begin))
    closed = list(windows.advance_to(begin + 3))
    assert [each.span.start // 10 for each in closed] == [begin, begin + 1, begin + 2]
    if live:
        assert [each.span.start // 10 for each in windows.advance_to(begin + 7)] == [begin + 3]
        assert windows.open_start == 10 * begin + 70
        return
    with pytest.raises(GapError, match="more than 3 windows without a row") as caught:
        list(windows.advance_to(begin + 7))
    assert caught.value.start == windows.open_start == 10 * begin + 30


def test_the_reference_states_how_many_windows_a_gap_may_have():
    page = (ROOT / "docs/reference/device-state.md").read_text()
    assert f"releases the skipped ones as empty; it leaves out those beyond {MAX_EMPTY:,} |" in page


@pytest.mark.parametrize(("window_seconds", "longest"), [(10, 60), (60, 60), (61, 61)])
def test_a_clock_may_be_behind_by_a_window_or_a_minute(window_seconds, longest):
    """Whichever is longer: the open window waits for it. Beyond that, time goes on without it."""
    clock = WindowClock(window_seconds)
    assert not clock.adrift
    assert clock.now(10_000.0 - longest, 7.0, 10_000) == 10_000 - longest
    assert not clock.adrift
    assert clock.now(9_999.5 - longest, 8.0, 10_000) == 10_000
    assert clock.adrift
    assert clock.now(9_999.5 - longest, 9.5, 10_000) == 10_001.5
    fresh = WindowClock(window_seconds)
    assert [fresh.now(0.0, up, 10_000) for up in (100.0, 101.0)] == [10_000, 10_001]
