"""Duplicates beside 10^5 stored releases: the cost of one, against that of a new release.

Three events send duplicates: a retry after a lost acknowledgement, a redelivery after a collector's
restart, and a second `replay`. So a full store must answer for them as fast as it stores.
"""

import tempfile
from collections.abc import Sequence
from pathlib import Path
from time import process_time

from benchmarks.harness.result import Row, at_most
from benchmarks.performance.ingest import FLEET, Messages, releases
from pansketch import WindowId
from pansketch_collector.ingest.ingest_loop import BATCH, commit_batch
from pansketch_collector.mqtt.connection import Incoming
from pansketch_collector.storage.database import open_writing
from pansketch_collector.storage.writer import SqliteStore
from pansketch_collector.validation.validation import Rules
from pansketch_collector.validation.verdicts import Accepted
from pansketch_fleet.config.loader import load_collector
from pansketch_fleet.protocol import topics
from pansketch_fleet.protocol.messages import digest
from testbed.local_fleet import CONFIG

BAR = 2.0
STORED = 100_000
ASKED = 4_096
STREAM = "lockers"
AT = 253_402_300_799  # the last second of 9999: no window is in the future


def run(quick: bool) -> list[Row]:
    stored, asked = (STORED // 10, ASKED // 4) if quick else (STORED, ASKED)
    rules = Rules.of(load_collector(CONFIG, {"BROKER": "127.0.0.1:1"}))
    messages = releases(asked, STREAM)
    with tempfile.TemporaryDirectory() as folder:
        store = SqliteStore(open_writing(Path(folder) / "duplicates.sqlite"))
        _fill(store, messages[0][1], stored)
        new = _seconds(store, rules, messages, "stored")
        again = _seconds(store, rules, messages, "duplicate")
        store.close()
    note = f"{1e6 * again / asked:.0f} µs each, a new one {1e6 * new / asked:.0f} µs"
    return [at_most(f"a duplicate beside {stored:,} releases", again / new, "x new", BAR, note)]


def _fill(store: SqliteStore, payload: bytes, many: int) -> None:
    """Rows of another device, of windows before those that are asked about."""
    with store.batch():
        for number in range(1, many + 1):
            window = WindowId("filler", STREAM, number, number, number + 1)
            store.add(Accepted(window, b"x" * 8, digest(b"%d" % number), payload), 1)


def _seconds(store: SqliteStore, rules: Rules, messages: Messages, wanted: str) -> float:
    """CPU time of taking them in, of which all must be what is `wanted`."""
    batches = [_incoming(messages[at : at + BATCH]) for at in range(0, len(messages), BATCH)]
    began = process_time()
    outcomes = [outcome for batch in batches for outcome in commit_batch(store, batch, rules, AT)]
    seconds = process_time() - began
    found = {"stored" if isinstance(each, Accepted) else type(each).__name__ for each in outcomes}
    assert found == {"stored" if wanted == "stored" else "Duplicate"}, found
    return seconds


def _incoming(messages: Messages) -> Sequence[Incoming]:
    assert all(topics.parse(topic) for topic, _ in messages), FLEET
    return [Incoming(t, p, len(p), digest(p), 0, 0, 0) for t, p in messages]
