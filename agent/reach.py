"""Whether the broker can be reached: its name, its port, and what it answers to MQTT."""

import socket
import threading

from agent.clock import Clock
from agent.finding import Finding
from agent.probe import probe
from fleet.settings import Mqtt
from fleet.tls import TlsFilesError, context, meaning

MOST_SECONDS = 5.0


def reach(mqtt: Mqtt, fleet: str, device: str, clock: Clock) -> Finding:
    """Tries each step in turn, all of them within MOST_SECONDS or little more.

    A failure's text begins with the step (DNS, TCP, TLS, credentials, access rules, MQTT) and ends
    with the fix.
    """
    until = clock.monotonic() + MOST_SECONDS
    place = f"{mqtt.host}:{mqtt.port}"
    failure = _resolve(mqtt.host, MOST_SECONDS)
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


def _speak(mqtt: Mqtt, fleet: str, device: str, place: str, most_seconds: float) -> Finding:
    try:
        verdict = probe(mqtt, fleet, device, most_seconds)
    except OSError as error:
        why = error.strerror or type(error).__name__
        return _wrong("MQTT", f"{place} ended the connection ({why}); is it an MQTT broker?")
    if verdict.failed == "access rules":
        return _wrong(verdict.failed, f"{place}: {verdict.text}")
    if verdict.failed:
        return _wrong(verdict.failed, f"{place} does not let the device in: {verdict.text}")
    how = f"over TLS, MQTT {verdict.version}" if mqtt.tls else f"with MQTT {verdict.version}"
    in_words = f"{place} lets the device in {how}"
    if not verdict.echo:
        return Finding("broker", "note", f"{in_words}; {verdict.text}")
    return Finding("broker", "ok", f"{in_words}, and its access rules know the device")


def _resolve(host: str, most_seconds: float) -> str:
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
    thread.join(most_seconds)
    return failures[0] if failures else f"no answer within {most_seconds:g} s"


def _wrong(step: str, text: str) -> Finding:
    return Finding("broker", "wrong", f"{step}: {text}")
