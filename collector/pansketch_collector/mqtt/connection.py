"""The collector's MQTT client: receives messages, publishes acknowledgements.

Received messages wait in a bounded queue. While it is full the client does not read, so the broker
keeps further messages: this is the back-pressure.
"""

import logging
import threading
from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from pansketch_collector.errors import wrong
from pansketch_collector.mqtt.client import CollectorConnection, ReceivedMessage
from pansketch_fleet.config.loader import Mqtt
from pansketch_fleet.mqtt import tls
from pansketch_fleet.mqtt.reconnect import (
    MAX_UNANSWERED,
    UNKNOWN_VERSION,
    Reconnector,
    SessionOptions,
)
from pansketch_fleet.protocol import topics
from pansketch_fleet.protocol.messages import STATUS_LIMIT_BYTES, Ack, digest
from pansketch_fleet.protocol.signed_release import ENVELOPE_BYTES, release_in

MAX_QUEUED = 512  # messages between the network and the store
SUBSCRIBE_SECONDS = 300.0  # until an unauthorized subscription is retried
GATHER_SECONDS = 0.01
STOP_SECONDS = 10.0

log = logging.getLogger("collector")


class Incoming(NamedTuple):
    """One received message. `payload` is truncated beyond the maximum accepted size.

    `size`: bytes of the whole payload. `digest`: of the whole release in it. `connection`: number
    of the connection, since a message id is valid on one connection only.
    """

    topic: str
    payload: bytes
    size: int
    digest: str
    message_id: int
    qos: int
    connection: int


class CollectorClient:
    """The MQTT client of one collector, which reconnects from `start` to `stop`."""

    def __init__(
        self,
        mqtt: Mqtt,
        fleet: str,
        largest_release: int,
        connected: Callable[[bool], object] = bool,
        keepers: bool = False,
        workers: str = "",
        worker: str = "",
    ) -> None:
        """`keepers`: subscribe to the keepers' topics. `workers`: the group of the processes that
        share the releases; "" without others.

        `worker`: the name of a worker, which ingests releases only; "" for `serve`. `connected`
        receives each change of the property and may not block. Raises CommandError for unusable TLS
        files.
        """
        self._on_connected = connected
        self._mqtt, self._fleet, self._worker = mqtt, fleet, worker
        status, release, health = topics.fleet_filter(fleet)
        self._release_filter = release
        self._shared_filter = topics.shared_filter(workers, release) if workers else ""
        self._other_filters: tuple[str, ...] = ()
        if not worker:
            self._other_filters = status, health, topics.scale_filter(fleet)
        if keepers:
            self._other_filters += topics.keeper_filter(fleet)
        self._max_payload_bytes = max(largest_release + ENVELOPE_BYTES, STATUS_LIMIT_BYTES)
        self._queue: deque[Incoming] = deque()
        self._arrival = threading.Condition()
        self._stopping = threading.Event()
        self._connections = 0
        self._warned: set[str] = set()
        self._unauthorized: tuple[str, ...] = ()
        self._subscribed = False
        try:
            self._connection = self.make(SessionOptions("5", MAX_UNANSWERED, probing=True))
        except tls.TlsFilesError as error:
            raise wrong(str(error)) from error
        keeper = Reconnector(self, mqtt, self._stopping)
        self._thread = threading.Thread(target=keeper.run, name="link", daemon=True)

    def start(self) -> None:
        """Starts to connect, with retries without end."""
        self._thread.start()

    def receive(self, limit: int, timeout_seconds: float) -> list[Incoming]:
        """Waits for a message and returns up to `limit` queued ones; none after the timeout.

        A short pause gathers further messages, so that a commit covers more of them under load.
        """
        with self._arrival:
            if not self._arrival.wait_for(lambda: self._queue, timeout_seconds):
                return []
        if len(self._queue) < limit:
            self._stopping.wait(GATHER_SECONDS)
        was_full = self.is_full()
        messages = [self._queue.popleft() for _ in range(min(limit, len(self._queue)))]
        if was_full:
            self._connection.wake()
        return messages

    @property
    def connected(self) -> bool:
        """True while the broker accepts the connection and the subscriptions."""
        return self._subscribed and self._connection.accepted

    @property
    def state(self) -> str:
        """The connection state for `systemctl status`."""
        broker = f"the broker at {self._mqtt.host}:{self._mqtt.port}"
        return (
            f"connected to {broker}" if self.connected else f"not connected to {broker}, retrying"
        )

    def ack_broker(self, message: Incoming) -> None:
        """Acknowledges a message to the broker with the next `flush`."""
        if message.connection == self._connections:
            self._connection.acknowledge(message.message_id, message.qos)

    def send_ack(self, device: str, ack: Ack) -> None:
        """Publishes an acknowledgement to a device with the next `flush`, at QoS 0.

        A device that does not receive it retransmits the release.
        """
        self._publish(topics.ack(self._fleet, device), ack.encode())

    def announce(self, topic: str, payload: bytes, qos: int = 1) -> None:
        """Publishes a retained message; drops it while disconnected. QoS 0 keeps its order among
        the acknowledgements."""
        self._publish(topic, payload, qos, retain=True)
        self._connection.wake()

    def ask(self, keeper: str, payload: bytes) -> None:
        """Publishes a question to a keeper; drops it while disconnected. The caller retries."""
        self._publish(topics.keeper_ask(self._fleet, keeper), payload, 1)
        self._connection.wake()

    def room(self, topic: str) -> int:
        """The largest payload under `topic` that the broker is known to accept, in bytes."""
        return self._connection.room(topic)

    def flush(self) -> None:
        """Sends the queued acknowledgements."""
        self._connection.wake()

    def stop(self) -> None:
        """Sends queued packets, disconnects and ends the network thread."""
        self._stopping.set()
        self._connection.leave()
        if self._thread.is_alive():
            self._thread.join(STOP_SECONDS)

    def _publish(self, topic: str, payload: bytes, qos: int = 0, retain: bool = False) -> None:
        """Publishes; drops the message while disconnected, or if the broker would disconnect for
        its size."""
        if not self._connection.accepted:
            return
        if len(payload) <= self._connection.room(topic):
            self._connection.publish(topic, payload, qos, retain)
        elif "size" not in self._warned:
            size = f"{topic} ({len(payload)} bytes)"
            log.error("a message exceeds the broker's limit: %s; raise its max_packet_size", size)
            self._warned.add("size")

    def make(self, terms: SessionOptions) -> CollectorConnection:
        self._connections += 1
        self._subscribed = False
        # A broker without MQTT 5 may lack shared subscriptions and does not report it.
        shares = bool(self._shared_filter) and (terms.version == "5" or bool(self._worker))
        self._connection = CollectorConnection(
            self._mqtt,
            f"pansketch-{self._fleet}-{self._worker or 'collector'}",
            (self._shared_filter if shares else self._release_filter, *self._other_filters),
            terms,
            self,
            self._connections,
            persistent=not self._worker,
            old_filter=self._release_filter if shares and not self._worker else "",
        )
        return self._connection

    def serve(self, connection: CollectorConnection, is_fallback: bool) -> None:
        connection.subscribe()
        if is_fallback:
            log.info("the broker does not support MQTT 5; using MQTT 3.1.1 until the next start")
        address = self._mqtt.host, self._mqtt.port
        log.info("broker %s:%d is connected (MQTT %s)", *address, connection.version)
        self._warned.clear()
        while not connection.over.wait(SUBSCRIBE_SECONDS):
            if self._unauthorized:
                connection.subscribe()
        self._subscribed = False
        self._on_connected(False)
        if not self._stopping.is_set():
            why = f" ({connection.ending})" if connection.ending else ""
            self._warn_once(f"closed the connection{why}", "absent")

    def unreachable(self, error: Exception) -> None:
        if isinstance(error, tls.TlsFilesError):
            self._warn_once(f"is out of reach: {error}")
        elif reason := tls.meaning(error, self._mqtt):
            self._warn_once(f"is of no use: {reason}")
        else:
            self._warn_once(f"is not there ({tls.absence(error, self._mqtt.host)})", "absent")

    def refused(self, code: str) -> None:
        fix = tls.credentials_fix(self._mqtt)
        if code == UNKNOWN_VERSION and self._worker:
            fix = "ingest needs a broker with MQTT 5"
        elif code == UNKNOWN_VERSION:
            fix = "set mqtt.protocol to auto"
        self._warn_once(f"refuses this client ({code}): {fix}")

    def unanswered(self, reason: str) -> None:
        if reason:
            self._warn_once(f"closed the connection: {reason}")
        else:
            self._warn_once("gives no answer", "absent")

    def on_subscribed(self, unauthorized: tuple[str, ...]) -> None:
        for name in set(unauthorized) - set(self._unauthorized):
            if name == self._shared_filter:  # The rule is about the topics; the group is secret.
                name = self._release_filter
            log.error("broker does not authorize reading %s: allow it in the broker's ACL", name)
        self._unauthorized = unauthorized
        self._subscribed = not unauthorized
        self._on_connected(not unauthorized)

    def on_cleared(self, topic: str) -> None:
        if "cleared" not in self._warned:
            log.warning(
                "broker retains a message under %s: clearing all retained messages there", topic
            )
            self._warned.add("cleared")

    def on_publish_denied(self, topic: str) -> None:
        if "denied" not in self._warned:
            log.error("broker does not authorize writing %s: allow it in the broker's ACL", topic)
            self._warned.add("denied")

    def _warn_once(self, problem: str, kind: str = "") -> None:
        # Each kind once until it works again: a broker may be unavailable for days.
        if (kind or problem) not in self._warned:
            address = self._mqtt.host, self._mqtt.port
            log.warning("broker %s:%d %s; retrying with exponential backoff", *address, problem)
            self._warned.add(kind or problem)

    def is_full(self) -> bool:
        return len(self._queue) >= MAX_QUEUED

    def on_messages(self, messages: list[ReceivedMessage], connection: int) -> None:
        longest = self._max_payload_bytes + 1
        found = [
            Incoming(
                m.topic,
                m.payload[:longest],
                len(m.payload),
                digest(release_in(m.payload)),
                *m[2:],
                connection,
            )
            for m in messages
        ]
        with self._arrival:
            self._queue.extend(found)
            self._arrival.notify()
