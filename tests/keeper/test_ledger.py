"""The keeper's ledger: all or nothing, on disk, small, and the same rules as the library's."""

import itertools
import os
import random
import sqlite3
from fractions import Fraction

import pytest

from pansketch import WindowId
from pansketch.blinding import AlreadyAnswered, AnswersInMemory, KeeperQuestion, MaskedWindow
from pansketch_keeper.ledger import LEDGER, MAX_LEVELS, KeeperLedger, StateError
from tests.pansketch.blinding.fleet import FLEET, SMALL

EPOCHS = (bytes([1]) * 32,)


def question(numbers, level="1d", share=Fraction(1, 2), device="dev-1"):
    labels = (WindowId(device, "air", n, n, n + 1, None, b"12345678") for n in numbers)
    windows = tuple(MaskedWindow(each, EPOCHS) for each in labels)
    return KeeperQuestion(FLEET, SMALL.digest, level, share, windows)


@pytest.fixture
def ledger(tmp_path):
    with KeeperLedger.create(tmp_path / LEDGER) as found:
        yield found


def outcome(ledger, asked):
    """The windows that `reserve` refuses."""
    try:
        ledger.reserve(asked)
    except AlreadyAnswered as error:
        return error.windows
    return ()


def test_it_refuses_what_the_ledger_in_memory_refuses(ledger):
    """Random questions over few windows: both ledgers must agree on each of them."""
    draw, memory, refusals = random.Random(), AnswersInMemory(), 0
    for _ in range(400):
        numbers = sorted(draw.sample(range(12), draw.randint(1, 4)))
        share = Fraction(draw.randint(1, 3), draw.randint(3, 6))
        asked = question(numbers, draw.choice("abc"), share, draw.choice(["dev-1", "dev-2"]))
        expected = ledger.left_out(asked)
        assert outcome(ledger, asked) == outcome(memory, asked) == expected
        refusals += bool(expected)
    assert 0 < refusals < 400


def test_it_holds_what_another_process_reserved(tmp_path):
    with KeeperLedger.create(tmp_path / LEDGER) as ledger:
        ledger.reserve(question(range(5)))
    with KeeperLedger.open(tmp_path / LEDGER) as ledger:
        assert len(outcome(ledger, question(range(3, 7)))) == 2
        assert outcome(ledger, question(range(5))) == ()


def test_a_window_has_a_bounded_number_of_levels(ledger):
    share = Fraction(1, 10**6)
    for level in range(MAX_LEVELS):
        ledger.reserve(question([1], f"l{level}", share))
    assert outcome(ledger, question([1], "one-more", share))
    assert outcome(ledger, question([1], "l0", share)) == ()


def test_every_change_is_synchronous(ledger):
    (mode,) = ledger._connection.execute("PRAGMA journal_mode").fetchone()
    (level,) = ledger._connection.execute("PRAGMA synchronous").fetchone()
    assert (mode, level) == ("wal", 2)


def test_a_full_disk_reserves_nothing(ledger):
    pages = ledger._connection.execute("PRAGMA page_count").fetchone()[0]
    ledger._connection.execute(f"PRAGMA max_page_count = {pages}")
    with pytest.raises(StateError, match="full"):
        ledger.reserve(question(range(20_000)))
    assert ledger.summary() == []
    ledger._connection.execute("PRAGMA max_page_count = 1000000")
    assert outcome(ledger, question(range(3))) == ()


@pytest.mark.parametrize("content", [b"", b"SQLite format 3\0 and no more", bytes(5000)])
def test_another_file_is_no_ledger(tmp_path, content):
    path = tmp_path / LEDGER
    path.write_bytes(content)
    with pytest.raises(StateError, match="no ledger"):
        KeeperLedger.open(path)
    path.unlink()
    with pytest.raises(StateError, match="no ledger"):
        KeeperLedger.open(path)
    sqlite3.connect(path).close()
    with pytest.raises(StateError):
        KeeperLedger.create(path)


def test_a_window_needs_few_bytes(ledger):
    """At most 200, and a lookup finds each of them; benchmarks measure a million and the time."""
    devices, windows = 100, 1_000
    for device in range(devices):
        ledger.reserve(question(range(windows), device=f"device-of-the-fleet-{device:04}"))
    (row,) = ledger.summary()
    assert (row.devices, row.windows, row.open) == (devices, devices * windows, devices * windows)
    assert (
        sum(os.path.getsize(path) for path in ledger.path.parent.iterdir())
        < 200 * devices * windows
    )
    late = question(
        itertools.chain(range(5), range(windows, windows + 5)), device="device-of-the-fleet-0042"
    )
    assert len(outcome(ledger, late)) == 5
