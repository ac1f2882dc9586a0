"""The ledger: debits survive, a torn end is tolerated, anything else stops publishing."""

import errno
import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agent.ledger import Ledger, LedgerError


def fill(state: Path, count: int = 3) -> bytes:
    with Ledger(state) as ledger:
        for number in range(count):
            start = ledger.spent("air").until
            assert ledger.debit("air", start, start + 10, 1_000_000) == number + 1
    return (state / "ledger").read_bytes()


def standing(ledger: Ledger, stream: str) -> tuple[int, int, int]:
    """A stream's last sequence number, and the end and length of its last window."""
    account = ledger.spent(stream)
    return account.sequence, account.until, account.window_seconds


def test_sequences_go_on_after_a_restart(tmp_path):
    fill(tmp_path)
    with Ledger(tmp_path) as ledger:
        assert standing(ledger, "air") == (3, 30, 10)
        assert standing(ledger, "water") == (0, 0, 0)
        assert ledger.debit("water", 500, 510, 7) == 1
        assert ledger.debit("air", 40, 50, 7) == 4


def test_a_window_is_never_debited_twice(tmp_path):
    fill(tmp_path)
    with Ledger(tmp_path) as ledger, pytest.raises(LedgerError):
        ledger.debit("air", 20, 30, 1)


def test_the_debit_is_in_the_file_when_it_returns(tmp_path):
    with Ledger(tmp_path) as ledger:
        ledger.debit("air", 10, 20, 1_000_000)
        assert b"debit 1 air 10 20 1000000 " in (tmp_path / "ledger").read_bytes()


def test_only_one_process_holds_it(tmp_path):
    with Ledger(tmp_path), pytest.raises(LedgerError, match="another agent is running"):
        Ledger(tmp_path)
    with Ledger(tmp_path):
        pass


@pytest.mark.parametrize("cut", range(1, 35))
def test_a_torn_last_line_costs_a_sequence_number_and_a_window(tmp_path, cut):
    whole = fill(tmp_path)
    assert cut < len(whole.splitlines(keepends=True)[-1])
    (tmp_path / "ledger").write_bytes(whole[:-cut])
    for _ in range(2):  # repaired once, and read again
        with Ledger(tmp_path) as ledger:
            assert ledger.torn
            assert standing(ledger, "air") == (3, 30, 10)
            assert standing(ledger, "water") == (1, 0, 0)
    with Ledger(tmp_path) as ledger:
        assert ledger.debit("air", 30, 40, 1) == 4
    with Ledger(tmp_path) as ledger:
        assert standing(ledger, "air") == (4, 40, 10)


@pytest.mark.parametrize("tail", [b"\0" * 50, b"debit 4 air 30 40 1000000 00000000\n", b"x"])
def test_rubbish_after_the_last_line_is_a_torn_line(tmp_path, tail):
    whole = fill(tmp_path)
    (tmp_path / "ledger").write_bytes(whole + tail)
    with Ledger(tmp_path) as ledger:
        assert standing(ledger, "air") == (4, 40, 10)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_any_change_before_the_last_line_stops_publishing(tmp_path, data):
    path = tmp_path / "ledger"
    path.unlink(missing_ok=True)
    whole = fill(tmp_path, 4)
    end = whole[:-1].rindex(b"\n")
    place = data.draw(st.integers(0, end - 1))
    changed = bytearray(whole)
    changed[place] ^= data.draw(st.integers(1, 255))
    path.write_bytes(changed)
    with pytest.raises(LedgerError) as refused:
        Ledger(tmp_path)
    text = str(refused.value)
    assert text.startswith(str(path))
    assert "restore" in text
    assert "\n" not in text
    assert path.read_bytes() == changed


@pytest.mark.parametrize("gone", [0, 1, 2])
def test_a_missing_line_shows(tmp_path, gone):
    lines = fill(tmp_path).splitlines(keepends=True)
    (tmp_path / "ledger").write_bytes(b"".join(lines[:gone] + lines[gone + 1 :]))
    with pytest.raises(LedgerError, match="damaged"):
        Ledger(tmp_path)


def test_an_emptied_ledger_is_no_new_ledger(tmp_path):
    fill(tmp_path)
    (tmp_path / "ledger").write_bytes(b"")
    with pytest.raises(LedgerError, match="damaged"):
        Ledger(tmp_path)


def test_a_full_disk_fails_closed_and_stays_closed(tmp_path, monkeypatch):
    def full(_handle: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with Ledger(tmp_path) as ledger:
        with monkeypatch.context() as broken:
            broken.setattr(os, "fsync", full)
            with pytest.raises(LedgerError, match="No space left"):
                ledger.debit("air", 0, 10, 1)
        with pytest.raises(LedgerError):
            ledger.debit("air", 20, 30, 1)
