"""The broker of tests leaves nothing open that a later test of the same process would meet."""

import gc
import socket
import warnings

import pytest

from testbed.embedded_broker import EmbeddedBroker

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
