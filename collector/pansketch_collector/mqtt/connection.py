"""The collector's link to its broker: messages in, answers out.

Messages wait in a bounded queue. While it is full nothing is read: the broker then keeps what it
has for this client, which is the back-pressure wanted.
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

MAX_WAITING = 512  # messages between the network and the store
SUBSCRIBE_SECONDS = 300.0  # A subscription that is denied is asked for again.
GATHER_SECONDS = 0.01
STOP_SECONDS = 10.0

log = logging.getLogger("collector")


class Incoming(NamedTuple):
    """One message. `payload` is cut after the longest that can be taken. `size` is of the whole,
    `digest` of the whole release in it. `connection` counts the connections, for a message id means
    something in one only."""

    topic: str
    payload: bytes
    size: int
    digest: str
    message_id: int
    qos: int
    connection: int


class CollectorClient:
    """The connection of one collector, which mends itself from `start` to `stop`."""

    def __init__(
        self,
        mqtt: Mqtt,
        fleet: str,
        largest_release: int,
        connected: Callable[[bool], object] = bool,
        keepers: bool = False,
        shares: bool = False,
        worker: str = "",
    ) -> None:
        """`keepers`: the fleet has some, who are heard. `shares`: other collectors take releases
        too. `worker`: the name of one that takes nothing else, or "". `connected` is told of each
        change of the property; it may not block. Raises CommandError when the TLS files of the
        configuration cannot be used."""
        self._tell_connected = connected
        self._mqtt, self._fleet, self._worker = mqtt, fleet, worker
        status, release, health = topics.fleet_filter(fleet)
        self._releases = release
        self._shared = topics.shared_filter(fleet, release) if shares or worker else ""
        self._others: tuple[str, ...] = ()
        if not worker:
            self._others = status, health, topics.scale_filter(fleet)
        if keepers:
            self._others += topics.keeper_filter(fleet)
        self._longest = max(largest_release + ENVELOPE_BYTES, STATUS_LIMIT_BYTES)
        self._waiting: deque[Incoming] = deque()
        self._arrival = threading.Condition()
        self._stopping = threading.Event()
        self._connections = 0
        self._complained: set[str] = set()
        self._denied: tuple[str, ...] = ()
        self._subscribed = False
        try:
            self._connection = self.make(SessionOptions("5", MAX_UNANSWERED, probing=True))
        except tls.TlsFilesError as error:
            raise wrong(str(error)) from error
        keeper = Reconnector(self, mqtt, self._stopping)
        self._thread = threading.Thread(target=keeper.run, name="link", daemon=True)

    def start(self) -> None:
        """Begins to connect, and keeps trying for as long as it takes."""
        self._thread.start()

    def take(self, most: int, timeout_seconds: float) -> list[Incoming]:
        """Waits for a message, then takes what else is there: up to `most`, or none in time.

        Under load more come meanwhile: a pause bounds both the wait and the number of commits.
        """
        with self._arrival:
            if not self._arrival.wait_for(lambda: self._waiting, timeout_seconds):
                return []
        if len(self._waiting) < most:
            self._stopping.wait(GATHER_SECONDS)
        was_full = self.is_full()
        taken = [self._waiting.popleft() for _ in range(min(most, len(self._waiting)))]
        if was_full:
            self._connection.wake()
        return taken

    @property
    def connected(self) -> bool:
        """Whether the broker is there and lets this client hear its fleet."""
        return self._subscribed and self._connection.let_in

    @property
    def state(self) -> str:
        """The same for `systemctl status`."""
        broker = f"the broker at {self._mqtt.host}:{self._mqtt.port}"
        return (
            f"connected to {broker}" if self.connected else f"not connected to {broker}, retrying"
        )

    def done(self, message: Incoming) -> None:
        """Tells the broker, with the next `flush`, that a message need not come again."""
        if message.connection == self._connections:
            self._connection.acknowledge(message.message_id, message.qos)

    def answer(self, device: str, ack: Ack) -> None:
        """Tells a device, with the next `flush`, what became of a release. At most once: whom it
        does not reach asks again."""
        self._publish(topics.ack(self._fleet, device), ack.encode())

    def announce(self, topic: str, payload: bytes, qos: int = 1) -> None:
        """Leaves a message with the broker for whoever subscribes (retained). Dropped while
        offline. QoS 0 keeps its place among the answers."""
        self._publish(topic, payload, qos, retain=True)
        self._connection.wake()

    def ask(self, keeper: str, payload: bytes) -> None:
        """Asks a keeper. Dropped while offline: whoever asks, asks again."""
        self._publish(topics.keeper_ask(self._fleet, keeper), payload, 1)
        self._connection.wake()

    def room(self, topic: str) -> int:
        """The largest payload that the broker is known to take under `topic`, in bytes."""
        return self._connection.room(topic)

    def flush(self) -> None:
        """Sends what was said."""
        self._connection.wake()

    def stop(self) -> None:
        """Sends what is on its way, says goodbye and ends the network thread."""
        self._stopping.set()
        self._connection.leave()
        if self._thread.is_alive():
            self._thread.join(STOP_SECONDS)

    def _publish(self, topic: str, payload: bytes, qos: int = 0, retain: bool = False) -> None:
        """Dropped while offline, and where the broker would end the connection for its size."""
        if not self._connection.let_in:
            return
        if len(payload) <= self._connection.room(topic):
            self._connection.publish(topic, payload, qos, retain)
        elif "size" not in self._complained:
            size = f"{topic} ({len(payload)} bytes)"
            log.error("a message exceeds the broker's limit: %s; raise its max_packet_size", size)
            self._complained.add("size")

    def make(self, terms: SessionOptions) -> CollectorConnection:
        self._connections += 1
        self._subscribed = False
        # A broker without MQTT 5 may know no shared subscriptions, and not tell.
        shares = bool(self._shared) and (terms.version == "5" or bool(self._worker))
        self._connection = CollectorConnection(
            self._mqtt,
            f"pansketch-{self._fleet}-{self._worker or 'collector'}",
            (self._shared if shares else self._releases, *self._others),
            terms,
            self,
            self._connections,
            lasting=not self._worker,
            former=self._releases if shares and not self._worker else "",
        )
        return self._connection

    def serve(self, connection: CollectorConnection, is_fallback: bool) -> None:
        connection.subscribe()
        if is_fallback:
            log.info("the broker does not support MQTT 5; using MQTT 3.1.1 until the next start")
        address = self._mqtt.host, self._mqtt.port
        log.info("broker %s:%d is connected (MQTT %s)", *address, connection.version)
        self._complained.clear()
        while not connection.over.wait(SUBSCRIBE_SECONDS):
            if self._denied:
                connection.subscribe()
        self._subscribed = False
        self._tell_connected(False)
        if not self._stopping.is_set():
            self._complain(f"closed the connection ({connection.ending})", "absent")

    def unreachable(self, error: Exception) -> None:
        if isinstance(error, tls.TlsFilesError):
            self._complain(f"is out of reach: {error}")
        elif why := tls.meaning(error, self._mqtt):
            self._complain(f"is of no use: {why}")
        else:
            self._complain("is not there", "absent")

    def refused(self, code: str) -> None:
        fix = "check mqtt.username and mqtt.password"
        if code == UNKNOWN_VERSION and self._worker:
            fix = "ingest needs a broker with MQTT 5"
        elif code == UNKNOWN_VERSION:
            fix = "set mqtt.protocol to auto"
        self._complain(f"refuses this client ({code}): {fix}")

    def unanswered(self, why: str) -> None:
        if why:
            self._complain(f"closed the connection: {why}")
        else:
            self._complain("gives no answer", "absent")

    def subscribed(self, denied: tuple[str, ...]) -> None:
        for name in set(denied) - set(self._denied):
            log.error("broker does not authorize reading %s: allow it in the broker's ACL", name)
        self._denied = denied
        self._subscribed = not denied
        self._tell_connected(not denied)

    def cleared(self, topic: str) -> None:
        if "cleared" not in self._complained:
            log.warning(
                "broker retains a message under %s: clearing all retained messages there", topic
            )
            self._complained.add("cleared")

    def denied(self, topic: str) -> None:
        if "denied" not in self._complained:
            log.error("broker does not authorize writing %s: allow it in the broker's ACL", topic)
            self._complained.add("denied")

    def _complain(self, what: str, kind: str = "") -> None:
        # Each kind once until it works again: a broker may be away for days.
        if (kind or what) not in self._complained:
            address = self._mqtt.host, self._mqtt.port
            log.warning("broker %s:%d %s; retrying with exponential backoff", *address, what)
            self._complained.add(kind or what)

    def is_full(self) -> bool:
        return len(self._waiting) >= MAX_WAITING

    def arrived(self, messages: list[ReceivedMessage], connection: int) -> None:
        longest = self._longest + 1
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
            self._waiting.extend(found)
            self._arrival.notify()
