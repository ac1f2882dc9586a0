"""An ear at the broker, for what the whole world can hear of a fleet."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from paho.mqtt.client import Client, MQTTMessage
from paho.mqtt.enums import CallbackAPIVersion

from tests.waiting import SECONDS


class Ear:
    """Hears every message of a broker, retained ones too, and can say something itself."""

    def __init__(self, house: Any) -> None:
        self.heard: list[tuple[str, bytes]] = []
        ready: list[object] = []
        self._client = Client(CallbackAPIVersion.VERSION2, client_id="ear")
        self._client.on_message = self._on_message
        self._client.on_subscribe = lambda *_: ready.append(_)
        self._client.connect("127.0.0.1", house.port)
        self._client.loop_start()
        self._client.subscribe("#", 1)
        house.until(lambda: ready, "the ear's subscription")

    def _on_message(self, _client: Client, _userdata: object, message: MQTTMessage) -> None:
        self.heard.append((message.topic, bytes(message.payload)))

    def say(self, topic: str, payload: bytes) -> None:
        self._client.publish(topic, payload, 1).wait_for_publish(SECONDS)

    def on(self, ending: str) -> list[bytes]:
        """What was heard on topics that end so."""
        return [payload for topic, payload in self.heard if topic.endswith(ending)]

    def close(self) -> None:
        self._client.disconnect()
        self._client.loop_stop()


@pytest.fixture
def listen() -> Iterator[Callable[[Any], Ear]]:
    """Opens an ear in a house whose broker runs."""
    ears: list[Ear] = []

    def open_ear(house: Any) -> Ear:
        ears.append(Ear(house))
        return ears[-1]

    yield open_ear
    for ear in ears:
        ear.close()
