"""Streams of keys in the whole agent: their releases, their log lines, and their secrets."""

import struct
from pathlib import Path

import pytest

from pansketch import decode, distinct_keys, hash_keys, is_incomplete, read_header
from pansketch_agent.windows.window import schedule_for
from pansketch_fleet.config.loader import Config
from pansketch_fleet.settings.device_spec import window_index

HOUR = 3600
NEW_YEAR = 1704067200
MARK = "badge-9c41f7d2"


def rows_of(*hours: list[int]) -> str:
    """A row in the middle of an hour for each of its keys."""
    lines = [
        f"{NEW_YEAR + HOUR * hour + 1800 + second},{key}\n"
        for hour, keys in enumerate(hours)
        for second, key in enumerate(keys)
    ]
    return "time,badge\n" + "".join(lines)


def released(config: Config, payload: bytes):
    """The release, decoded with the spec of its own window."""
    stream = config.streams[0]
    index = window_index(read_header(payload).windows[0].start, stream.window_seconds)
    return decode(payload, stream.spec.for_window(index))


def test_a_replay_releases_every_window_with_its_own_spec(keyed, device, broker, peer):
    config = keyed(broker.url, rows_of([1, 2, 2, 1], [], [5], [*range(100), *range(50)]))
    with peer(broker.url) as collector:
        agent = device.start("run")
        assert agent.wait() == 0, agent.output
    offset = schedule_for("dev-1", HOUR).offset
    starts = [window.start for window in collector.windows()]
    assert starts == [NEW_YEAR + HOUR * n + offset for n in range(4)]
    releases = [released(config, payload) for payload in collector.releases]
    assert [round(release.distinct().value) for release in releases] == [2, 0, 1, 100]
    fingerprints = {read_header(payload).fingerprint for payload in collector.releases}
    assert len(fingerprints) == 4
    assert config.streams[0].spec.fingerprint not in fingerprints
    assert [debit[4] for debit in device.ledger()] == ["100000000"] * 4
    assert collector.statuses[0].streams["doors"].fingerprint == (
        config.streams[0].spec.fingerprint.hex()
    )
    assert "per key per window" in collector.statuses[0].streams["doors"].guarantee


def test_texts_on_standard_input_are_counted_once_each(keyed, device, broker, peer):
    sketch = "expected_keys: 50000, memory: 16KiB, release: bitmap"
    config = keyed(broker.url, source="{type: stdin}", window="2s", sketch=sketch)
    with peer(broker.url) as collector:
        agent = device.start("run")
        agent.wait_until_connected()
        agent.process.stdin.write("".join(f'{{"badge": "b{n % 30}"}}\n' for n in range(90)))
        agent.process.stdin.close()
        assert agent.wait() == 0, agent.output
    counts = [round(released(config, each).distinct().value) for each in collector.releases]
    # Lines written at once lie in one window, or in two. Two of 30 keys share one of 100,000 slots
    # with probability below 0.5 %, three pairs below 1e-7.
    assert 28 <= sum(counts) <= 60
    assert max(counts) <= 30


def test_a_key_sketch_is_frozen_by_an_announced_intrusion(keyed, device, broker, peer, until):
    config = keyed(broker.url, source="{type: stdin}", window="3s")
    with peer(broker.url) as collector:
        agent = device.start("run")
        until(lambda: collector.releases, "a first window's end")
        assert device.start("rerandomise").wait() == 0
        agent.wait_for_output("no more keys are taken until the window ends (doors)")
        before = len(collector.releases)
        agent.process.stdin.write('{"badge": 7}\n')
        agent.process.stdin.flush()
        # One of them may be of the window before the frozen one.
        until(lambda: len(collector.releases) >= before + 2, "the frozen window")
        agent.process.stdin.write('{"badge": 7}\n{"badge": 8}\n')
        agent.process.stdin.flush()
        # The first line came too late for the frozen window, or for nothing: 7 lies in one window
        # or in two, 8 in one.
        until(lambda: counted(config, collector) in (2, 3), "windows with both keys")
        agent.process.stdin.close()
        assert agent.wait() == 0
    found = [released(config, payload) for payload in collector.releases]
    stopped = [release for release in found if is_incomplete(release)]
    assert len(stopped) == 1
    assert round(stopped[0].distinct().value) == 0
    assert counted(config, collector) in (2, 3)


def counted(config, collector) -> int:
    """The keys of all windows so far."""
    found = [released(config, payload) for payload in collector.releases]
    return round(distinct_keys(found).value)


def test_an_announced_live_stream_leaves_out_the_window_that_has_begun(keyed, device, broker, peer):
    """An earlier agent may have had keys of it, and been compromised."""
    source = "{type: stdin}"
    keyed(broker.url, source=source, window="2s", privacy="{epsilon: 1, intrusion: announced}")
    with peer(broker.url) as collector:
        agent = device.start("once")
        assert agent.wait() == 0, agent.output
    (window,) = collector.windows()
    assert "doors: the first window starts at" in agent.output
    begun = float(device.ledger()[0][2])
    assert window.start == begun
    started = (device.state / "lock").stat().st_mtime
    assert window.start >= started


def needles() -> list[bytes]:
    word = int(hash_keys([MARK])[0])
    return [MARK.encode(), MARK[-8:].encode(), *(struct.pack(f"{o}Q", word) for o in "<>")]


def holds_the_mark(content: bytes) -> bool:
    return any(needle in content for needle in needles())


def holding(folder: Path) -> list[str]:
    return [p.name for p in folder.rglob("*") if p.is_file() and holds_the_mark(p.read_bytes())]


def test_no_key_in_any_log_message_or_file(keyed, device, broker, peer):
    rows = f"time,badge\n{NEW_YEAR},{MARK}\n{MARK},{MARK}\n{NEW_YEAR + 5},\n{NEW_YEAR + 9},{MARK}\n"
    keyed(broker.url, rows, sketch="expected_keys: 100")
    with peer(broker.url) as collector:
        agent = device.start("run")
        assert agent.wait() == 0, agent.output
    assert collector.releases
    assert not any(map(holds_the_mark, collector.releases))
    assert not holds_the_mark(agent.output.encode())
    assert holding(device.state) == []
    assert holding(device.folder) == ["rows.csv"], "the search finds what is there"


BROKEN = """
import sys
from pansketch_agent.windows import window
from pansketch_agent.__main__ import main

def broken(self, index, rows):
    raise ValueError(f"could not absorb {rows.tolist()}")

window.Windows.absorb = broken
sys.exit(main(sys.argv[1:]))
"""


def test_an_unforeseen_error_states_where_and_not_what(keyed, device):
    keyed(rows=rows_of([423]))
    agent = device.start("run", "--drain", "0", program=("-c", BROKEN))
    assert agent.wait() == 1
    assert "doors: stopped by ValueError at __main__:" in agent.output
    assert "423" not in agent.output


@pytest.mark.parametrize("keys", [[], [1], [7, "", "x", -1], list(range(900))])
def test_the_agent_states_and_spends_the_same_for_any_keys(keyed, device, keys):
    """Also when there is none: its row's time is what counts."""
    rows = "".join(f"{NEW_YEAR + 1800},{key}\n" for key in keys or [""])
    keyed(rows=f"time,badge\n{rows}")
    agent = device.start("run", "--drain", "0")
    assert agent.wait() == 1  # no collector
    said = [line for line in agent.output.splitlines() if "doors" in line]
    assert len(said) == 3
    assert "epsilon 100 hides next to nothing" in said[0]
    assert "usable after about 1 of them" in said[1]
    assert "release 1" in said[2]
    assert [debit[0] for debit in device.ledger()] == ["1"]
