"""Ways of a simulated release: through a broker to a collector, or straight into a database.

The last one is the collector's own ingest loop, which takes messages and tells acknowledgements
as `serve` does, without MQTT between.
"""

import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from threading import Event

from pansketch_collector.ingest import ingest_loop
from pansketch_collector.mqtt.connection import Incoming
from pansketch_collector.storage import writer as store
from pansketch_collector.validation.validation import Rules
from pansketch_fleet.config.loader import Config
from pansketch_fleet.mqtt.reconnect import KEEPALIVE_SECONDS
from pansketch_fleet.protocol.messages import Ack, digest
from pansketch_fleet.settings.sources import Mqtt
from testbed.fleet_simulator.broker_client import BrokerClient
from testbed.fleet_simulator.outbox import FleetOutbox
from testbed.fleet_simulator.usage import Meter

BATCH = 256
IDLE_SECONDS = 0.02
RECONNECT_SECONDS = 1.0

Show = Callable[[], object]


class GaveUp(Exception):
    """A timeout without an acknowledgement or without a connection; the text names which."""


@dataclass(frozen=True)
class Pace:
    """The pace of publication.

    Attributes:
        rate: the most messages a second; None: as fast as releases are acknowledged.
        give_up_seconds: the longest time without an acknowledgement or a connection.
    """

    rate: float | None
    give_up_seconds: float


def through_broker(mqtt: Mqtt, config: Config, outbox: FleetOutbox, pace: Pace, show: Show) -> None:
    """Publishes all, and returns when all is acknowledged. Raises OSError when the first connection
    fails, GaveUp."""
    started = received_at = time.monotonic()
    name = f"pansketch-{config.fleet}-simulator"
    client = BrokerClient(mqtt, config.fleet, name)
    while True:
        try:
            with client:
                while not (outbox.done and client.finished):
                    now = time.monotonic()
                    most = BATCH if client.has_room else 0
                    if pace.rate is not None:
                        sent = outbox.counts.messages
                        most = max(0, min(most, int(pace.rate * (now - started)) - sent))
                    messages = outbox.due(most, now)
                    client.publish(messages)
                    received = client.exchange(0.0 if messages else IDLE_SECONDS)
                    for topic, payload in received:
                        outbox.acknowledged(topic.split("/")[-2], Ack.decode(payload))
                    if received or not outbox.waiting:
                        received_at = now
                    elif now - received_at > pace.give_up_seconds:
                        raise GaveUp(f"no acknowledgement for {pace.give_up_seconds:g} s")
                    show()
                return
        except OSError as error:
            client = _again(mqtt, config.fleet, name, pace.give_up_seconds, error)
            outbox.reconnected()
            received_at = time.monotonic()


def drain_backlog(
    mqtt: Mqtt,
    config: Config,
    outbox: FleetOutbox,
    paused: AbstractContextManager[None],
    meter: Meter,
    give_up_seconds: float,
) -> None:
    """Has the broker queue all messages, and measures until each release is acknowledged.

    The acknowledgements are decoded after the measurement, which is of the broker, the collectors
    and their database.

    Args:
        paused: pauses the collectors, which stay connected.
        meter: starts at the end of the pause, and stops at the last acknowledgement.
        give_up_seconds: the longest time without an acknowledgement.

    Raises:
        OSError: the connection is over.
        GaveUp: also when the pause is so long that the broker would close connections.
    """
    received: list[tuple[str, bytes]] = []
    with BrokerClient(mqtt, config.fleet, f"pansketch-{config.fleet}-simulator") as client:
        with paused:
            deadline = time.monotonic() + KEEPALIVE_SECONDS
            while not (outbox.exhausted and client.finished):
                messages = outbox.due(BATCH if client.has_room else 0, time.monotonic())
                client.publish(messages)
                client.exchange(0.0 if messages else IDLE_SECONDS)
                if time.monotonic() > deadline:
                    text = "use fewer --devices or --windows"
                    raise GaveUp(f"the backlog is not queued in {KEEPALIVE_SECONDS} s: {text}")
            meter.start()
        received_at = time.monotonic()
        try:
            while len(received) < outbox.waiting:
                time.sleep(IDLE_SECONDS)  # Many acknowledgements are read at once.
                found = client.exchange(0.0)
                received += found
                if found:
                    received_at = time.monotonic()
                elif time.monotonic() - received_at > give_up_seconds:
                    raise GaveUp(f"no acknowledgement for {give_up_seconds:g} s")
        finally:
            meter.stop()
            for topic, payload in received:
                outbox.acknowledged(topic.split("/")[-2], Ack.decode(payload))


def _again(mqtt: Mqtt, fleet: str, name: str, seconds: float, why: OSError) -> BrokerClient:
    """The next connection. Raises GaveUp."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        try:
            return BrokerClient(mqtt, fleet, name)
        except OSError as error:
            why = error
        time.sleep(RECONNECT_SECONDS)
    raise GaveUp(f"no connection for {seconds:g} s: {why}")


def into_database(path: Path, config: Config, outbox: FleetOutbox, show: Show) -> None:
    """Stores all in a database that no collector serves. Raises CommandError."""
    stop = Event()
    watch = ingest_loop.IngestClock(lambda: int(time.time()), time.monotonic)
    with store.opened(path) as opened:
        rules = Rules.of(config, opened.serve_settings(config, watch.now()))
        ingest_loop.serve(_Ingest(outbox, stop), opened, rules, watch, stop, show)


class _Ingest:
    """A `MessageTransport` of the outbox, which stops the loop when all is acknowledged."""

    def __init__(self, outbox: FleetOutbox, stop: Event) -> None:
        self._outbox, self._stop = outbox, stop

    def receive(self, limit: int, timeout_seconds: float) -> list[Incoming]:
        found = self._outbox.due(limit, time.monotonic())
        if not found and self._outbox.done:
            self._stop.set()
        return [
            Incoming(m.topic, m.payload, len(m.payload), m.digest or digest(m.payload), 0, 0, 0)
            for m in found
        ]

    def ack_broker(self, message: Incoming) -> None:
        """No broker waits for a PUBACK."""

    def send_ack(self, device: str, ack: Ack) -> None:
        self._outbox.acknowledged(device, ack)

    def flush(self) -> None:
        """Nothing is buffered."""
