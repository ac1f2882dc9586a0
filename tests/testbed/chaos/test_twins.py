"""`python -m testbed.chaos` and two agents of one name: what the second one may cost the first."""

import shutil
from dataclasses import replace

import numpy as np
import pytest

from pansketch import Attribute, Domain, HierarchySpec, Privacy, Release, WindowId, encode
from pansketch_agent.outbox.outbox import Key, Outbox
from testbed.chaos.accounting import evidence
from testbed.chaos.accounting.accounting import MERGED, NOWHERE, REFUSED, TWINNED, account
from testbed.chaos.environment.configuration import FLEET
from testbed.chaos.observation.ledger_marks import Debit, Marks, TwinRange
from testbed.chaos.observation.observer import Name, Observer

DEVICE, OTHER = "dev-01", "dev-02"
BEGAN, ENDED, WAITED = 1_000_000, 1_000_020, 999_960
SPEC = HierarchySpec(
    Domain((Attribute("temp", -40, 60),)), Privacy(1.0), depth=4, fanout=4, k=16, width=16, rows=1
)


def a_run(marks: Marks) -> evidence.Run:
    """A run without faults, but for these marks."""
    nothing = {"faults": {}, "left_out": {}, "how": {}, "problems": (), "seconds": {}}
    return evidence.Run.of(marks, (DEVICE, OTHER), seed=1, windows=1, **nothing)


def left(run: evidence.Run, refused: set[Name]) -> evidence.Evidence:
    """The evidence of a fault if all releases that arrive nowhere are `refused`."""
    return evidence.Evidence(
        run, {}, run.debits, (), (), (), "ok", {}, 0, {}, frozenset(refused), {}, {}, (),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("device", "stream", "start", "where"),
    [
        (DEVICE, "air", BEGAN, TWINNED),
        (DEVICE, "air", ENDED - 2, TWINNED),
        (DEVICE, "air", WAITED, TWINNED),
        (DEVICE, "air", WAITED - 2, REFUSED),
        (DEVICE, "air", BEGAN - 2, REFUSED),
        (DEVICE, "air", ENDED, REFUSED),
        (DEVICE, "load", BEGAN, REFUSED),
        (OTHER, "air", BEGAN, REFUSED),
        (OTHER, "air", WAITED, REFUSED),
    ],
)
def test_a_second_agent_excuses_what_the_first_refuses_in_its_life(device, stream, start, where):
    """It lived for ten windows of one stream of one device; all but three are controls."""
    lost, marks = Name(device, stream, start), Marks()
    marks.note_debits(device, [Debit(lost, 1, start + 2)])
    marks.twin_ranges.append(TwinRange(DEVICE, "air", BEGAN, ENDED))
    marks.note(marks.overtaken, {Name(DEVICE, "air", WAITED)})
    settled = account(left(a_run(marks), {lost}))
    assert settled.classes == {lost: where}
    excused = where == TWINNED
    assert (f"{lost}: refused for good" in settled.failures) is not excused
    assert (settled.failures == ()) is excused
    assert settled.merged_share() == float(excused)


def test_it_excuses_nothing_that_was_not_refused():
    lost, marks = Name(DEVICE, "air", BEGAN), Marks()
    marks.note_debits(DEVICE, [Debit(lost, 1, BEGAN + 2)])
    marks.note_twin(DEVICE, [Debit(lost, 1, BEGAN + 2)], BEGAN, {lost})
    settled = account(left(a_run(marks), set()))
    assert settled.classes == {lost: NOWHERE}
    assert f"{lost}: debited, and nowhere" in settled.failures


def test_a_window_that_both_released_is_merged_where_one_of_them_arrived():
    name, marks = Name(DEVICE, "air", BEGAN), Marks()
    debits = [Debit(name, 1, BEGAN + 2)]
    marks.note_debits(DEVICE, debits)
    marks.note_twin(DEVICE, debits, BEGAN, ())
    payload = released(BEGAN)
    row = evidence.Row(name, 1, BEGAN + 2, 0, evidence.digest(payload), payload)
    made = {name: {row.digest: payload}}
    found = replace(left(a_run(marks), {name}), stored=(row,), made=made)
    assert account(found).classes == {name: MERGED}
    assert account(found).failures == ()


def test_the_range_of_a_second_agent_ends_with_its_last_debit():
    debits = [Debit(Name(DEVICE, "air", start), 1, start + 2) for start in (6, 8)]
    waited = {Name(DEVICE, "air", 2), Name(DEVICE, "air", 10), Name(DEVICE, "load", 2)}
    marks = Marks()
    marks.note_twin(DEVICE, debits, 5, waited)
    marks.note_twin(DEVICE, [], 5, waited)
    assert marks.twins == {debit.name for debit in debits}
    assert marks.twin_ranges == [TwinRange(DEVICE, "air", 5, 10)]
    assert marks.overtaken == {Name(DEVICE, "air", 2)}


def test_the_range_is_kept_with_the_run(tmp_path):
    marks = Marks()
    marks.note_twin(DEVICE, [Debit(Name(DEVICE, "air", 6), 1, 8)], 5, {Name(DEVICE, "air", 2)})
    run = a_run(marks)
    evidence.write(tmp_path, run, {})
    assert evidence._read_run(tmp_path) == run
    assert run.twin_ranges


def test_a_witness_sees_what_a_second_agent_writes_and_what_a_device_refuses(tmp_path):
    own, other = tmp_path / "own", tmp_path / "other"
    observer = Observer(FLEET, {DEVICE: own})
    names = [Name(DEVICE, "air", start) for start in (2, 4, 6)]
    mine, twin = Outbox(own, 2**20), Outbox(other, 2**20)
    mine.put(Key(1, "air"), released(2))
    mine.put(Key(2, "air"), released(4))
    with observer.beside(DEVICE, other):
        twin.put(Key(1, "air"), released(6))
    mine.refuse(Key(1, "air"))
    observer.scan(DEVICE)
    assert observer.made().keys() == set(names)
    assert observer.refused() == {names[0]}
    assert observer.saw_on_disk(names[1])
    assert not observer.saw_on_disk(names[2])
    shutil.rmtree(own)
    observer.scan(DEVICE)
    assert observer.refused() == {names[0]}


def released(start: int) -> bytes:
    """A release of an empty window without noise."""
    window = WindowId(DEVICE, "air", 1, start, start + 2)
    return encode(Release(SPEC, (window,), 2, np.zeros(sum(SPEC.blocks), np.int64)))
