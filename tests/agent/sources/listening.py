"""A stream's source at work in a thread of its own, and a device that speaks to it."""

import threading
from contextlib import contextmanager
from pathlib import Path

from paho.mqtt.client import Client
from paho.mqtt.enums import CallbackAPIVersion

from pansketch_agent.host.clock import system_clock
from pansketch_agent.runtime.stream_builder import open_source
from tests.waiting import SECONDS


@contextmanager
def listening(stream, clock=None):
    """The rows that the source has yielded so far; in the end its buffer is overwritten."""
    stop, rows, kept = threading.Event(), [], []

    def run() -> None:
        uniform = iter([0.5] * 1000).__next__
        for readings in open_source(
            stream, clock or system_clock(), stop, Path("/"), uniform, print
        ):
            rows.extend(readings.rows.tolist())
            kept.append(readings.rows)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield rows
    finally:
        stop.set()
        thread.join(10)
    assert not thread.is_alive()
    assert not any(block.any() for block in kept), "its buffer is overwritten"


@contextmanager
def publisher(url: str):
    """A device on the same broker."""
    client = Client(CallbackAPIVersion.VERSION2, client_id="speaker")
    client.connect("127.0.0.1", int(url.rpartition(":")[2]))
    client.loop_start()

    def publish(text: str | bytes, topic: str = "home/air", retain: bool = False) -> None:
        client.publish(topic, text, 1, retain).wait_for_publish(SECONDS)

    try:
        yield publish
    finally:
        client.disconnect()
        client.loop_stop()


def listens(caplog, times: int = 1) -> bool:
    return sum("listening to" in record.getMessage() for record in caplog.records) >= times
