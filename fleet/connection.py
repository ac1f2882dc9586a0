"""The `mqtt:` section: where the broker is and how to be let in."""

import re
from pathlib import Path
from typing import Any
from urllib.parse import SplitResult, urlsplit

from fleet.document import Document
from fleet.files import is_file
from fleet.schema import MqttSection, section
from fleet.settings import Mqtt

PORTS = {"mqtt": 1883, "mqtts": 8883}
_HOST = re.compile(r"[A-Za-z0-9._-]{1,253}|[0-9A-Fa-f:.]{2,45}(%[A-Za-z0-9]+)?")
_EXAMPLE = "write mqtt://host:1883, or mqtts://host:8883 for TLS"


def read_mqtt(document: Document, raw: dict[str, Any], folder: Path) -> Mqtt:
    """The broker's address and credentials. Raises ConfigError, never with a credential in it."""
    mqtt = section(document, "mqtt", raw, MqttSection)
    url = _url(document, mqtt.url)
    host, port = _host_and_port(document, url)
    tls = url.scheme == "mqtts"
    if mqtt.password is not None and mqtt.username is None:
        raise document.error("mqtt.password", "has no username beside it; add mqtt.username")
    for name, text in (("username", mqtt.username), ("password", mqtt.password)):
        if text == "":
            raise document.error(f"mqtt.{name}", "is empty; fill it in or remove it")
    return Mqtt(
        host, port, tls, _ca_file(document, mqtt, tls, folder), mqtt.username, mqtt.password
    )


def _url(document: Document, text: str) -> SplitResult:
    try:
        url = urlsplit(text)
    except ValueError:
        raise document.error("mqtt.url", f"is not an address; {_EXAMPLE}") from None
    if "@" in url.netloc:
        problem = "holds credentials; write them as mqtt.username and mqtt.password"
        raise document.error("mqtt.url", problem)
    if url.scheme not in PORTS or url.path.strip("/") or url.query or url.fragment:
        raise document.error("mqtt.url", f"is not an address of a broker; {_EXAMPLE}")
    return url


def _host_and_port(document: Document, url: SplitResult) -> tuple[str, int]:
    try:
        port = url.port if url.port is not None else PORTS[url.scheme]
    except ValueError:
        port = 0
    if not 1 <= port <= 65535:
        raise document.error("mqtt.url", f"has an impossible port; {_EXAMPLE}")
    if not url.hostname or not _HOST.fullmatch(url.hostname):
        raise document.error("mqtt.url", f"has no usable host name; {_EXAMPLE}")
    return url.hostname, port


def _ca_file(document: Document, mqtt: MqttSection, tls: bool, folder: Path) -> Path | None:
    if mqtt.ca_file is None:
        return None
    if not tls:
        raise document.error("mqtt.ca_file", "has no effect without TLS; write an mqtts:// url")
    path = folder / mqtt.ca_file
    if not is_file(path):
        problem = f"there is no file {path}; put the broker's CA certificate there"
        raise document.error("mqtt.ca_file", problem)
    return path
