"""The only module of the device program that uses MQTT (5 or 3.1.1, through paho).

Each connection is a new client of paho. Callbacks only set fields and put events, so no thread ever
holds a lock of both.
"""

import os
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from paho.mqtt.client import Client, ConnectFlags, DisconnectFlags, MQTTMessage, MQTTMessageInfo
from paho.mqtt.enums import CallbackAPIVersion, MQTTErrorCode, MQTTProtocolVersion
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
    stated_end,
)
from pansketch_fleet.protocol.topics import is_mark, is_scale
from pansketch_fleet.settings.sources import (
    Mqtt,
)

BAD_PASSWORD = "Bad user name or password"
_VERSIONS = {"5": MQTTProtocolVersion.MQTTv5, "3.1.1": MQTTProtocolVersion.MQTTv311}


@dataclass(frozen=True)
class ConnectOptions:
    """The options of every connection. `will`: topic and payload of the last will."""

    mqtt: Mqtt
    client_id: str
    will: tuple[str, bytes] | None = None


class DeviceConnection:
    """One connection, with a clean session: the broker keeps no state of this client.

    `put` receives the events. `ending`: why it is over, once it is. Raises TlsFilesError.
    """

    def __init__(
        self,
        options: ConnectOptions,
        version: Version,
        put: Callable[[ConnectionEvent], None],
        max_unanswered: int = MAX_UNANSWERED,
        trial: bool = False,
    ) -> None:
        self.version, self.trial, self._put = version, trial, put
        self.answer: Connack | None = None
        self.ending = ""
        self.answered, self.over = threading.Event(), threading.Event()
        self.mqtt = options.mqtt
        self._subscribing: tuple[str, ...] = ()
        self._client = _client(options, version, self._end_by_error)
        self._client.max_inflight_messages = max_unanswered
        self._client.on_connect = self._on_connect
        self._client.on_disconnect = self._on_disconnect
        self._client.on_publish = self._on_publish
        self._client.on_subscribe = self._on_subscribe
        self._client.on_message = self._on_message

    def open(self, max_seconds: float | None = None) -> None:
        """Connect. Raises OSError or ValueError when there is no network connection."""
        if max_seconds is not None:
            self._client.connect_timeout = max_seconds
        address = self.mqtt.host, self.mqtt.port, KEEPALIVE_SECONDS
        if self.version == "5":
            self._client.connect(*address, clean_start=True)
        else:  # The constructor of the client had `clean_session`.
            self._client.connect(*address)
        self._client.loop_start()

    def publish(
        self, topic: str, payload: bytes, retain: bool = False, reliable: bool = True
    ) -> Publication:
        """Publish with QoS 1 if `reliable`, else with QoS 0."""
        sent: MQTTMessageInfo = self._client.publish(topic, payload, int(reliable), retain)
        return Publication(sent.mid, topic)

    def publish_last(self, topic: str, payload: bytes, max_seconds: float) -> None:
        """Publish with QoS 1, retained, and wait for the PUBACK."""
        sent = self._client.publish(topic, payload, 1, retain=True)
        # If the connection breaks now, the last will reports it.
        with suppress(RuntimeError, ValueError):
            sent.wait_for_publish(max_seconds)

    def subscribe(self, *topics: str) -> None:
        """Subscribe with QoS 1; the event Subscribed answers each topic."""
        # One packet: its SUBACK may arrive before paho has returned its number.
        self._subscribing = topics
        self._client.subscribe([(topic, 1) for topic in topics])

    def leave(self) -> None:
        """Disconnect gracefully, so that the broker publishes no last will."""
        self._client.disconnect()

    def end(self) -> None:
        """End the connection at once, in any state, as a cut cable would.

        This shuts the socket down beside the client's own thread, which then detects the end.
        """
        current = self._client.socket()
        if current is None:
            return
        # The client's thread may close it at any moment: then there is nothing to end.
        with suppress(OSError, ValueError), socket.socket(fileno=os.dup(current.fileno())) as same:
            same.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """End the connection and the client's thread."""
        self.end()
        # The thread may end between paho's check for it and its join.
        with suppress(AttributeError):
            self._client.loop_stop()

    def _on_connect(
        self,
        _c: Client,
        _u: object,
        _f: ConnectFlags,
        code: ReasonCode,
        properties: Properties | None,
    ) -> None:
        self.answer = Connack.of(code, properties)
        self.answered.set()

    def _on_disconnect(
        self, _c: Client, _u: object, _f: DisconnectFlags, code: ReasonCode, _p: Properties | None
    ) -> None:
        self.ending = self.ending or stated_end(code)
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

    def _end_by_error(self, error: Exception) -> None:
        """End a connection whose thread has failed: nothing else would report its end."""
        self.ending = f"its messages cannot be read ({type(error).__name__})"
        self.over.set()
        self.answered.set()

    def _on_message(self, _client: Client, _userdata: object, message: MQTTMessage) -> None:
        try:
            topic = message.topic
        except UnicodeDecodeError:
            return
        if topic not in self._subscribing:
            return  # Some brokers send retained messages of other clients' subscriptions.
        if is_mark(topic):
            self._put(MarkArrived(bytes(message.payload), not message.retain))
        elif is_scale(topic):
            stream = topic.rpartition("/")[2]
            self._put(ScalesArrived(stream, bytes(message.payload)))
        else:
            self._put(AckArrived(bytes(message.payload)))


class GuardedClient(Client):
    """A client whose thread ends with a call of `failed` if it has to end by an exception.

    paho reports the end of a connection in its thread. An exception there would end the thread
    without a report, and the program would wait for that connection for ever.
    """

    failed: Callable[[Exception], None]

    def loop_forever(
        self, timeout: float = 1.0, retry_first_connection: bool = False
    ) -> MQTTErrorCode:
        try:
            return super().loop_forever(timeout, retry_first_connection)
        except Exception as error:
            self.failed(error)
            return MQTTErrorCode.MQTT_ERR_UNKNOWN


def _client(
    options: ConnectOptions, version: Version, failed: Callable[[Exception], None]
) -> Client:
    mqtt = options.mqtt
    client = GuardedClient(
        CallbackAPIVersion.VERSION2,
        client_id=options.client_id,
        clean_session=None if version == "5" else True,
        protocol=_VERSIONS[version],
        reconnect_on_failure=False,
    )
    client.failed = failed
    if options.will is not None:
        topic, payload = options.will
        client.will_set(topic, payload, 1, retain=True)
    if mqtt.tls:
        client.tls_set_context(tls.context(mqtt))
    if mqtt.username is not None:
        client.username_pw_set(mqtt.username, mqtt.password)
    return client


def refusal(mqtt: Mqtt, code: str) -> str:
    """Return why the broker rejects this device, and the fix."""
    if code == UNKNOWN_VERSION:
        return f"it does not support MQTT {mqtt.protocol}; set mqtt.protocol to auto"
    if code not in (NOT_AUTHORIZED, BAD_PASSWORD):
        return f"it refuses this device ({code}); see the broker's log"
    return f"it refuses this device ({code}); {tls.credentials_fix(mqtt)}"
