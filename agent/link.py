"""The device's link to its broker: what it says, and what it hears.

The device listens to its own `ack` topic and to nothing else.
"""

import logging
import queue
import threading

from agent.events import Absent, AckArrived, Connected, Event, HandedOver, Subscribed
from agent.mqtt import Connection, Introduction, refusal, room
from fleet import tls, topics
from fleet.keeping import FAREWELL_SECONDS, MOST_UNANSWERED, Keeper, Terms
from fleet.messages import Health, Status
from fleet.settings import Mqtt

LOG = logging.getLogger(__name__)

SUBSCRIBE_SECONDS = 300.0  # A subscription that is denied is asked for again.
MOST_EVENTS = 1024  # A flood of acks beyond this is dropped; a release is then sent again.
UNLIMITED_BYTES = 2**28
TAKEN_OVER = "Session taken over"


class Link:
    """One device's connection, which mends itself from `start` to `stop`; the client id is stable.

    `next_event`, `send` and the like are for one thread. Raises TlsFilesError when a file for TLS
    cannot be used.
    """

    def __init__(self, mqtt: Mqtt, fleet: str, device: str, birth: Status, death: Status) -> None:
        self._mqtt, self._fleet, self._device = mqtt, fleet, device
        self._ack, self._status = topics.ack(fleet, device), topics.status(fleet, device)
        self._birth, self._death = birth.encode(), death.encode()
        self._events: queue.SimpleQueue[Event] = queue.SimpleQueue()
        self._topics: dict[int, str] = {}  # of publications without an answer
        self._closed = threading.Event()
        self._live = False  # Let in, and not over yet.
        self._deaf = False  # The broker denies the ack topic.
        keeper = Keeper(self, mqtt, self._closed)
        self._connection = self.make(Terms("5", MOST_UNANSWERED, asking=True))
        self._thread = threading.Thread(target=keeper.run, name="link", daemon=True)

    def start(self) -> None:
        """Connects in the background and keeps at it, with growing pauses."""
        self._thread.start()

    def next_event(self, timeout_seconds: float) -> Event | None:
        """The oldest event, or None when none comes in time."""
        try:
            event = self._events.get(timeout=timeout_seconds)
        except queue.Empty:
            return None
        if isinstance(event, Connected):
            self._topics.clear()
        if isinstance(event, HandedOver):
            topic = self._topics.pop(event.message, "")
            return HandedOver(event.message, event.failure, topic)
        return event

    def announce(self) -> None:
        """On every connection: listens to the own acks, then says that the device is online."""
        self._connection.subscribe(self._ack)
        self._say(self._birth)

    def change(self, birth: Status, death: Status) -> None:
        """Another status from now on, said at once when the broker is there."""
        # The broker learns the will at the next connection.
        self._birth, self._death = birth.encode(), death.encode()
        if self._live:
            self._say(self._birth)

    def report(self, health: Health) -> int:
        """Publishes the health, QoS 0, not retained; the number that HandedOver will name."""
        topic = topics.health(self._fleet, self._device)
        return self._connection.publish(topic, health.encode(), sure=False)

    def send(self, stream: str, payload: bytes) -> int:
        """Publishes one release, QoS 1, not retained; the number that HandedOver will name."""
        topic = topics.release(self._fleet, self._device, stream)
        message = self._connection.publish(topic, payload)
        self._topics[message] = topic
        return message

    def room(self, stream: str) -> int:
        """The largest release that the broker is known to take now, in bytes."""
        return self._room(topics.release(self._fleet, self._device, stream))

    def reopen(self) -> None:
        """Ends a connection on which nothing is answered; another one follows by itself."""
        self._connection.end()

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

    def make(self, terms: Terms) -> Connection:
        # Some brokers of MQTT 3.1.1 that read a will of MQTT 5 wait for more of it, in silence.
        will = None if terms.asking else (self._status, self._death)
        introduction = Introduction(self._mqtt, f"pansketch-{self._fleet}-{self._device}", will)
        self._connection = Connection(
            introduction, terms.version, self._put, terms.most_unanswered, trial=terms.asking
        )
        return self._connection

    def serve(self, connection: Connection, lesser: bool) -> None:
        if lesser:
            LOG.info("the broker speaks no MQTT 5; MQTT 3.1.1 it is, until the next start")
        self._deaf, self._live = False, True
        self._events.put(Connected(connection.version))
        while not connection.over.wait(SUBSCRIBE_SECONDS):
            if self._deaf:
                connection.subscribe(self._ack)
        self._live = False
        if not self._closed.is_set():
            why = "somebody else connected by this name; is agent.device used twice?"
            taken = connection.ending == TAKEN_OVER
            self._events.put(Absent(f"{TAKEN_OVER}: {why}" if taken else connection.ending))

    def unreachable(self, error: Exception) -> None:
        if isinstance(error, tls.TlsFilesError):
            self._events.put(Absent(str(error), True))
        elif why := tls.meaning(error, self._mqtt):
            self._events.put(Absent(why, True))
        else:
            self._events.put(Absent(getattr(error, "strerror", None) or type(error).__name__))

    def refused(self, code: str) -> None:
        self._events.put(Absent(refusal(self._mqtt, code), True))

    def unanswered(self, why: str) -> None:
        self._events.put(Absent(why or "no answer to CONNECT", bool(why)))

    def _say(self, status: bytes) -> None:
        if len(status) > self._room(self._status):
            fix = "raise its max_packet_size, or have fewer streams"
            LOG.error("the status (%d bytes) is larger than the broker takes; %s", len(status), fix)
            return
        message = self._connection.publish(self._status, status, retain=True)
        self._topics[message] = self._status

    def _room(self, topic: str) -> int:
        answer = self._connection.answer
        if answer is None or answer.most_bytes is None:
            return UNLIMITED_BYTES
        return room(topic, answer.most_bytes, self._connection.version)

    def _put(self, event: Event) -> None:
        if isinstance(event, Subscribed):
            self._deaf = bool(event.failure)
        if not isinstance(event, AckArrived) or self._events.qsize() < MOST_EVENTS:
            self._events.put(event)
