"""Under load many releases share one transaction; the queue is bounded; acknowledgements follow
commits."""

import sqlite3
import threading
from contextlib import closing
from math import ceil

from pansketch_collector.ingest import ingest_loop
from pansketch_collector.ingest.ingest_loop import BATCH
from pansketch_collector.mqtt.connection import MAX_QUEUED, CollectorClient
from pansketch_collector.storage import writer as store
from pansketch_collector.storage.database import open_writing
from pansketch_fleet.protocol import topics
from pansketch_fleet.protocol.messages import Status

MESSAGES = 2 * BATCH + 30
AFTER = 1_000_000_001  # unix seconds: all windows are over


class LoadTransport:
    """A transport with many messages at once. It reads the database at an acknowledgement."""

    def __init__(self, messages, stop, database):
        self._messages, self._stop, self._database = list(messages), stop, database
        self.acknowledged, self.on_disk = [], []

    def receive(self, limit, timeout_seconds):
        taken, self._messages = self._messages[:limit], self._messages[limit:]
        if not taken:
            self._stop.set()
        return taken

    def ack_broker(self, message):
        self.acknowledged.append(message)

    def send_ack(self, device, ack):
        if len(self.acknowledged) % BATCH == 1:
            with closing(sqlite3.connect(self._database)) as other:
                query = "SELECT count(*) FROM releases"
                self.on_disk.append(other.execute(query).fetchone()[0])

    def flush(self):
        pass


def test_many_releases_share_a_commit_and_are_acknowledged_only_after_it(small_fleet, arrive):
    spec, numbers = small_fleet.specs("air")[0], range(1, MESSAGES + 1)
    releases = [small_fleet.release(sequence=n, spec=spec) for n in numbers]
    messages = [arrive(small_fleet.topic(), release) for release in releases]
    connection, stop = open_writing(small_fleet.database), threading.Event()
    said = []
    connection.set_trace_callback(said.append)
    transport = LoadTransport(messages, stop, small_fleet.database)
    with closing(store.SqliteStore(connection)) as kept:
        clock = ingest_loop.IngestClock(lambda: AFTER, lambda: 0.0)
        ingest_loop.serve(transport, kept, small_fleet.rules, clock, stop, lambda: None)
    assert said.count("COMMIT") == ceil(MESSAGES / BATCH)
    assert transport.acknowledged == messages
    assert transport.on_disk == [BATCH, 2 * BATCH, MESSAGES]


def test_one_batch_holds_what_the_queue_does_at_most_and_leaves_the_rest(small_fleet, arrive):
    assert BATCH <= MAX_QUEUED  # else every batch would wait for more that cannot come
    link = CollectorClient(small_fleet.config.mqtt, small_fleet.fleet, small_fleet.rules.largest)
    message = arrive(topics.status(small_fleet.fleet, "one"), Status("online", "s", {}).encode())
    for _ in range(5):
        link._queue.append(message)
    assert len(link.receive(3, 0.1)) == 3
    assert len(link.receive(3, 0.1)) == 2
    assert link.receive(3, 0.01) == []
