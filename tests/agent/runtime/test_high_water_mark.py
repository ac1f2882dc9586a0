"""The collector's mark against the outbox: releases never sent, and retransmitted ones."""

import errno
import os
from collections.abc import Callable
from dataclasses import replace

import pytest

from pansketch import WindowId, encode, os_entropy
from pansketch_agent.host.clock import system_clock
from pansketch_agent.ledger.ledger import Ledger
from pansketch_agent.outbox.outbox import Key, Outbox
from pansketch_agent.runtime.high_water_mark import LedgerReconciliation
from pansketch_fleet.protocol.messages import Mark, StreamMark

HOUR = 3600
OTHER_LEDGER = "ab" * 8
ENTROPY = os_entropy()


@pytest.fixture
def config(device):
    return device.configure(source="{type: stdin}")


@pytest.fixture
def ledger(tmp_path):
    with Ledger(tmp_path / "state") as opened:
        yield opened


@pytest.fixture
def outbox(config, tmp_path):
    return Outbox(tmp_path / "state/outbox", 2**20, config.agent.outbox)


@pytest.fixture
def put(config, ledger, outbox) -> Callable[[int], Key]:
    """Puts the release of one of the windows, which are numbered as their hours."""
    (stream,) = config.streams

    def put_one(number: int) -> Key:
        start, end = HOUR * number, HOUR * (number + 1)
        window = WindowId("dev-1", "air", number, start, end, incarnation=ledger.incarnation)
        release = stream.spec.start(ENTROPY).release(ENTROPY, window)
        outbox.put(Key(number, "air"), encode(release))
        return Key(number, "air")

    return put_one


@pytest.fixture
def released(ledger, put) -> Callable[[int], Key]:
    """The same, debited before."""

    def release(number: int) -> Key:
        ledger.debit({"air": 1}, HOUR * number, HOUR * (number + 1))
        return put(number)

    return release


@pytest.fixture
def made(config, ledger, outbox, put):
    """A ledger of three windows: two of them acknowledged and kept, the third one waits."""
    before = LedgerReconciliation(config, ledger, outbox, system_clock(), outbox.put_count)
    before.requeue_missing(Mark("1" * 16, {}))
    for number in (1, 2):
        outbox.acknowledged(put(number), HOUR)
    put(3)
    water = LedgerReconciliation(config, ledger, outbox, system_clock(), outbox.put_count)
    water.requeue_missing(mark(ledger, 2, generation="1"))
    assert outbox.queued() == [Key(3, "air")]
    return ledger, outbox, water, put


def mark(ledger, sequence, generation, incarnation=None) -> Mark:
    known = incarnation or ledger.incarnation.hex()
    streams = {"air": StreamMark(known, sequence, HOUR * (sequence + 1), sequence)}
    return Mark(generation * 16, streams)


def refused(outbox) -> list[str]:
    return sorted(path.name for path in (outbox.folder / "refused").glob("*.release"))


@pytest.mark.parametrize("incarnation", [None, OTHER_LEDGER])
def test_what_was_acknowledged_is_retransmitted_after_releases_of_another_ledger(made, incarnation):
    """The collector's database was restored, and the mark is of a ledger with later windows.

    So this ledger is an old copy, or there is a second agent.
    """
    ledger, outbox, water, put = made
    late = put(4)
    known = mark(ledger, 9, "2", incarnation)
    water.requeue_missing(known)
    assert set(outbox.queued()) == {Key(n, "air") for n in (1, 2, 3, 4)}
    water.check(known, {}, sent=False)
    kept_back = [late] if incarnation is None else [Key(3, "air"), late]
    assert set(outbox.queued()) == {Key(n, "air") for n in (1, 2, 3, 4)} - set(kept_back)
    assert refused(outbox) == [key.filename for key in kept_back]


@pytest.mark.parametrize("damaged", [False, True])
def test_it_is_also_after_a_restart(config, made, damaged):
    """Only the outbox's own files then record that its bytes were published."""
    ledger, outbox, water, _ = made
    water.requeue_missing(mark(ledger, 1, "2"))
    if damaged:
        (segment,) = outbox.folder.glob("*.segment")
        content = segment.read_bytes()
        segment.write_bytes(content[:8] + b"damage" + content[8:])
    restarted = Outbox(outbox.folder, 2**20, config.agent.outbox)
    again = LedgerReconciliation(config, ledger, restarted, system_clock(), restarted.put_count)
    again.check(mark(ledger, 9, "2", OTHER_LEDGER), {}, sent=False)
    assert set(restarted.queued()) == {Key(1, "air"), Key(2, "air")}
    assert refused(restarted) == [Key(3, "air").filename]


def test_a_full_disk_costs_nothing_that_a_restored_collector_lacks(
    config, made, monkeypatch, caplog
):
    """It is queued at once. Its note and that of the generation follow when there is space."""
    ledger, outbox, water, put = made
    path = outbox.folder.parent / "generation"
    known = path.read_text()
    with monkeypatch.context() as full:
        full.setattr("pansketch_agent.outbox.segment_files.os.write", no_space)
        water.requeue_missing(mark(ledger, 1, "2"))
        with pytest.raises(OSError, match="No space left"):
            put(4)
        water.requeue_missing(mark(ledger, 1, "2"))
    lacked = {Key(1, "air"), Key(2, "air")}
    assert set(outbox.queued()) == {*lacked, Key(3, "air")}
    assert path.read_text() == known
    assert caplog.text.count("No space left on device") == 2
    assert Outbox(outbox.folder, 2**20, config.agent.outbox).kept() == lacked
    water.requeue_missing(mark(ledger, 1, "2"))
    assert path.read_text() != known
    assert Outbox(outbox.folder, 2**20, config.agent.outbox).requeued() == lacked


def no_space(handle: int, content: bytes) -> int:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.mark.parametrize("seen", [True, False])
def test_what_was_acknowledged_before_the_first_mark_is_retransmitted(
    config, ledger, outbox, put, seen
):
    """The database was restored before the device saw a mark of it, and has a later window since.

    Negative control: an earlier mark of the same generation.
    """
    water = LedgerReconciliation(config, ledger, outbox, system_clock(), outbox.put_count)
    if seen:
        water.requeue_missing(Mark("2" * 16, {}))
    for number in (1, 2, 3):
        outbox.acknowledged(put(number), HOUR)
    water.requeue_missing(mark(ledger, 3, "2"))
    assert outbox.queued() == ([] if seen else [Key(n, "air") for n in (1, 2, 3)])
    for key in outbox.queued():
        outbox.acknowledged(key, HOUR)
    water.requeue_missing(mark(ledger, 3, "2"))
    assert outbox.queued() == []


def test_of_an_unknown_ledger_nothing_up_to_its_end_is_sent(made):
    """The negative control: nothing was acknowledged, so each could be a second release."""
    ledger, outbox, water, put = made
    put(4)
    water.check(mark(ledger, 3, "1", OTHER_LEDGER), {}, sent=False)
    assert outbox.queued() == [Key(4, "air")]
    assert refused(outbox) == [Key(3, "air").filename]


def test_what_is_debited_before_the_mark_hides_no_window_that_the_collector_has(
    config, ledger, outbox, released
):
    """The ledger is a copy that lacks windows 2 to 4. Its clock was behind and the broker away, so
    it debited 2 to 6 before it saw a mark."""
    released(1)
    water = LedgerReconciliation(config, ledger, outbox, system_clock(), outbox.put_count)
    again = [released(number) for number in (2, 3, 4)]
    later = [released(number) for number in (5, 6)]
    of_the_copy, known = ledger.incarnation, mark(ledger, 4, "1")
    water.check(known, {}, sent=False)
    assert outbox.queued() == [Key(1, "air"), *later]
    assert refused(outbox) == [key.filename for key in again]
    account = ledger.spent("air")
    assert account.adopted == 3
    assert ledger.incarnation != of_the_copy
    water.check(known, {}, sent=False)
    assert ledger.spent("air") == account


@pytest.mark.parametrize("own", [True, False])
def test_an_old_copy_of_the_ledger_sends_what_its_earlier_incarnation_released(
    config, ledger, outbox, released, own
):
    """Windows 1 and 2 wait since before the ledger adopted later ones, as window 9 does since. Then
    the card is replaced by an old copy, which lacks windows 10 and 11 of its own incarnation.

    Negative control: of another ledger's windows nothing is known.
    """
    waiting = [released(1), released(2)]
    ledger.adopt("air", bytes.fromhex(OTHER_LEDGER), 5, 5, 9 * HOUR, 10**6)
    waiting.append(released(9))
    water = LedgerReconciliation(config, ledger, outbox, system_clock(), outbox.put_count)
    incarnation = ledger.incarnation.hex() if own else "cd" * 8
    water.check(mark(ledger, 11, "1", incarnation), {}, sent=False)
    assert outbox.queued() == (waiting if own else [])
    assert refused(outbox) == ([] if own else [key.filename for key in waiting])
    assert ledger.spent("air").until == 12 * HOUR


@pytest.mark.parametrize(("last", "sent"), [(4, True), (1, False)])
def test_a_ledger_that_lacks_nothing_holds_no_release_back(
    config, ledger, outbox, released, last, sent
):
    """Negative controls: the collector holds what this run has sent, or what was debited before."""
    released(1)
    water = LedgerReconciliation(config, ledger, outbox, system_clock(), outbox.put_count)
    waiting = [Key(1, "air"), *(released(number) for number in range(2, 7))]
    before = ledger.incarnation
    water.check(mark(ledger, last, "1"), {}, sent=sent)
    assert outbox.queued() == waiting
    assert ledger.spent("air").adopted == 0
    assert ledger.incarnation == before


@pytest.mark.parametrize(("now", "awaited"), [(0, True), (2 * HOUR - 1, True), (2 * HOUR, False)])
def test_a_clock_behind_the_ledger_has_the_mark_read_before_a_debit(
    config, ledger, outbox, released, now, awaited
):
    released(1)
    clock = replace(system_clock(), now=lambda: float(now))
    water = LedgerReconciliation(config, ledger, outbox, clock, outbox.put_count)
    assert water.must_precede_debit() is awaited
