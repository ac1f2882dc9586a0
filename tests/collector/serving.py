"""A collector in a process of its own, and a device as the broker sees one."""

import queue
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import paho.mqtt.client as paho
import pytest
from paho.mqtt.enums import CallbackAPIVersion

from pansketch_fleet.protocol import topics
from pansketch_fleet.protocol.messages import Ack
from testbed.notify_socket import ProgramTimeout
from testbed.program import Program
from tests import waiting


class Peer:
    """A device as a client of the broker: it publishes, and receives its acknowledgements."""

    def __init__(self, port: int, fleet: str, *devices: str) -> None:
        self.acks: queue.Queue[tuple[str, Ack]] = queue.Queue()
        self._ready = threading.Event()
        self._client = paho.Client(CallbackAPIVersion.VERSION2)
        self._client.on_message = lambda c, u, m: self.acks.put((m.topic, Ack.decode(m.payload)))
        self._client.on_subscribe = lambda *_: self._ready.set()
        self._client.connect("127.0.0.1", port)
        self._client.loop_start()
        self._client.subscribe([(topics.ack(fleet, device), 1) for device in devices])
        assert self._ready.wait(waiting.SECONDS)

    def publish(self, topic: str, payload: bytes, retain: bool = False) -> None:
        sent = self._client.publish(topic, payload, qos=1, retain=retain)
        sent.wait_for_publish(waiting.SECONDS)

    def ack(self) -> tuple[str, Ack]:
        return self.acks.get(timeout=waiting.SECONDS)

    def exchange(self, topic: str, payload: bytes) -> Ack:
        """Publishes until an answer comes: a collector subscribes a moment after it connects."""
        for _ in range(int(waiting.SECONDS)):
            self.publish(topic, payload)
            with suppress(queue.Empty):
                return self.acks.get(timeout=1.0)[1]
        raise AssertionError("no acknowledgement")

    def __enter__(self) -> "Peer":
        return self

    def __exit__(self, *_: object) -> None:
        self._client.disconnect()
        self._client.loop_stop()


def goes_on(program: Program, seconds: float) -> None:
    """Lets it run on for a while; it must not end."""
    with pytest.raises(ProgramTimeout):
        program.wait(seconds)


@contextmanager
def serving(config: Path, log: Path, **options: Any) -> Iterator[Program]:
    """`pansketch-collector serve` with a configuration; it is gone afterwards."""
    command = [sys.executable, "-m", "pansketch_collector", "serve", "--config", str(config)]
    program = Program(command, log, **options)
    try:
        yield program
    finally:
        program.close()
