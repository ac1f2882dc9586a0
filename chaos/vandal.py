"""Somebody who may write to the broker: garbage, far too much, and old releases once more."""

import json
import socket
from contextlib import suppress

import numpy as np

from chaos.packets import connect, publish
from chaos.site import FLEET, STREAM, VANDAL
from chaos.witness import Name
from fleet import topics

MOST_SECONDS = 3.0
CLIENT = "vandal"
OVERSIZE_BYTES = 2**20


class Vandal:
    """Speaks to the broker at `port` of this host. What it draws is public."""

    def __init__(self, port: int, password: str) -> None:
        self._port = port
        self._hello = connect(CLIENT, VANDAL, password)

    def garbage(self, devices: list[str], draw: float) -> None:
        """Bytes that are no MQTT; no release, status or ack; and topics of nobody."""
        rng = np.random.default_rng(int(draw * 2**32))
        self._send(rng.bytes(2000))
        self._send(self._hello + publish("x", b"y")[:-2])
        device = devices[int(draw * len(devices))]
        ack = {"stream": STREAM, "sequence": 1, "digest": "0" * 32, "status": "stored"}
        self._send(
            self._hello
            + publish(topics.release(FLEET, device, STREAM), rng.bytes(500))
            + publish(topics.release(FLEET, device, "nothing"), rng.bytes(50))
            + publish(topics.status(FLEET, device), rng.bytes(300))
            + publish(f"pansketch/v1/{FLEET}/{device}/nothing", rng.bytes(20))
            + publish(topics.ack(FLEET, device), rng.bytes(200))
            + publish(topics.ack(FLEET, device), json.dumps(ack).encode())
        )

    def oversize(self, devices: list[str], draw: float) -> None:
        """Messages of a mebibyte as releases and as a status."""
        device = devices[int(draw * len(devices))]
        content = bytes(OVERSIZE_BYTES)
        for topic in (topics.release(FLEET, device, STREAM), topics.status(FLEET, device)):
            self._send(self._hello + publish(topic, content))

    def repeat(self, made: dict[Name, bytes], devices: list[str], draw: float) -> None:
        """Twenty releases that the fleet has made, once more, under their own name and others'."""
        names = sorted(made)[-20:]
        other = devices[int(draw * len(devices))]
        parts = [self._hello]
        for name in names:
            parts.append(publish(topics.release(FLEET, name.device, name.stream), made[name]))
            if name.device != other:
                parts.append(publish(topics.release(FLEET, other, name.stream), made[name]))
        self._send(b"".join(parts))

    def _send(self, content: bytes) -> None:
        """In one connection, until the broker ends it or there is time no more."""
        with suppress(OSError), socket.create_connection(("127.0.0.1", self._port), 1.0) as peer:
            peer.settimeout(MOST_SECONDS)
            peer.sendall(content)
            peer.shutdown(socket.SHUT_WR)
            while peer.recv(4096):
                pass
