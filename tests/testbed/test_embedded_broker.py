"""The broker of tests leaves nothing open that a later test of the same process would meet."""

import asyncio
import gc
import socket
import threading
import warnings

import pytest
from paho.mqtt.client import Client
from paho.mqtt.enums import CallbackAPIVersion

from testbed.embedded_broker import EmbeddedBroker, _SteadyBroker
from tests.waiting import SECONDS, until

CONNECT = b"\x10\x0d\x00\x04MQTT\x04\x02\x00\x3c\x00\x01a"


@pytest.mark.parametrize(
    "sent", [b"", CONNECT[:3], CONNECT], ids=["silent", "halfway", "connected"]
)
def test_it_closes_the_connections_that_a_client_left_open(sent):
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        with EmbeddedBroker() as broker:
            client = socket.create_connection(("127.0.0.1", broker.port), 10)
            client.sendall(sent)
            if sent == CONNECT:
                assert client.recv(4) == b"\x20\x02\x00\x00"
            # The broker forwards a second client's message after the first one.
            with socket.create_connection(("127.0.0.1", broker.port), 10) as other:
                other.sendall(CONNECT[:-1] + b"b")
                assert other.recv(4) == b"\x20\x02\x00\x00"
        gc.collect()
    client.settimeout(10)
    assert client.recv(1) == b""
    client.close()
    assert [str(each.message) for each in seen if each.category is ResourceWarning] == []


def test_a_client_keeps_its_subscription_while_an_earlier_session_of_its_name_ends(monkeypatch):
    """The broker waits while it ends the earlier session; the client comes back in that time."""
    ending, back = threading.Event(), threading.Event()
    stop_handler = _SteadyBroker._stop_handler

    async def waits(self, handler):
        if asyncio.current_task() is self._session_monitor_task:
            ending.set()
            await asyncio.to_thread(back.wait, SECONDS)
        await stop_handler(self, handler)

    monkeypatch.setattr(_SteadyBroker, "_stop_handler", waits)
    with EmbeddedBroker() as broker:
        early = subscribed(broker.port, [])
        early.disconnect()
        early.loop_stop()
        assert ending.wait(SECONDS)
        received = []
        late = subscribed(broker.port, received)
        back.set()
        # The broker has removed the earlier session when the next one of its name is removed.
        ending.clear()
        other = subscribed(broker.port, [], name="other")
        other.disconnect()
        other.loop_stop()
        assert ending.wait(SECONDS)
        late.publish("a", b"here", 1).wait_for_publish(SECONDS)
        until(lambda: received, "the message")
        late.disconnect()
        late.loop_stop()


def subscribed(port, received, name="client"):
    """A client that has subscribed to topic `a`."""
    granted = threading.Event()
    client = Client(CallbackAPIVersion.VERSION2, client_id=name)
    client.on_connect = lambda *_: client.subscribe("a", 1)
    client.on_subscribe = lambda *_: granted.set()
    client.on_message = lambda _client, _userdata, message: received.append(message.payload)
    client.connect("127.0.0.1", port)
    client.loop_start()
    assert granted.wait(SECONDS)
    return client
