"""The end of a window: one debit for all its sketches, one release of each, and no other."""

import logging
from dataclasses import replace

import pytest

from pansketch import Privacy, decode, os_entropy
from pansketch.blinding import BlindedSketch
from pansketch.wire import decode_blinded
from pansketch_agent.ledger.ledger import DailyCapError, Ledger
from pansketch_agent.outbox.outbox import Key, Outbox
from pansketch_agent.windows.release_writer import BlindedWriter, ReleaseWriter
from pansketch_agent.windows.window import ClosedWindow, WindowBounds
from tests.pansketch.blinding.fleet import FLEET, SMALL, SPECS, counted, keepers, opened, public
from tests.pansketch.sketches.families import uniform

ENTROPY = os_entropy()
TWO = (SMALL, SPECS["hierarchy"])
LOCAL = replace(SMALL, privacy=Privacy(epsilon=1.0))
MICRO = {"air": 700_000, "water": 300_000}
BOUNDS = WindowBounds(3600, 7200)


class Parts:
    """The writers of one source with two sketches, its ledger, its outbox and its keepers."""

    def __init__(self, folder, ledger, cap_micro=None):
        self.ledger, self.outbox = ledger, Outbox(folder / "outbox", 10**6)
        self.found = keepers()
        self.writer = ReleaseWriter("dev-1", MICRO, ENTROPY, ledger, self.outbox, cap_micro)
        self.blinded = BlindedWriter(self.writer, ENTROPY, FLEET, public(self.found))

    @property
    def debits(self):
        lines = self.ledger.path.read_text().splitlines()
        return [line.split()[1:6] for line in lines if line.startswith("debit")]

    def payloads(self):
        return {(key.sequence, key.stream): self.outbox.read(key) for key in self.outbox.queued()}


@pytest.fixture
def parts(tmp_path):
    with Ledger(tmp_path) as ledger:
        made = Parts(tmp_path, ledger)
        yield made
        made.outbox.close()


BOTH = [["1", "air", "3600", "7200", "700000"], ["1", "water", "3600", "7200", "300000"]]


@pytest.mark.parametrize("known", [True, False, None])
def test_every_sketch_of_a_window_is_released_under_its_own_label(parts, known):
    specs = [replace(spec, privacy=LOCAL.privacy) for spec in TWO]
    sketches = tuple(spec.start(ENTROPY) for spec in specs)
    parts.writer.publish(ClosedWindow(BOUNDS, sketches), known)
    assert parts.debits == BOTH
    payloads = parts.payloads()
    assert list(payloads) == [(1, "air"), (1, "water")]
    for (sequence, stream), spec in zip(payloads, specs, strict=True):
        (window,) = decode(payloads[sequence, stream], spec).windows
        assert (window.device, window.stream, window.sequence) == ("dev-1", stream, sequence)
        assert (window.start, window.end) == (BOUNDS.start, BOUNDS.end)
        assert window.clock_synchronised is known
        assert window.incarnation == parts.ledger.incarnation


@pytest.mark.parametrize("known", [True, False, None])
def test_a_blinded_window_is_debited_at_its_start_and_released_under_that_label(parts, known):
    specs, rows = TWO, uniform(30)
    sketches = parts.blinded.start(specs, BOUNDS)
    assert parts.debits == BOTH
    assert len(sketches) == 2
    assert not parts.outbox.queued()
    for sketch in sketches:
        assert isinstance(sketch, BlindedSketch)
        sketch.update_many(rows)
    parts.blinded.publish(ClosedWindow(BOUNDS, sketches), known)
    assert parts.debits == BOTH, "once"
    payloads = parts.payloads()
    assert list(payloads) == [(1, "air"), (1, "water")]
    for (_, stream), spec in zip(payloads, specs, strict=True):
        release = decode_blinded(payloads[1, stream], spec)
        label = release.window
        assert (label.device, label.stream, label.sequence) == ("dev-1", stream, 1)
        assert (label.start, label.end) == (BOUNDS.start, BOUNDS.end)
        assert label.clock_synchronised is known
        unblinded = opened(spec, parts.found, [release])
        assert (unblinded.counters == counted(spec, rows)).all()


def test_a_window_with_too_many_sketches_or_too_few_is_an_error(parts):
    """Never a release that the ledger does not have, and no stream without one."""
    for start, count in ((0, 1), (200, 3)):
        sketches = tuple(LOCAL.start(ENTROPY) for _ in range(count))
        with pytest.raises(ValueError, match="zip"):
            parts.writer.publish(ClosedWindow(WindowBounds(start, start + 100), sketches))
        with pytest.raises(ValueError, match="zip"):
            parts.blinded.start([SMALL] * count, WindowBounds(start + 100, start + 200))
    assert {stream for _, stream in parts.payloads()} <= set(MICRO)


def test_no_sketch_passes_the_other_writer(parts):
    """A masked one has a label already, and a local one has no mask."""
    local, (masked, *_) = LOCAL.start(ENTROPY), parts.blinded.start([SMALL] * 2, BOUNDS)
    with pytest.raises(AssertionError):
        parts.writer.publish(ClosedWindow(WindowBounds(7200, 9000), (masked, masked)))
    with pytest.raises(AssertionError):
        parts.blinded.publish(ClosedWindow(BOUNDS, (local, local)))
    with pytest.raises(AssertionError):
        parts.blinded.start([object()] * 2, WindowBounds(9000, 9100))
    assert not parts.outbox.queued()


def test_a_window_beyond_the_daily_cap_has_no_release_and_no_sketch(parts, tmp_path):
    parts = Parts(tmp_path / "capped", parts.ledger, 10**6)
    parts.writer.debit(BOUNDS)
    closed = ClosedWindow(WindowBounds(7200, 9000), tuple(LOCAL.start(ENTROPY) for _ in MICRO))
    with pytest.raises(DailyCapError):
        parts.writer.publish(closed)
    with pytest.raises(DailyCapError):
        parts.blinded.start([SMALL] * 2, closed.span)
    assert parts.debits == BOTH
    assert not parts.outbox.queued()


def test_each_release_has_a_line_in_the_log_and_one_that_is_dropped_has_the_reason(
    parts, caplog, monkeypatch
):
    caplog.set_level(logging.INFO)
    (label, _) = parts.writer.debit(BOUNDS)
    parts.writer.put(label, b"payload")
    parts.writer.put(label, bytes(2 * 10**6))

    def broken(key, payload):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(parts.outbox, "put", broken)
    parts.writer.put(label, b"payload")
    said = [(r.levelname, r.getMessage()) for r in caplog.records if "release 1 " in r.getMessage()]
    window = "air: window 1970-01-01T01:00:00Z to 1970-01-01T02:00:00Z, release 1 is"
    assert said == [
        ("INFO", f"{window} in the outbox"),
        ("ERROR", f"{window} dropped: the outbox is full; check the collector"),
        (
            "ERROR",
            f"{window} dropped: the outbox cannot be written (No space left on device); "
            "free the disk",
        ),
    ]
    assert parts.payloads() == {(1, "air"): b"payload"}
    assert Key(1, "air") in parts.outbox
