"""A broker sends what no client can read. The connection ends, and another one follows."""

import socket
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager

import pytest

from pansketch_agent.mqtt.client import ConnectOptions, DeviceConnection
from pansketch_agent.mqtt.events import AckArrived
from pansketch_fleet.mqtt.reconnect import SessionOptions
from pansketch_fleet.settings.sources import Mqtt
from pansketch_keeper.mqtt_client import KeeperConnection
from tests.waiting import SECONDS

CONNACK = {"5": b"\x20\x03\x00\x00\x00", "3.1.1": b"\x20\x02\x00\x00"}
OWN_TOPIC = b"ack"


def publish(version: str, topic: bytes, payload: bytes) -> bytes:
    """A packet PUBLISH with QoS 0."""
    properties = b"\x00" if version == "5" else b""
    body = len(topic).to_bytes(2, "big") + topic + properties + payload
    return bytes([0x30, len(body)]) + body


@contextmanager
def broker_that_sends(version: str, content: bytes) -> Iterator[Mqtt]:
    """A broker that accepts one client, sends `content` after its subscription, and waits."""
    done = threading.Event()

    def serve(listener: socket.socket) -> None:
        connection, _ = listener.accept()
        with connection:
            connection.settimeout(SECONDS)
            connection.recv(4096)
            connection.sendall(CONNACK[version])
            connection.recv(4096)
            connection.sendall(content)
            done.wait(SECONDS)

    with closing(socket.create_server(("127.0.0.1", 0))) as listener:
        thread = threading.Thread(target=serve, args=(listener,))
        thread.start()
        try:
            yield Mqtt("127.0.0.1", listener.getsockname()[1], tls=False)
        finally:
            done.set()
            thread.join()


@pytest.mark.parametrize("version", ["5", "3.1.1"])
def test_a_topic_that_is_no_text_is_passed_over(version):
    arrived = threading.Event()
    events = []

    def put(event):
        events.append(event)
        arrived.set()

    sent = publish(version, b"l\xfcf", b"1") + publish(version, OWN_TOPIC, b"2")
    with broker_that_sends(version, sent) as mqtt:
        connection = DeviceConnection(ConnectOptions(mqtt, "dev-1", None), version, put)
        connection.open()
        try:
            assert connection.answered.wait(SECONDS)
            connection.subscribe("ack")
            assert arrived.wait(SECONDS)
        finally:
            connection.close()
    assert events == [AckArrived(b"2")]


@pytest.mark.parametrize("version", ["5", "3.1.1"])
def test_an_error_in_the_thread_of_a_connection_ends_it(version):
    """Otherwise the agent would wait for a connection without a reader."""

    def put(event):
        raise IndexError

    with broker_that_sends(version, publish(version, OWN_TOPIC, b"2")) as mqtt:
        connection = DeviceConnection(ConnectOptions(mqtt, "dev-1", None), version, put)
        connection.open()
        try:
            assert connection.answered.wait(SECONDS)
            connection.subscribe("ack")
            assert connection.over.wait(SECONDS)
        finally:
            connection.close()
    assert connection.ending == "its messages cannot be read (IndexError)"


@pytest.mark.parametrize("version", ["5", "3.1.1"])
def test_an_error_in_the_thread_of_a_keeper_s_connection_ends_it(version):
    class Owner:
        status, death, ask = "status", b"offline", "ask"

        def subscribed(self, allowed):
            raise IndexError

    suback = b"\x90\x04\x00\x01\x00\x01" if version == "5" else b"\x90\x03\x00\x01\x01"
    with broker_that_sends(version, suback) as mqtt:
        terms = SessionOptions(version, 4, probing=True)
        connection = KeeperConnection(Owner(), mqtt, "keeper-1", terms)
        connection.open()
        try:
            assert connection.answered.wait(SECONDS)
            connection.subscribe("ask")
            assert connection.over.wait(SECONDS)
        finally:
            connection.close()
    assert connection.ending == "its messages cannot be read: IndexError"
