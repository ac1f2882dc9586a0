"""`init`, and `--version` of every program."""

import re

import jsonschema
import pytest
import yaml

from pansketch import __version__
from pansketch_agent.__main__ import main
from pansketch_agent.commands.starter_file import TEXT, own_name
from pansketch_collector.__main__ import main as collector
from pansketch_fleet.config.loader import load_agent, load_collector
from pansketch_fleet.protocol.topics import is_id
from pansketch_keeper.__main__ import main as keeper
from testbed.reference.json_schema import schema


def test_validate_accepts_the_file_as_it_is(tmp_path, capsys, monkeypatch):
    monkeypatch.delenv("DEVICE", raising=False)
    path = tmp_path / "fleet.yaml"
    assert main(["init", "--config", str(path)]) == 0
    assert capsys.readouterr().out.startswith(f"{path}: written; next: ")
    assert main(["validate", "--config", str(path)]) == 0
    config = load_agent(path, {})
    assert (config.agent.device, config.fleet) == (own_name(), "my-fleet")
    assert load_agent(path, {"DEVICE": "attic"}).agent.device == "attic"
    assert load_collector(path, {}).streams[0].name == "board"
    assert is_id(own_name())


def test_its_options_are_in_the_file(tmp_path):
    path = tmp_path / "config.yaml"
    given = [
        "--fleet",
        "farm",
        "--device",
        "barn",
        "--url",
        "mqtts://b.example",
        "--state",
        'a"b\\',
    ]
    assert main(["init", "--config", str(path), *given]) == 0
    config = load_agent(path, {})
    assert (config.fleet, config.agent.device) == ("farm", "barn")
    assert (config.mqtt.host, config.mqtt.tls) == ("b.example", True)
    assert config.agent.state == tmp_path / 'a"b\\' / "barn"


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (["--device", "The Barn"], "agent.device: 'The Barn' is no id; write"),
        (["--fleet", "Farm"], "fleet: 'Farm' is no id; write"),
        (["--fleet", "{}\n#"], "fleet: "),
        (["--url", "broker"], "mqtt.url: is not an address of a broker; write mqtt://host:1883"),
    ],
)
def test_a_wrong_option_is_refused_and_leaves_no_file(tmp_path, capsys, given, says):
    path = tmp_path / "config.yaml"
    assert main(["init", "--config", str(path), *given]) == 2
    assert says in capsys.readouterr().err
    assert not path.exists()


def test_nothing_is_overwritten(tmp_path, capsys):
    path = tmp_path / "config.yaml"
    path.write_text("mine")
    assert main(["init", "--config", str(path)]) == 2
    err = capsys.readouterr().err
    assert err == f"pansketch-agent: {path}: is there already; name another file with --config\n"
    assert path.read_text() == "mine"
    assert main(["init", "--config", str(tmp_path / "none" / "config.yaml")]) == 2


def test_its_examples_are_valid_when_they_are_uncommented(tmp_path):
    """A line of an example begins with "# " at the place of its key."""
    values = {"schema": "s", "fleet": "f", "device": "attic", "url": "mqtts://b", "state": "var"}
    text = TEXT.format(**values).replace("/etc/pansketch/", "")
    text = re.sub(r"^( *)# (?= *[a-z_]+:( |$))(?!yaml-language-server)", r"\1", text, flags=re.M)
    assert "\ngroups:" in text
    assert "\n  room: " in text
    for file in ("ca.crt", "credentials/password"):
        (tmp_path / file).parent.mkdir(exist_ok=True)
        (tmp_path / file).write_text("x")
    path = tmp_path / "config.yaml"
    path.write_text(text)
    config = load_agent(path, {"DEVICE": "attic"})
    assert [stream.name for stream in config.streams] == ["board", "room"]
    assert (config.profile.name, config.streams[0].source.interval_seconds) == ("pi-zero-2w", 60)
    jsonschema.Draft202012Validator(schema()).validate(yaml.safe_load(text))


@pytest.mark.parametrize(
    ("program", "name"),
    [(main, "pansketch-agent"), (collector, "pansketch-collector"), (keeper, "pansketch-keeper")],
)
def test_version(program, name, capsys):
    assert program(["--version"]) == 0
    assert capsys.readouterr().out == f"{name} {__version__}\n"
