"""A topic of a local broker: one JSON message, one reading.

The network is served by the thread that reads the source, one packet at a time, so a message goes
straight from its packet into the sketch: there is no queue. Retained messages are passed over,
because a broker repeats them at each connection; QoS is 0 for the same reason.
"""

import logging
import os
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import numpy as np
from paho.mqtt.client import Client, MQTTMessage
from paho.mqtt.enums import CallbackAPIVersion, MQTTErrorCode, MQTTProtocolVersion
from paho.mqtt.reasoncodes import ReasonCode

from pansketch_agent.host.clock import Clock
from pansketch_agent.sources.decoders import RecordForm
from pansketch_agent.sources.readings import Readings
from pansketch_fleet.backoff import Backoff
from pansketch_fleet.mqtt import tls
from pansketch_fleet.settings.sources import (
    MqttSource,
)

LOG = logging.getLogger(__name__)

KEEPALIVE_SECONDS = 30
MIN_PAUSE_SECONDS, MAX_PAUSE_SECONDS = 1.0, 60.0
POLL_SECONDS = 0.2
LOOK_SECONDS = 2.0
MAX_BYTES = 8192  # of a message
SOCKET_BYTES = 4096  # What the system may hold for us; it takes what it must at the least.
TOPIC_FIX = "see its access list, or correct the topic"


def check(source: MqttSource) -> None:
    """Raises TlsFilesError for a file that cannot be used."""
    if source.broker.tls:
        tls.context(source.broker)


def absent(source: MqttSource) -> str:
    """Why there is no connection to the broker now, or ""."""
    try:
        with socket.create_connection((source.broker.host, source.broker.port), LOOK_SECONDS):
            return ""
    except OSError as error:
        return error.strerror or type(error).__name__


def messages(
    name: str,
    source: MqttSource,
    form: RecordForm,
    clock: Clock,
    stop: threading.Event,
    chance: Callable[[], float],
) -> Iterator[Readings]:
    """Readings from the topic until `stop` is set. `chance`: uniform in [0, 1), for jitter.

    A broker that is absent or refuses is said once, until it was there, and tried again.
    """
    ear = _Ear(name, source, form)
    backoff = Backoff(MIN_PAUSE_SECONDS, MAX_PAUSE_SECONDS, 0.5, chance)
    pauses = backoff.pauses()
    try:
        while not stop.is_set():
            if ear.connect():
                yield from _listen(ear, form, clock, stop)
            if ear.was_there:
                pauses, ear.was_there = backoff.pauses(), False
            clock.wait(stop, next(pauses))
    finally:
        ear.close()


def _listen(
    ear: "_Ear", form: RecordForm, clock: Clock, stop: threading.Event
) -> Iterator[Readings]:
    """The messages of one connection."""
    at = np.zeros(1)
    while not stop.is_set() and ear.serve(POLL_SECONDS):
        if ear.heard:
            at[0] = clock.now()
            yield Readings(at, ear.rows)
        ear.forget()
        form.overwrite_freed()


class _Ear:
    """One subscription. `rows`: the last message's row, when `heard` is true."""

    def __init__(self, name: str, source: MqttSource, form: RecordForm) -> None:
        self._name, self._source, self._form = name, source, form
        self.rows = form.empty(1)
        self.heard = self.was_there = False
        self._said = ""
        host = socket.gethostname()
        self._client = Client(
            CallbackAPIVersion.VERSION2,
            client_id=f"pansketch-{host}-{name}-{os.getpid()}",
            clean_session=True,
            protocol=MQTTProtocolVersion.MQTTv311,
        )
        if source.broker.username is not None:
            self._client.username_pw_set(source.broker.username, source.broker.password)
        if source.broker.tls:
            self._client.tls_set_context(tls.context(source.broker))
        self._client.on_socket_open = _keep_short
        self._client.on_connect = self._on_connect
        self._client.on_subscribe = self._on_subscribe
        self._client.on_message = self._on_message

    def connect(self) -> bool:
        """Whether the broker takes connections; it may still refuse."""
        broker = self._source.broker
        try:
            self._client.connect(broker.host, broker.port, KEEPALIVE_SECONDS)
            return True
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or type(error).__name__
            self._say(tls.meaning(sys.exc_info()[1], broker) or str(reason))
            return False

    def serve(self, max_seconds: float) -> bool:
        """Waits for a packet and takes it in; False when the connection is over."""
        if self._client.loop(max_seconds) is MQTTErrorCode.MQTT_ERR_SUCCESS:
            return True
        if not self._said:
            self._say("the connection is lost")
        return False

    def forget(self) -> None:
        """Overwrites the row."""
        self.rows.fill(0)
        self.heard = False

    def close(self) -> None:
        self.forget()
        with suppress(OSError, ValueError):
            self._client.disconnect()
            self._client.loop(0)

    def _say(self, reason: str) -> None:
        """Once, until the broker was there again."""
        if reason != self._said:
            broker = self._source.broker
            LOG.warning(
                "%s: no messages from %s:%d (%s); retrying until it is available",
                self._name,
                broker.host,
                broker.port,
                reason,
            )
            self._said = reason

    def _on_connect(self, client: Client, _u: Any, _f: Any, code: ReasonCode, _p: Any) -> None:
        if code.is_failure:
            self._say(f"it refuses this device: {code}; set username and password of the source")
            return
        client.subscribe(self._source.topic, qos=0)

    def _on_subscribe(self, _c: Client, _u: Any, _m: int, codes: list[ReasonCode], _p: Any) -> None:
        if any(code.is_failure for code in codes):
            self._say(
                f"it does not authorize this device to read {self._source.topic}; {TOPIC_FIX}"
            )
            return
        self.was_there, self._said = True, ""
        LOG.info("%s: listening to %s", self._name, self._source.topic)

    def _on_message(self, _client: Client, _userdata: Any, message: MQTTMessage) -> None:
        fits = len(message.payload) <= MAX_BYTES
        if fits and not message.retain and not self.heard:
            self.heard = self._form.take_line(memoryview(message.payload), self.rows, 0)


def _keep_short(_client: Client, _userdata: Any, opened: Any) -> None:
    """What the system keeps for a slow reader are readings too."""
    with suppress(OSError):
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, SOCKET_BYTES)
