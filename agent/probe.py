"""What the broker says to this device, tried out beside a running agent and without any data.

An empty message goes to the device's own `probe` topic, which no collector listens to, and should
come back: then the broker's access rules know the fleet and the device by their names.
"""

import queue
from dataclasses import dataclass
from typing import Literal

from agent.denials import RULES, denial
from agent.events import NOT_AUTHORIZED, AckArrived, Event, HandedOver, Subscribed
from agent.mqtt import BAD_PASSWORD, Connection, Introduction, refusal
from fleet import tls, topics
from fleet.dialect import Dialect
from fleet.keeping import LOOK_SECONDS, UNKNOWN_VERSION
from fleet.settings import Mqtt

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


def probe(mqtt: Mqtt, fleet: str, device: str, most_seconds: float) -> Verdict:
    """Connects, listens to the own acks, probes and disconnects.

    `most_seconds`: the longest wait for the answer to CONNECT. Raises OSError when there is no
    connection to speak MQTT over, TlsFilesError.
    """
    dialect = Dialect(mqtt.protocol)
    while True:
        events: queue.SimpleQueue[Event] = queue.SimpleQueue()
        introduction = Introduction(mqtt, f"pansketch-{fleet}-{device}-check")
        connection = Connection(introduction, dialect.version, events.put)
        connection.open(most_seconds)
        try:
            connection.answered.wait(most_seconds)
            said = connection.answer is not None and connection.answer.refusal == UNKNOWN_VERSION
            if (said or connection.answer is None) and dialect.not_understood(said):
                continue
            refused = _refused(mqtt, connection)
            return refused or _tried(connection, events, fleet, device)
        finally:
            connection.leave()
            connection.close()


def _refused(mqtt: Mqtt, connection: Connection) -> Verdict | None:
    if connection.answer is None:
        why = tls.hung_up(mqtt, LOOK_SECONDS) if connection.over.is_set() else ""
        text = why or "no answer to CONNECT; is it an MQTT broker?"
        return Verdict("TLS" if mqtt.tls and why else "MQTT", text)
    if code := connection.answer.refusal:
        step: Step = "credentials" if code in (NOT_AUTHORIZED, BAD_PASSWORD) else "MQTT"
        return Verdict(step, refusal(mqtt, code))
    return None


def _tried(
    connection: Connection, events: "queue.SimpleQueue[Event]", fleet: str, device: str
) -> Verdict:
    """What the access rules let the device do, as far as the broker shows it."""
    ack, own = topics.ack(fleet, device), topics.probe(fleet, device)
    connection.subscribe(ack)
    if failure := _subscribed(events):
        return Verdict("access rules", denial("hear", ack, failure, device))
    connection.subscribe(own)
    _subscribed(events)
    connection.publish(own, b"")
    echo = False
    while (event := _next(events)) is not None and not echo:
        if isinstance(event, HandedOver) and event.failure:
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


def _subscribed(events: "queue.SimpleQueue[Event]") -> str:
    """Why a subscription was denied, or ""."""
    while (event := _next(events)) is not None:
        if isinstance(event, Subscribed):
            return event.failure
    return ""


def _next(events: "queue.SimpleQueue[Event]") -> Event | None:
    try:
        return events.get(timeout=ECHO_SECONDS)
    except queue.Empty:
        return None
