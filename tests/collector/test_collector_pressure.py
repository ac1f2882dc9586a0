"""`serve` when the disk does not follow, with a broker that keeps sessions."""

import os
import shutil
import signal
import sqlite3
import subprocess
from contextlib import closing, contextmanager

import pytest

from collector.link import MOST_WAITING
from collector.reader import reading
from collector.service import BATCH
from demo.broker import free_port

SECONDS = 20.0
MOSQUITTO = shutil.which("mosquitto", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
# In CI a missing broker is a failure and no reason to leave something out.
pytestmark = pytest.mark.skipif(
    MOSQUITTO is None and "CI" not in os.environ, reason="mosquitto is not installed"
)


@contextmanager
def mosquitto(folder):
    """The broker of the field, which keeps persistent sessions; yields its port."""
    port = free_port()
    conf = folder / "mosquitto.conf"
    conf.write_text(
        f"listener {port} 127.0.0.1\nallow_anonymous true\nmax_queued_messages 0\n"
        "max_inflight_messages 0\n"
    )
    process = subprocess.Popen(
        [MOSQUITTO or "mosquitto", "-c", str(conf)], stderr=subprocess.DEVNULL
    )
    try:
        yield port
    finally:
        process.terminate()
        process.wait(SECONDS)


def test_what_came_while_it_was_dead_is_delivered_without_being_sent_again(
    make_bench, start, until, tmp_path, connect
):
    with mosquitto(tmp_path) as port:
        bench = make_bench(url=f"mqtt://127.0.0.1:{port}")
        first = start(bench.path)
        until(lambda: "is there" in first.said)
        with connect(port, bench.fleet, "one") as peer:
            peer.exchange(bench.topic(), bench.release("one", 1))
            flood = [bench.release("one", n) for n in range(2, 150)]
            with closing(sqlite3.connect(bench.database)) as disk:
                # While another holds the database nothing can be committed, only received.
                disk.execute("BEGIN IMMEDIATE")
                for payload in flood[:70]:
                    peer.publish(bench.topic("one"), payload)
                first.goes_on(0.5)
                first.end(signal.SIGKILL)
            for payload in flood[70:]:
                peer.publish(bench.topic("one"), payload)
            second = start(bench.path)
            until(lambda: len(bench.stored()) == 149)
            assert bench.stored()[1:] == flood
            assert second.end() == 0


def test_a_full_queue_holds_the_broker_back_and_does_not_keep_it_from_stopping(
    make_bench, start, until, tmp_path, connect
):
    with mosquitto(tmp_path) as port:
        bench = make_bench(url=f"mqtt://127.0.0.1:{port}")
        first = start(bench.path)
        until(lambda: "is there" in first.said)
        with connect(port, bench.fleet, "one") as peer:
            peer.exchange(bench.topic(), bench.release("one", 1))
            flood = [b"%d" % number for number in range(MOST_WAITING + 3 * BATCH)]
            with closing(sqlite3.connect(bench.database)) as disk:
                disk.execute("BEGIN IMMEDIATE")
                for payload in flood:
                    peer.publish(bench.topic(), payload)
                first.goes_on(0.5)
                assert first.end() == 0
            assert refusals(bench) == {}
            second = start(bench.path)
            until(lambda: refusals(bench) == {"size": len(flood)})
            assert second.end() == 0


def refusals(bench):
    with reading(bench.database) as reader:
        return reader.refusals()
