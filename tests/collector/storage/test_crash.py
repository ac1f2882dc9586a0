"""Killed while it writes, and disks that are full: whole batches or nothing, and nothing twice."""

import os
import random
import signal
import sqlite3
import subprocess
import sys
import threading
from contextlib import closing
from pathlib import Path

import pytest

from pansketch_collector.errors import CommandError
from pansketch_collector.ingest import ingest_loop
from pansketch_collector.storage import writer as store
from pansketch_collector.storage.database import open_writing
from pansketch_collector.storage.reader import reading
from pansketch_collector.storage.tables.records import Selection
from tests.waiting import SECONDS

REPOSITORY = Path(__file__).resolve().parents[3]
RELEASES, BATCH, KILLS = 500, 5, 6
AFTER = 1_000_000_001  # unix seconds: all windows are over

# Stores batch after batch, and prints the number of each one that it may acknowledge.
CHILD = f"""
import sys
from pathlib import Path
from pansketch_collector.storage import writer as store
from pansketch_collector.validation.validation import Rules
from pansketch_collector.mqtt.connection import Incoming
from pansketch_collector.ingest.ingest_loop import commit_batch
from pansketch_fleet.config.loader import load_collector
from pansketch_fleet.protocol.messages import digest
config = load_collector(Path(sys.argv[1]), {{}})
rules = Rules.of(config)
payloads = list(map(bytes.fromhex, Path(sys.argv[2]).read_text().split()))
topic = f"pansketch/v1/{{config.fleet}}/one/release/air"
messages = [Incoming(topic, p, len(p), digest(p), 0, 1, 1) for p in payloads]
with store.opened(config.collector.database) as opened:
    for at in range(0, len(messages), {BATCH}):
        commit_batch(opened, messages[at : at + {BATCH}], rules, {AFTER})
        print(at // {BATCH}, flush=True)
"""


def begin(small_fleet, releases):
    return subprocess.Popen(
        [sys.executable, "-c", CHILD, str(small_fleet.path), str(releases)],
        cwd=REPOSITORY,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def check(small_fleet, acknowledged):
    """The database is sound, holds what was acknowledged, and no batch by halves."""
    open_writing(small_fleet.database).close()
    with reading(small_fleet.database) as reader:
        found = {stored.sequence for stored in reader.releases(Selection("air"))}
    batches = {(sequence - 1) // BATCH for sequence in found}
    assert len(found) == len(batches) * BATCH
    assert acknowledged <= batches
    return len(batches)


def test_a_process_group_killed_mid_commit_loses_nothing_it_acknowledged(small_fleet, tmp_path):
    spec = small_fleet.specs("air")[0]
    payloads = [small_fleet.release(sequence=n, spec=spec) for n in range(1, RELEASES + 1)]
    releases = tmp_path / "releases"
    releases.write_text("\n".join(p.hex() for p in payloads))
    acknowledged, sizes = set(), []
    for _ in range(KILLS):
        with begin(small_fleet, releases) as process:
            # Some new batches, then a random moment inside of one.
            for _ in range(len(acknowledged) + random.randrange(1, 4)):
                acknowledged.add(int(process.stdout.readline()))
            threading.Event().wait(random.uniform(0, 0.004))
            os.killpg(process.pid, signal.SIGKILL)
            acknowledged |= set(map(int, process.stdout.read().split()))
            assert process.wait(SECONDS) == -signal.SIGKILL
        sizes.append(check(small_fleet, acknowledged))
    assert 0 < sizes[0] < sizes[-1] < RELEASES // BATCH  # each was killed at work
    with begin(small_fleet, releases) as process:
        assert len(process.communicate(timeout=SECONDS)[0].split()) == RELEASES // BATCH
    assert small_fleet.stored() == payloads


class OneBatchTransport:
    """Returns its messages once, and stops the loop when all are acknowledged."""

    def __init__(self, messages, stop):
        self.waiting, self.acknowledged, self.acks, self._stop = list(messages), [], [], stop

    def receive(self, limit, timeout_seconds):
        taken, self.waiting = self.waiting[:limit], self.waiting[limit:]
        if not taken:
            self._stop.set()
        return taken

    def ack_broker(self, message):
        self.acknowledged.append(message)

    def send_ack(self, device, ack):
        self.acks.append(ack)

    def flush(self):
        pass


def pages(connection):
    return connection.execute("PRAGMA page_count").fetchone()[0]


def test_a_full_disk_is_waited_for_and_nothing_is_acknowledged_before(
    small_fleet, arrive, monkeypatch, caplog
):
    monkeypatch.setattr(ingest_loop, "RETRY_SECONDS", 0.01)
    connection = open_writing(small_fleet.database)
    connection.execute(f"PRAGMA max_page_count = {pages(connection)}")
    messages = [arrive(small_fleet.topic(), small_fleet.release(sequence=n)) for n in range(1, 60)]
    stop = threading.Event()
    transport, turns = OneBatchTransport(messages, stop), []

    def alive():
        turns.append(len(transport.acknowledged))
        if len(turns) == 5:  # the disk is freed
            connection.execute("PRAGMA max_page_count = 100000")

    with closing(store.SqliteStore(connection)) as kept:
        clock = ingest_loop.IngestClock(lambda: AFTER, lambda: 0.0)
        ingest_loop.serve(transport, kept, small_fleet.rules, clock, stop, alive)
    assert turns[:5] == [0] * 5
    assert [ack.status for ack in transport.acks] == ["stored"] * 59
    assert transport.acknowledged == messages
    assert len(small_fleet.stored()) == 59
    assert [r.message.count("full") for r in caplog.records] == [1]


def test_a_disk_that_is_full_at_the_start_ends_it_with_a_single_line(small_fleet):
    """A traceback would also end the collector, but without a fix for the operator."""

    def start():
        with store.opened(small_fleet.database) as opened:
            opened._db.execute(f"PRAGMA max_page_count = {pages(opened._db)}")
            with opened.batch():
                opened._db.execute("CREATE TABLE filler AS SELECT zeroblob(1000000) AS room")

    with pytest.raises(CommandError, match="disk is full: check its disk") as caught:
        start()
    assert "\n" not in str(caught.value)


def test_a_database_that_breaks_while_serving_ends_it_with_a_single_line(small_fleet, arrive):
    connection = open_writing(small_fleet.database)
    stop = threading.Event()
    transport = OneBatchTransport([arrive(small_fleet.topic(), small_fleet.release())], stop)
    with closing(sqlite3.connect(small_fleet.database)) as other:
        other.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    with closing(store.SqliteStore(connection)) as kept:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        small_fleet.database.write_bytes(b"\xa5" * small_fleet.database.stat().st_size)
        clock = ingest_loop.IngestClock(lambda: AFTER, lambda: 0.0)
        with pytest.raises(CommandError) as caught:
            ingest_loop.serve(transport, kept, small_fleet.rules, clock, stop, lambda: None)
    assert "restore a copy" in str(caught.value)
    assert "\n" not in str(caught.value)
    assert transport.acknowledged == []
