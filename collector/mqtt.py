"""The collector's side of the broker. The only file here that imports paho.

A connection has acknowledgements by hand: the broker is told of a message when it is stored, and
what is left unacknowledged comes again with the next connection.
"""

import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import paho.mqtt.client as paho
from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from paho.mqtt.reasoncodes import ReasonCode

from fleet import tls
from fleet.config import Mqtt
from fleet.keeping import KEEPALIVE_SECONDS, MOST_UNANSWERED, Answer, Terms

MOST_UNSENT_ACKS = 4096
# How long the broker keeps what comes while the collector is away; MQTT 3.1.1 leaves it to it.
SESSION_SECONDS = 30 * 86400


@dataclass(frozen=True)
class Message:
    """One message as it came."""

    topic: str
    payload: bytes
    message_id: int
    qos: int


class Connection:
    """One connection, with a persistent session and acknowledgements by hand.

    `take` gets each message, also before `answered` is set; it may block. `subscribed` gets the
    filters that the broker denies. `ending`: why it is over, once it is. Raises TlsFilesError.
    """

    trial = False

    def __init__(
        self,
        mqtt: Mqtt,
        client_id: str,
        filters: tuple[str, ...],
        terms: Terms,
        take: Callable[[Message], None],
        subscribed: Callable[[tuple[str, ...]], None],
    ) -> None:
        self.version, self._filters = terms.version, filters
        self._take, self._subscribed = take, subscribed
        self.answer: Answer | None = None
        self.ending = ""
        self.answered, self.over = threading.Event(), threading.Event()
        self._address = mqtt.host, mqtt.port, KEEPALIVE_SECONDS
        self._client = client = _client(mqtt, client_id, terms)
        client.on_connect = self._on_connect
        client.on_disconnect = self._on_disconnect
        client.on_subscribe = self._on_subscribe
        client.on_message = self._on_message

    def open(self) -> None:
        """Raises OSError or ValueError when there is nothing to speak MQTT over."""
        if self.version == "5":
            lasting = Properties(PacketTypes.CONNECT)  # type: ignore[no-untyped-call]
            lasting.SessionExpiryInterval = SESSION_SECONDS
            self._client.connect(*self._address, clean_start=False, properties=lasting)
        else:
            self._client.connect(*self._address)
        self._client.loop_start()

    @property
    def let_in(self) -> bool:
        """Whether something that is published now may arrive."""
        return self.answer is not None and not self.answer.refusal and not self.over.is_set()

    def subscribe(self) -> None:
        self._client.subscribe([(name, 1) for name in self._filters])

    def acknowledge(self, message_id: int, qos: int) -> None:
        self._client.ack(message_id, qos)

    def publish(self, topic: str, payload: bytes) -> None:
        """QoS 1. Lost when the connection ends before it is sent."""
        self._client.publish(topic, payload, 1)

    def leave(self) -> None:
        """Says goodbye; the session stays."""
        self._client.disconnect()

    def close(self) -> None:
        """Ends it, and the client's thread with it."""
        self._client.disconnect()
        # The thread may end by itself between paho's looking for it and its waiting for it.
        with suppress(AttributeError):
            self._client.loop_stop()

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
        self._subscribed(tuple(name for name, reason in answers if reason.is_failure))

    def _on_message(self, client: paho.Client, userdata: Any, message: paho.MQTTMessage) -> None:
        self._take(Message(_topic(message), bytes(message.payload), message.mid, message.qos))


def _topic(message: paho.MQTTMessage) -> str:
    try:
        return message.topic
    except UnicodeDecodeError:  # no topic of ours; an exception here would end the network thread
        return "(not UTF-8)"


def _client(mqtt: Mqtt, client_id: str, terms: Terms) -> paho.Client:
    five = terms.version == "5"
    client = paho.Client(
        CallbackAPIVersion.VERSION2,
        client_id=client_id,
        clean_session=None if five else False,
        protocol=MQTTProtocolVersion.MQTTv5 if five else MQTTProtocolVersion.MQTTv311,
        manual_ack=True,
        reconnect_on_failure=False,
    )
    client.max_inflight_messages = terms.most_unanswered
    client.max_queued_messages_set(MOST_UNSENT_ACKS)
    if mqtt.username is not None:
        client.username_pw_set(mqtt.username, mqtt.password)
    if mqtt.tls:
        client.tls_set_context(tls.context(mqtt))
    return client
