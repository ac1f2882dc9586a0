"""The add-on for Home Assistant: its description is one, and what it starts is the agent."""

import json
import os
import subprocess
import sys
from pathlib import Path

import jsonschema
import pytest
import yaml

from pansketch.version import __version__
from pansketch_fleet.protocol.topics import is_id
from testbed.debian.environment import MACHINES
from tests.waiting import SECONDS

REPOSITORY = Path(__file__).parents[2]
FOLDER = REPOSITORY / "deploy/home-assistant/pansketch_agent"
ADD_ON = yaml.safe_load((FOLDER / "config.yaml").read_text())
YES_NO = {"type": "boolean"}
# The Supervisor's checks of the add-on's keys, and an error for unknown keys. Source: "App
# configuration" of its developer documentation.
RULES = {
    "type": "object",
    "additionalProperties": False,
    "required": ["name", "version", "slug", "description", "arch"],
    "properties": {
        "name": {"type": "string"},
        "version": {"type": "string"},
        "slug": {"type": "string", "pattern": "^[-_.A-Za-z0-9]+$"},
        "description": {"type": "string"},
        "arch": {"type": "array", "items": {"enum": ["amd64", "aarch64"]}, "minItems": 1},
        "boot": {"enum": ["auto", "manual", "manual_only"]},
        "backup": {"enum": ["hot", "cold"]},
        "map": {
            "type": "array",
            "items": {
                "type": "object",
                "additionalProperties": False,
                "required": ["type"],
                "properties": {
                    "type": {"enum": ["addon_config", "data", "share", "ssl"]},
                    "read_only": YES_NO,
                    "path": {"type": "string"},
                },
            },
        },
        "privileged": {"type": "array", "items": {"enum": ["IPC_LOCK"]}},
        "options": {"type": "object"},
        "schema": {
            "type": "object",
            "additionalProperties": {
                "type": "string",
                "pattern": r"^(str|bool|port|match\(.+\))\??$",
            },
        },
    },
}
REPLAY = """\
fleet: home
mqtt: {url: "mqtt://127.0.0.1:9"}
agent: {device: "${DEVICE}", state: "${VAR}/${DEVICE}"}
streams:
  air:
    source: {type: replay, path: air.csv}
    window: 1h
    privacy: {epsilon: 1}
    attributes: {temp: {low: 0, high: 40}}
"""


def test_the_supervisor_takes_the_description():
    jsonschema.validate(ADD_ON, RULES)
    assert ADD_ON["version"] == __version__
    assert set(ADD_ON["arch"]) == {
        machine.replace("x86_64", "amd64") for machine in MACHINES.values()
    }
    assert set(ADD_ON["options"]) == set(ADD_ON["schema"])
    assert is_id(ADD_ON["options"]["device"])


@pytest.mark.parametrize(
    "change",
    [{"slug": "a b"}, {"arch": ["armhf"]}, {"boots": "auto"}, {"schema": {"device": "text"}}],
)
def test_a_wrong_description_is_noticed(change):
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**ADD_ON, **change}, RULES)


def test_it_starts_the_agent_with_the_options(tmp_path):
    """State is in the folder that Home Assistant keeps; the configuration is in another one."""
    data, config = tmp_path / "data", tmp_path / "config"
    data.mkdir()
    config.mkdir()
    options = {"config": "fleet.yaml", "device": "kitchen"}
    (data / "options.json").write_text(json.dumps(options))
    (config / "fleet.yaml").write_text(REPLAY)
    rows = "".join(f"2024-01-01T0{hour}:00:00Z,21\n" for hour in range(6))
    (config / "air.csv").write_text(f"time,temp\n{rows}")
    environment = {
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "VAR": str(data),
        "CONFIG_FOLDER": str(config),
    }
    done = subprocess.run(
        ["sh", str(FOLDER / "run.sh"), "--drain", "0"],
        env=environment,
        capture_output=True,
        text=True,
        timeout=SECONDS,
    )
    assert done.stderr.endswith("(releases: 6)\n"), done.stderr
    assert list((data / "kitchen").glob("ledger*"))
    assert sorted(path.name for path in config.iterdir()) == ["air.csv", "fleet.yaml"]
