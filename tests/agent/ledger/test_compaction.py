"""A long ledger is compacted: no total is lost, a crash leaves the one file or the other."""

import errno
import json
import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pansketch_agent.__main__ import main
from pansketch_agent.host import durable_files
from pansketch_agent.ledger import ledger as ledgers
from pansketch_agent.ledger.accounts import read_accounts
from pansketch_agent.ledger.ledger import Ledger, LedgerError

STREAMS = ("air", "water", "doors")
STEPS = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(STREAMS), st.integers(0, 9), st.integers(1, 5_000_000)),
        st.just("torn"),
        st.just("restart"),
        st.tuples(st.just("adopt"), st.sampled_from(STREAMS), st.integers(1, 9)),
    ),
    min_size=1,
    max_size=40,
)
HISTORY = [("air", 3, 7), ("doors", 0, 9), "torn", ("adopt", "water", 4), *[("air", 1, 5)] * 8]


def live(state: Path, steps) -> None:
    """A life of a ledger: debits after a gap, torn ends, restarts, adopted windows."""
    ledger = Ledger(state)
    for step in steps:
        if step in ("torn", "restart"):
            ledger.__exit__(None, None, None)
            if step == "torn":
                with (state / "ledger").open("ab") as file:
                    file.write(b"debit 1 air 1")
            ledger = Ledger(state)
        elif step[0] == "adopt":
            until = ledger.spent(step[1]).until + 86_400
            ledger.adopt(step[1], bytes([step[2]] * 8), step[2], 1, until, 1_000_000)
        else:
            stream, gap, micro = step
            start = ledger.spent(stream).until + 3600 * gap
            ledger.debit({stream: micro}, start, start + 3600)
    ledger.__exit__(None, None, None)


def known(state: Path):
    """The whole content of a ledger."""
    book, sound_bytes = read_accounts(state / "ledger")
    assert sound_bytes == (state / "ledger").stat().st_size
    return book.by_stream, book.torn, book.incarnation, book.histories


def compacted(state: Path, monkeypatch) -> bytes:
    with monkeypatch.context() as changed:
        changed.setattr(ledgers, "MAX_LINES", 0)
        Ledger(state).__exit__(None, None, None)
    return (state / "ledger").read_bytes()


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(STEPS, STEPS)
def test_it_states_the_same_and_goes_on_the_same(tmp_path_factory, monkeypatch, steps, later):
    """Beside its twin, which is never compacted and lives on in the same way."""
    monkeypatch.setattr(ledgers, "_incarnation", lambda: "0123456789abcdef")
    state, twin = tmp_path_factory.mktemp("one"), tmp_path_factory.mktemp("twin")
    for folder in (state, twin):
        live(folder, steps)
    content = compacted(state, monkeypatch)
    assert b"debit " not in content
    assert known(state) == known(twin)
    for folder in (state, twin):
        live(folder, later)
    assert known(state) == known(twin)


def test_the_command_shows_the_same(device, monkeypatch, capsys):
    device.configure()
    live(device.state, HISTORY)
    shown = []
    for _ in range(2):
        for options in ([], ["--json"]):
            assert main(["ledger", *options, "--config", str(device.config)]) == 0
            shown.append(capsys.readouterr().out)
        compacted(device.state, monkeypatch)
    assert shown[:2] == shown[2:]
    assert json.loads(shown[1])["streams"]["air"]["releases"] == 9


def test_it_is_compacted_at_work_and_debits_go_into_the_new_file(tmp_path, monkeypatch):
    monkeypatch.setattr(ledgers, "MAX_LINES", 10)
    sizes = []
    with Ledger(tmp_path) as ledger:
        for number in range(200):
            assert ledger.debit({"air": 1}, number * 10, number * 10 + 10)["air"] == number + 1
            book, _ = read_accounts(tmp_path / "ledger")
            assert book.by_stream["air"] == ledger.spent("air")
            sizes.append(book.lines)
    assert max(sizes) <= 2 * 10
    assert [path.name for path in tmp_path.iterdir() if ".tmp" in path.name] == []


@pytest.mark.parametrize(("place", "step"), [(durable_files, "mkstemp"), (os, "replace")])
def test_a_disk_that_refuses_leaves_the_long_file_and_the_agent_goes_on(
    tmp_path, monkeypatch, place, step
):
    live(tmp_path, HISTORY)
    before = (tmp_path / "ledger").read_bytes()
    monkeypatch.setattr(ledgers, "MAX_LINES", 4)

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as broken:
        broken.setattr(place, step, full)
        ledger = Ledger(tmp_path)
    with ledger:
        assert (tmp_path / "ledger").read_bytes() == before
        until = ledger.spent("air").until
        ledger.debit({"air": 1}, until, until + 10)
        standing = ledger.spent("air")
    assert known(tmp_path)[0]["air"] == standing


class Crash(BaseException):
    """The power is cut."""


@pytest.mark.parametrize("step", ["fsync", "replace", "close", "sync_folder"])
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_a_crash_at_any_step_leaves_all_totals(tmp_path, monkeypatch, step, after):
    live(tmp_path, HISTORY)
    before = known(tmp_path)
    monkeypatch.setattr(ledgers, "MAX_LINES", 4)
    place = ledgers if step == "sync_folder" else os
    original = getattr(place, step)

    def crash(*words: object) -> None:
        if after:
            original(*words)
        raise Crash

    with monkeypatch.context() as broken:
        broken.setattr(place, step, crash)
        with pytest.raises(Crash):
            Ledger(tmp_path)
    assert known(tmp_path) == before


@pytest.mark.parametrize("number", range(1, 7))
@pytest.mark.parametrize("how", ["gone", "twice", "changed"])
def test_a_summary_that_is_not_whole_stops_publishing(tmp_path, monkeypatch, number, how):
    live(tmp_path, [step for step in HISTORY if step != "torn"])
    lines = compacted(tmp_path, monkeypatch).splitlines(keepends=True)
    one = lines[number]
    changed = {
        "gone": [],
        "twice": [one, one],
        "changed": [one[:9] + bytes([one[9] ^ 1]) + one[10:]],
    }[how]
    (tmp_path / "ledger").write_bytes(b"".join([*lines[:number], *changed, *lines[number + 1 :]]))
    with pytest.raises(LedgerError, match="damaged"):
        Ledger(tmp_path)


def test_a_summary_without_its_end_is_damaged(tmp_path, monkeypatch):
    live(tmp_path, HISTORY)
    lines = compacted(tmp_path, monkeypatch).splitlines(keepends=True)
    for content in (b"".join(lines[:-1]), b"".join(lines)[:-3]):
        (tmp_path / "ledger").write_bytes(content)
        with pytest.raises(LedgerError, match="damaged"):
            Ledger(tmp_path)


def test_a_summary_that_cannot_be_opened_ends_the_debits_and_closes_cleanly(tmp_path, monkeypatch):
    """It is on the disk, but nothing can be appended to it; the old file has no name any more."""
    live(tmp_path, HISTORY)
    ledger, original = Ledger(tmp_path), os.open

    def refuses(path, *words):
        if str(path).endswith("ledger"):
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        return original(path, *words)

    until = ledger.spent("air").until
    ledger._compact_at = 0
    with ledger:
        with monkeypatch.context() as broken:
            broken.setattr(os, "open", refuses)
            with pytest.raises(LedgerError, match="Too many open files"):
                ledger.debit({"air": 1}, until, until + 10)
        with pytest.raises(LedgerError, match="refuses the debit"):
            ledger.debit({"air": 1}, until + 10, until + 20)
    assert known(tmp_path)[0]["air"].until == until + 10
