"""Another release of a stored window does not count, and can be looked at; numbers of ledgers."""

import sqlite3
from contextlib import closing

import pytest

from pansketch import WindowId
from pansketch_collector.ingest.ingest_loop import commit_batch
from pansketch_collector.queries.fleet_model import build
from pansketch_collector.storage import sql_store
from pansketch_collector.storage import writer as store
from pansketch_collector.storage.reader import reading
from pansketch_collector.storage.tables.records import Selection
from pansketch_collector.validation.verdicts import Accepted, Duplicate, Rejected
from pansketch_fleet.settings.device_spec import schedule_offset
from tests.collector.small_fleet import rows

DAY = 86_400
OFFSET = schedule_offset("one", DAY)


def window(sequence, day, incarnation=b""):
    start = day * DAY + OFFSET
    return WindowId("one", "air", sequence, start, start + DAY, None, incarnation)


def disputed(small_fleet):
    return [
        row[0] for row in rows(small_fleet.database, "SELECT payload FROM disputed ORDER BY id")
    ]


@pytest.fixture
def commit(small_fleet, arrive):
    """Validates and stores payloads of one device, each batch by a restarted collector."""
    rules = small_fleet.rules

    def run(*payloads, at=1_000_001_000):
        with store.opened(small_fleet.database) as opened:
            return commit_batch(
                opened, [arrive(small_fleet.topic(), p) for p in payloads], rules, at
            )

    return run


@pytest.mark.parametrize("together", [True, False], ids=["one batch", "batches"])
def test_the_one_stored_first_goes_on_counting_and_the_other_is_kept_whole(
    small_fleet, commit, together
):
    first, other, next_one = (
        small_fleet.release(),
        small_fleet.release(),
        small_fleet.release(sequence=2),
    )
    if together:
        outcomes = commit(first, other, next_one)
    else:
        outcomes = [*commit(first), *commit(other), *commit(next_one)]
    assert [type(v) for v in outcomes] == [Accepted, Rejected, Accepted]
    assert outcomes[1].reason == "equivocation"
    assert small_fleet.stored() == [first, next_one]
    assert disputed(small_fleet) == [other]


def test_no_message_for_a_stored_window_removes_its_release(small_fleet, commit):
    first, other = small_fleet.release(), small_fleet.release()
    commit(first, other)
    third = small_fleet.release()
    renumbered = small_fleet.release(window=window(9, 1))
    elsewhere = small_fleet.release(window=window(1, 1, b"another!"))
    outcomes = commit(first, other, third, renumbered, elsewhere)
    assert [type(v) for v in outcomes] == [Duplicate, *[Rejected] * 4]
    assert [v.reason for v in outcomes[1:]] == ["equivocation"] * 4
    assert small_fleet.stored() == [first]
    assert disputed(small_fleet) == [other, third, renumbered, elsewhere]


@pytest.mark.parametrize("incarnation", [b"", b"another!"], ids=["the same ledger", "another"])
def test_a_client_with_a_devices_credentials_removes_none_of_its_history(
    small_fleet, commit, incarnation
):
    """Ten windows are stored; then ten later ones come under the numbers 1 to 10."""
    history = [small_fleet.release(window=window(n, n)) for n in range(1, 11)]
    later = [small_fleet.release(window=window(n, 10 + n, incarnation)) for n in range(1, 11)]
    assert {type(v) for v in commit(*history, *later)} == {Accepted}
    assert small_fleet.stored() == history + later
    again = [small_fleet.release(window=window(n, n, incarnation)) for n in range(1, 11)]
    assert {type(v) for v in commit(*again)} == {Rejected}
    assert small_fleet.stored() == history + later


def test_answers_merge_windows_of_one_number(small_fleet, commit):
    """A rolled back ledger's: every window counts once."""
    many = ((20.0,),) * 5000
    named = [window(1, 1), window(1, 2), window(1, 3, b"another!")]
    commit(*[small_fleet.release(window=each, readings=many) for each in named])
    with reading(small_fleet.database) as reader:
        assert build(reader, small_fleet.config, Selection("air")).windows == 3


def test_a_device_cannot_fill_the_disk_with_disputes_nor_push_one_out(
    small_fleet, commit, monkeypatch
):
    monkeypatch.setattr(sql_store, "MAX_DISPUTED", 3)
    others = [small_fleet.release() for _ in range(6)]
    commit(small_fleet.release(), *others)
    assert disputed(small_fleet) == others[:3]


def test_other_devices_do_not_notice(small_fleet, commit, arrive):
    commit(small_fleet.release(), small_fleet.release())
    with store.opened(small_fleet.database) as opened:
        message = arrive(small_fleet.topic("two"), small_fleet.release("two"))
        assert isinstance(
            commit_batch(opened, [message], small_fleet.rules, 1_000_000_001)[0], Accepted
        )


def test_a_disputed_window_is_shown_and_is_no_gap(small_fleet, commit, run):
    commit(small_fleet.release(), small_fleet.release(), small_fleet.release(sequence=4))
    with reading(small_fleet.database) as reader:
        (holding,) = reader.holdings()
    assert (holding.windows, holding.disputed, holding.gaps) == (2, 1, 2)
    code, out, _ = run("devices")
    assert code == 0
    assert out.splitlines()[1].split()[6:11] == ["2", "0", "1", "1", "0"]


@pytest.mark.parametrize(
    ("numbers", "gaps", "ledgers", "rolled_back"),
    [
        ({b"": [1, 2, 3]}, 0, 1, 0),
        ({b"": [2, 4]}, 2, 1, 0),
        # A new card: numbers begin at 1 again.
        ({b"": [1, 2, 3], b"another!": [1, 2]}, 0, 2, 0),
        ({b"": [1, 2, 4], b"another!": [1, 3]}, 2, 2, 0),
        # A ledger that goes on under a new incarnation: a restored copy.
        ({b"": [1, 2], b"another!": [3, 4]}, 0, 2, 0),
        ({b"": [1, 2], b"another!": [5]}, 2, 2, 0),
        ({b"": [1, 2, 3, 4, 5], b"another!": [3, 4]}, 0, 2, 0),
        # A restored copy without the releases that were stored later.
        ({b"": [1, 2, 3, 2, 3, 4]}, 0, 1, 2),
    ],
)
def test_gaps_and_late_windows_are_those_of_each_ledger(
    small_fleet, commit, numbers, gaps, ledgers, rolled_back
):
    day = 0
    for incarnation, given in numbers.items():
        for number in given:
            day += 1
            commit(
                small_fleet.release(window=window(number, day, incarnation)), at=1_000_000_000 + day
            )
    with reading(small_fleet.database) as reader:
        (holding,) = reader.holdings()
    assert (holding.windows, holding.gaps) == (day, gaps)
    assert (holding.ledgers, holding.rolled_back) == (ledgers, rolled_back)
    assert holding.late == (1 if rolled_back else 0)


def test_a_window_that_came_after_a_later_one_is_late_and_no_gap(small_fleet, commit):
    commit(small_fleet.release(sequence=1), at=1_000_000_010)
    commit(small_fleet.release(sequence=3), at=1_000_000_030)
    commit(small_fleet.release(sequence=2), at=1_000_000_040)
    commit(small_fleet.release(sequence=4), at=1_000_000_040)
    with reading(small_fleet.database) as reader:
        (holding,) = reader.holdings()
    assert (holding.windows, holding.late, holding.gaps) == (4, 1, 0)


def test_what_is_deleted_leaves_its_high_water_mark(small_fleet, commit):
    """So a device still learns that these windows were stored once."""
    commit(*[small_fleet.release(window=window(n, n, b"the one.")) for n in (1, 2, 3)])
    commit(small_fleet.release(window=window(1, 9, b"another!")))
    with closing(sqlite3.connect(small_fleet.database)) as database:
        database.execute("DELETE FROM releases WHERE sequence <> 2")
        database.commit()
    query = "SELECT incarnation, sequence, window_end FROM high_water ORDER BY window_end"
    assert rows(small_fleet.database, query) == [
        (b"the one.", 3, 4 * DAY + OFFSET),
        (b"another!", 1, 10 * DAY + OFFSET),
    ]
    assert rows(small_fleet.database, "SELECT deleted_id FROM generation") == [(4,)]
