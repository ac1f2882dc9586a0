"""The outboxes of all simulated devices: what is published, acknowledged, and published again.

A release leaves by an acknowledgement of the collector with its digest, as from an agent's outbox.
Until then it is published again after `resend_seconds`, and at once on a new connection. Time is an
argument.
"""

from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from pansketch_fleet.protocol.messages import Ack
from testbed.fleet_simulator.releases import Message


@dataclass
class Counts:
    """Counts of the messages so far.

    Attributes:
        messages: published, of all kinds; a repeated message counts each time.
        releases: distinct ones that were published.
        payload_bytes: of all messages.
        resent: releases that were published again for lack of an acknowledgement.
        repeated: releases published again though the collector had acknowledged them.
        answers: acknowledgements, by their status; a refusal has its reason beside it.
        unknown: acknowledgements of no pending release.
    """

    messages: int = 0
    releases: int = 0
    payload_bytes: int = 0
    resent: int = 0
    repeated: int = 0
    answers: Counter[str] = field(default_factory=Counter)
    unknown: int = 0


@dataclass
class _Waiting:
    message: Message
    sent_at: float
    repeated: bool = False


class FleetOutbox:
    """Gives the next messages, and takes the collector's acknowledgements."""

    def __init__(
        self,
        messages: Iterator[Message],
        in_flight: int,
        resend_seconds: float,
        loses: Callable[[], bool] = lambda: False,
    ) -> None:
        """`in_flight`: the most releases that wait for an acknowledgement. `loses`: whether the
        next acknowledgement counts as lost, so that its release is published again."""
        self._messages, self._in_flight = messages, in_flight
        self._resend_seconds, self._loses = resend_seconds, loses
        self._waiting: OrderedDict[str, _Waiting] = OrderedDict()
        self._again: deque[str] = deque()
        self._exhausted = False
        self.counts = Counts()

    @property
    def waiting(self) -> int:
        """Releases that are published and not acknowledged."""
        return len(self._waiting)

    def acknowledged_count(self) -> int:
        """Releases that are published and acknowledged."""
        return self.counts.releases - self.waiting

    @property
    def exhausted(self) -> bool:
        """True if all messages are published."""
        return self._exhausted

    @property
    def done(self) -> bool:
        """True if all messages are published, and each release is acknowledged."""
        return self._exhausted and not self._waiting

    def due(self, most: int, now: float) -> list[Message]:
        """At most so many messages to publish now: what is due again comes first."""
        found: list[Message] = []
        while self._again and len(found) < most:
            name = self._again.popleft()
            if name in self._waiting:
                found.append(self._once_more(name, now))
        while self._waiting and len(found) < most:
            name, first = next(iter(self._waiting.items()))
            if now - first.sent_at < self._resend_seconds:
                break
            self.counts.resent += 1
            found.append(self._once_more(name, now))
        while not self._exhausted and len(found) < most and self.waiting < self._in_flight:
            message = next(self._messages, None)
            if message is None:
                self._exhausted = True
                break
            if message.digest:
                self.counts.releases += 1
                self._waiting[message.digest] = _Waiting(message, now)
            found.append(message)
        self.counts.messages += len(found)
        self.counts.payload_bytes += sum(len(each.payload) for each in found)
        return found

    def reconnected(self) -> None:
        """Publish the pending releases again: the broker may not have them."""
        self.counts.resent += len(self._waiting)
        self._again = deque(self._waiting)

    def acknowledged(self, device: str, ack: Ack) -> None:
        """The collector's acknowledgement of one release of a device."""
        waiting = self._waiting.get(ack.digest)
        if waiting is None or waiting.message.device != device:
            self.counts.unknown += 1
            return
        final = ack.status not in ("stored", "duplicate")
        self.counts.answers[f"{ack.status} {ack.reason_class}" if final else ack.status] += 1
        if ack.status == "stored" and not waiting.repeated and self._loses():
            waiting.repeated = True
            self.counts.repeated += 1
            self._again.append(ack.digest)
            return
        del self._waiting[ack.digest]

    def _once_more(self, name: str, now: float) -> Message:
        waiting = self._waiting[name]
        waiting.sent_at = now
        self._waiting.move_to_end(name)
        return waiting.message
