"""A listener at the broker, for what the whole world can receive from a fleet."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from paho.mqtt.client import Client, MQTTMessage
from paho.mqtt.enums import CallbackAPIVersion

from tests.waiting import SECONDS


class Listener:
    """Receives every message of a broker, also retained ones, and can publish."""

    def __init__(self, fleet: Any) -> None:
        self.messages: list[tuple[str, bytes]] = []
        ready: list[object] = []
        self._client = Client(CallbackAPIVersion.VERSION2, client_id="listener")
        self._client.on_message = self._on_message
        self._client.on_subscribe = lambda *_: ready.append(_)
        self._client.connect("127.0.0.1", fleet.port)
        self._client.loop_start()
        self._client.subscribe("#", 1)
        fleet.until(lambda: ready, "the listener's subscription")

    def _on_message(self, _client: Client, _userdata: object, message: MQTTMessage) -> None:
        self.messages.append((message.topic, bytes(message.payload)))

    def publish(self, topic: str, payload: bytes) -> None:
        self._client.publish(topic, payload, 1).wait_for_publish(SECONDS)

    def on(self, ending: str) -> list[bytes]:
        """The messages on topics with this suffix."""
        return [payload for topic, payload in self.messages if topic.endswith(ending)]

    def close(self) -> None:
        self._client.disconnect()
        self._client.loop_stop()


@pytest.fixture
def listen() -> Iterator[Callable[[Any], Listener]]:
    """Opens a listener in a fleet whose broker runs."""
    listeners: list[Listener] = []

    def open_listener(fleet: Any) -> Listener:
        listeners.append(Listener(fleet))
        return listeners[-1]

    yield open_listener
    for listener in listeners:
        listener.close()
