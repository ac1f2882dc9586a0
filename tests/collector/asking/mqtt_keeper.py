"""A keeper behind a real broker. It may be replaced by the keeper's own program."""

import threading

import paho.mqtt.client as paho
from paho.mqtt.enums import CallbackAPIVersion

from pansketch_fleet.protocol import topics
from tests import waiting


class MqttKeeper:
    """Serves a `TestKeeper` over MQTT. `seen` is called with each ask, before its reply is sent,
    and returns whether the reply is sent at all."""

    def __init__(self, port, fleet, keeper, seen=lambda payload: True):
        self._topic, self._keeper, self._seen = (
            topics.keeper_answer(fleet, keeper.name),
            keeper,
            seen,
        )
        self._ready = threading.Event()
        self._client = paho.Client(CallbackAPIVersion.VERSION2)
        self._client.on_message = self._asked
        self._client.on_subscribe = lambda *_: self._ready.set()
        self._client.username_pw_set(f"{topics.KEEPER}{keeper.name}", "any")
        self._client.connect("127.0.0.1", port)
        self._client.loop_start()
        self._client.subscribe(topics.keeper_ask(fleet, keeper.name), 1)
        assert self._ready.wait(waiting.SECONDS)

    def _asked(self, client, userdata, message):
        reply = self._keeper.reply(message.payload)
        if self._seen(message.payload):
            client.publish(self._topic, reply, qos=1)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._client.disconnect()
        self._client.loop_stop()
