"""The collector's link to its broker: messages in, answers out.

Messages are put on a bounded queue. When it is full they block the network thread, and with it the
connection: the broker then keeps what it has for this client, which is the back-pressure wanted.
"""

import logging
import queue
import threading
from dataclasses import dataclass

from collector.failure import wrong
from collector.mqtt import Connection, Message
from fleet import tls, topics
from fleet.config import Mqtt
from fleet.keeping import MOST_UNANSWERED, UNKNOWN_VERSION, Keeper, Terms
from fleet.messages import STATUS_LIMIT_BYTES, Ack, digest

MOST_WAITING = 512  # messages between the network and the store
SUBSCRIBE_SECONDS = 300.0  # A subscription that is denied is asked for again.
FULL_QUEUE_SECONDS = 0.2
GATHER_SECONDS = 0.01
STOP_SECONDS = 10.0

log = logging.getLogger("collector")


@dataclass(frozen=True)
class Incoming:
    """One message. `payload` is cut after the longest that can be taken; `size` and `digest` are of
    the whole. `connection` counts the connections, for a message id means something in one only."""

    topic: str
    payload: bytes
    size: int
    digest: str
    message_id: int
    qos: int
    connection: int


class Link:
    """The connection of one collector, which mends itself from `start` to `stop`."""

    def __init__(self, mqtt: Mqtt, fleet: str, largest_release: int) -> None:
        """Raises CommandError when the TLS files of the configuration cannot be used."""
        self._mqtt, self._fleet = mqtt, fleet
        self._longest = max(largest_release, STATUS_LIMIT_BYTES)
        self._waiting: queue.Queue[Incoming] = queue.Queue(MOST_WAITING)
        self._stopping = threading.Event()
        self._connections = 0
        self._complained: set[str] = set()
        self._denied: tuple[str, ...] = ()
        try:
            self._connection = self.make(Terms("5", MOST_UNANSWERED, asking=True))
        except tls.TlsFilesError as error:
            raise wrong(str(error)) from error
        keeper = Keeper(self, mqtt, self._stopping)
        self._thread = threading.Thread(target=keeper.run, name="link", daemon=True)

    def start(self) -> None:
        """Begins to connect, and keeps trying for as long as it takes."""
        self._thread.start()

    def take(self, most: int, timeout_seconds: float) -> list[Incoming]:
        """Waits for a message, then takes what else is there: up to `most`, or none in time.

        Under load more come meanwhile: a pause bounds both the wait and the number of commits.
        """
        taken: list[Incoming] = []
        try:
            taken.append(self._waiting.get(timeout=timeout_seconds))
            if self._waiting.qsize() < most:
                self._stopping.wait(GATHER_SECONDS)
            while len(taken) < most:
                taken.append(self._waiting.get_nowait())
        except queue.Empty:
            pass
        return taken

    def done(self, message: Incoming) -> None:
        """Tells the broker that a message need not come again."""
        if message.connection == self._connections:
            self._connection.acknowledge(message.message_id, message.qos)

    def answer(self, device: str, ack: Ack) -> None:
        """Tells a device what became of a release. Lost while offline: the device asks again."""
        if self._connection.let_in:
            self._connection.publish(topics.ack(self._fleet, device), ack.encode())

    def stop(self) -> None:
        """Sends what is on its way, says goodbye and ends the network thread."""
        self._stopping.set()
        self._connection.leave()
        if self._thread.is_alive():
            self._thread.join(STOP_SECONDS)

    def make(self, terms: Terms) -> Connection:
        self._connections += 1
        number = self._connections
        self._connection = Connection(
            self._mqtt,
            f"pansketch-{self._fleet}-collector",
            topics.fleet_filter(self._fleet),
            terms,
            lambda message: self._put(message, number),
            self._subscribed,
        )
        return self._connection

    def serve(self, connection: Connection, lesser: bool) -> None:
        connection.subscribe()
        if lesser:
            log.info("the broker speaks no MQTT 5; MQTT 3.1.1 it is, until the next start")
        address = self._mqtt.host, self._mqtt.port
        log.info("broker %s:%d is there (MQTT %s)", *address, connection.version)
        self._complained.clear()
        while not connection.over.wait(SUBSCRIBE_SECONDS):
            if self._denied:
                connection.subscribe()
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
        if code == UNKNOWN_VERSION:
            fix = "set mqtt.protocol to auto"
        self._complain(f"refuses this client ({code}): {fix}")

    def unanswered(self, why: str) -> None:
        if why:
            self._complain(f"closed the connection: {why}")
        else:
            self._complain("gives no answer", "absent")

    def _subscribed(self, denied: tuple[str, ...]) -> None:
        for name in set(denied) - set(self._denied):
            log.error("broker denies reading %s: allow it in the broker's ACL", name)
        self._denied = denied

    def _complain(self, what: str, kind: str = "") -> None:
        # Each kind once until it works again: a broker may be away for days.
        if (kind or what) not in self._complained:
            address = self._mqtt.host, self._mqtt.port
            log.warning("broker %s:%d %s; trying again with growing pauses", *address, what)
            self._complained.add(kind or what)

    def _put(self, message: Message, connection: int) -> None:
        payload = message.payload
        incoming = Incoming(
            message.topic,
            payload[: self._longest + 1],
            len(payload),
            digest(payload),
            message.message_id,
            message.qos,
            connection,
        )
        while not self._stopping.is_set():
            try:
                return self._waiting.put(incoming, timeout=FULL_QUEUE_SECONDS)
            except queue.Full:
                continue
        return None
