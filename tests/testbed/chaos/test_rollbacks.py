"""`python -m testbed.chaos` and ledgers that were rolled back: which window a device speaks of."""

import pytest

from testbed.chaos.faults.state_damage import gone_on
from testbed.chaos.observation.ledger_marks import Debit, Marks
from testbed.chaos.observation.observer import Name

DEVICE = "dev-01"


def debit(start: int, sequence: int = 1, stream: str = "air") -> Debit:
    return Debit(Name(DEVICE, stream, start), sequence, start + 2)


def test_a_number_names_the_window_that_was_debited_last_under_it():
    """After a roll back with a clock behind that window may be the earlier one."""
    marks = Marks()
    marks.note_debits(DEVICE, [debit(10, 5), debit(104, 6), debit(104, 6, "load")])
    marks.note_debits(DEVICE, [debit(10, 5), debit(100, 6)])
    assert marks.newest(DEVICE, "air", 6) == Name(DEVICE, "air", 100)
    assert marks.newest(DEVICE, "load", 6) == Name(DEVICE, "load", 104)
    assert marks.newest(DEVICE, "air", 7) is None


@pytest.mark.parametrize(
    ("now", "gone"),
    [
        ([], False),
        ([debit(104), debit(100, 1, "load")], False),
        ([debit(106)], False),
        ([debit(106), debit(104, 1, "load")], False),
        ([debit(106), debit(106, 1, "load")], True),
    ],
)
def test_a_device_has_gone_on_when_each_stream_is_past_what_it_lost(now, gone):
    before = [debit(100), debit(104), debit(104, 1, "load")]
    assert gone_on(before, now) is gone
