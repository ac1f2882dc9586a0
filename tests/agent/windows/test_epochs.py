"""The masks of a window: fresh ones at every epoch, and none that outlives its time."""

from dataclasses import replace
from math import inf, nextafter

import pytest

from pansketch import WindowId, os_entropy
from pansketch.blinding import start as start_blinded
from pansketch_agent.windows.window import ClosedWindow, Schedule, WindowBounds, Windows
from tests.pansketch.blinding.fleet import FLEET, SMALL, keepers, public
from tests.pansketch.sketches.families import uniform

ENTROPY = os_entropy()
KEEPERS = public(keepers())
EPOCH, WINDOW = 10, 60


class Masked(Windows):
    """Windows of blinded sketches, of which a test counts the epochs."""

    def __init__(self, live=True, epoch_seconds=EPOCH, specs=(SMALL,)):
        schedule = Schedule(WINDOW, 0, epoch_seconds)
        super().__init__(specs, schedule, ENTROPY, live=live, start=self._begin)

    def _begin(self, specs, span):
        label = WindowId("dev-1", "air", 1 + span.start // WINDOW, span.start, span.end)
        return tuple(start_blinded(spec, ENTROPY, FLEET, label, KEEPERS) for spec in specs)

    @property
    def begun(self):
        """The epochs of the open window so far, of each sketch."""
        return [len(sketch._masks.epoch_keys) for sketch in self._sketches]


def opened(index=0, **settings):
    windows = Masked(**settings)
    list(windows.advance_to(index))
    return windows


def epochs_of(closed: ClosedWindow):
    """The public keys in the releases of a window: one of each epoch, and one of the release."""
    return [len(set(sketch.release(ENTROPY).epochs)) for sketch in closed.sketches]


def test_a_window_has_as_many_epochs_as_begin_in_it():
    assert [Schedule(60, 0, seconds).epochs for seconds in (60, 30, 29, 25, 20, 7, 1)] == [
        *(1, 2, 3, 3, 3, 9, 60),
    ]
    assert Schedule(60, 0).epochs == 1


@pytest.mark.parametrize("schedule", [Schedule(64, 6, 16), Schedule(64, 5, 20), Schedule(10, 0)])
@pytest.mark.parametrize("index", [-30_000_000, -2, -1, 0, 1, 30_000_000])
def test_the_last_moment_of_a_window_is_in_its_last_epoch(schedule, index):
    """Before 1970, too, where a board without a clock may start, and down to the last bit."""
    span = schedule.span(index)
    last = nextafter(span.end, -inf)
    assert (schedule.index(last), schedule.epoch(last)) == (index, schedule.epochs - 1)
    assert (schedule.index(span.end), schedule.epoch(span.end)) == (index + 1, 0)
    length = schedule.epoch_seconds or schedule.window_seconds
    begins = [span.start + number * length for number in range(schedule.epochs)]
    assert [schedule.epoch(at) for at in begins] == [*range(schedule.epochs)]
    before = [nextafter(at, -inf) for at in begins[1:]]
    assert [schedule.epoch(at) for at in before] == [*range(schedule.epochs - 1)]


def test_each_epoch_of_a_live_window_begins_once_by_the_clock():
    windows = opened(index=3)
    assert windows.begun == [1]
    for epoch, begun in ((0, 1), (1, 2), (1, 2), (0, 2), (4, 3), (3, 3), (4, 3), (5, 4)):
        windows.refresh(3, epoch)
        assert windows.begun == [begun], "missed epochs have one together"
    for other in (2, 4):
        windows.refresh(other, 5 + other)
        assert windows.begun == [4], "another window's epoch"
    (closed,) = windows.advance_to(4)
    assert windows.begun == [1], "the next window begins with its own"
    windows.refresh(4, 1)
    assert windows.begun == [2]
    assert epochs_of(closed) == [5]


def test_every_window_of_a_replay_has_every_epoch():
    """With any rows: their times must not show in the number of the public keys."""
    windows, closed = Masked(live=False), []
    for index, epoch in ((5, 3), (5, 4), (6, 0), (8, 1), (9, 5)):
        closed += windows.advance_to(index)
        windows.refresh(index, epoch)
        assert windows.begun == [epoch + 1], "one mask for each that has begun"
    closed += windows.finish()
    assert [epochs_of(each) for each in closed] == [[WINDOW // EPOCH + 1]] * 5
    one = Masked(live=False, epoch_seconds=None)
    closed = [*one.advance_to(3), *one.advance_to(5), *one.finish()]
    assert [epochs_of(each) for each in closed] == [[2]] * 3


def test_a_new_mask_changes_every_counter_of_every_sketch():
    windows = opened(specs=(SMALL, SMALL))
    windows.absorb(None, uniform(20))
    before = [sketch._counters.copy() for sketch in windows._sketches]
    windows.refresh(0, 1)
    for sketch, counters in zip(windows._sketches, before, strict=True):
        assert (sketch._counters != counters).mean() > 0.9
    assert windows.begun == [2, 2]


def test_sketches_without_masks_have_no_epochs():
    local = replace(SMALL, privacy=replace(SMALL.privacy, aggregation="local"))
    windows = Windows((local,), Schedule(WINDOW, 0, EPOCH), ENTROPY)
    list(windows.advance_to(0))
    (sketch,) = windows._sketches
    before = sketch._counters.copy()
    windows.refresh(0, 3)
    assert (sketch._counters == before).all()


@pytest.mark.parametrize("up", [0.0, 5000.0])
def test_a_mask_lasts_no_longer_than_an_epoch_and_a_quarter(up):
    """By the monotonic clock, while the wall clock stands or is set back for ever."""
    windows = opened()
    windows.refresh(0, 0, up)
    for number in range(3):
        begins, last = up + number * (12.5 + 0.25), 12.5
        for after, begun in ((0.0, 0), (6.0, 0), (last, 0), (last + 0.25, 1), (last + 0.25, 1)):
            windows.refresh(0, 0, begins + after)
            assert windows.begun == [1 + number + begun]


def test_an_epoch_by_the_wall_clock_is_new_time_for_its_mask():
    """While both clocks go well, the monotonic one begins no epoch."""
    windows, up = opened(), 100.0
    for window in range(2):
        for second in range(WINDOW):
            list(windows.advance_to(window))
            windows.refresh(window, second // EPOCH, up)
            assert windows.begun == [1 + second // EPOCH]
            up += 1.0
    list(windows.advance_to(2))
    windows.refresh(2, 0, up + 40.0)
    assert windows.begun == [1], "the masks of a window that has just begun are fresh"
    windows.refresh(2, 0, up + 52.75)
    assert windows.begun == [2]


def test_masks_of_a_whole_window_follow_no_clock():
    windows = opened(epoch_seconds=None)
    for up in (1.0, 1000.0, 10**6):
        windows.refresh(0, 0, up)
    assert windows.begun == [1]


def test_a_moment_without_a_monotonic_clock_changes_nothing():
    windows = opened()
    windows.refresh(0, 0, 5.0)
    windows.refresh(0, 0)
    windows.refresh(0, 0, 17.5)
    assert windows.begun == [1]
    windows.refresh(0, 0, 17.75)
    assert windows.begun == [2]


def test_before_the_first_window_there_is_nothing_to_mask():
    windows = Masked()
    windows.refresh(0, 3, 7.0)
    windows.skip_until(WINDOW)
    windows.refresh(1, 3, 17.0)
    windows.refresh(1, 3, 107.0)
    list(windows.advance_to(1))
    assert windows.begun == [1]
    windows.refresh(1, 0, 108.0)
    assert windows.begun == [1]


def test_an_announced_intrusion_masks_the_open_window_and_the_one_that_waits():
    windows = opened(specs=(SMALL, SMALL))
    (waiting,) = windows.advance_to(1)
    windows.rerandomise()
    assert windows.begun == [2, 2]
    windows.rerandomise(waiting)
    assert windows.begun == [3, 3]
    assert waiting.span == WindowBounds(0, WINDOW)
    assert epochs_of(waiting) == [3, 3]
