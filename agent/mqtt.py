"""The one place of the device program that speaks MQTT (3.1.1, through paho).

The client's callbacks only put events on a queue; whoever calls `next_event` acts on them, so no
lock is ever held around both. The device listens to its own `ack` topic and to nothing else.
"""

import queue
import sys
import threading
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from paho.mqtt.client import Client, ConnectFlags, DisconnectFlags, MQTTMessage
from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion
from paho.mqtt.properties import Properties
from paho.mqtt.reasoncodes import ReasonCode

from fleet import topics
from fleet.messages import Status
from fleet.settings import Mqtt

KEEPALIVE_SECONDS = 30
SHORTEST_RETRY_SECONDS = 1
LONGEST_RETRY_SECONDS = 60
FAREWELL_SECONDS = 3.0
MOST_EVENTS = 1024  # A flood of acks beyond this is dropped; a release is then sent again.


@dataclass(frozen=True)
class Connected:
    """The broker is there; nothing is subscribed yet."""


@dataclass(frozen=True)
class Absent:
    """The broker is not there, or no longer; the client keeps trying."""

    reason: str


@dataclass(frozen=True)
class HandedOver:
    """The broker answered a publication; `failure` is empty when it took it."""

    message: int
    failure: str


@dataclass(frozen=True)
class AckArrived:
    """Bytes from the ack topic, not looked at yet."""

    payload: bytes


Event = Connected | Absent | HandedOver | AckArrived


class Link:
    """One device's connection. Stable client id, clean session: the broker need not remember.

    Raises OSError or ValueError when the CA file cannot be used.
    """

    def __init__(self, mqtt: Mqtt, fleet: str, device: str, birth: Status, death: Status) -> None:
        self._mqtt, self._fleet, self._device = mqtt, fleet, device
        self._birth, self._death = birth.encode(), death.encode()
        self._events: queue.SimpleQueue[Event] = queue.SimpleQueue()
        self._closed = threading.Event()
        self._client = Client(
            CallbackAPIVersion.VERSION2,
            client_id=f"pansketch-{fleet}-{device}",
            clean_session=True,
            protocol=MQTTProtocolVersion.MQTTv311,
        )
        self._configure()

    def _configure(self) -> None:
        client = self._client
        _introduce(client, self._mqtt)
        self._set_will()
        client.reconnect_delay_set(SHORTEST_RETRY_SECONDS, LONGEST_RETRY_SECONDS)
        client.on_connect = self._on_connect
        client.on_connect_fail = self._on_connect_fail
        client.on_disconnect = self._on_disconnect
        client.on_publish = self._on_publish
        client.on_message = self._on_message

    def _set_will(self) -> None:
        topic = topics.status(self._fleet, self._device)
        self._client.will_set(topic, self._death, 1, retain=True)

    def change(self, birth: Status, death: Status) -> None:
        """Another status from now on, said at once when the broker is there."""
        self._birth, self._death = birth.encode(), death.encode()
        self._set_will()  # The broker learns it at the next connection.
        if self._client.is_connected():
            self._publish_status(self._birth)

    def start(self) -> None:
        """Connects in the background and keeps at it, with growing pauses."""
        self._client.connect_async(self._mqtt.host, self._mqtt.port, KEEPALIVE_SECONDS)
        self._client.loop_start()

    def next_event(self, timeout_seconds: float) -> Event | None:
        """The oldest event, or None when none comes in time."""
        try:
            return self._events.get(timeout=timeout_seconds)
        except queue.Empty:
            return None

    def announce(self) -> None:
        """On every connection: listens to the own acks, then says that the device is online."""
        self._client.subscribe(topics.ack(self._fleet, self._device), qos=1)
        self._publish_status(self._birth)

    def send(self, stream: str, payload: bytes) -> int:
        """Publishes one release, QoS 1, not retained; the number that HandedOver will name."""
        return self._client.publish(
            topics.release(self._fleet, self._device, stream), payload, 1
        ).mid

    def stop(self) -> None:
        """Says that the device is offline, when anybody listens, and disconnects."""
        if self._client.is_connected():
            farewell = self._publish_status(self._death)
            # When the connection breaks just now, the will says it.
            with suppress(RuntimeError, ValueError):
                farewell.wait_for_publish(FAREWELL_SECONDS)
        self._client.disconnect()
        self._closed.set()
        # A connection that hangs would hold `loop_stop` for minutes; its thread is a daemon.
        stopper = threading.Thread(target=self._client.loop_stop, daemon=True)
        stopper.start()
        stopper.join(FAREWELL_SECONDS)

    def _publish_status(self, status: bytes) -> Any:
        topic = topics.status(self._fleet, self._device)
        return self._client.publish(topic, status, 1, retain=True)

    def _on_connect(
        self, _c: Client, _u: Any, _f: ConnectFlags, code: ReasonCode, _p: Properties | None
    ) -> None:
        self._events.put(Absent(f"refused: {code}") if code.is_failure else Connected())

    def _on_connect_fail(self, _client: Client, _userdata: Any) -> None:
        error = sys.exc_info()[1]  # paho calls this while it handles the exception.
        reason = getattr(error, "strerror", None) or type(error).__name__
        self._events.put(Absent(str(reason)))

    def _on_disconnect(
        self, _c: Client, _u: Any, _f: DisconnectFlags, code: ReasonCode, _p: Properties | None
    ) -> None:
        if not self._closed.is_set():
            self._events.put(Absent(str(code)))

    def _on_publish(
        self, _c: Client, _u: Any, message: int, code: ReasonCode, _p: Properties | None
    ) -> None:
        self._events.put(HandedOver(message, str(code) if code.is_failure else ""))

    def _on_message(self, _client: Client, _userdata: Any, message: MQTTMessage) -> None:
        if self._events.qsize() < MOST_EVENTS:
            self._events.put(AckArrived(bytes(message.payload)))


def _introduce(client: Client, mqtt: Mqtt) -> None:
    """TLS and credentials. Raises OSError or ValueError when the CA file cannot be used."""
    if mqtt.tls:
        client.tls_set(ca_certs=str(mqtt.ca_file) if mqtt.ca_file else None)
    if mqtt.username is not None:
        client.username_pw_set(mqtt.username, mqtt.password)


def try_connect(mqtt: Mqtt, fleet: str, device: str, most_seconds: float) -> str:
    """Connects and disconnects beside a running agent: what the broker has against it, or "".

    Raises OSError or ValueError when there is no connection to speak MQTT over.
    """
    answers: queue.SimpleQueue[str] = queue.SimpleQueue()
    client = Client(
        CallbackAPIVersion.VERSION2,
        client_id=f"pansketch-{fleet}-{device}-check",
        clean_session=True,
        protocol=MQTTProtocolVersion.MQTTv311,
        reconnect_on_failure=False,
    )
    client.on_connect = lambda _c, _u, _f, code, _p: answers.put(
        str(code) if code.is_failure else ""
    )
    _introduce(client, mqtt)
    client.connect_timeout = most_seconds
    client.connect(mqtt.host, mqtt.port, KEEPALIVE_SECONDS)
    client.loop_start()
    try:
        return answers.get(timeout=most_seconds)
    except queue.Empty:
        return "no answer to CONNECT"
    finally:
        client.disconnect()
        client.loop_stop()
