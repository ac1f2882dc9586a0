"""`pansketch plan --config`: its tables, its JSON, and what it refuses."""

import json

import pytest

from pansketch_cli.__main__ import main
from pansketch_fleet.config.loader import load_collector

TEXT = """\
fleet: meadow
mqtt: {url: "mqtt://broker"}
agent: {device: "${DEVICE}", profile: pi-3b}
streams:
  air:
    source: {type: replay, path: only-on-the-device.csv}
    window: 1d
    privacy: {epsilon: 4}
    expect: {readings: 1440, devices: 12}
    attributes:
      temp: {low: -40, high: 60}
      pm25: {low: 0, high: 1000, scale: log}
      rain: {low: 0, high: 50}
  soil:
    source: {type: stdin}
    window: 1h
    privacy: {epsilon: 1}
    attributes: {wet: {low: 0, high: 100}}
  doors:
    source: {type: system}
    window: 1d
    privacy: {epsilon: 1}
    attributes: {a: {low: 0, high: 1}, b: {low: 0, high: 1}}
    sketches: [{type: moments}]
"""


@pytest.fixture
def config(tmp_path):
    """Its file; it contains neither the device's name nor its readings."""
    file = tmp_path / "config.yaml"
    file.write_text(TEXT)
    return file


def streams(capsys, *options):
    assert main(["plan", "--json", *map(str, options)]) == 0
    found = json.loads(capsys.readouterr().out)
    return found, {each["stream"]: each for each in found["streams"]}


def test_what_is_chosen_is_what_devices_run(config, capsys):
    found, by_name = streams(capsys, "--config", config)
    assert found["profile"] == "pi-3b"
    there = load_collector(config, {})
    for stream in there.streams:
        chosen = by_name[stream.name]["choices"][0]
        assert chosen["fingerprint"] == stream.spec.fingerprint.hex()
        assert chosen["state_bytes"] == stream.spec.nbytes
        assert chosen["release_bytes"] == stream.spec.release_nbytes


def test_parts_of_epsilon_expectations_and_errors_are_printed(config, capsys):
    _, by_name = streams(capsys, "--config", config)
    air = by_name["air"]
    stated = {"readings": 1440, "devices": 12, "windows": 30}
    assert air["expect"] == {**stated, "earlier": [1, 1], "ask": []}
    chosen = air["choices"][0]
    assert sum(view["micro_epsilon"] for view in chosen["views"]) == 4_000_000
    assert len(chosen["views"]) == 3 + 3
    assert 0 < chosen["predicted"]["pair"] < 1
    assert by_name["soil"]["choices"][0]["predicted"]["marginal"] > 0
    assert by_name["doors"]["choices"][0]["predicted"] is None
    assert by_name["doors"]["planner_bytes"] is None


def test_more_and_less_epsilon_and_memory_stand_beside_it(config, capsys):
    _, by_name = streams(capsys, "--config", config)
    of = {each["choice"]: each for each in by_name["air"]["choices"]}
    half, chosen, twice = (of[k] for k in ("half of epsilon", "chosen", "twice epsilon"))
    errors = [each["predicted"]["pair"] for each in (half, chosen, twice)]
    assert errors == sorted(errors, reverse=True)
    assert {"a quarter of the memory", "4 x the memory"} <= set(of)


def test_another_profile_can_be_asked_for(config, capsys):
    found, _ = streams(capsys, "--config", config, "--profile", "pi-zero-w")
    assert (found["profile"], found["sketch_memory_bytes"]) == ("pi-zero-w", 65_536)


def test_what_cannot_be_had_is_a_line_of_its_own(config, capsys):
    """An epsilon of twice the largest there is, and a quarter of a memory that is just enough."""
    text = TEXT.replace("epsilon: 4", "epsilon: 100")
    text = text.replace("{wet: {low: 0, high: 100}}", "{wet: {low: 0, high: 100}}\n" + SMALL)
    config.write_text(text)
    _, by_name = streams(capsys, "--config", config)
    of = {each["choice"]: each for each in by_name["air"]["choices"]}
    assert "epsilon must lie between" in of["twice epsilon"]["problem"]
    of = {each["choice"]: each for each in by_name["soil"]["choices"]}
    assert "too small" in of["a quarter of the memory"]["problem"]


SMALL = "    sketch: {memory: 100B}"


def test_the_table_is_aligned(config, capsys):
    assert main(["plan", "--config", str(config)]) == 0
    said = capsys.readouterr().out
    assert "stream air: epsilon 4 per reading, silent; windows of 1d" in said
    assert "30 windows of 12 devices with about 1440 readings each" in said
    table = said.split("stream air")[1].split("\n\n")[0].splitlines()[2:]
    header, *rows = table
    end = header.index("state") + len("state")
    assert len(rows) >= 6
    for row in rows:
        assert row[end - 1].isdigit()
        assert row[end] == " "
    assert "predicted from noise and cells" in said.lower()


@pytest.mark.parametrize(
    ("old", "new", "line", "says"),
    [
        ("epsilon: 4", "epsilon: none", 8, "streams.air.privacy.epsilon: is text"),
        ("devices: 12", "devices: 0", 9, "expect.devices: must lie between"),
        ("{wet:", "{wet: {low: 1, high: 0}, dry:", 18, "attributes.wet.low: 1 is not below"),
        ("pi-3b", "pi-3", 3, "agent.profile: 'pi-3' is no firmware profile"),
    ],
)
def test_wrong_input_names_file_and_line_and_ends_with_2(config, capsys, old, new, line, says):
    config.write_text(TEXT.replace(old, new))
    assert main(["plan", "--config", str(config)]) == 2
    printed = capsys.readouterr()
    assert printed.err.startswith(f"{config}:{line}: ")
    assert says in printed.err
    assert printed.err.count("\n") == 1
    assert not printed.out


def test_a_profile_that_cannot_have_a_stream_is_refused_at_its_sketch(config, capsys):
    few = "rain: {low: 0, high: 50}\n    sketches: [{type: views, single_bits: 12, pair_bits: 6}]"
    config.write_text(TEXT.replace("rain: {low: 0, high: 50}", few))
    assert main(["plan", "--config", str(config)]) == 0
    capsys.readouterr()
    assert main(["plan", "--config", str(config), "--profile", "pi-zero-w"]) == 2
    said = capsys.readouterr().err
    assert said.startswith(f"{config}:14: streams.air.sketches[0]: memory of 32768 bytes is too")
    assert "on pi-zero-w; " in said


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--profile", "pi-5"], "--profile goes with --config"),
        (["--config", "x", "--alpha", "0.1"], "--alpha does not go with --config"),
        (["--config", "x", "--expected-keys", "9"], "--expected-keys does not go with --config"),
        (["--config", "no-such-file"], "no-such-file"),
    ],
)
def test_options_that_do_not_go_together_end_with_2(options, says, capsys):
    assert main(["plan", *options]) == 2
    printed = capsys.readouterr()
    assert says in printed.err
    assert printed.err.count("\n") == 1
