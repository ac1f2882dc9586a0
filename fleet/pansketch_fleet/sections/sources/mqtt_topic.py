"""A `source:` section of a local topic: its broker, and the paths of the values in its messages."""

from pathlib import Path
from typing import Any

import msgspec

from pansketch_fleet.sections.mqtt import read_mqtt
from pansketch_fleet.sections.sources.json_paths import read_paths
from pansketch_fleet.settings.mqtt_schema import MqttSection
from pansketch_fleet.settings.section import join, section
from pansketch_fleet.settings.source_schema import MqttSourceSection
from pansketch_fleet.settings.sources import (
    MqttSource,
)
from pansketch_fleet.yaml.document import Document
from pansketch_fleet.yaml.interpolation import has_reference

DEFAULT_URL = "mqtt://localhost:1883"
MAX_TOPIC_BYTES = 1024


def read_topic(
    document: Document, where: str, raw: dict[str, Any], folder: Path, local: bool
) -> MqttSource:
    """Read the section. Raises ConfigError. The default broker is this host's, never the fleet's.

    References must be set and TLS files must exist only if `local` is true.
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
        if has_reference(broker["url"]):
            broker["url"] = DEFAULT_URL
    paths = read_paths(document, where, given.paths)
    return MqttSource(given.topic, read_mqtt(document, broker, folder, where), paths)


def overlap(one: str, other: str) -> bool:
    """Return whether a message may match both topic filters."""
    return _overlap(_levels(one), _levels(other))


def _levels(text: str) -> list[str]:
    levels = text.split("/")
    return levels[2:] if levels[0] == "$share" else levels


def _overlap(one: list[str], other: list[str]) -> bool:
    # `#` stands for the level before it as well: a/# matches a.
    if one[:1] == ["#"] or other[:1] == ["#"]:
        return True
    if not one or not other:
        return one == other
    return (one[0] == other[0] or "+" in (one[0], other[0])) and _overlap(one[1:], other[1:])


def is_topic_filter(text: str) -> bool:
    """Return whether a broker accepts it: `+` matches a whole level, `#` all that follow."""
    levels = text.split("/")
    return (
        0 < len(text.encode(errors="replace")) <= MAX_TOPIC_BYTES
        and text.isprintable()
        and all("+" not in level or level == "+" for level in levels)
        and all("#" not in level for level in levels[:-1])
        and ("#" not in levels[-1] or levels[-1] == "#")
    )
