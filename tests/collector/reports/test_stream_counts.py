"""Counts of a whole fleet: the same as the sums of the counts of its devices."""

import random
from statistics import median

import pytest

from pansketch_collector.storage import writer as store
from pansketch_collector.storage.reader import reading
from pansketch_collector.storage.tables.holdings import by_stream

SUMS = ("windows", "ledgers", "gaps", "late", "disputed", "unsynchronised", "rolled_back")


def fill(path, seed, ledgers):
    """Ledgers of random figures, at most `ledgers` of each stream of a device."""
    dice = random.Random(seed)
    with store.opened(path) as opened:
        for number in range(60):
            for stream in dice.sample(["air", "fine"], dice.randrange(1, 3)):
                for _ in range(dice.randrange(1, ledgers + 1)):
                    add(opened.connection, dice, (f"d{number}", stream, dice.randbytes(8)))


def add(db, dice, ledger):
    first, length = dice.choice([0, 1, 1, 1, 5]), dice.randrange(1, 9)
    used = dice.randrange(1, length + 1)
    windows = dice.choice([used, used, used + 1])
    end = 86_400 * dice.randrange(20, 24)
    few = [dice.choice([0, 0, 0, 2]) for _ in range(3)]
    figures = windows, used, used, first, first + length - 1, end - 9, end
    db.execute(
        f"INSERT INTO holdings VALUES ({', '.join('?' * 14)})",
        (*ledger, *figures, end + dice.randrange(9), *few),
    )
    if dice.random() < 0.3:
        gone = dice.randrange(1, 4), dice.randrange(3), dice.randrange(3, 20)
        db.execute("INSERT INTO removed VALUES (?, ?, ?, ?, ?, ?, 1, 2)", (*ledger, *gone))
    if dice.random() < 0.1:
        db.execute(
            "INSERT INTO damaged (device, stream, incarnation, sequence, window_start, window_end,"
            " fingerprint, digest, received_at, payload, problem, found_at)"
            " VALUES (?, ?, ?, ?, 1, 2, ?, '0', 1, ?, 'bytes', 1)",
            (*ledger, dice.randrange(30), b"0", b"0"),
        )


@pytest.mark.parametrize("ledgers", [1, 3])
@pytest.mark.parametrize("seed", range(3))
def test_counts_of_a_fleet_are_those_of_its_devices(any_fleet, seed, ledgers):
    fill(any_fleet.database, seed, ledgers)
    with reading(any_fleet.database) as reader:
        found, holdings = by_stream(reader.connection), reader.holdings()
    assert [*found] == ["air", "fine"]
    for stream, counts in found.items():
        own = [each for each in holdings if each.stream == stream]
        assert counts.devices == len(own)
        for of in SUMS:
            assert getattr(counts, of) == sum(getattr(each, of) for each in own) != 0, of
        assert counts.first_start == min(each.first_start for each in own)
        assert counts.received_at == max(each.received_at for each in own)
        assert counts.newest == max(each.last_end for each in own)
        assert counts.median == median(each.last_end for each in own)
        worst = min((each.last_end, each.device) for each in own)
        assert (counts.worst, counts.worst_device) == worst
        assert {each.device: each[2:] for each in counts.irregular} == {
            each.device: figures
            for each in own
            for figures in [tuple(getattr(each, of) for of in SUMS[2:])]
            if any(figures)
        }


def test_counts_of_some_devices_are_those_of_all(any_fleet):
    fill(any_fleet.database, 5, 3)
    with reading(any_fleet.database) as reader:
        every = reader.holdings()
        assert reader.holdings(["d7", "d12", "none"]) == [
            each for each in every if each.device in ("d12", "d7")
        ]
        assert reader.holdings([]) == []


def test_an_empty_database_has_no_counts(any_fleet):
    with store.opened(any_fleet.database):
        pass
    with reading(any_fleet.database) as reader:
        assert by_stream(reader.connection) == {}
