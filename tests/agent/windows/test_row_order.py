"""The order of a replay's rows: no row decides whether others are absorbed."""

from collections import Counter
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pansketch import Span
from pansketch_agent.sources.readings import SourceError
from pansketch_agent.windows.rate_limiter import NOT_IN_ORDER, RowOrder, SpanLimiter
from pansketch_agent.windows.window import Schedule
from pansketch_fleet.sections.time_slots import slots_for

TIMES = st.lists(st.integers(0, 60).map(float), max_size=12)
SCHEDULE = Schedule(10, 3)
LIMITER = SpanLimiter(slots_for(Span(8, 4)))


def left(times: list[float], order: RowOrder, block: int = 1000) -> list[float] | None:
    """The times of the rows that may be absorbed, None for a file that is refused."""
    found = []
    try:
        for begin in range(0, len(times), block):
            at = np.array(times[begin : begin + block])
            rows = np.ones((len(at), 2))
            order.check(at, rows)
            found += at[np.isfinite(rows).all(axis=1)].tolist()
    except SourceError:
        return None
    return found


@given(TIMES, st.integers(1, 4), st.booleans())
def test_what_goes_back_to_an_earlier_window_or_slot_is_refused(times, block, with_slots):
    """In any blocks. Rows before the first one's window or slot are left out."""
    numbers = [SCHEDULE.indices, LIMITER.slots][: 1 + with_slots]
    places = [tuple(int(each(np.array([at]))[0]) for each in numbers) for at in times]
    valid = [
        (at, place)
        for at, place in zip(times, places, strict=True)
        if all(own >= first for own, first in zip(place, places[0], strict=True))
    ]
    in_order = all(
        all(one <= other for one, other in zip(before[1], after[1], strict=True))
        for before, after in pairwise(valid)
    )
    expected = [at for at, _ in valid] if in_order else None
    assert left(times, RowOrder(numbers), block) == expected


@given(TIMES, st.data())
def test_any_other_row_but_the_first_changes_what_is_left_by_itself_alone(times, data):
    """Of a file that is not refused: no row decides about another one."""
    whole = left(times, RowOrder([SCHEDULE.indices, LIMITER.slots]))
    if whole is None or len(times) < 2:
        return
    gone = data.draw(st.integers(1, len(times) - 1))
    without = left(times[:gone] + times[gone + 1 :], RowOrder([SCHEDULE.indices, LIMITER.slots]))
    assert without is not None
    assert Counter(whole) - Counter(without) in (Counter(), Counter([times[gone]]))
    assert not Counter(without) - Counter(whole)


EARLY = "".join(f"2024-01-01T{hour:02}:30:00Z,11.5,N\n" for hour in range(1, 9))
LAST = "2024-01-01T09:30:00Z,12.5,N\n"
FIRST = "2024-01-01T00:30:00Z,12.5,N\n"


@pytest.mark.parametrize("speed", ["", ", speed: 1e9"])
def test_one_row_cannot_keep_all_others_out(device, speed):
    """Before, the second row moved time on, and every release but the last one was empty."""
    source = f"{{type: replay, path: rows.csv{speed}}}"
    rows = f"time,temp,wind\n{FIRST}{LAST}{EARLY}{LAST}"
    device.configure(rows=rows, source=source)
    agent = device.start("run", "--drain", "0")
    assert agent.wait() == 1
    assert f"air: {NOT_IN_ORDER}" in agent.output
    assert len(device.ledger()) == (0 if not speed else 9)
