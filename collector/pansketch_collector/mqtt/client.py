"""One connection to the broker: with a persistent session, or with one that ends with it.

A thread of our own moves paho's bytes, many packets at a time. Acknowledgements are by hand: the
broker is told of a message when it is stored, and what is left unacknowledged comes again with the
next connection. Acknowledgements and answers at QoS 0, one of each for every release, are written
without paho, which needs several times as long for them.
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
)
from pansketch_fleet.protocol import topics

LOOK_MILLISECONDS = 1000
# How long the broker keeps what comes while the collector is away; MQTT 3.1.1 leaves it to it.
SESSION_SECONDS = 30 * 86400


class ReceivedMessage(NamedTuple):
    """One message as it came."""

    topic: str
    payload: bytes
    message_id: int
    qos: int


class Listener(Protocol):
    """Who is told of what a connection brings, by its thread: no method may block."""

    def arrived(self, messages: list[ReceivedMessage], connection: int) -> None:
        """What came together, also before the connection is `answered`."""

    def is_full(self) -> bool:
        """Whether nothing more should be read: the broker then keeps what it has for us."""

    def subscribed(self, denied: tuple[str, ...]) -> None:
        """The broker has answered, and denies these filters."""

    def cleared(self, topic: str) -> None:
        """The broker had kept a message under this topic, where none is to be kept."""

    def denied(self, topic: str) -> None:
        """The broker took nothing under this topic. Only MQTT 5 tells, and not of QoS 0."""


class CollectorConnection:
    """One connection, with acknowledgements by hand.

    `lasting`: with a persistent session. `former`: a filter that this session may have had, which
    is given up. `ending`: why it is over, once it is. Raises TlsFilesError.
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
        lasting: bool = True,
        former: str = "",
    ) -> None:
        self.version, self._filters = terms.version, filters
        self._lasting, self._former = lasting, former
        self._listener, self._number = listener, number
        self.answer: Connack | None = None
        self.ending = ""
        self.answered, self.over = threading.Event(), threading.Event()
        self._address = mqtt.host, mqtt.port, KEEPALIVE_SECONDS
        self._came: list[ReceivedMessage] = []
        self._unanswered: dict[int, str] = {}  # topics of publications, by message id
        self._cleared: set[str] = set()  # topics under which an empty message of ours will come
        self._closing = self._leaving = False
        self._unwritten: deque[bytes] = deque()  # packets of our own
        self._waker: socket | None = None
        self._thread = threading.Thread(target=self._run, name="network", daemon=True)
        self._client = client = paho_client(mqtt, client_id, terms)
        client.on_connect = self._on_connect
        client.on_disconnect = self._on_disconnect
        client.on_subscribe = self._on_subscribe
        client.on_message = self._on_message
        client.on_publish = self._on_publish

    def open(self) -> None:
        """Raises OSError or ValueError when there is nothing to speak MQTT over."""
        if self.version == "5":
            session = Properties(PacketTypes.CONNECT)  # type: ignore[no-untyped-call]
            session.SessionExpiryInterval = SESSION_SECONDS if self._lasting else 0
            self._client.connect(*self._address, clean_start=not self._lasting, properties=session)
        else:
            self._client.connect(*self._address)
        self._waker, self._wakened = socketpair()
        self._waker.setblocking(False)
        self._thread.start()

    @property
    def let_in(self) -> bool:
        """Whether something that is published now may arrive."""
        return self.answer is not None and not self.answer.refusal and not self.over.is_set()

    def room(self, topic: str) -> int:
        """The largest payload that the broker is known to take under `topic`, in bytes."""
        return (
            UNLIMITED_BYTES
            if self.answer is None
            else self.answer.max_payload_bytes(topic, self.version)
        )

    def subscribe(self) -> None:
        if self._former:
            self._client.unsubscribe(self._former)
        self._client.subscribe([(name, 1) for name in self._filters])
        self.wake()

    def acknowledge(self, message_id: int, qos: int) -> None:
        """Sent with the next `wake`. `qos`: as subscribed, 1 at most."""
        if qos:
            self._unwritten.append(acknowledgement(message_id))

    def publish(self, topic: str, payload: bytes, qos: int = 0, retain: bool = False) -> None:
        """Sent with the next `wake`; lost when the connection ends before."""
        if qos:
            sent = self._client.publish(topic, payload, qos, retain)
            self._unanswered[sent.mid] = topic
        else:
            self._unwritten.append(publication(topic, payload, retain, self.version))

    def wake(self) -> None:
        """Has what waits sent, and looks again whether there is room to read."""
        if self._waker is not None:
            with suppress(OSError):  # A full pipe wakes it, a closed one has nobody to wake.
                self._waker.send(b"!")

    def leave(self) -> None:
        """Says goodbye, after all that was said before; the session stays."""
        self._leaving = True
        self.wake()

    def close(self) -> None:
        """Ends it, and its thread with it."""
        self._closing = True
        self.leave()
        self._thread.join()
        if self._waker is not None:
            self._waker.close()

    def _run(self) -> None:
        try:
            while not (self.over.is_set() or self._closing):
                self._turn()
        finally:
            self._client.wire.close()
            self._wakened.close()
            self.over.set()
            self.answered.set()

    def _turn(self) -> None:
        """Sends what waits, waits for more to do, and reads what came."""
        wire, reading = self._client.wire, not self._listener.is_full()
        leaving = self._leaving  # before: what was said until then goes first
        if self._written(wire) and leaving:
            self._leaving = False
            self._client.disconnect()
        self._client.loop_write()
        unsent = wire.flush()
        if self.over.is_set():  # that was the goodbye
            return
        looking = select.poll()
        looking.register(self._wakened, select.POLLIN)
        if reading or unsent:
            looking.register(wire, select.POLLIN * reading | select.POLLOUT * unsent)
        found = dict(looking.poll(0 if reading and wire.holds_more else LOOK_MILLISECONDS))
        if self._wakened.fileno() in found:
            self._wakened.recv(4096)
        # A broker that is not read from cannot answer a ping either: it is not asked for one.
        if reading:
            self._read(wire)
            self._client.loop_misc()

    def _written(self, wire: BufferedSocket) -> bool:
        """Whether all packets of our own are with the socket, which takes a packet whole."""
        with suppress(BlockingIOError):
            while self._unwritten:
                wire.send(self._unwritten[0])
                self._unwritten.popleft()
        return not self._unwritten

    def _read(self, wire: BufferedSocket) -> None:
        wire.fill()
        while wire.pending() and self._client.loop_read() == paho.MQTT_ERR_SUCCESS:
            pass
        if self._came:
            self._listener.arrived(self._came, self._number)
            self._came = []

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
        self.ending = str(reason)
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
        self._listener.subscribed(tuple(name for name, reason in answers if reason.is_failure))

    def _on_publish(
        self,
        client: paho.Client,
        userdata: Any,
        message_id: int,
        reason: ReasonCode,
        properties: Properties,
    ) -> None:
        topic = self._unanswered.pop(message_id, None)
        if topic is not None and reason.is_failure:
            self._listener.denied(topic)

    def _on_message(self, client: paho.Client, userdata: Any, message: paho.MQTTMessage) -> None:
        payload = bytes(message.payload)
        topic = _topic(message)
        if message.retain and not self._asked_for(topic):
            # Some brokers send a new client what they kept for the subscriptions of others.
            self.acknowledge(message.mid, message.qos)
            return
        if message.retain and not topics.is_retained(topic):
            self._clear(topic)
        elif not payload and topic in self._cleared:  # our own
            self._cleared.remove(topic)
            self.acknowledge(message.mid, message.qos)
            return
        self._came.append(ReceivedMessage(topic, payload, message.mid, message.qos))

    def _asked_for(self, topic: str) -> bool:
        return any(paho.topic_matches_sub(name, topic) for name in self._filters)

    def _clear(self, topic: str) -> None:
        """The broker kept what is not to be kept, and would send it again on each connection."""
        self._listener.cleared(topic)
        self._cleared.add(topic)
        self.publish(topic, b"", 1, retain=True)


def _topic(message: paho.MQTTMessage) -> str:
    try:
        return message.topic
    except UnicodeDecodeError:  # no topic of ours; an exception here would end the network thread
        return "(not UTF-8)"
