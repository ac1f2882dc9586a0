"""Clients that mean harm.

One may write to any topic of the fleet: malformed messages, far too large ones, a flood of retained
ones, and old releases once more. The other is an enrolled device: its releases decode, carry the
stream's own fingerprint, and cannot come from any device that measures.
"""

import json
import socket
from collections.abc import Iterator
from contextlib import suppress
from typing import cast

import numpy as np

from pansketch import Release, Spec, WindowId, encode
from pansketch_fleet.config.loader import Config
from pansketch_fleet.protocol import topics
from testbed.chaos.environment.configuration import (
    FLEET,
    HOSTILE,
    HOSTILE_CLIENT,
    STREAM,
    WINDOW_SECONDS,
)
from testbed.chaos.observation.observer import Name
from testbed.mqtt_packets import connect, publish

MAX_SECONDS = 3.0
CLIENT = "hostile-client"
OVERSIZE_BYTES = 2**20
FLOOD_MESSAGES, FLOOD_BYTES = 64, 2**16


class HostileClient:
    """Connects to the broker at `port` of this host. Its random inputs are not secret."""

    def __init__(self, port: int, password: str) -> None:
        self._port = port
        self._hello = connect(CLIENT, HOSTILE_CLIENT, password)

    def send_malformed(self, devices: list[str], draw: float) -> None:
        """Malformed packets; invalid releases, statuses and acks; and topics outside of the
        fleet."""
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

    def flood(self, devices: list[str], draw: float) -> None:
        """Retained messages for streams that no configuration names: each new connection of the
        collector receives them all."""
        device = devices[int(draw * len(devices))]
        payload = bytes(FLOOD_BYTES)
        invented = (topics.release(FLEET, device, f"invented-{n}") for n in range(FLOOD_MESSAGES))
        self._send(self._hello + b"".join(publish(t, payload, retain=True) for t in invented))

    def _send(self, content: bytes) -> None:
        send(self._port, content)


def send(port: int, content: bytes) -> None:
    """In one connection, until the broker ends it or there is no more time."""
    with suppress(OSError), socket.create_connection(("127.0.0.1", port), 1.0) as peer:
        peer.settimeout(MAX_SECONDS)
        peer.sendall(content)
        peer.shutdown(socket.SHUT_WR)
        while peer.recv(4096):
            pass


DEVICE_CLIENT = "hostile"
MANY = 10**9  # readings in a window of two seconds
MANY_DRAWS = 2**39
LAST_YEAR = 253_402_300_000  # in the year 9999
HIGH_SEQUENCE = 2**62


class HostileDevice:
    """Publishes under its own client id at the broker of `port`; the collector must store nothing
    of it."""

    def __init__(self, port: int, password: str, config: Config) -> None:
        self._port = port
        self._hello = connect(DEVICE_CLIENT, HOSTILE, password)
        stream = next(stream for stream in config.streams if stream.name == STREAM)
        self._spec = cast(Spec, next(iter(config.specs(stream).values())))

    def lie(self, now: int) -> None:
        """Every lie once, in one connection."""
        topic = topics.release(FLEET, HOSTILE, STREAM)
        content = [publish(topic, encode(release)) for release in self._lies(now)]
        send(self._port, self._hello + b"".join(content))

    def _lies(self, now: int) -> Iterator[Release]:
        start = now // WINDOW_SECONDS * WINDOW_SECONDS - 10 * WINDOW_SECONDS
        size = sum(self._spec.blocks)
        none, many = np.zeros(size, np.int64), np.full(size, MANY, np.int64)
        draws = 2  # of one honest release in silent mode

        def release(
            counters: "np.typing.NDArray[np.int64]",
            start: int = start,
            seconds: int = WINDOW_SECONDS,
            sequence: int = 1,
            draws: int = draws,
        ) -> Release:
            window = WindowId(HOSTILE, STREAM, sequence, start, start + seconds)
            return Release(self._spec, (window,), draws, counters)

        yield release(many)
        yield release(-many, start + WINDOW_SECONDS)
        yield release(none, LAST_YEAR)
        yield release(none, start + 2 * WINDOW_SECONDS, seconds=7_777 * WINDOW_SECONDS)
        yield release(none, start + 3 * WINDOW_SECONDS, sequence=HIGH_SEQUENCE)
        yield release(none, start + 4 * WINDOW_SECONDS, draws=MANY_DRAWS)
