"""The `mqtt:` section: the broker's address and the credentials."""

import re
from dataclasses import replace
from ipaddress import ip_address
from pathlib import Path
from typing import Any, cast, get_args
from urllib.parse import SplitResult, urlsplit

from pansketch_fleet.protocol.signed_release import Credentials
from pansketch_fleet.settings.mqtt_schema import MqttSection, Protocol
from pansketch_fleet.settings.section import nearest, section
from pansketch_fleet.settings.sources import (
    Mqtt,
)
from pansketch_fleet.yaml.document import Document, is_file

PORTS = {"mqtt": 1883, "mqtts": 8883}
FILES = {
    "ca_file": "the broker's CA certificate",
    "cert_file": "the certificate of this device",
    "key_file": "the key of its certificate",
}
MAX_HOST = 253
_LABEL = r"[A-Za-z0-9_-]{1,63}"  # The resolver raises for an empty one, and for a longer one.
_NAME = re.compile(rf"{_LABEL}(?:\.{_LABEL})*\.?")
_EXAMPLE = "write mqtt://host:1883, or mqtts://host:8883 for TLS"


def read_mqtt(document: Document, raw: dict[str, Any], folder: Path, where: str = "mqtt") -> Mqtt:
    """Return the broker's address and credentials. Raises ConfigError, never with a credential in
    it.
    """
    mqtt = section(document, where, raw, MqttSection)
    url = _url(document, where, mqtt.url)
    host, port = _host_and_port(document, where, url)
    tls = url.scheme == "mqtts"
    if mqtt.password is not None and mqtt.username is None:
        raise document.error(
            f"{where}.password", f"has no username beside it; add {where}.username"
        )
    for name, text in (("username", mqtt.username), ("password", mqtt.password)):
        if text == "":
            raise document.error(f"{where}.{name}", "is empty; fill it in or remove it")
    ca_file, cert_file, key_file = (_file(document, where, mqtt, tls, folder, key) for key in FILES)
    if (cert_file is None) != (key_file is None):
        missing = "key_file" if key_file is None else "cert_file"
        there = "cert_file" if key_file is None else "key_file"
        raise document.error(
            f"{where}.{there}", f"has no {missing} beside it; add {where}.{missing}"
        )
    protocol = _protocol(document, where, mqtt.protocol)
    return Mqtt(
        host, port, tls, ca_file, mqtt.username, mqtt.password, cert_file, key_file, protocol
    )


def with_credentials(mqtt: Mqtt, credentials: Credentials | None) -> Mqtt:
    """Return the broker with the user and password of an enrolled device, unless it has
    credentials.
    """
    if credentials is None or mqtt.username is not None or mqtt.cert_file is not None:
        return mqtt
    user, password = credentials.device, credentials.password
    return replace(mqtt, username=user, password=password, enrolled=True)


def _protocol(document: Document, where: str, text: str) -> Protocol:
    if text not in get_args(Protocol):
        problem = f"{text[:20]!r} is no version of MQTT; {nearest(text, get_args(Protocol))}"
        raise document.error(f"{where}.protocol", problem)
    return cast(Protocol, text)


def _url(document: Document, where: str, text: str) -> SplitResult:
    try:
        url = urlsplit(text)
    except ValueError:
        raise document.error(f"{where}.url", f"is not an address; {_EXAMPLE}") from None
    if "@" in url.netloc:
        problem = f"holds credentials; write them as {where}.username and {where}.password"
        raise document.error(f"{where}.url", problem)
    if url.scheme not in PORTS or url.path.strip("/") or url.query or url.fragment:
        raise document.error(f"{where}.url", f"is not an address of a broker; {_EXAMPLE}")
    return url


def _host_and_port(document: Document, where: str, url: SplitResult) -> tuple[str, int]:
    try:
        port = url.port if url.port is not None else PORTS[url.scheme]
    except ValueError:
        port = 0
    if not 1 <= port <= 65535:
        raise document.error(f"{where}.url", f"has an impossible port; {_EXAMPLE}")
    if not url.hostname or not is_host(url.hostname):
        raise document.error(f"{where}.url", f"has no usable host name; {_EXAMPLE}")
    return url.hostname, port


def is_host(text: str) -> bool:
    """Return whether a text is an IP address, or a name that the resolver can look up."""
    try:
        ip_address(text)
    except ValueError:
        return len(text) <= MAX_HOST and _NAME.fullmatch(text) is not None
    return True


def _file(
    document: Document, where: str, mqtt: MqttSection, tls: bool, folder: Path, key: str
) -> Path | None:
    name: str | None = getattr(mqtt, key)
    if name is None:
        return None
    if not tls:
        raise document.error(f"{where}.{key}", "has no effect without TLS; write an mqtts:// url")
    path = folder / name
    if not is_file(path):
        problem = f"there is no file {path}; put {FILES[key]} there"
        raise document.error(f"{where}.{key}", problem)
    return path
