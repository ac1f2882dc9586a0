"""A `source:` section of a local topic: its broker, and where in its messages the values are."""

from pathlib import Path
from typing import Any

import msgspec

from fleet.connection import read_mqtt
from fleet.document import Document
from fleet.json_sources import read_paths
from fleet.schema import MqttSection, MqttSourceSection, join, section
from fleet.settings import MqttSource

DEFAULT_URL = "mqtt://localhost:1883"
MOST_TOPIC_BYTES = 1024


def read_topic(
    document: Document, where: str, raw: dict[str, Any], folder: Path, local: bool
) -> MqttSource:
    """Raises ConfigError. Without a url the broker is this host's own, never the fleet's.

    That a file for TLS is missing matters only where `local` is true.
    """
    given = section(document, where, raw, MqttSourceSection)
    if not is_topic_filter(given.topic):
        problem = f"{given.topic[:40]!r} is no topic; write one such as zigbee2mqtt/kitchen"
        raise document.error(join(where, "topic"), problem)
    settings = msgspec.structs.asdict(given)
    broker = {key: settings[key] for key in MqttSection.__struct_fields__ if key in settings}
    broker["url"] = given.url or DEFAULT_URL
    if not local:
        broker.update(dict.fromkeys(("ca_file", "cert_file", "key_file")))
    paths = read_paths(document, where, given.paths)
    return MqttSource(given.topic, read_mqtt(document, broker, folder, where), paths)


def is_topic_filter(text: str) -> bool:
    """Whether a broker takes it: `+` stands for a whole level, `#` for all that follow."""
    levels = text.split("/")
    return (
        0 < len(text.encode(errors="replace")) <= MOST_TOPIC_BYTES
        and text.isprintable()
        and all("+" not in level or level == "+" for level in levels)
        and all("#" not in level for level in levels[:-1])
        and ("#" not in levels[-1] or levels[-1] == "#")
    )
