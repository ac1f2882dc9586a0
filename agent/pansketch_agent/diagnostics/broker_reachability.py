"""Whether the broker can be reached: its name, its port, TLS, MQTT and its access rules.

The probe runs beside a running agent and without any data: an empty message goes to the device's
own `probe` topic, which no collector subscribes to. If it comes back, the broker's access rules
know the fleet and the device by their names.
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
from pansketch_fleet.mqtt.reconnect import LOOK_SECONDS, UNKNOWN_VERSION, VersionNegotiation
from pansketch_fleet.mqtt.tls import TlsFilesError, context, meaning
from pansketch_fleet.protocol import topics
from pansketch_fleet.settings.sources import (
    Mqtt,
)

ECHO_SECONDS = 1.0

Step = Literal["", "TLS", "MQTT", "credentials", "access rules"]


@dataclass(frozen=True)
class Verdict:
    """`failed`: the step that failed, or "" when none did; `text`: why, with the fix.

    `version`: of MQTT, when the broker let the device in. `echo`: whether the probe came back.
    """

    failed: Step
    text: str = ""
    version: str = ""
    echo: bool = False


def probe(mqtt: Mqtt, fleet: str, device: str, max_seconds: float) -> Verdict:
    """Connects, listens to the own acks and mark, probes and disconnects.

    `max_seconds`: the longest wait for the answer to CONNECT. Raises OSError when there is no
    connection to speak MQTT over, TlsFilesError.
    """
    negotiation = VersionNegotiation(mqtt.protocol)
    while True:
        events: queue.SimpleQueue[ConnectionEvent] = queue.SimpleQueue()
        introduction = ConnectOptions(mqtt, f"pansketch-{fleet}-{device}-check")
        connection = DeviceConnection(introduction, negotiation.version, events.put)
        connection.open(max_seconds)
        try:
            connection.answered.wait(max_seconds)
            said = connection.answer is not None and connection.answer.refusal == UNKNOWN_VERSION
            if (said or connection.answer is None) and negotiation.not_understood(said):
                continue
            refused = _refused(mqtt, connection)
            return refused or _tried(connection, events, fleet, device)
        finally:
            connection.leave()
            connection.close()


def _refused(mqtt: Mqtt, connection: DeviceConnection) -> Verdict | None:
    if connection.answer is None:
        why = tls.hung_up(mqtt, LOOK_SECONDS) if connection.over.is_set() else ""
        text = why or "no answer to CONNECT; is it an MQTT broker?"
        return Verdict("TLS" if mqtt.tls and why else "MQTT", text)
    if code := connection.answer.refusal:
        step: Step = "credentials" if code in (NOT_AUTHORIZED, BAD_PASSWORD) else "MQTT"
        return Verdict(step, refusal(mqtt, code))
    return None


def _tried(
    connection: DeviceConnection,
    events: "queue.SimpleQueue[ConnectionEvent]",
    fleet: str,
    device: str,
) -> Verdict:
    """What the access rules let the device do, as far as the broker shows it."""
    own = topics.probe(fleet, device)
    for topic in (topics.ack(fleet, device), topics.mark(fleet, device)):
        connection.subscribe(topic)
        if failure := _subscribed(events):
            return Verdict("access rules", denial("hear", topic, failure, device))
    connection.subscribe(own)
    _subscribed(events)
    connection.publish(own, b"")
    echo = False
    while (event := _next(events)) is not None and not echo:
        if isinstance(event, Puback) and event.failure:
            return Verdict("access rules", denial("write", own, event.failure, device))
        # An ack for the running agent is not empty.
        echo = isinstance(event, AckArrived) and not event.payload
    return Verdict("", _seen(connection.version, echo, device), connection.version, echo)


def _seen(version: str, echo: bool, device: str) -> str:
    if echo:
        return ""
    unseen = "a probe did not come back, and" if version == "5" else "a probe did not come back:"
    return (
        f"{unseen} MQTT {version} does not show why; if nothing is acknowledged, {RULES} {device}"
    )


def _subscribed(events: "queue.SimpleQueue[ConnectionEvent]") -> str:
    """Why a subscription was denied, or ""."""
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


def reach(mqtt: Mqtt, fleet: str, device: str, clock: Clock) -> CheckResult:
    """Tries each step in turn, all of them within MAX_SECONDS or little more.

    A failure's text begins with the step (DNS, TCP, TLS, credentials, access rules, MQTT) and ends
    with the fix.
    """
    until = clock.monotonic() + MAX_SECONDS
    place = f"{mqtt.host}:{mqtt.port}"
    failure = _resolve(mqtt.host, MAX_SECONDS)
    if failure:
        why = f"no address for {mqtt.host} ({failure})"
        return _wrong("DNS", f"{why}; correct mqtt.url or the resolver")
    try:
        left = max(0.1, until - clock.monotonic())
        connection = socket.create_connection((mqtt.host, mqtt.port), left)
    except TimeoutError:
        return _wrong("TCP", f"{place} does not answer; check the network, a firewall, mqtt.url")
    except OSError as error:
        why = error.strerror or type(error).__name__
        fix = "start the broker or correct mqtt.url"
        return _wrong("TCP", f"no connection to {place} ({why}); {fix}")
    with connection:
        failure = _shake_hands(mqtt, connection) if mqtt.tls else ""
    if failure:
        return _wrong("TLS", f"{place}: {failure}")
    return _speak(mqtt, fleet, device, place, max(0.1, until - clock.monotonic()))


def _shake_hands(mqtt: Mqtt, connection: socket.socket) -> str:
    """Why there is no TLS over this connection, which keeps its time limit, or ""."""
    try:
        with context(mqtt).wrap_socket(connection, server_hostname=mqtt.host):
            return ""
    except TlsFilesError as error:
        return str(error)
    except TimeoutError:
        return "it does not answer in the handshake; is the port in mqtt.url one for TLS?"
    except (OSError, ValueError) as error:
        return meaning(error, mqtt) or f"TLS failed ({error}); check mqtt.url"


def _speak(mqtt: Mqtt, fleet: str, device: str, place: str, max_seconds: float) -> CheckResult:
    try:
        verdict = probe(mqtt, fleet, device, max_seconds)
    except OSError as error:
        why = error.strerror or type(error).__name__
        return _wrong("MQTT", f"{place} ended the connection ({why}); is it an MQTT broker?")
    if verdict.failed == "access rules":
        return _wrong(verdict.failed, f"{place}: {verdict.text}")
    if verdict.failed:
        return _wrong(verdict.failed, f"{place} rejects the device: {verdict.text}")
    how = f"over TLS, MQTT {verdict.version}" if mqtt.tls else f"with MQTT {verdict.version}"
    in_words = f"{place} accepts the device {how}"
    if not verdict.echo:
        return CheckResult("broker", "note", f"{in_words}; {verdict.text}")
    return CheckResult("broker", "ok", f"{in_words}, and its access rules know the device")


def _resolve(host: str, max_seconds: float) -> str:
    """Why the host has no address, or "". A resolver has no time limit, so it gets a thread."""
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
