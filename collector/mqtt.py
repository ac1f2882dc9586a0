"""The collector's side of the broker. The only file here that imports paho.

A thread of our own moves paho's bytes, many packets at a time. Acknowledgements are by hand: the
broker is told of a message when it is stored, and what is left unacknowledged comes again with the
next connection.
"""

import select
import threading
from contextlib import suppress
from socket import socket, socketpair
from typing import Any, NamedTuple, Protocol

import paho.mqtt.client as paho
from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from paho.mqtt.reasoncodes import ReasonCode

from collector.buffered import BufferedSocket
from fleet import tls
from fleet.config import Mqtt
from fleet.keeping import KEEPALIVE_SECONDS, MOST_UNANSWERED, Answer, Terms

LOOK_MILLISECONDS = 1000
# How long the broker keeps what comes while the collector is away; MQTT 3.1.1 leaves it to it.
SESSION_SECONDS = 30 * 86400


class Message(NamedTuple):
    """One message as it came."""

    topic: str
    payload: bytes
    message_id: int
    qos: int


class Listener(Protocol):
    """Who is told of what a connection brings, by its thread: no method may block."""

    def arrived(self, messages: list[Message], connection: int) -> None:
        """What came together, also before the connection is `answered`."""

    def is_full(self) -> bool:
        """Whether nothing more should be read: the broker then keeps what it has for us."""

    def subscribed(self, denied: tuple[str, ...]) -> None:
        """The broker has answered, and denies these filters."""

    def denied(self, topic: str) -> None:
        """The broker took nothing under this topic. Only MQTT 5 tells, and not of QoS 0."""


class Connection:
    """One connection, with a persistent session and acknowledgements by hand.

    `ending`: why it is over, once it is. Raises TlsFilesError.
    """

    trial = False

    def __init__(
        self,
        mqtt: Mqtt,
        client_id: str,
        filters: tuple[str, ...],
        terms: Terms,
        listener: Listener,
        number: int,
    ) -> None:
        self.version, self._filters = terms.version, filters
        self._listener, self._number = listener, number
        self.answer: Answer | None = None
        self.ending = ""
        self.answered, self.over = threading.Event(), threading.Event()
        self._address = mqtt.host, mqtt.port, KEEPALIVE_SECONDS
        self._came: list[Message] = []
        self._unanswered: dict[int, str] = {}  # topics of publications, by message id
        self._closing = False
        self._waker: socket | None = None
        self._thread = threading.Thread(target=self._run, name="network", daemon=True)
        self._client = client = _client(mqtt, client_id, terms)
        client.on_connect = self._on_connect
        client.on_disconnect = self._on_disconnect
        client.on_subscribe = self._on_subscribe
        client.on_message = self._on_message
        client.on_publish = self._on_publish

    def open(self) -> None:
        """Raises OSError or ValueError when there is nothing to speak MQTT over."""
        if self.version == "5":
            lasting = Properties(PacketTypes.CONNECT)  # type: ignore[no-untyped-call]
            lasting.SessionExpiryInterval = SESSION_SECONDS
            self._client.connect(*self._address, clean_start=False, properties=lasting)
        else:
            self._client.connect(*self._address)
        self._waker, self._wakened = socketpair()
        self._waker.setblocking(False)
        self._thread.start()

    @property
    def let_in(self) -> bool:
        """Whether something that is published now may arrive."""
        return self.answer is not None and not self.answer.refusal and not self.over.is_set()

    def subscribe(self) -> None:
        self._client.subscribe([(name, 1) for name in self._filters])
        self.wake()

    def acknowledge(self, message_id: int, qos: int) -> None:
        """Sent with the next `wake`."""
        self._client.ack(message_id, qos)

    def publish(self, topic: str, payload: bytes, qos: int = 0, retain: bool = False) -> None:
        """Sent with the next `wake`; lost when the connection ends before."""
        sent = self._client.publish(topic, payload, qos, retain)
        if qos:
            self._unanswered[sent.mid] = topic

    def wake(self) -> None:
        """Has what waits sent, and looks again whether there is room to read."""
        if self._waker is not None:
            with suppress(OSError):  # A full pipe wakes it, a closed one has nobody to wake.
                self._waker.send(b"!")

    def leave(self) -> None:
        """Says goodbye; the session stays."""
        self._client.disconnect()
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
        self._client.loop_write()
        wire, reading = self._client.wire, not self._listener.is_full()
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
        refusal = str(reason) if reason.is_failure else ""
        self.answer = Answer(refusal, getattr(properties, "ReceiveMaximum", MOST_UNANSWERED))
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
        self._came.append(Message(_topic(message), payload, message.mid, message.qos))


def _topic(message: paho.MQTTMessage) -> str:
    try:
        return message.topic
    except UnicodeDecodeError:  # no topic of ours; an exception here would end the network thread
        return "(not UTF-8)"


class _Client(paho.Client):
    """paho's client over a socket that collects, and with no thread of its own."""

    wire: BufferedSocket

    def _create_socket(self) -> BufferedSocket:
        self.wire = BufferedSocket(super()._create_socket())  # type: ignore[arg-type]
        return self.wire


def _client(mqtt: Mqtt, client_id: str, terms: Terms) -> _Client:
    five = terms.version == "5"
    client = _Client(
        CallbackAPIVersion.VERSION2,
        client_id=client_id,
        clean_session=None if five else False,
        protocol=MQTTProtocolVersion.MQTTv5 if five else MQTTProtocolVersion.MQTTv311,
        manual_ack=True,
        reconnect_on_failure=False,
    )
    client.max_inflight_messages = terms.most_unanswered
    # Says that packets are written by our own loop; without it each would be sent by itself.
    client.on_socket_register_write = lambda *_: None
    if mqtt.username is not None:
        client.username_pw_set(mqtt.username, mqtt.password)
    if mqtt.tls:
        client.tls_set_context(tls.context(mqtt))
    return client
