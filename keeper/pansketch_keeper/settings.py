"""`keeper.yaml`: four values, so that a person of another organisation reads it in a minute."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from pansketch_fleet.protocol.topics import ID_RULE, is_id
from pansketch_fleet.sections.mqtt import read_mqtt
from pansketch_fleet.settings.mqtt_schema import MqttSection
from pansketch_fleet.settings.section import KeyDoc, Section, section, text_paths
from pansketch_fleet.settings.sources import (
    Mqtt,
)
from pansketch_fleet.yaml.document import parse, read_text
from pansketch_fleet.yaml.interpolation import fill

DEFAULT_STATE = "keeper-state"
EXAMPLE = """\
# The keeper of a blinded fleet: docs/how-to/run-a-keeper.md.
fleet: {fleet}
name: {name}
mqtt:
  url: {url}
  # username: keeper
  # password: "${{file:/etc/pansketch/keeper-password}}"
  # ca_file: /etc/pansketch/ca.pem
state: {state}
"""


class KeeperFileSection(Section, frozen=True):
    """The keys of `keeper.yaml`."""

    fleet: Annotated[str, KeyDoc("The name of the fleet.", "meadow", form="name")]
    name: Annotated[str, KeyDoc("The name of the keeper in `keepers:`.", "tower", form="name")]
    mqtt: Annotated[
        dict[str, Any],
        KeyDoc("The fleet's broker.", '{url: "mqtts://broker.example"}', holds=MqttSection),
    ]
    state: Annotated[
        str,
        KeyDoc(
            "The folder of keys and of the record of answers.",
            "/var/lib/pansketch-keeper",
            form="path",
        ),
    ] = DEFAULT_STATE


@dataclass(frozen=True)
class KeeperConfig:
    """A keeper's configuration, checked. `state`: the folder of its keys and its ledger."""

    fleet: str
    name: str
    mqtt: Mqtt
    state: Path


def load(path: Path, environ: Mapping[str, str]) -> KeeperConfig:
    """Load a keeper's configuration.

    Args:
        path: the file; relative paths in it start at its folder.
        environ: the variables that `${NAME}` refers to.

    Returns:
        Frozen values, all of them checked.

    Raises:
        ConfigError: one line that names file, line, key, problem and fix.
    """
    folder = path.parent
    document = parse(
        read_text(path),
        str(path),
        lambda _, text: fill(text, environ, folder),
        text_paths(KeeperFileSection),
    )
    if document.value is None:
        raise document.error("", "is empty; pansketch-keeper init writes one")
    document.demand()
    top = section(document, "", document.value, KeeperFileSection)
    for key in ("fleet", "name"):
        if not is_id(text := getattr(top, key)):
            raise document.error(key, f"{text[:40]!r} is no id; write {ID_RULE}")
    mqtt = read_mqtt(document, top.mqtt, folder)
    return KeeperConfig(top.fleet, top.name, mqtt, folder / top.state)
