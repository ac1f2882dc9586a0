"""The ledger: debits survive, a torn end is tolerated, anything else stops publishing."""

import errno
import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pansketch_agent.ledger.accounts import HEADER, Account, line
from pansketch_agent.ledger.ledger import DailyCapError, Ledger, LedgerError


def fill(state: Path, count: int = 3) -> bytes:
    with Ledger(state) as ledger:
        for number in range(count):
            start = ledger.spent("air").until
            assert ledger.debit({"air": 1_000_000}, start, start + 10)["air"] == number + 1
    return (state / "ledger").read_bytes()


def written(state: Path) -> bytes:
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
        assert ledger.debit({"water": 7}, 500, 510)["water"] == 1
        assert ledger.debit({"air": 7}, 40, 50)["air"] == 4


def test_a_window_is_never_debited_twice(tmp_path):
    fill(tmp_path)
    with Ledger(tmp_path) as ledger, pytest.raises(LedgerError):
        ledger.debit({"air": 1}, 20, 30)


def test_the_debit_is_in_the_file_when_it_returns(tmp_path):
    with Ledger(tmp_path) as ledger:
        ledger.debit({"air": 1_000_000}, 10, 20)
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
        assert ledger.debit({"air": 1}, 30, 40)["air"] == 4
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
                ledger.debit({"air": 1}, 0, 10)
        with pytest.raises(LedgerError):
            ledger.debit({"air": 1}, 20, 30)


def test_a_ledger_has_an_incarnation_and_a_new_one_another(tmp_path):
    fill(tmp_path / "a")
    with Ledger(tmp_path / "a") as ledger, Ledger(tmp_path / "b") as other:
        assert len(ledger.incarnation) == len(other.incarnation) == 8
        assert ledger.incarnation != other.incarnation
        assert ledger.knows(ledger.incarnation)
        assert not ledger.knows(other.incarnation)
        mine = ledger.incarnation
    with Ledger(tmp_path / "a") as again:
        assert again.incarnation == mine


@pytest.mark.parametrize("first", ["pansketch-ledger 1", "pansketch-ledger 3 0123456789abcdef"])
def test_a_ledger_of_another_version_is_refused_by_name(tmp_path, first):
    content = line(first) + line("debit 1 air 10 20 1000000")
    (tmp_path / "ledger").write_bytes(content)
    with pytest.raises(LedgerError) as caught:
        Ledger(tmp_path)
    text = str(caught.value)
    assert text.startswith(f"{tmp_path / 'ledger'}: is a ledger of version {first[17]}, and this")
    assert "\n" not in text
    assert written(tmp_path) == content


@pytest.mark.parametrize("cut", range(1, 30))
def test_after_an_incarnation_that_a_power_cut_tore_the_earlier_one_goes_on(tmp_path, cut):
    lines = (f"{HEADER} {1:016x}", "debit 1 air 10 20 1000000", f"incarnation {2:016x}")
    (tmp_path / "ledger").write_bytes(b"".join(map(line, lines))[:-cut])
    with Ledger(tmp_path) as ledger:
        assert ledger.torn
        assert ledger.incarnation.hex() == f"{1:016x}"
        assert standing(ledger, "air") == (2, 30, 10)


def test_adopted_windows_are_counted_and_none_of_them_is_debited(tmp_path):
    day = 86_400
    other = b"another!"
    for _ in range(2):
        with Ledger(tmp_path) as ledger:
            if ledger.spent("air").is_empty:
                ledger.adopt("air", other, 9, 2, day + 60, 1_000_000)
            account = ledger.spent("air")
            assert (account.sequence, account.until, account.adopted) == (0, day + 60, 9)
            assert (account.lifetime_micro, account.highest_micro) == (9_000_000, 1_000_000)
            assert (account.spent_on(1), account.busiest_micro) == (2_000_000, 2_000_000)
            assert ledger.knows(other)
            with pytest.raises(LedgerError):
                ledger.debit({"air": 1}, day, day + 60)
    with Ledger(tmp_path) as ledger:
        with pytest.raises(DailyCapError):
            ledger.debit({"air": 1_000_000}, day + 60, day + 120, cap_micro=2_500_000)
        assert ledger.debit({"air": 500_000}, day + 60, day + 120, cap_micro=2_500_000)["air"] == 1


def test_a_rolled_back_ledger_goes_on_under_another_incarnation(tmp_path):
    fill(tmp_path)
    with Ledger(tmp_path) as ledger:
        mine = ledger.incarnation
        ledger.adopt("air", mine, 4, 4, 70, 1)
        assert ledger.incarnation != mine
        assert ledger.knows(mine)
        assert ledger.debit({"air": 1}, 70, 80)["air"] == 4


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.integers(0, 10**18 - 1), st.integers(0, 2**70), st.integers(0, 2**70), st.integers(0, 2**70)
)
def test_after_any_adoption_nothing_gets_cheaper_and_no_window_returns(
    tmp_path, until, windows, of_the_day, micro
):
    """A mark comes from outside: it may stop a stream, and never gives it anything back."""
    before = Account().debited(10, 20, 7).debited(86_400, 86_410, 9)
    after = before.with_adopted(windows, min(of_the_day, windows), until, micro)
    assert after.until >= before.until
    assert after.sequence == before.sequence
    assert after.lifetime_micro >= before.lifetime_micro
    assert after.busiest_micro >= before.busiest_micro
    assert after.spent_on(after.day) >= before.spent_on(after.day)
