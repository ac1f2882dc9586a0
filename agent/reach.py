"""Whether the broker can be reached: its name, its port, and what it answers to MQTT."""

import socket
import ssl
import threading

from agent.clock import Clock
from agent.finding import Finding
from agent.mqtt import try_connect
from fleet.settings import Mqtt

MOST_SECONDS = 5.0


def reach(mqtt: Mqtt, fleet: str, device: str, clock: Clock) -> Finding:
    """Tries each step in turn, all of them within MOST_SECONDS; the text has the fix."""
    until = clock.monotonic() + MOST_SECONDS
    place = f"{mqtt.host}:{mqtt.port}"
    failure = _resolve(mqtt.host, MOST_SECONDS)
    if failure:
        return _wrong(f"no address for {mqtt.host} ({failure}); correct mqtt.url or the resolver")
    try:
        left = max(0.1, until - clock.monotonic())
        socket.create_connection((mqtt.host, mqtt.port), left).close()
    except TimeoutError:
        return _wrong(f"{place} does not answer; check the network, a firewall, and mqtt.url")
    except OSError as error:
        why = error.strerror or type(error).__name__
        return _wrong(f"no connection to {place} ({why}); start the broker or correct mqtt.url")
    return _speak(mqtt, fleet, device, place, max(0.1, until - clock.monotonic()))


def _speak(mqtt: Mqtt, fleet: str, device: str, place: str, most_seconds: float) -> Finding:
    try:
        failure = try_connect(mqtt, fleet, device, most_seconds)
    except ssl.SSLError as error:
        why = error.reason or "handshake failed"
        return _wrong(f"no TLS with {place} ({why}); check mqtts:// and mqtt.ca_file")
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or type(error).__name__
        return _wrong(f"{place} ended the connection ({why}); is it an MQTT broker?")
    if failure:
        fix = "check mqtt.username, mqtt.password and the broker's log"
        return _wrong(f"{place} does not let the device in ({failure}); {fix}")
    return Finding("broker", "ok", f"{place} lets the device in")


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


def _wrong(text: str) -> Finding:
    return Finding("broker", "wrong", text)
