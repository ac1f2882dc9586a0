"""The one place of the device program that speaks MQTT (5 or 3.1.1, through paho).

A connection is one client of paho, from its opening to its end. Callbacks only note and put events,
so no lock is ever held around both.
"""

import os
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from paho.mqtt.client import Client, ConnectFlags, DisconnectFlags, MQTTMessage, MQTTMessageInfo
from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion
from paho.mqtt.properties import Properties
from paho.mqtt.reasoncodes import ReasonCode

from pansketch_agent.mqtt.events import (
    NOT_AUTHORIZED,
    AckArrived,
    ConnectionEvent,
    MarkArrived,
    Puback,
    Publication,
    ScalesArrived,
    Subscribed,
)
from pansketch_fleet.mqtt import tls
from pansketch_fleet.mqtt.reconnect import (
    KEEPALIVE_SECONDS,
    MAX_UNANSWERED,
    UNKNOWN_VERSION,
    Connack,
    Version,
)
from pansketch_fleet.protocol.topics import is_mark, is_scale
from pansketch_fleet.settings.sources import (
    Mqtt,
)

BAD_PASSWORD = "Bad user name or password"
_VERSIONS = {"5": MQTTProtocolVersion.MQTTv5, "3.1.1": MQTTProtocolVersion.MQTTv311}


@dataclass(frozen=True)
class ConnectOptions:
    """Who connects to what: the same on every connection. `will`: its topic and payload."""

    mqtt: Mqtt
    client_id: str
    will: tuple[str, bytes] | None = None


class DeviceConnection:
    """One connection, with a clean session: the broker need not remember this client.

    `put` gets the events; `ending`: why it is over, once it is. Raises TlsFilesError.
    """

    def __init__(
        self,
        introduction: ConnectOptions,
        version: Version,
        put: Callable[[ConnectionEvent], None],
        max_unanswered: int = MAX_UNANSWERED,
        trial: bool = False,
    ) -> None:
        self.version, self.trial, self._put = version, trial, put
        self.answer: Connack | None = None
        self.ending = ""
        self.answered, self.over = threading.Event(), threading.Event()
        self.mqtt = introduction.mqtt
        self._subscribing: tuple[str, ...] = ()
        self._client = _client(introduction, version)
        self._client.max_inflight_messages = max_unanswered
        self._client.on_connect = self._on_connect
        self._client.on_disconnect = self._on_disconnect
        self._client.on_publish = self._on_publish
        self._client.on_subscribe = self._on_subscribe
        self._client.on_message = self._on_message

    def open(self, max_seconds: float | None = None) -> None:
        """Raises OSError or ValueError when there is nothing to speak MQTT over."""
        if max_seconds is not None:
            self._client.connect_timeout = max_seconds
        address = self.mqtt.host, self.mqtt.port, KEEPALIVE_SECONDS
        if self.version == "5":
            self._client.connect(*address, clean_start=True)
        else:  # The same was said when the client was made.
            self._client.connect(*address)
        self._client.loop_start()

    def publish(
        self, topic: str, payload: bytes, retain: bool = False, sure: bool = True
    ) -> Publication:
        """QoS 1 where it should be `sure`, else 0."""
        sent: MQTTMessageInfo = self._client.publish(topic, payload, int(sure), retain)
        return Publication(sent.mid, topic)

    def say_last(self, topic: str, payload: bytes, max_seconds: float) -> None:
        """Publishes, QoS 1 and retained, and waits for the broker's answer."""
        sent = self._client.publish(topic, payload, 1, retain=True)
        # When the connection breaks just now, the will says it.
        with suppress(RuntimeError, ValueError):
            sent.wait_for_publish(max_seconds)

    def subscribe(self, *topics: str) -> None:
        """QoS 1; each answered by Subscribed."""
        # Together: the answer may come before paho has told the number.
        self._subscribing = topics
        self._client.subscribe([(topic, 1) for topic in topics])

    def leave(self) -> None:
        """Says goodbye, so that the broker sends no will."""
        self._client.disconnect()

    def end(self) -> None:
        """Ends it at once, in whatever state it is, as a cut cable would.

        The socket is shut down beside the client's own thread, which then sees that it has ended.
        """
        current = self._client.socket()
        if current is None:
            return
        # It may be closed by the client's thread at any moment: then there is nothing to end.
        with suppress(OSError, ValueError), socket.socket(fileno=os.dup(current.fileno())) as same:
            same.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Ends it, and the client's thread with it."""
        self.end()
        # The thread may end by itself between paho's looking for it and its waiting for it.
        with suppress(AttributeError):
            self._client.loop_stop()

    def _on_connect(
        self, _c: Client, _u: object, _f: ConnectFlags, code: ReasonCode, said: Properties | None
    ) -> None:
        self.answer = Connack.of(code, said)
        self.answered.set()

    def _on_disconnect(
        self, _c: Client, _u: object, _f: DisconnectFlags, code: ReasonCode, _p: Properties | None
    ) -> None:
        self.ending = str(code)
        self.over.set()
        self.answered.set()

    def _on_publish(
        self, _c: Client, _u: object, message: int, code: ReasonCode, _p: Properties | None
    ) -> None:
        self._put(Puback(message, str(code) if code.is_failure else ""))

    def _on_subscribe(
        self, _c: Client, _u: object, _m: int, codes: list[ReasonCode], _p: Properties | None
    ) -> None:
        for topic, code in zip(self._subscribing, codes, strict=False):
            self._put(Subscribed(topic, str(code) if code.is_failure else ""))

    def _on_message(self, _client: Client, _userdata: object, message: MQTTMessage) -> None:
        if message.topic not in self._subscribing:
            return  # Some brokers send a new client what they kept for the subscriptions of others.
        if is_mark(message.topic):
            self._put(MarkArrived(bytes(message.payload), not message.retain))
        elif is_scale(message.topic):
            stream = message.topic.rpartition("/")[2]
            self._put(ScalesArrived(stream, bytes(message.payload)))
        else:
            self._put(AckArrived(bytes(message.payload)))


def _client(introduction: ConnectOptions, version: Version) -> Client:
    mqtt = introduction.mqtt
    client = Client(
        CallbackAPIVersion.VERSION2,
        client_id=introduction.client_id,
        clean_session=None if version == "5" else True,
        protocol=_VERSIONS[version],
        reconnect_on_failure=False,
    )
    if introduction.will is not None:
        topic, payload = introduction.will
        client.will_set(topic, payload, 1, retain=True)
    if mqtt.tls:
        client.tls_set_context(tls.context(mqtt))
    if mqtt.username is not None:
        client.username_pw_set(mqtt.username, mqtt.password)
    return client


def refusal(mqtt: Mqtt, code: str) -> str:
    """Why the broker rejects this device, and what to do."""
    if code == UNKNOWN_VERSION:
        return f"it does not support MQTT {mqtt.protocol}; set mqtt.protocol to auto"
    if code not in (NOT_AUTHORIZED, BAD_PASSWORD):
        return f"it refuses this device ({code}); see the broker's log"
    verb = "set" if mqtt.username is None else "check"
    return f"it refuses this device ({code}); {verb} mqtt.username and mqtt.password"
