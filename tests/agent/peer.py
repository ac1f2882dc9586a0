"""The side of the collector in the tests of the agent."""

from collections.abc import Callable
from dataclasses import dataclass, field
from uuid import uuid4

import msgspec
from paho.mqtt.client import Client, MQTTMessage
from paho.mqtt.enums import CallbackAPIVersion

from pansketch import WindowId, read_header
from pansketch_fleet.protocol import topics
from pansketch_fleet.protocol.messages import Ack, Health, Mark, Status, StreamMark, digest
from pansketch_fleet.protocol.signed_release import release_in
from tests.waiting import until


@dataclass
class Peer:
    """A collector's side of the protocol: stores what arrives, and replies by `answer`."""

    url: str
    answer: Callable[[bytes, Ack], Ack | None] = lambda payload, ack: ack
    releases: list[bytes] = field(default_factory=list)
    # The mark of a device, which answers a birth message: each stored release changes it.
    streams: dict[str, StreamMark] = field(default_factory=dict)
    statuses: list[Status] = field(default_factory=list)
    healths: list[tuple[bool, Health]] = field(default_factory=list)  # with: was it retained?

    def __enter__(self) -> "Peer":
        # The tests share a broker, which may not have ended the session of an earlier peer yet.
        self._client = Client(CallbackAPIVersion.VERSION2, client_id=f"peer-{uuid4().hex}")
        self._client.on_connect = lambda *_: self._client.subscribe(
            [(topic, 1) for topic in topics.fleet_filter("testing")]
        )
        self._ready = False
        self._client.on_subscribe = lambda *_: setattr(self, "_ready", True)
        self._client.on_message = self._on_message
        self._client.connect_async("127.0.0.1", int(self.url.rpartition(":")[2]))
        self._client.loop_start()
        until(lambda: self._ready, "the peer's subscription")
        return self

    def __exit__(self, *_: object) -> None:
        self._client.disconnect()
        self._client.loop_stop()

    def _on_message(self, _client: Client, _userdata: object, message: MQTTMessage) -> None:
        topic, payload = topics.parse(message.topic), bytes(message.payload)
        assert topic is not None
        if not payload:  # A retained message was removed.
            return
        if topic.kind == "status":
            self.statuses.append(Status.decode(payload))
            if not message.retain or self.statuses[-1].state == "online":
                mark = Mark("0" * 16, self.streams)
                self._client.publish(topics.mark("testing", topic.device), mark.encode(), 0)
            return
        if topic.kind == "health":
            self.healths.append((message.retain, Health.decode(payload)))
            return
        self.releases.append(payload)
        release = release_in(payload)
        window = read_header(release).windows[0]
        ack = self.answer(payload, Ack(window.stream, window.sequence, digest(release), "stored"))
        if ack is not None:
            if ack.status == "stored":
                self._note(window)
            self._client.publish(topics.ack("testing", "dev-1"), ack.encode(), 1)

    def _note(self, window: WindowId) -> None:
        """Of one ledger: its last window, as long as that is the last one that is known."""
        known = self.streams.get(window.stream)
        count = 1 if known is None else known.windows + 1
        if known is not None and known.window_end >= window.end:
            self.streams[window.stream] = msgspec.structs.replace(known, windows=count)
            return
        incarnation = window.incarnation.hex()
        self.streams[window.stream] = StreamMark(incarnation, window.sequence, window.end, count)

    def windows(self) -> list[WindowId]:
        return [read_header(release_in(payload)).windows[0] for payload in self.releases]

    def sequences(self) -> list[int]:
        return [window.sequence for window in self.windows()]


def starts(peer: Peer) -> list[int]:
    return [window.start for window in peer.windows()]
