"""The MQTT client of a keeper: it receives questions and publishes replies, and nothing else.

The session is persistent: the broker keeps questions while the keeper is disconnected. The keeper
acknowledges a question after it has published the reply. It does not acknowledge questions beyond
MAX_WAITING_BYTES. After it has answered the others it reconnects, and the broker redelivers them.
With MQTT 5 the keeper limits the number of unacknowledged questions and their size. On a resumed
session mosquitto exceeds the number.
"""

import logging
import queue
import threading
from contextlib import suppress
from typing import Any, NamedTuple

import paho.mqtt.client as paho
from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from paho.mqtt.reasoncodes import ReasonCode

from pansketch_agent.mqtt.client import GuardedClient
from pansketch_fleet.mqtt import tls
from pansketch_fleet.mqtt.reconnect import (
    DISCONNECT_SECONDS,
    KEEPALIVE_SECONDS,
    MAX_UNANSWERED,
    Connack,
    Reconnector,
    SessionOptions,
    stated_end,
)
from pansketch_fleet.protocol import topics
from pansketch_fleet.protocol.keeper_messages import MAX_ASK_BYTES
from pansketch_fleet.protocol.messages import Status
from pansketch_fleet.settings.sources import (
    Mqtt,
)
from pansketch_fleet.systemd import Notifier

RECEIVE_MAXIMUM = 4
MAX_WAITING_BYTES = 64 << 20  # of questions that were received and not answered
MESSAGE_BYTES = 1024  # of a message besides its payload
MAX_PACKET_BYTES = MAX_ASK_BYTES + 1024
SESSION_SECONDS = 30 * 86400
SUBSCRIBE_SECONDS = 300.0  # until an unauthorized subscription is retried

log = logging.getLogger("keeper")


class AskMessage(NamedTuple):
    """A message as received; `connection`: its message id is valid on that connection only."""

    payload: bytes
    message_id: int
    qos: int
    connection: "KeeperConnection"


class KeeperConnection:
    """One connection, and its received questions.

    `ending`: the reason of its end. `overflowed`: it received questions beyond the limit. Raises
    TlsFilesError.
    """

    def __init__(
        self, client: "KeeperClient", mqtt: Mqtt, client_id: str, terms: SessionOptions
    ) -> None:
        self.trial, self.version = terms.probing, terms.version
        self.answer: Connack | None = None
        self.ending = ""
        self.overflowed = False
        self._waiting: queue.SimpleQueue[AskMessage] = queue.SimpleQueue()
        self._bytes, self._counting = 0, threading.Lock()
        self.answered, self.over = threading.Event(), threading.Event()
        self._address, self._to = (mqtt.host, mqtt.port, KEEPALIVE_SECONDS), client
        five = terms.version == "5"
        self._paho = GuardedClient(
            CallbackAPIVersion.VERSION2,
            client_id=client_id,
            clean_session=None if five else False,
            protocol=MQTTProtocolVersion.MQTTv5 if five else MQTTProtocolVersion.MQTTv311,
            manual_ack=True,
            reconnect_on_failure=False,
        )
        self._paho.failed = self._end_by_error
        self._paho.max_inflight_messages = terms.max_unanswered
        # Some brokers of MQTT 3.1.1 that read a will of MQTT 5 wait for more of it, in silence.
        if not terms.probing:
            self._paho.will_set(client.status, client.death, 1, retain=True)
        if mqtt.username is not None:
            self._paho.username_pw_set(mqtt.username, mqtt.password)
        if mqtt.tls:
            self._paho.tls_set_context(tls.context(mqtt))
        self._paho.on_connect = self._on_connect
        self._paho.on_disconnect = self._on_disconnect
        self._paho.on_subscribe = self._on_subscribe
        self._paho.on_message = self._on_message

    def open(self) -> None:
        """Opens the socket. Raises OSError or ValueError when that fails."""
        if self.version == "5":
            terms = Properties(PacketTypes.CONNECT)  # type: ignore[no-untyped-call]
            terms.SessionExpiryInterval = SESSION_SECONDS
            terms.ReceiveMaximum = RECEIVE_MAXIMUM
            terms.MaximumPacketSize = MAX_PACKET_BYTES
            self._paho.connect(*self._address, clean_start=False, properties=terms)
        else:
            self._paho.connect(*self._address)
        self._paho.loop_start()

    def subscribe(self, topic: str) -> None:
        self._paho.subscribe(topic, 1)

    def publish(self, topic: str, payload: bytes, retain: bool = False) -> paho.MQTTMessageInfo:
        return self._paho.publish(topic, payload, 1, retain)

    def acknowledge(self, message_id: int, qos: int) -> None:
        self._paho.ack(message_id, qos)

    def leave(self) -> None:
        self._paho.disconnect()

    def close(self) -> None:
        self._paho.disconnect()
        # The thread may end between paho's check and its join.
        with suppress(AttributeError):
            self._paho.loop_stop()

    def _on_connect(
        self, _c: Any, _u: Any, _f: Any, code: ReasonCode, properties: Properties | None
    ) -> None:
        self.answer = Connack.of(code, properties)
        self.answered.set()

    def _on_disconnect(self, _c: Any, _u: Any, _f: Any, code: ReasonCode, _p: Any) -> None:
        self.ending = self.ending or stated_end(code)
        self.over.set()
        self.answered.set()

    def _end_by_error(self, error: Exception) -> None:
        """Ends a connection whose thread has failed: nothing else would report its end."""
        self.ending = f"its messages cannot be read: {type(error).__name__}"
        self.over.set()
        self.answered.set()

    def _on_subscribe(self, _c: Any, _u: Any, _m: int, codes: list[ReasonCode], _p: Any) -> None:
        self._to.subscribed(not any(code.is_failure for code in codes))

    def _on_message(self, _c: Any, _u: Any, message: paho.MQTTMessage) -> None:
        try:
            wanted = message.topic == self._to.ask and not message.retain
        except UnicodeDecodeError:  # an exception here would end the network thread
            wanted = False
        question = AskMessage(bytes(message.payload), message.mid, message.qos, self)
        if not wanted or len(question.payload) > MAX_ASK_BYTES:
            self.acknowledge(message.mid, message.qos)
        elif self._count(len(question.payload) + MESSAGE_BYTES):
            self._waiting.put(question)
        else:
            self.overflowed = True

    def _count(self, size: int) -> bool:
        """Reserves so many bytes; False beyond the limit."""
        with self._counting:
            fits = self._bytes + size <= MAX_WAITING_BYTES
            self._bytes += size * fits
        return fits

    def take(self, timeout_seconds: float) -> AskMessage | None:
        """The oldest question; None after the timeout."""
        try:
            found = self._waiting.get(timeout=timeout_seconds)
        except queue.Empty:
            return None
        self._count(-len(found.payload) - MESSAGE_BYTES)
        return found


class KeeperClient:
    """The MQTT client of one keeper, which reconnects from `start` to `stop`."""

    def __init__(self, mqtt: Mqtt, fleet: str, name: str, session: str, notifier: Notifier) -> None:
        """Raises TlsFilesError when a file for TLS cannot be used."""
        self.ask, self.status = topics.keeper_ask(fleet, name), topics.keeper_status(fleet, name)
        self.death = Status("offline", session, {}).encode()
        self._birth_message = Status("online", session, {}).encode()
        self._stop_message = Status("stopped", session, {}).encode()
        self._answer = topics.keeper_answer(fleet, name)
        self._mqtt, self._notifier = mqtt, notifier
        self._id = f"pansketch-{fleet}-{topics.KEEPER}{name}"
        self._stopping = threading.Event()
        self._subscribed, self._denied = False, False
        self._complained: set[str] = set()
        self._connection = self.make(SessionOptions("5", MAX_UNANSWERED, probing=True))
        mender = Reconnector(self, mqtt, self._stopping)
        self._thread = threading.Thread(target=mender.run, name="link", daemon=True)

    def start(self) -> None:
        """Starts to connect, with retries without end."""
        self._thread.start()

    def take(self, timeout_seconds: float) -> AskMessage | None:
        """The oldest question of this connection; None after the timeout."""
        connection = self._connection
        found = connection.take(timeout_seconds)
        if found is None and connection.overflowed:
            connection.leave()  # The next connection redelivers them.
        return found

    def reply(self, question: AskMessage, payload: bytes) -> None:
        """Publishes a reply, then acknowledges the question.

        Drops both after the end of the connection: the broker redelivers an unacknowledged
        question.
        """
        connection = question.connection
        if not connection.over.is_set():
            connection.publish(self._answer, payload)
            connection.acknowledge(question.message_id, question.qos)

    @property
    def state(self) -> str:
        """The connection state for `systemctl status`."""
        broker = f"the broker at {self._mqtt.host}:{self._mqtt.port}"
        return f"{'connected to' if self._subscribed else 'not connected to'} {broker}"

    def stop(self) -> None:
        """Publishes the graceful disconnect, and ends the network thread."""
        self._stopping.set()
        connection = self._connection
        if self._subscribed:
            sent = connection.publish(self.status, self._stop_message, retain=True)
            with suppress(RuntimeError, ValueError):
                sent.wait_for_publish(DISCONNECT_SECONDS)
        connection.leave()
        if self._thread.is_alive():
            self._thread.join(DISCONNECT_SECONDS)

    def make(self, terms: SessionOptions) -> KeeperConnection:
        self._connection = KeeperConnection(self, self._mqtt, self._id, terms)
        return self._connection

    def serve(self, connection: KeeperConnection, is_fallback: bool) -> None:
        connection.subscribe(self.ask)
        connection.publish(self.status, self._birth_message, retain=True)
        address = self._mqtt.host, self._mqtt.port
        log.info("broker %s:%d is connected (MQTT %s)", *address, connection.version)
        self._complained.clear()
        while not connection.over.wait(SUBSCRIBE_SECONDS):
            if self._denied:
                connection.subscribe(self.ask)
        self._subscribed = False
        self._notifier.connected(False)
        if not self._stopping.is_set():
            why = f" ({connection.ending})" if connection.ending else ""
            self._complain(f"closed the connection{why}", "absent")

    def unreachable(self, error: Exception) -> None:
        if isinstance(error, tls.TlsFilesError):
            self._complain(f"is out of reach: {error}")
        elif why := tls.meaning(error, self._mqtt):
            self._complain(f"is of no use: {why}")
        else:
            self._complain(f"is not there ({tls.absence(error, self._mqtt.host)})", "absent")

    def refused(self, code: str) -> None:
        self._complain(f"refuses this client ({code}): {tls.credentials_fix(self._mqtt)}")

    def unanswered(self, why: str) -> None:
        self._complain(f"closed the connection: {why}" if why else "gives no answer", "absent")

    def subscribed(self, allowed: bool) -> None:
        """Handles the SUBACK, in the network thread."""
        self._subscribed, self._denied = allowed, not allowed
        self._notifier.connected(allowed)
        if not allowed:
            self._complain(f"does not authorize reading {self.ask}: allow it in its ACL")

    def _complain(self, what: str, kind: str = "") -> None:
        # Each kind once until it works again: a broker may be unavailable for days.
        if (kind or what) not in self._complained:
            log.warning("broker %s:%d %s", self._mqtt.host, self._mqtt.port, what)
            self._complained.add(kind or what)
