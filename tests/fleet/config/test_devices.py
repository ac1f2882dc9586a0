"""`groups`, `devices` of a stream, and what single devices have otherwise."""

import pytest

from pansketch_fleet.config.loader import ConfigError, SystemSource, describe
from pansketch_fleet.settings.settings import is_sent_by
from tests.fleet.conftest import assert_refused

TEXT = """\
fleet: house
mqtt: {url: mqtt://broker.example}
agent: {device: "${DEVICE}", profile: pi-4b, outbox: {keep: 3d, persist: when_unacknowledged}}
groups:
  upstairs: [attic, "bed-*"]
streams:
  board:
    source: {type: system, interval: 1m}
    window: 1h
    privacy: {epsilon: 1}
    attributes: {load1: {low: 0, high: 8}}
  pump:
    source: {type: exec, command: [/bin/true, "${PUMP}"]}
    devices: ["pump-*", cellar]
    window: 1h
    privacy: {epsilon: 1}
    attributes: {flow: {low: 0, high: 8}}
  roof:
    source: {type: stdin}
    devices: [upstairs]
    window: 1h
    privacy: {epsilon: 1}
    attributes: {temp: {low: 0, high: 8}}
devices:
  attic:
    profile: pi-zero-2w
    outbox: {keep: 9d}
    streams:
      board: {source: {type: system, interval: 1s}}
  cellar:
    require_locked_memory: true
    state: "${CELLAR}"
    streams:
      pump: {source: {type: mqtt, topic: pump, password: "${file:gone}", username: me}}
"""


def load(load_text, device, text=TEXT, **environ):
    return load_text(text, "agent", {"DEVICE": device, **environ})


def names(config):
    return [stream.name for stream in config.streams]


@pytest.mark.parametrize(
    ("device", "streams"),
    [
        ("attic", ["board", "roof"]),
        ("bed-2", ["board", "roof"]),
        ("bed", ["board"]),
        ("pump-1", ["board", "pump"]),
        ("upstairs-2", ["board"]),
    ],
)
def test_a_device_has_the_streams_whose_patterns_name_it(load_text, device, streams):
    assert names(load(load_text, device, PUMP="x")) == streams


def test_a_reference_of_another_device_s_stream_is_not_needed(load_text):
    assert names(load(load_text, "attic")) == ["board", "roof"]
    with pytest.raises(ConfigError, match=r"streams.pump.source.command\[1\]: .* PUMP is not set"):
        load(load_text, "pump-1")
    with pytest.raises(ConfigError, match=r"devices.cellar.state: .* CELLAR is not set") as refused:
        load(load_text, "cellar")
    rest = "the same is wrong with devices.cellar.streams.pump.source.password (line 34)"
    assert str(refused.value).endswith(rest)


def test_a_device_knows_the_streams_that_it_does_not_send(load_text):
    assert load(load_text, "bed-1").not_sent == ("pump",)
    assert load(load_text, "hall", PUMP="p").not_sent == ("pump", "roof")


def test_a_device_has_settings_of_its_own(load_text):
    attic, other = load(load_text, "attic"), load(load_text, "bed-1")
    assert (attic.profile.name, other.profile.name) == ("pi-zero-2w", "pi-4b")
    days = [each.agent.outbox.keep_seconds // 86400 for each in (attic, other)]
    assert days == [9, 3]
    assert {each.agent.outbox.persist for each in (attic, other)} == {"when_unacknowledged"}
    shown = {
        each.path: (each.value_text, each.origin.rpartition(":")[2]) for each in describe(attic)
    }
    assert shown["agent.profile"] == ("pi-zero-2w", "26")
    assert shown["agent.outbox.keep"] == ("9d", "27")
    assert shown["agent.outbox.persist"] == ("when_unacknowledged", "3")
    assert shown["streams.board.source.interval"] == ("1s", "29")
    assert shown["streams.roof.devices"] == ("[attic, bed-*]", "20")


def test_a_source_of_its_own_does_not_change_the_settings_that_the_collector_knows(load_text):
    attic, other = load(load_text, "attic"), load(load_text, "bed-1")
    collector = load_text(TEXT, "collector")
    boards = [config.streams[0] for config in (attic, other, collector)]
    assert [each.source for each in boards[:2]] == [SystemSource(1), SystemSource(60)]
    assert len({each.expected for each in boards}) == 1
    assert boards[0].spec.fingerprint in collector.specs(boards[2])
    assert boards[1].spec.fingerprint in collector.specs(boards[2])


def test_the_collector_expects_the_readings_of_the_fastest_source(load_text):
    alike = load_text(TEXT.replace("interval: 1s", "interval: 1m"), "collector").streams[0]
    assert load_text(TEXT, "collector").streams[0].most_readings > 50 * alike.most_readings


@pytest.mark.parametrize(
    ("patterns", "devices"),
    [("[a]", 1), ("[a, b]", 2), ("[a, b, c]", 4), ("[upstairs]", 10), ('[a, "b?"]', 10)],
)
def test_named_devices_are_expected(load_text, patterns, devices):
    """Rounded up to a power of two: one more mostly leaves the fingerprint as it is."""
    text = TEXT.replace('["pump-*", cellar]', patterns)
    text = text.replace("      pump: {source: {type: mqtt", "      board: {source: {type: mqtt")
    found = load_text(text, "collector").streams[1]
    assert found.expected.devices == devices


def test_memory_and_stdin_are_those_of_one_device(load_text):
    """Two streams read stdin, on different devices."""
    text = TEXT.replace('type: exec, command: [/bin/true, "${PUMP}"]', "type: stdin")
    assert names(load(load_text, "pump-1", text)) == ["board", "pump"]
    with pytest.raises(ConfigError, match=r"streams.roof.source.type: is stdin like pump's"):
        load(load_text, "pump-1", text.replace("[upstairs]", '["*"]'))


def test_a_device_without_a_stream_is_an_error(load_text):
    text = TEXT.replace(
        "    source: {type: system", "    devices: [attic]\n    source: {type: system"
    )
    with pytest.raises(ConfigError, match=r"streams: none of them is for bed; name it in devices"):
        load(load_text, "bed", text)


CASES = [
    ('["pump-*", cellar]', "[]", 14, "streams.pump.devices", "is empty; name devices"),
    ('"pump-*"', '"Pump-*"', 14, "streams.pump.devices[0]", "'Pump-*' is no pattern; write 1 to"),
    ('["pump-*", cellar]', '["@upstairs"]', 14, "streams.pump.devices[0]",
     "'@upstairs' is no pattern; write the name of a group without @"),
    ('[attic, "bed-*"]', "", 5, "groups.upstairs",
     "is nothing; write a list"),
    ('[attic, "bed-*"]', '["bed-*"]\n  attics: [attic, upstairs]', 6, "groups.attics[1]",
     "upstairs is a group; write its devices here, or both groups in devices of a stream"),
    ("[attic,", '["[a]",', 5, "groups.upstairs[0]", "'[a]' is no pattern"),
    ("attic:", "upstairs:", 25, "devices.upstairs", "is also the name of a group; rename"),
    ("  attic:", "  Attic:", 25, "devices.Attic", "is no id; write"),
    ("  attic:\n", "  attic:\n    devise: 1\n", 26, "devices.attic.devise", "unknown key"),
    ("board: {source: {type: system, interval: 1s", "roof: {source: {type: sytsem", 29,
     "devices.attic.streams.roof.source.type", "did you mean system?"),
    ("{type: system, interval: 1s", "{type: stdin, interval: 1s", 29,
     "devices.attic.streams.board.source.interval", "unknown key"),
    ("      board: {s", "      bord: {s", 29, "devices.attic.streams.bord", "did you mean board?"),
    ("      board: {s", "      pump: {s", 29, "devices.attic.streams.pump",
     "attic does not send this stream; add it to streams.pump.devices, or"),
    ("interval: 1s}", "interval: 1s}, window: 1d", 29, "devices.attic.streams.board.window",
     "is the same on all devices of a stream, because the collector must know it; give"),
    ("interval: 1s}", "interval: 1s}, privacy: {epsilon: 2}", 29,
     "devices.attic.streams.board.privacy", "is the same on all devices"),
]  # fmt: skip


@pytest.mark.parametrize(("old", "new", "line", "where", "says"), CASES)
def test_mistakes_are_refused_by_both_programs(load_text, old, new, line, where, says):
    assert TEXT.count(old) == 1
    for program in ("agent", "collector"):
        with pytest.raises(ConfigError) as refused:
            load_text(TEXT.replace(old, new), program, {"DEVICE": "attic"})
        assert_refused(refused.value, line, where, says)


def test_a_device_cannot_have_the_name_of_a_group(load_text):
    with pytest.raises(ConfigError, match=r"agent.device: upstairs is also the name of a group"):
        load(load_text, "upstairs")


def test_patterns_match_whole_names():
    assert is_sent_by(None, "any")
    assert is_sent_by(("pump-?",), "pump-1")
    assert not is_sent_by(("pump-?",), "pump-12")
    assert not is_sent_by(("pump",), "pump-1")
