"""A topic of a local broker: one JSON message, one reading.

The thread of the source serves the network, one packet at a time. So a message goes directly from
its packet into the sketch, without a queue. Retained messages are ignored, because a broker repeats
them at each connection. QoS is 0 for the same reason.
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
from pansketch_agent.sources.decoders import RecordDecoder
from pansketch_agent.sources.readings import Readings
from pansketch_fleet.backoff import Backoff
from pansketch_fleet.mqtt import tls
from pansketch_fleet.settings.sources import (
    MqttSource,
)

LOG = logging.getLogger(__name__)

KEEPALIVE_SECONDS = 30
MIN_DELAY_SECONDS, MAX_DELAY_SECONDS = 1.0, 60.0
POLL_SECONDS = 0.2
CONNECT_SECONDS = 2.0
MAX_BYTES = 8192  # of a message
SOCKET_BYTES = 4096  # The receive buffer; the system may use its own minimum.
TOPIC_FIX = "see its access list, or correct the topic"


def check(source: MqttSource) -> None:
    """Raise TlsFilesError for a file that cannot be used."""
    if source.broker.tls:
        tls.context(source.broker)


def connection_failure(source: MqttSource) -> str:
    """Return why the broker cannot be reached now, or ""."""
    try:
        with socket.create_connection((source.broker.host, source.broker.port), CONNECT_SECONDS):
            return ""
    except OSError as error:
        return error.strerror or type(error).__name__


def messages(
    name: str,
    source: MqttSource,
    decoder: RecordDecoder,
    clock: Clock,
    stop: threading.Event,
    uniform: Callable[[], float],
) -> Iterator[Readings]:
    """Yield readings from the topic until `stop` is set. `uniform`: draws from [0, 1), for jitter.

    An unavailable or rejecting broker is logged once until a subscription succeeds, and retried.
    """
    subscription = _Subscription(name, source, decoder)
    backoff = Backoff(MIN_DELAY_SECONDS, MAX_DELAY_SECONDS, 0.5, uniform)
    delays = backoff.delays()
    try:
        while not stop.is_set():
            if subscription.connect():
                yield from _listen(subscription, decoder, clock, stop)
            if subscription.was_subscribed:
                delays, subscription.was_subscribed = backoff.delays(), False
            clock.wait(stop, next(delays))
    finally:
        subscription.close()


def _listen(
    subscription: "_Subscription", decoder: RecordDecoder, clock: Clock, stop: threading.Event
) -> Iterator[Readings]:
    """Yield the messages of one connection."""
    at = np.zeros(1)
    while not stop.is_set() and subscription.serve(POLL_SECONDS):
        if subscription.received:
            at[0] = clock.now()
            yield Readings(at, subscription.rows)
        subscription.forget()
        decoder.overwrite_freed()


class _Subscription:
    """One subscription. `rows`: the row of the last message, if `received` is true."""

    def __init__(self, name: str, source: MqttSource, decoder: RecordDecoder) -> None:
        self._name, self._source, self._form = name, source, decoder
        self.rows = decoder.empty(1)
        self.received = self.was_subscribed = False
        self._logged = ""
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
        self._client.on_socket_open = _limit_socket_buffer
        self._client.on_connect = self._on_connect
        self._client.on_subscribe = self._on_subscribe
        self._client.on_message = self._on_message

    def connect(self) -> bool:
        """Return whether the broker accepts the network connection; its CONNACK may still reject
        it.
        """
        broker = self._source.broker
        try:
            self._client.connect(broker.host, broker.port, KEEPALIVE_SECONDS)
            return True
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or type(error).__name__
            self._log_once(tls.meaning(sys.exc_info()[1], broker) or str(reason))
            return False

    def serve(self, max_seconds: float) -> bool:
        """Wait for a packet and process it; return False when the connection is over."""
        if self._client.loop(max_seconds) is MQTTErrorCode.MQTT_ERR_SUCCESS:
            return True
        if not self._logged:
            self._log_once("the connection is lost")
        return False

    def forget(self) -> None:
        """Overwrite the row."""
        self.rows.fill(0)
        self.received = False

    def close(self) -> None:
        self.forget()
        with suppress(OSError, ValueError):
            self._client.disconnect()
            self._client.loop(0)

    def _log_once(self, reason: str) -> None:
        """Log a reason once, until the subscription succeeds again."""
        if reason != self._logged:
            broker = self._source.broker
            LOG.warning(
                "%s: no messages from %s:%d (%s); retrying until it is available",
                self._name,
                broker.host,
                broker.port,
                reason,
            )
            self._logged = reason

    def _on_connect(self, client: Client, _u: Any, _f: Any, code: ReasonCode, _p: Any) -> None:
        if code.is_failure:
            self._log_once(
                f"it refuses this device: {code}; set username and password of the source"
            )
            return
        client.subscribe(self._source.topic, qos=0)

    def _on_subscribe(self, _c: Client, _u: Any, _m: int, codes: list[ReasonCode], _p: Any) -> None:
        if any(code.is_failure for code in codes):
            self._log_once(
                f"it does not authorize this device to read {self._source.topic}; {TOPIC_FIX}"
            )
            return
        self.was_subscribed, self._logged = True, ""
        LOG.info("%s: listening to %s", self._name, self._source.topic)

    def _on_message(self, _client: Client, _userdata: Any, message: MQTTMessage) -> None:
        fits = len(message.payload) <= MAX_BYTES
        if fits and not message.retain and not self.received:
            self.received = self._form.decode_line(memoryview(message.payload), self.rows, 0)


def _limit_socket_buffer(_client: Client, _userdata: Any, opened: Any) -> None:
    """Limit the system's receive buffer, because its content is readings, too."""
    with suppress(OSError):
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, SOCKET_BYTES)
