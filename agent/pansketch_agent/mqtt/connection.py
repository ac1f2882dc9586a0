"""The device's link to its broker: what it says, and what it hears.

The device listens to its own `ack` and `mark` topics, to the scales of its streams where it adopts
any, and to nothing else.
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
    FAREWELL_SECONDS,
    MAX_UNANSWERED,
    UNLIMITED_BYTES,
    Reconnector,
    Terms,
)
from pansketch_fleet.protocol import topics
from pansketch_fleet.protocol.messages import Health, Status
from pansketch_fleet.protocol.signed_release import ENVELOPE_BYTES, Credentials
from pansketch_fleet.settings.sources import Mqtt

LOG = logging.getLogger(__name__)

SUBSCRIBE_SECONDS = 300.0  # A subscription that is denied is asked for again.
MAX_EVENTS = 1024  # A flood of acks beyond this is dropped; a release is then sent again.


class DeviceClient:
    """One device's connection, which mends itself from `start` to `stop`; the client id is stable.

    `next_event`, `send` and the like are for one thread. `scaled`: the streams that adopt published
    scales. `credentials`: those that sign each release. Raises TlsFilesError when a file for TLS
    cannot be used.
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
        self._live = False  # Let in, and not over yet.
        self._deaf = False  # The broker denies one of them.
        self._conflicts, self._uptime = ClientIdConflicts(), system_clock().monotonic
        self._keeper = Reconnector(self, mqtt, self._closed)
        self._connection = self.make(Terms("5", MAX_UNANSWERED, asking=True))
        self._thread = threading.Thread(target=self._keeper.run, name="link", daemon=True)

    def start(self) -> None:
        """Connects in the background and keeps at it, with growing pauses."""
        self._thread.start()

    def next_event(self, timeout_seconds: float) -> Event | None:
        """The oldest event, or None when none comes in time."""
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
        """How many connections have ended since the start because another client has this name."""
        return self._conflicts.count

    def announce(self) -> None:
        """On every connection: listens to its topics, then says that the device is
        online, which the collector answers with a mark."""
        self._connection.subscribe(*self.subscriptions)
        self._say(self._birth)

    def change(self, birth: Status, death: Status) -> None:
        """Another status from now on, said at once when the broker is there."""
        # The broker learns the will at the next connection.
        self._birth, self._death = birth.encode(), death.encode()
        if self._live:
            self._say(self._birth)

    def report(self, health: Health) -> None:
        """Publishes the health, QoS 0, not retained."""
        topic = topics.health(self._fleet, self._device)
        self._connection.publish(topic, health.encode(), sure=False)

    def send(self, stream: str, payload: bytes) -> Publication:
        """Publishes one release, QoS 1, not retained; signed, where there are credentials."""
        if self._credentials is not None:
            payload = self._credentials.seal(stream, payload)
        return self._publish(topics.release(self._fleet, self._device, stream), payload)

    def room(self, stream: str) -> int:
        """The largest release that the broker is known to take now, in bytes."""
        room = self._room(topics.release(self._fleet, self._device, stream))
        return room - ENVELOPE_BYTES * (self._credentials is not None)

    def reopen(self) -> None:
        """Ends a connection on which nothing is answered; another one follows by itself."""
        self._connection.end()

    def renew(self, mqtt: Mqtt, credentials: Credentials | None) -> None:
        """Ends the connection; the next one is made with this broker, password and key."""
        self._mqtt, self._credentials = mqtt, credentials
        self._keeper.renew(mqtt)
        self.reopen()

    def stop(self, farewell: Status) -> None:
        """Says this last status, when anybody listens, and disconnects."""
        self._closed.set()
        connection = self._connection
        if self._live:
            connection.say_last(self._status, farewell.encode(), FAREWELL_SECONDS)
        connection.leave()
        if self._thread.is_alive():
            # A connection that is being opened may take longer; the thread is a daemon.
            self._thread.join(FAREWELL_SECONDS)

    def make(self, terms: Terms) -> DeviceConnection:
        # Some brokers of MQTT 3.1.1 that read a will of MQTT 5 wait for more of it, in silence.
        will = None if terms.asking else (self._status, self._death)
        introduction = ConnectOptions(self._mqtt, f"pansketch-{self._fleet}-{self._device}", will)
        self._connection = DeviceConnection(
            introduction, terms.version, self._put, terms.max_unanswered, trial=terms.asking
        )
        return self._connection

    def serve(self, connection: DeviceConnection, lesser: bool) -> None:
        if connection.mqtt is not self._mqtt:  # Renewed while this one had no socket yet.
            return
        if lesser:
            LOG.info("the broker does not support MQTT 5; using MQTT 3.1.1 until the next start")
        self._deaf, self._live = False, True
        began = self._uptime()
        self._events.put(Connected(connection.version))
        while not connection.over.wait(SUBSCRIBE_SECONDS):
            if self._deaf:
                self._deaf = False
                connection.subscribe(*self.subscriptions)
        self._live = False
        if not self._closed.is_set():
            sending = any("/release/" in sent.topic for sent in list(self._unanswered.values()))
            lived = self._uptime() - began
            taken = self._conflicts.ended(connection.ending, lived, sending)
            self._events.put(Disconnected(taken or connection.ending, taken=bool(taken)))

    def unreachable(self, error: Exception) -> None:
        if isinstance(error, tls.TlsFilesError):
            self._events.put(Disconnected(str(error), True))
        elif why := tls.meaning(error, self._mqtt):
            self._events.put(Disconnected(why, True))
        else:
            self._events.put(Disconnected(getattr(error, "strerror", None) or type(error).__name__))

    def refused(self, code: str) -> None:
        self._events.put(Disconnected(refusal(self._mqtt, code), True))

    def unanswered(self, why: str) -> None:
        self._events.put(Disconnected(why or "no answer to CONNECT", bool(why)))

    def _say(self, status: bytes) -> None:
        if len(status) > self._room(self._status):
            fix = "raise its max_packet_size, or have fewer streams"
            LOG.error("the status (%d bytes) exceeds the broker's limit; %s", len(status), fix)
            return
        self._publish(self._status, status, retain=True)

    def _publish(self, topic: str, payload: bytes, retain: bool = False) -> Publication:
        publication = self._connection.publish(topic, payload, retain)
        self._unanswered[publication.packet] = publication
        return publication

    def _room(self, topic: str) -> int:
        answer = self._connection.answer
        return UNLIMITED_BYTES if answer is None else answer.room(topic, self._connection.version)

    def _put(self, event: ConnectionEvent) -> None:
        if isinstance(event, Subscribed) and event.failure:
            self._deaf = True
        if not isinstance(event, Message) or self._events.qsize() < MAX_EVENTS:
            self._events.put(event)
