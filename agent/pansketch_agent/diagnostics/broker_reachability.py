"""Checks the way to the broker: its name, its port, TLS, MQTT and its access rules.

The probe works beside a running agent and without any data. The device publishes an empty message
to its own `probe` topic, to which no collector subscribes. If the message comes back, the broker's
access rules contain the fleet and the device.
"""

import queue
import socket
import threading
from dataclasses import dataclass
from typing import Literal

from pansketch_agent.host.check_result import CheckResult
from pansketch_agent.host.clock import Clock
from pansketch_agent.mqtt.client import BAD_PASSWORD, ConnectOptions, DeviceConnection, refusal
from pansketch_agent.mqtt.events import (
    NOT_AUTHORIZED,
    AckArrived,
    ConnectionEvent,
    Puback,
    Subscribed,
)
from pansketch_agent.mqtt.problem_log import RULES, denial
from pansketch_fleet.mqtt import tls
from pansketch_fleet.mqtt.reconnect import HANDSHAKE_SECONDS, UNKNOWN_VERSION, VersionNegotiation
from pansketch_fleet.mqtt.tls import TlsFilesError, context, meaning
from pansketch_fleet.protocol import topics
from pansketch_fleet.settings.sources import (
    Mqtt,
)

ECHO_SECONDS = 1.0

Step = Literal["", "TLS", "MQTT", "credentials", "access rules"]


@dataclass(frozen=True)
class ProbeResult:
    """`failed`: the failed step, or ""; `text`: the reason, with the fix.

    `version`: of MQTT, if the broker accepted the device. `echo`: whether the probe came back.
    """

    failed: Step
    text: str = ""
    version: str = ""
    echo: bool = False


def probe(mqtt: Mqtt, fleet: str, device: str, max_seconds: float) -> ProbeResult:
    """Connect, subscribe to the device's ack and mark topics, probe, and disconnect.

    `max_seconds`: the longest wait for the CONNACK. Raises TlsFilesError, and OSError when there is
    no connection.
    """
    negotiation = VersionNegotiation(mqtt.protocol)
    while True:
        events: queue.SimpleQueue[ConnectionEvent] = queue.SimpleQueue()
        options = ConnectOptions(mqtt, f"pansketch-{fleet}-{device}-check")
        connection = DeviceConnection(options, negotiation.version, events.put)
        connection.open(max_seconds)
        try:
            connection.answered.wait(max_seconds)
            unknown_version = (
                connection.answer is not None and connection.answer.refusal == UNKNOWN_VERSION
            )
            if (unknown_version or connection.answer is None) and negotiation.rejected(
                unknown_version
            ):
                continue
            refused = _refused(mqtt, connection)
            return refused or _probe_access(connection, events, fleet, device)
        finally:
            connection.leave()
            connection.close()


def _refused(mqtt: Mqtt, connection: DeviceConnection) -> ProbeResult | None:
    if connection.answer is None:
        why = (
            tls.closed_connection_reason(mqtt, HANDSHAKE_SECONDS)
            if connection.over.is_set()
            else ""
        )
        text = why or "no answer to CONNECT; is it an MQTT broker?"
        return ProbeResult("TLS" if mqtt.tls and why else "MQTT", text)
    if code := connection.answer.refusal:
        step: Step = "credentials" if code in (NOT_AUTHORIZED, BAD_PASSWORD) else "MQTT"
        return ProbeResult(step, refusal(mqtt, code))
    return None


def _probe_access(
    connection: DeviceConnection,
    events: "queue.SimpleQueue[ConnectionEvent]",
    fleet: str,
    device: str,
) -> ProbeResult:
    """Try the topics of the device, as far as the broker reports its access rules."""
    own = topics.probe(fleet, device)
    for topic in (topics.ack(fleet, device), topics.mark(fleet, device)):
        connection.subscribe(topic)
        if failure := _subscribed(events):
            return ProbeResult("access rules", denial("hear", topic, failure, device))
    connection.subscribe(own)
    _subscribed(events)
    connection.publish(own, b"")
    echo = False
    while (event := _next(events)) is not None and not echo:
        if isinstance(event, Puback) and event.failure:
            return ProbeResult("access rules", denial("write", own, event.failure, device))
        # An ack for the running agent is not empty.
        echo = isinstance(event, AckArrived) and not event.payload
    return ProbeResult(
        "", _missing_echo_text(connection.version, echo, device), connection.version, echo
    )


def _missing_echo_text(version: str, echo: bool, device: str) -> str:
    if echo:
        return ""
    unseen = "a probe did not come back, and" if version == "5" else "a probe did not come back:"
    return (
        f"{unseen} MQTT {version} does not show why; if nothing is acknowledged, {RULES} {device}"
    )


def _subscribed(events: "queue.SimpleQueue[ConnectionEvent]") -> str:
    """Return why the broker rejected a subscription, or ""."""
    while (event := _next(events)) is not None:
        if isinstance(event, Subscribed):
            return event.failure
    return ""


def _next(events: "queue.SimpleQueue[ConnectionEvent]") -> ConnectionEvent | None:
    try:
        return events.get(timeout=ECHO_SECONDS)
    except queue.Empty:
        return None


MAX_SECONDS = 5.0


def check_broker(mqtt: Mqtt, fleet: str, device: str, clock: Clock) -> CheckResult:
    """Try each step in turn, all of them within MAX_SECONDS or little more.

    The text of a failure begins with the step (DNS, TCP, TLS, credentials, access rules, MQTT) and
    ends with the fix.
    """
    until = clock.monotonic() + MAX_SECONDS
    address = f"{mqtt.host}:{mqtt.port}"
    failure = _resolve(mqtt.host, MAX_SECONDS)
    if failure:
        why = f"no address for {mqtt.host} ({failure})"
        return _wrong("DNS", f"{why}; correct mqtt.url or the resolver")
    try:
        left = max(0.1, until - clock.monotonic())
        connection = socket.create_connection((mqtt.host, mqtt.port), left)
    except TimeoutError:
        return _wrong("TCP", f"{address} does not answer; check the network, a firewall, mqtt.url")
    except OSError as error:
        why = error.strerror or type(error).__name__
        fix = "start the broker or correct mqtt.url"
        return _wrong("TCP", f"no connection to {address} ({why}); {fix}")
    with connection:
        failure = _tls_failure(mqtt, connection) if mqtt.tls else ""
    if failure:
        return _wrong("TLS", f"{address}: {failure}")
    return _check_mqtt(mqtt, fleet, device, address, max(0.1, until - clock.monotonic()))


def _tls_failure(mqtt: Mqtt, connection: socket.socket) -> str:
    """Return why TLS fails over this connection, or "". The connection keeps its time limit."""
    try:
        with context(mqtt).wrap_socket(connection, server_hostname=mqtt.host):
            return ""
    except TlsFilesError as error:
        return str(error)
    except TimeoutError:
        return "it does not answer in the handshake; is the port in mqtt.url one for TLS?"
    except (OSError, ValueError) as error:
        return meaning(error, mqtt) or f"TLS failed ({error}); check mqtt.url"


def _check_mqtt(
    mqtt: Mqtt, fleet: str, device: str, address: str, max_seconds: float
) -> CheckResult:
    try:
        result = probe(mqtt, fleet, device, max_seconds)
    except OSError as error:
        why = error.strerror or type(error).__name__
        return _wrong("MQTT", f"{address} ended the connection ({why}); is it an MQTT broker?")
    if result.failed == "access rules":
        return _wrong(result.failed, f"{address}: {result.text}")
    if result.failed:
        return _wrong(result.failed, f"{address} rejects the device: {result.text}")
    how = f"over TLS, MQTT {result.version}" if mqtt.tls else f"with MQTT {result.version}"
    in_words = f"{address} accepts the device {how}"
    if not result.echo:
        return CheckResult("broker", "note", f"{in_words}; {result.text}")
    return CheckResult("broker", "ok", f"{in_words}, and its access rules know the device")


def _resolve(host: str, max_seconds: float) -> str:
    """Return why the host has no address, or "". A resolver has no time limit, so it runs in a
    thread.
    """
    failures: list[str] = []

    def resolve() -> None:
        try:
            socket.getaddrinfo(host, None)
            failures.append("")
        except (OSError, ValueError) as error:
            failures.append(getattr(error, "strerror", None) or type(error).__name__)

    thread = threading.Thread(target=resolve, daemon=True)
    thread.start()
    thread.join(max_seconds)
    return failures[0] if failures else f"no answer within {max_seconds:g} s"


def _wrong(step: str, text: str) -> CheckResult:
    return CheckResult("broker", "wrong", f"{step}: {text}")
