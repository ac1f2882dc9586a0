"""Broken YAML, broken references and files that are no configuration, each refused at its line."""

from pathlib import Path

import pytest

from pansketch_fleet.config.loader import ConfigError, load_agent

WINDOW = "window: 10m"
VIEW = "views: [[pm25, temp]]"

CASES = [
    # YAML itself
    ("fleet: meadow", "fleet: meadow\nfleet: wood", 2, "fleet", "is repeated, first on line 1"),
    ("low: -40", "low: -40, low: 0", 18, "streams.air.attributes.temp.low", "is repeated"),
    (WINDOW, "window: [10m", 13, "", "broken YAML"),
    ("fleet: meadow", "fleet: 'meadow", 25, "", "broken YAML"),
    ("fleet: meadow", "fleet: meadow # \u2028", 1, "", "holds an unusual line end"),
    (WINDOW, "window: 10m\r\n\r    # old", 13, "", "holds an unusual line end"),
    ("  url:", "\turl:", 3, "", "indent with spaces instead of tabs"),
    (WINDOW, "window: %", 12, "", "put the text in quotes"),
    (WINDOW, "window: @hour", 12, "", "put the text in quotes"),
    ("fleet: meadow", "fleet: me\x07adow", 1, "", "holds a character that YAML does not allow"),
    ("fleet: meadow", "fleet: meadow\n---\nfleet: wood", 2, "", "expected a single document"),
    ("fleet: meadow", "fleet: &f meadow", 1, "", "anchor or alias"),
    ("fleet: meadow", "fleet: !!python/name:os.system x", 1, "fleet", "remove the tag"),
    ("epsilon: 0.5", "epsilon: !!float x", 14, "streams.air.privacy.epsilon", "is no number"),
    ("fleet: meadow", "? [a]\n: b\nfleet: meadow", 1, "", "has a key that is no name"),
    ("fleet: meadow", 'fleet: "mea\\ndow"', 1, "fleet", "holds a line break"),
    (VIEW, "views: " + "[" * 500 + "]" * 500, 22, "", "is nested too deeply"),
    # references
    ("post-7", "${DEVICE}", 5, "agent.device", "environment variable DEVICE is not set"),
    (
        "post-7",
        "${DEV-ICE}",
        5,
        "agent.device",
        "that begins no reference; write ${NAME}",
    ),
    ("post-7", "${A:-${B}}", 5, "agent.device", "begins no reference"),
    ("post-7", "${file:no.txt}", 5, "agent.device", "there is no file"),
]


@pytest.mark.parametrize(("old", "new", "line", "where", "says"), CASES)
def test_a_broken_document_is_refused_at_its_line(assert_refusal, old, new, line, where, says):
    assert_refusal(old, new, line, where, says)


def test_the_file_is_named_as_it_was_given(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("config.yaml").write_text("fleet: A\nmqtt: {url: mqtt://a}\nstreams: {}\n")
    with pytest.raises(ConfigError, match=r"\Aconfig\.yaml:1: fleet: 'A' is no id; write 1 to 64"):
        load_agent("config.yaml", {})


def test_a_missing_file_is_reported(tmp_path):
    with pytest.raises(ConfigError, match=r"config\.yaml: does not exist; write it, or name"):
        load_agent(tmp_path / "config.yaml", {})


def test_a_file_that_is_not_utf8_names_the_line_of_the_first_bad_byte(tmp_path):
    path = tmp_path / "config.yaml"
    path.write_bytes(b"fleet: meadow\nmqtt:\n  url: mqtt://b\xfccher\n")
    with pytest.raises(ConfigError, match=r"config\.yaml:3: is not UTF-8 text; save"):
        load_agent(path, {})


def test_an_endless_file_is_not_read_to_its_end():
    with pytest.raises(ConfigError, match="is larger than 1 MiB"):
        load_agent("/dev/zero", {})


@pytest.mark.parametrize("text", ["", "# only a comment\n", "---\n"])
def test_an_empty_file_is_reported(load_text, text):
    with pytest.raises(ConfigError, match=r"is empty; |is nothing; "):
        load_text(text)
