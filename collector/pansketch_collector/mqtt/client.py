"""One MQTT connection to the broker, with a persistent session or a clean one.

A thread of this module moves paho's bytes, many packets at a time. Acknowledgements are manual: the
collector sends the PUBACK of a message after it is stored. The broker redelivers unacknowledged
messages on the next connection. PUBACKs and QoS 0 acknowledgements, one of each for every release,
bypass paho, which needs several times as long for them.
"""

import select
import threading
from collections import deque
from contextlib import suppress
from socket import socket, socketpair
from typing import Any, NamedTuple, Protocol

import paho.mqtt.client as paho
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from paho.mqtt.reasoncodes import ReasonCode

from pansketch_collector.mqtt.paho_client import (
    BufferedSocket,
    acknowledgement,
    paho_client,
    publication,
)
from pansketch_fleet.config.loader import Mqtt
from pansketch_fleet.mqtt.reconnect import (
    KEEPALIVE_SECONDS,
    UNLIMITED_BYTES,
    Connack,
    SessionOptions,
    stated_end,
)
from pansketch_fleet.protocol import topics

POLL_MILLISECONDS = 1000
# The broker keeps messages so long while the collector is disconnected (MQTT 5 only).
SESSION_SECONDS = 30 * 86400


class ReceivedMessage(NamedTuple):
    """One message as received."""

    topic: str
    payload: bytes
    message_id: int
    qos: int


class Listener(Protocol):
    """Receives the events of a connection, in its thread: no method may block."""

    def on_messages(self, messages: list[ReceivedMessage], connection: int) -> None:
        """A group of messages was received, possibly before the CONNACK."""

    def is_full(self) -> bool:
        """True to pause reading; the broker then keeps the messages of this client."""

    def on_subscribed(self, unauthorized: tuple[str, ...]) -> None:
        """The broker sent a SUBACK and did not authorize these filters."""

    def on_cleared(self, topic: str) -> None:
        """The broker retained a message under a topic that must have none."""

    def on_publish_denied(self, topic: str) -> None:
        """The broker did not authorize a publication. Only MQTT 5 reports this, and not for QoS
        0."""


class CollectorConnection:
    """One connection, with manual acknowledgements.

    `persistent`: with a persistent session. `old_filter`: a filter of an earlier session, which is
    unsubscribed. `ending`: the reason of the end, once `over` is set. Raises TlsFilesError.
    """

    trial = False

    def __init__(
        self,
        mqtt: Mqtt,
        client_id: str,
        filters: tuple[str, ...],
        terms: SessionOptions,
        listener: Listener,
        number: int,
        persistent: bool = True,
        old_filter: str = "",
    ) -> None:
        self.version, self._filters = terms.version, filters
        self._persistent, self._old_filter = persistent, old_filter
        self._listener, self._number = listener, number
        self.answer: Connack | None = None
        self.ending = ""
        self.answered, self.over = threading.Event(), threading.Event()
        self._address = mqtt.host, mqtt.port, KEEPALIVE_SECONDS
        self._received: list[ReceivedMessage] = []
        self._unacknowledged: dict[int, str] = {}  # topics of publications, by message id
        self._cleared: set[str] = set()  # topics whose empty message is our own
        self._closing = self._leaving = False
        self._unwritten: deque[bytes] = deque()  # packets that bypass paho
        self._waker: socket | None = None
        self._thread = threading.Thread(target=self._run, name="network", daemon=True)
        self._client = client = paho_client(mqtt, client_id, terms)
        client.on_connect = self._on_connect
        client.on_disconnect = self._on_disconnect
        client.on_subscribe = self._on_subscribe
        client.on_message = self._on_message
        client.on_publish = self._on_publish

    def open(self) -> None:
        """Opens the socket. Raises OSError or ValueError when that fails."""
        if self.version == "5":
            session = Properties(PacketTypes.CONNECT)  # type: ignore[no-untyped-call]
            session.SessionExpiryInterval = SESSION_SECONDS if self._persistent else 0
            self._client.connect(
                *self._address, clean_start=not self._persistent, properties=session
            )
        else:
            self._client.connect(*self._address)
        self._waker, self._wakened = socketpair()
        self._waker.setblocking(False)
        self._thread.start()

    @property
    def accepted(self) -> bool:
        """True while the broker accepts the connection and it is open."""
        return self.answer is not None and not self.answer.refusal and not self.over.is_set()

    def room(self, topic: str) -> int:
        """The largest payload under `topic` that the broker is known to accept, in bytes."""
        answer = self.answer
        return answer.max_payload_bytes(topic, self.version) if answer else UNLIMITED_BYTES

    def subscribe(self) -> None:
        if self._old_filter:
            self._client.unsubscribe(self._old_filter)
        self._client.subscribe([(name, 1) for name in self._filters])
        self.wake()

    def acknowledge(self, message_id: int, qos: int) -> None:
        """Sends the PUBACK with the next `wake`. `qos`: as delivered, at most 1."""
        if qos:
            self._unwritten.append(acknowledgement(message_id))

    def publish(self, topic: str, payload: bytes, qos: int = 0, retain: bool = False) -> None:
        """Publishes with the next `wake`. The message is lost if the connection ends before."""
        if qos:
            sent = self._client.publish(topic, payload, qos, retain)
            self._unacknowledged[sent.mid] = topic
        else:
            self._unwritten.append(publication(topic, payload, retain, self.version))

    def wake(self) -> None:
        """Has the network thread send queued packets, and check again whether to read."""
        if self._waker is not None:
            with suppress(OSError):  # Full: the thread wakes anyway. Closed: it has ended.
                self._waker.send(b"!")

    def leave(self) -> None:
        """Disconnects gracefully after all queued packets; a persistent session stays."""
        self._leaving = True
        self.wake()

    def close(self) -> None:
        """Ends the connection and its thread."""
        self._closing = True
        self.leave()
        self._thread.join()
        if self._waker is not None:
            self._waker.close()

    def _run(self) -> None:
        try:
            while not (self.over.is_set() or self._closing):
                self._poll_once()
        finally:
            self._client.wire.close()
            self._wakened.close()
            self.over.set()
            self.answered.set()

    def _poll_once(self) -> None:
        """Sends queued packets, waits for the socket, and reads."""
        wire, reading = self._client.wire, not self._listener.is_full()
        leaving = self._leaving  # read first: packets queued until now precede the DISCONNECT
        if self._write_packets(wire) and leaving:
            self._leaving = False
            self._client.disconnect()
        self._client.loop_write()
        unsent = wire.flush()
        if self.over.is_set():  # the DISCONNECT is sent
            return
        poller = select.poll()
        poller.register(self._wakened, select.POLLIN)
        if reading or unsent:
            poller.register(wire, select.POLLIN * reading | select.POLLOUT * unsent)
        found = dict(poller.poll(0 if reading and wire.has_buffered else POLL_MILLISECONDS))
        if self._wakened.fileno() in found:
            self._wakened.recv(4096)
        # While reading is paused no PINGRESP can be read, so no PINGREQ is sent either.
        if reading:
            self._read(wire)
            self._client.loop_misc()

    def _write_packets(self, wire: BufferedSocket) -> bool:
        """Moves whole packets to the socket; returns whether none is left."""
        with suppress(BlockingIOError):
            while self._unwritten:
                wire.send(self._unwritten[0])
                self._unwritten.popleft()
        return not self._unwritten

    def _read(self, wire: BufferedSocket) -> None:
        wire.fill()
        while wire.pending() and self._client.loop_read() == paho.MQTT_ERR_SUCCESS:
            pass
        if self._received:
            self._listener.on_messages(self._received, self._number)
            self._received = []

    def _on_connect(
        self,
        client: paho.Client,
        userdata: Any,
        flags: paho.ConnectFlags,
        reason: ReasonCode,
        properties: Properties | None,
    ) -> None:
        self.answer = Connack.of(reason, properties)
        self.answered.set()

    def _on_disconnect(
        self,
        client: paho.Client,
        userdata: Any,
        flags: paho.DisconnectFlags,
        reason: ReasonCode,
        properties: Properties | None,
    ) -> None:
        self.ending = stated_end(reason)
        self.over.set()
        self.answered.set()

    def _on_subscribe(
        self,
        client: paho.Client,
        userdata: Any,
        message_id: int,
        reasons: list[ReasonCode],
        properties: Properties | None,
    ) -> None:
        answers = zip(self._filters, reasons, strict=False)
        self._listener.on_subscribed(tuple(name for name, reason in answers if reason.is_failure))

    def _on_publish(
        self,
        client: paho.Client,
        userdata: Any,
        message_id: int,
        reason: ReasonCode,
        properties: Properties,
    ) -> None:
        topic = self._unacknowledged.pop(message_id, None)
        if topic is not None and reason.is_failure:
            self._listener.on_publish_denied(topic)

    def _on_message(self, client: paho.Client, userdata: Any, message: paho.MQTTMessage) -> None:
        payload = bytes(message.payload)
        topic = _topic(message)
        if message.retain and not self._matches_filter(topic):
            # Some brokers send a new client retained messages for the subscriptions of others.
            self.acknowledge(message.mid, message.qos)
            return
        if message.retain and not topics.is_retained(topic):
            self._clear(topic)
        elif not payload and topic in self._cleared:  # our own
            self._cleared.remove(topic)
            self.acknowledge(message.mid, message.qos)
            return
        self._received.append(ReceivedMessage(topic, payload, message.mid, message.qos))

    def _matches_filter(self, topic: str) -> bool:
        return any(paho.topic_matches_sub(name, topic) for name in self._filters)

    def _clear(self, topic: str) -> None:
        """Deletes a retained message that must not be retained; the broker would send it on every
        connection."""
        self._listener.on_cleared(topic)
        self._cleared.add(topic)
        self.publish(topic, b"", 1, retain=True)


def _topic(message: paho.MQTTMessage) -> str:
    try:
        return message.topic
    except UnicodeDecodeError:  # an exception here would end the network thread
        return "(not UTF-8)"
