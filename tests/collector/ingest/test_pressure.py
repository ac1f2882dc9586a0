"""`serve` when the disk does not follow, with a broker that keeps sessions."""

import signal
import sqlite3
from contextlib import closing

import pytest

from pansketch_collector.ingest.ingest_loop import BATCH
from pansketch_collector.mqtt.connection import MAX_QUEUED
from pansketch_collector.storage.reader import reading
from testbed.mosquitto import mosquitto
from tests.collector.serving import goes_on

pytestmark = pytest.mark.needs("mosquitto")
KEEPS_ALL = "max_queued_messages 0\nmax_inflight_messages 0"


def test_the_broker_delivers_releases_that_came_while_it_was_dead(
    make_small_fleet, start, until, tmp_path, connect
):
    with mosquitto(tmp_path, settings=KEEPS_ALL) as port:
        small_fleet = make_small_fleet(url=f"mqtt://127.0.0.1:{port}")
        first = start(small_fleet.path)
        first.wait_until_connected()
        with connect(port, small_fleet.fleet, "one") as peer:
            peer.exchange(small_fleet.topic(), small_fleet.release("one", 1))
            flood = [small_fleet.release("one", n) for n in range(2, 150)]
            with closing(sqlite3.connect(small_fleet.database)) as disk:
                # While another holds the database nothing can be committed, only received.
                disk.execute("BEGIN IMMEDIATE")
                for payload in flood[:70]:
                    peer.publish(small_fleet.topic("one"), payload)
                goes_on(first, 0.5)
                first.stop(signal.SIGKILL)
            for payload in flood[70:]:
                peer.publish(small_fleet.topic("one"), payload)
            second = start(small_fleet.path)
            until(lambda: len(small_fleet.stored()) == 149)
            assert small_fleet.stored()[1:] == flood
            assert second.stop() == 0


def test_a_full_queue_holds_the_broker_back_and_does_not_keep_it_from_stopping(
    make_small_fleet, start, until, tmp_path, connect
):
    with mosquitto(tmp_path, settings=KEEPS_ALL) as port:
        small_fleet = make_small_fleet(url=f"mqtt://127.0.0.1:{port}")
        first = start(small_fleet.path)
        first.wait_until_connected()
        with connect(port, small_fleet.fleet, "one") as peer:
            peer.exchange(small_fleet.topic(), small_fleet.release("one", 1))
            flood = [b"%d" % number for number in range(MAX_QUEUED + 3 * BATCH)]
            with closing(sqlite3.connect(small_fleet.database)) as disk:
                disk.execute("BEGIN IMMEDIATE")
                for payload in flood:
                    peer.publish(small_fleet.topic(), payload)
                goes_on(first, 0.5)
                assert first.stop() == 0
            assert refusals(small_fleet) == {}
            second = start(small_fleet.path)
            until(lambda: refusals(small_fleet) == {"size": len(flood)})
            assert second.stop() == 0


def refusals(small_fleet):
    with reading(small_fleet.database) as reader:
        return reader.refusals()
