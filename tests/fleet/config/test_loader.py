"""The values of a valid configuration, for the agent and for the collector."""

import dataclasses
import os
from dataclasses import replace
from pathlib import Path

import pytest

from pansketch import Attribute
from pansketch.planning.hierarchy_planner import StatedSizes
from pansketch_fleet.config.loader import (
    ConfigError,
    Mqtt,
    ReplaySource,
    StdinSource,
    SystemSource,
    describe,
    load_agent,
)
from pansketch_fleet.settings.profiles import known, load_profile
from tests.configurations import LOADERS

ROOT = Path(__file__).parents[3]


def test_the_agent_sees_every_value(load_text, tmp_path):
    config = load_text()
    assert config.fleet == "meadow"
    assert config.mqtt == Mqtt("broker.example", 1884, tls=False)
    assert (config.agent.device, config.agent.state) == ("post-7", tmp_path / "var/agent/post-7")
    assert config.profile is config.agent.profile
    assert config.profile.name == "pi-zero-2w"
    assert config.collector.database == tmp_path / "kept/releases.sqlite"
    (stream,) = config.streams
    assert (stream.name, stream.window_seconds) == ("air", 600)
    assert stream.source == ReplaySource(tmp_path / "air.csv", None)
    privacy = stream.spec.privacy
    assert (privacy.epsilon, privacy.unit, privacy.intrusion) == (0.5, "reading", "silent")


def test_the_domain_has_the_view_s_attributes_in_the_view_s_order(load_text):
    domain = load_text().streams[0].spec.domain
    assert domain.names == ("pm25", "temp")
    assert domain.attributes[0] == Attribute("pm25", low=0, high=1000, scale="log")
    assert domain.attributes[1] == Attribute("temp", low=-40, high=60, unit="degC")


@pytest.mark.parametrize("views", ["", "    views: auto\n", "    views:\n"])
def test_without_a_view_all_attributes_are_one(load_text, views, valid):
    domain = load_text(valid.replace("    views: [[pm25, temp]]\n", views)).streams[0].spec.domain
    assert domain.names == ("temp", "pm25", "wind")


def test_categories_are_taken_as_written(load_text, valid):
    words = "[N, NO, on, off, yes, null, ~, 007, 1:30, 0x1F, 1e3, .5, true]"
    text = valid.replace("[N, NO, E, off]", words).replace("    views: [[pm25, temp]]\n", "")
    wind = load_text(text).streams[0].spec.domain.attributes[2]
    assert wind.categories == tuple(words.strip("[]").split(", "))


@pytest.mark.parametrize("name", ["007", "no", "1e3", "null", "'7'"])
def test_ids_are_taken_as_written(load_text, name, valid):
    config = load_text(valid.replace("post-7", name).replace("meadow", name))
    assert config.fleet == config.agent.device == name.strip("'")


@pytest.mark.parametrize(
    ("text", "window_seconds"),
    [("1s", 1), ("1000ms", 1), ("1.5m", 90), ("6h", 21600), ("30d", 2592000), ("1w", 604800)],
)
def test_windows(load_text, text, window_seconds, valid):
    config = load_text(valid.replace("window: 10m", f"window: {text}"))
    assert config.streams[0].window_seconds == window_seconds


@pytest.mark.parametrize(
    ("section", "source"),
    [
        ("{type: stdin}", StdinSource()),
        ("{type: system}", SystemSource(10.0)),
        ("{type: system, interval: 500ms}", SystemSource(0.5)),
    ],
)
def test_live_sources(load_text, section, source, valid):
    start, end = valid.index("    source:"), valid.index("    window:")
    text = f"{valid[:start]}    source: {section}\n{valid[end:]}"
    assert load_text(text).streams[0].source == source


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("mqtt://a", Mqtt("a", 1883, tls=False)),
        ("mqtt://10.0.0.1:99/", Mqtt("10.0.0.1", 99, tls=False)),
        ("mqtts://a.b-c", Mqtt("a.b-c", 8883, tls=True)),
        ("'mqtts://[fe80::1]:5'", Mqtt("fe80::1", 5, tls=True)),
    ],
)
def test_broker_addresses(load_text, url, expected, valid):
    assert load_text(valid.replace("mqtt://broker.example:1884", url)).mqtt == expected


def test_a_stated_size_wins_over_the_profile_and_the_profile_over_the_planner(load_text, valid):
    stream = load_text(valid.replace("    views", "    sketch: {k: 64}\n    views")).streams[0]
    assert (stream.spec.k, stream.spec.depth, stream.spec.fanout) == (64, 20, 4)
    profile = replace(load_profile("pi-zero-2w"), sketch=StatedSizes(k=16, fanout=2, depth=7))
    spec = stream.plan.spec(profile)
    assert (spec.k, spec.depth, spec.fanout) == (64, 7, 2)


def test_a_planned_depth_shrinks_to_the_attributes(load_text, valid):
    assert load_text(valid.replace("[[pm25, temp]]", "[[wind]]")).streams[0].spec.depth == 2


def test_a_stated_depth_does_not_shrink(refusal):
    error = refusal("views: [[pm25, temp]]", "views: [[wind]]\n    sketch: {depth: 3}")
    assert (error.line, error.where) == (23, "streams.air.sketch.depth")
    assert error.problem.startswith("depth 3 is more than the 2 bits of the attributes; ")


def test_all_devices_of_a_fleet_agree_and_streams_differ(load_text, valid):
    """The spec depends on neither the device's name nor its source; a golden key pins the bytes."""
    here = load_text().streams[0].spec
    there = load_text(valid.replace("post-7", "post-8")).streams[0].spec
    assert here.fingerprint == there.fingerprint
    assert here.hash_key == 8254957211316992429
    for change in (("meadow", "wood"), ("  air:", "  wet:")):
        other = load_text(valid.replace(*change)).streams[0].spec
        assert other.hash_key != here.hash_key
        assert other.fingerprint != here.fingerprint


def test_the_collector_needs_neither_the_device_nor_its_file(load_text, valid):
    text = valid.replace("post-7", "${DEVICE}").replace("pi-zero-2w", "${PROFILE}")
    config = load_text(text.replace("air.csv", "elsewhere.csv"), "collector")
    assert not hasattr(config, "agent")
    assert config.profile.name == "generic-linux"


def test_the_collector_needs_no_agent_section_and_the_agent_does(load_text, valid):
    text = valid.replace("agent:\n  device: post-7\n  profile: pi-zero-2w\n", "")
    assert load_text(text, "collector").streams
    with pytest.raises(ConfigError, match=r"agent: is missing; add agent: \{device:"):
        load_text(text, "agent")


def test_the_collector_still_refuses_a_mistyped_agent_section(refusal):
    error = refusal("device: post-7", "devise: post-7", "collector")
    assert (error.line, error.where) == (5, "agent.devise")
    assert refusal("pi-zero-2w", "pi-9", "collector").where == "agent.profile"


def test_the_collector_knows_what_any_device_class_may_send(load_text, valid):
    # So many readings that every class is filled, and most have a sketch of their own.
    text = valid.replace("    views", "    expect: {readings: 1000000000}\n    views")
    seen = {}
    for name in known():
        spec = load_text(text.replace("pi-zero-2w", name)).streams[0].spec
        seen[spec.fingerprint] = spec
    assert len(seen) > 2, "classes must differ for this test to mean anything"
    config = load_text(text, program="collector")
    specs = config.specs(config.streams[0])
    assert dict(specs) == seen
    assert next(iter(specs.values())) == config.streams[0].spec
    assert all(spec.fingerprint == fingerprint for fingerprint, spec in specs.items())


def test_stated_sizes_hold_on_every_device_class(load_text, valid):
    full = "sketch: {depth: 10, k: 64, width: 256, rows: 1, fanout: 4}"
    config = load_text(valid.replace("    views", f"    {full}\n    views"), "collector")
    assert list(config.specs(config.streams[0]).values()) == [config.streams[0].spec]


def test_references_are_filled(load_text, tmp_path, valid):
    (tmp_path / "word").write_text("s3cret ${X} \n")
    text = valid.replace("post-7", "${DEVICE:-none}").replace("0.5", "${EPSILON}")
    text = text.replace("1884", "1884\n  username: me$$${Y:-}\n  password: '${file:word}'")
    config = load_text(text, environ={"DEVICE": "post-9", "EPSILON": "2"})
    assert config.agent.device == "post-9"
    assert config.streams[0].spec.privacy.epsilon == 2.0
    assert (config.mqtt.username, config.mqtt.password) == ("me$", "s3cret ${X} ")
    assert load_text(text, environ={"EPSILON": "1"}).agent.device == "none"


def test_an_empty_variable_takes_the_default(load_text, valid):
    config = load_text(valid.replace("post-7", "${DEVICE:-none}"), environ={"DEVICE": ""})
    assert config.agent.device == "none"


def test_a_password_is_in_no_representation(load_text, valid):
    text = valid.replace("1884", "1884\n  username: me\n  password: hunter2")
    config = load_text(text)
    assert config.mqtt.password == "hunter2"
    shown = [
        repr(config),
        str(config),
        repr(config.mqtt),
        repr(config.document),
        *map(str, describe(config)),
    ]
    assert not [part for part in shown if "hunter2" in part]


def test_values_are_frozen(load_text):
    with pytest.raises(dataclasses.FrozenInstanceError):
        load_text().fleet = "other"


def test_the_lines_of_paths(load_text):
    config = load_text()
    file = config.document.file
    assert config.at("streams.air.attributes.temp") == (file, 18)
    assert config.at("streams.air.attributes.wind.categories[1]") == (file, 21)
    assert config.at("streams.air.sketch.k") == (file, 8), "the nearest key around it"
    assert config.at("streams.air.views[0][7]") == (file, 22)
    assert config.at("streams.airy.window") == (file, 7), "and not one that begins alike"
    error = config.error("streams.air.attributes.temp", "is not in air.csv; add the column")
    assert (
        str(error) == f"{file}:18: streams.air.attributes.temp: is not in air.csv; add the column"
    )


def test_windows_line_ends_and_a_byte_order_mark_are_read(tmp_path, load_text, valid):
    load_text()
    (tmp_path / "config.yaml").write_bytes(b"\xef\xbb\xbf" + valid.replace("\n", "\r\n").encode())
    assert load_agent(tmp_path / "config.yaml", {}) == load_text()


@pytest.mark.parametrize("program", ["agent", "collector"])
def test_the_repository_s_configuration_loads(program, tmp_path):
    """In a copy of its folder, so that the test needs no data set."""
    (tmp_path / "config.yaml").write_bytes((ROOT / "config.yaml").read_bytes())
    (tmp_path / "data/beijing-air").mkdir(parents=True)
    (tmp_path / "data/doors").mkdir()
    for folder in ("beijing-air", "doors"):
        (tmp_path / "data" / folder / "changping.csv.gz").touch()
    environ = {"DEVICE": "changping", "STATION": "changping"}
    config = LOADERS[program](tmp_path / "config.yaml", environ)
    stream = config.streams[0]
    assert (config.fleet, stream.name, stream.window_seconds) == ("beijing-air", "air", 30 * 86400)
    assert stream.spec.domain.names == ("temp", "dewp", "pres", "pm25", "o3", "wspm")
    assert hasattr(config, "agent") == (program == "agent")
    name = {"agent": "changping", "collector": "${STATION:-dongsi}"}[program]
    assert os.path.basename(stream.source.path) == f"{name}.csv.gz"
