"""Several sketches of one source: one reader, one debit, a release of each."""

import threading

import pytest

from pansketch import decode, os_entropy, peek
from pansketch_agent.host.clock import Clock
from pansketch_agent.ledger.ledger import DailyCapError, Ledger
from pansketch_agent.outbox.outbox import Outbox
from pansketch_agent.runtime.stream_builder import StreamBuilder, open_source
from pansketch_fleet.config.loader import load_agent

SKETCH = "    sketch: {depth: 4, k: 4, width: 8, rows: 1, fanout: 2}\n"
TWO = """\
    sketches:
      - {type: hierarchy, share: 0.75, depth: 4, k: 4, width: 8, rows: 1, fanout: 2}
      - {type: moments, share: 0.25, features: hist, bins: 4}
"""
NAMES = ["air", "air-moments"]


@pytest.fixture
def configure(device):
    """The device's configuration with two sketches of its stream."""

    def made(**settings):
        device.configure(**settings)
        device.config.write_text(device.config.read_text().replace(SKETCH, TWO))
        return load_agent(device.config, {})

    return made


def replayed(device, config, outbox_bytes=10**7):
    """Replays the stream to its end; the worker."""
    clock, stop = Clock(lambda: 0.0, lambda: 0.0, lambda *_: True), threading.Event()
    with Ledger(device.state) as ledger:
        outbox = Outbox(device.state / "outbox", outbox_bytes)
        builder = StreamBuilder("testing", "dev-1", ledger, outbox, clock, stop, False, 0.0)
        work = builder.build(config.streams, os_entropy())
        rows = open_source(config.streams[0], clock, stop, device.folder, lambda: 0.5, print)
        work.run(rows, clock, stop)
        outbox.close()
    return work


def test_every_window_has_one_release_of_each_sketch_under_one_number(device, configure):
    rows = "time,temp,wind\n" + "".join(
        f"2024-01-01T{hour:02}:{minute:02}:00Z,11.5,N\n" for hour in (0, 2) for minute in range(60)
    )
    config = configure(rows=rows, privacy="{epsilon: 100}")
    work = replayed(device, config)
    assert work.done.is_set()
    assert work.failure == ""
    found = device.releases()
    numbers = {name: sorted(key.sequence for key in found if key.stream == name) for name in NAMES}
    assert numbers["air"] == numbers["air-moments"] == [*range(1, len(found) // 2 + 1)]
    specs = {each.name: each.spec for each in config.streams}
    readings = dict.fromkeys(NAMES, 0)
    for key, payload in found.items():
        label = peek(payload).windows[0]
        assert (label.stream, label.sequence) == (key.stream, key.sequence)
        # The first block of both families counts the readings of a window.
        readings[key.stream] += int(next(decode(payload, specs[key.stream]).split()).sum())
    # Both absorbed all of them; noise is beyond this limit with a probability below 1e-6.
    assert readings == pytest.approx(dict.fromkeys(NAMES, 120), abs=80)


def test_the_ledger_debits_both_together_and_their_sum_is_epsilon(device, configure):
    replayed(device, configure())
    debits = device.ledger()
    assert [debit[1] for debit in debits] == NAMES * 5
    for one, other in zip(debits[::2], debits[1::2], strict=True):
        assert (one[0], one[2:4]) == (other[0], other[2:4])
        assert int(one[4]) + int(other[4]) == 1_000_000


def test_a_daily_cap_is_of_both_sketches_together(device, configure):
    cap = "{epsilon: 1.0, daily_cap: 3.9}"
    work = replayed(device, configure(privacy=cap))
    assert "daily cap of epsilon 3.9" in work.failure
    assert len(device.ledger()) == 2 * 3


def test_a_debit_beyond_the_cap_spends_nothing_of_any(tmp_path):
    with Ledger(tmp_path) as ledger:
        ledger.debit({"a": 600_000, "b": 300_000}, 0, 10, 1_000_000)
        with pytest.raises(DailyCapError):
            ledger.debit({"a": 50_000, "b": 100_000}, 10, 20, 1_000_000)
        assert [ledger.spent(name).lifetime_micro for name in "ab"] == [600_000, 300_000]


@pytest.mark.parametrize("kept", range(4, 80, 5))
def test_a_debit_torn_anywhere_is_spent_by_both_and_used_by_none(tmp_path, kept):
    with Ledger(tmp_path) as ledger:
        ledger.debit({"a": 60, "b": 30}, 0, 10)
        before = ledger.path.stat().st_size
        ledger.debit({"a": 60, "b": 30}, 10, 20)
        whole = ledger.path.read_bytes()
    ledger.path.write_bytes(whole[: min(before + kept, len(whole) - 1)])
    with Ledger(tmp_path) as again:
        assert again.spent("a").until >= 20
        assert again.spent("b").until >= 20
        assert again.spent("a").lifetime_micro >= 120
        assert again.spent("b").lifetime_micro >= 60
        after = max(again.spent(name).until for name in "ab")
        assert set(again.debit({"a": 60, "b": 30}, after, after + 10)) == {"a", "b"}


def test_a_window_that_one_sketch_has_released_is_over_for_both(device, configure):
    config = configure()
    replayed(device, config)
    until = {peek(payload).windows[0].end for payload in device.releases().values()}
    with Ledger(device.state) as ledger:
        last = max(until)
        # As after a debit that a power cut tore: one of the two is a window ahead.
        ledger.debit({"air": 1}, last, last + 3600)
        clock = Clock(lambda: last + 1.0, lambda: 0.0, lambda *_: True)
        outbox = Outbox(device.state / "outbox", 10**7)
        builder = StreamBuilder(
            "testing", "dev-1", ledger, outbox, clock, threading.Event(), False, None
        )
        work = builder.build(config.streams, os_entropy())
        assert work._windows.open_start == last + 3600
        outbox.close()
