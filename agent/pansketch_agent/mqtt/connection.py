"""The device's MQTT session: its publications and its subscriptions.

The device subscribes to its own `ack` and `mark` topics, and to the scales of streams that adopt
them, and to nothing else.
"""

import logging
import queue
import threading
from collections.abc import Sequence

from pansketch_agent.host.clock import system_clock
from pansketch_agent.mqtt.client import ConnectOptions, DeviceConnection, refusal
from pansketch_agent.mqtt.events import (
    Connected,
    ConnectionEvent,
    Disconnected,
    Event,
    Message,
    Puback,
    Publication,
    PublishAcknowledged,
    Subscribed,
)
from pansketch_agent.mqtt.problem_log import ClientIdConflicts
from pansketch_fleet.mqtt import tls
from pansketch_fleet.mqtt.reconnect import (
    DISCONNECT_SECONDS,
    MAX_UNANSWERED,
    UNLIMITED_BYTES,
    Reconnector,
    SessionOptions,
)
from pansketch_fleet.protocol import topics
from pansketch_fleet.protocol.messages import Health, Status
from pansketch_fleet.protocol.signed_release import ENVELOPE_BYTES, Credentials
from pansketch_fleet.settings.sources import Mqtt

LOG = logging.getLogger(__name__)

SUBSCRIBE_SECONDS = 300.0  # A rejected subscription is retried.
MAX_EVENTS = 1024  # More acks are dropped, so their releases are retransmitted.


class DeviceClient:
    """One device's MQTT session, which reconnects from `start` to `stop`; the client id is stable.

    `next_event`, `send` and similar methods are for one thread. `scaled`: the streams that adopt
    published scales. `credentials`: they sign each release. Raises TlsFilesError when a file for
    TLS cannot be used.
    """

    def __init__(
        self,
        mqtt: Mqtt,
        fleet: str,
        device: str,
        birth: Status,
        death: Status,
        scaled: Sequence[str] = (),
        credentials: Credentials | None = None,
    ) -> None:
        self._credentials = credentials
        self._mqtt, self._fleet, self._device = mqtt, fleet, device
        self.subscriptions = (
            topics.ack(fleet, device),
            topics.mark(fleet, device),
            *(topics.scale(fleet, stream) for stream in scaled),
        )
        self._status = topics.status(fleet, device)
        self._birth, self._death = birth.encode(), death.encode()
        self._events: queue.SimpleQueue[Event | Puback] = queue.SimpleQueue()
        self._unanswered: dict[int, Publication] = {}  # by packet, QoS 1
        self._closed = threading.Event()
        self._accepted = False  # Accepted, and not over yet.
        self._subscription_denied = False  # The broker rejects one of them.
        self._conflicts, self._uptime = ClientIdConflicts(), system_clock().monotonic
        self._reconnector = Reconnector(self, mqtt, self._closed)
        self._connection = self.make(SessionOptions("5", MAX_UNANSWERED, probing=True))
        self._thread = threading.Thread(target=self._reconnector.run, name="link", daemon=True)

    def start(self) -> None:
        """Connect in the background, with exponential backoff."""
        self._thread.start()

    def next_event(self, timeout_seconds: float) -> Event | None:
        """Return the oldest event, or None if there is none in time."""
        while True:
            try:
                event = self._events.get(timeout=timeout_seconds)
            except queue.Empty:
                return None
            if isinstance(event, Connected):
                self._unanswered.clear()
            if not isinstance(event, Puback):
                return event
            publication = self._unanswered.pop(event.packet, None)
            if publication is not None:  # None: QoS 0, or of an earlier connection.
                return PublishAcknowledged(publication, event.failure)
            timeout_seconds = 0.0

    def name_conflicts(self) -> int:
        """Return how many connections another client with this name has ended since the start."""
        return self._conflicts.count

    def announce(self) -> None:
        """Subscribe on a new connection, then publish the birth message, which the collector
        answers.
        """
        self._connection.subscribe(*self.subscriptions)
        self._publish_status(self._birth)

    def change_status(self, birth: Status, death: Status) -> None:
        """Use another status from now on, and publish it at once if the broker is connected."""
        # The broker receives the last will with the next connection.
        self._birth, self._death = birth.encode(), death.encode()
        if self._accepted:
            self._publish_status(self._birth)

    def publish_health(self, health: Health) -> None:
        """Publish the health with QoS 0, not retained."""
        topic = topics.health(self._fleet, self._device)
        self._connection.publish(topic, health.encode(), reliable=False)

    def send(self, stream: str, payload: bytes) -> Publication:
        """Publish one release with QoS 1, not retained; signed, if there are credentials."""
        if self._credentials is not None:
            payload = self._credentials.seal(stream, payload)
        return self._publish(topics.release(self._fleet, self._device, stream), payload)

    def max_release_bytes(self, stream: str) -> int:
        """Return the largest release that the broker is known to accept now."""
        max_release_bytes = self._max_payload_bytes(
            topics.release(self._fleet, self._device, stream)
        )
        return max_release_bytes - ENVELOPE_BYTES * (self._credentials is not None)

    def reopen(self) -> None:
        """End a connection without answers; the client reconnects."""
        self._connection.end()

    def renew(self, mqtt: Mqtt, credentials: Credentials | None) -> None:
        """End the connection; the next one has this broker, password and key."""
        self._mqtt, self._credentials = mqtt, credentials
        self._reconnector.renew(mqtt)
        self.reopen()

    def stop(self, last_status: Status) -> None:
        """Publish this last status, if the broker is connected, and disconnect."""
        self._closed.set()
        connection = self._connection
        if self._accepted:
            connection.publish_last(self._status, last_status.encode(), DISCONNECT_SECONDS)
        connection.leave()
        if self._thread.is_alive():
            # Opening a connection may take longer; the thread is a daemon.
            self._thread.join(DISCONNECT_SECONDS)

    def make(self, session: SessionOptions) -> DeviceConnection:
        # Some brokers of MQTT 3.1.1 wait for the rest of a will message of MQTT 5 without an error.
        will = None if session.probing else (self._status, self._death)
        options = ConnectOptions(self._mqtt, f"pansketch-{self._fleet}-{self._device}", will)
        self._connection = DeviceConnection(
            options, session.version, self._put, session.max_unanswered, trial=session.probing
        )
        return self._connection

    def serve(self, connection: DeviceConnection, is_fallback: bool) -> None:
        if connection.mqtt is not self._mqtt:  # Renewed while this one had no socket yet.
            return
        if is_fallback:
            LOG.info("the broker does not support MQTT 5; using MQTT 3.1.1 until the next start")
        self._subscription_denied, self._accepted = False, True
        since = self._uptime()
        self._events.put(Connected(connection.version))
        while not connection.over.wait(SUBSCRIBE_SECONDS):
            if self._subscription_denied:
                self._subscription_denied = False
                connection.subscribe(*self.subscriptions)
        self._accepted = False
        if not self._closed.is_set():
            sending = any("/release/" in sent.topic for sent in list(self._unanswered.values()))
            duration = self._uptime() - since
            taken_over = self._conflicts.connection_lost(connection.ending, duration, sending)
            reason = taken_over or connection.ending or "the connection ended"
            renewed = connection.mqtt is not self._mqtt
            self._events.put(Disconnected(reason, taken_over=bool(taken_over), renewed=renewed))

    def unreachable(self, error: Exception) -> None:
        if isinstance(error, tls.TlsFilesError):
            self._events.put(Disconnected(str(error), True))
        elif why := tls.meaning(error, self._mqtt):
            self._events.put(Disconnected(why, True))
        else:
            self._events.put(Disconnected(tls.absence(error, self._mqtt.host)))

    def refused(self, code: str) -> None:
        self._events.put(Disconnected(refusal(self._mqtt, code), True))

    def unanswered(self, why: str) -> None:
        self._events.put(Disconnected(why or "no answer to CONNECT", bool(why)))

    def _publish_status(self, status: bytes) -> None:
        if len(status) > self._max_payload_bytes(self._status):
            fix = "raise its max_packet_size, or have fewer streams"
            LOG.error("the status (%d bytes) exceeds the broker's limit; %s", len(status), fix)
            return
        self._publish(self._status, status, retain=True)

    def _publish(self, topic: str, payload: bytes, retain: bool = False) -> Publication:
        publication = self._connection.publish(topic, payload, retain)
        self._unanswered[publication.packet] = publication
        return publication

    def _max_payload_bytes(self, topic: str) -> int:
        answer = self._connection.answer
        return (
            UNLIMITED_BYTES
            if answer is None
            else answer.max_payload_bytes(topic, self._connection.version)
        )

    def _put(self, event: ConnectionEvent) -> None:
        if isinstance(event, Subscribed) and event.failure:
            self._subscription_denied = True
        if not isinstance(event, Message) or self._events.qsize() < MAX_EVENTS:
            self._events.put(event)
