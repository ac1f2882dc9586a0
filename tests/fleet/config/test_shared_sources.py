"""Streams of the same records are found in the configuration, and their losses add up.

So do the losses of a key at several devices.
"""

import json

import pytest

from pansketch_agent.__main__ import main
from pansketch_agent.diagnostics.validate_report import validation
from pansketch_agent.host.hardening import MemoryProtection
from pansketch_agent.ledger.ledger import Ledger
from pansketch_collector.http.endpoints.listing import guarantee_object
from pansketch_fleet.config.privacy_cost import all_costs, shared, streams_sharing_source
from pansketch_fleet.errors import ConfigError
from pansketch_fleet.sections.sources.mqtt_topic import overlap
from tests.configurations import LOADERS

HEAD = 'fleet: testing\nmqtt: {url: "mqtt://localhost"}\nagent: {device: one}\nstreams:\n'
TEMP = "attributes: {temp: {low: 0, high: 1}}"
KEYS = "sketches: [{type: distinct, universe: 100, release: bitmap}]"


def stream(name, source, epsilon=1, unit="reading", holds=TEMP, window="1h", more=""):
    return (
        f"  {name}:\n    source: {source}\n    window: {window}\n"
        f"    privacy: {{epsilon: {epsilon}, unit: {unit}{more}}}\n    {holds}\n"
    )


def keys(name, source, epsilon=2, key="badge", window="1d", expect=""):
    holds = f"key: {key}\n    {expect and f'expect: {expect}'}\n    {KEYS}"
    return stream(name, source, epsilon, "key", holds, window)


@pytest.fixture
def read(tmp_path):
    (tmp_path / "rows.csv").write_text("time,temp,badge\n")
    (tmp_path / "others.csv").write_text("time,temp,badge\n")
    (tmp_path / "folder").mkdir()

    def run(*sections, program="agent"):
        file = tmp_path / "config.yaml"
        file.write_text(HEAD + "".join(sections))
        return LOADERS[program](file, {})

    return run


LOAD = "attributes: {load1: {low: 0, high: 9}, load5: {low: 0, high: 9}}"
LOAD_TOO = "attributes: {load5: {low: 0, high: 9}, uptime: {low: 0, high: 9}}"
OTHER = "attributes: {load15: {low: 0, high: 9}}"
PLACES = "{{type: {0}, sensors: {{temp: {1}}}}}"
PAGE = '{{type: prometheus, url: "http://{0}:9100/", metrics: {{temp: {1}}}}}'
SOURCES = [
    (
        "{type: replay, path: rows.csv}",
        "{type: replay, path: folder/../rows.csv}",
        TEMP,
        TEMP,
        True,
    ),
    ("{type: replay, path: rows.csv}", "{type: replay, path: others.csv}", TEMP, TEMP, False),
    ("{type: exec, command: [a, b]}", "{type: exec, command: [a, b]}", TEMP, TEMP, True),
    ("{type: exec, command: [a, b]}", "{type: exec, command: [a, c]}", TEMP, TEMP, False),
    ("{type: mqtt, topic: a/b}", "{type: mqtt, topic: a/+}", TEMP, TEMP, True),
    ("{type: mqtt, topic: a/b}", "{type: mqtt, topic: a/c}", TEMP, TEMP, False),
    (
        "{type: mqtt, topic: a}",
        '{type: mqtt, topic: a, url: "mqtt://127.0.0.1:1883"}',
        *(TEMP, TEMP, True),
    ),
    ("{type: mqtt, topic: a}", '{type: mqtt, topic: a, url: "mqtt://else"}', TEMP, TEMP, False),
    ("{type: system}", "{type: system, interval: 1s}", LOAD, LOAD_TOO, True),
    ("{type: system}", "{type: system}", LOAD, OTHER, False),
    (PLACES.format("hwmon", "a_b/temp1"), PLACES.format("hwmon", "a-b/temp1"), TEMP, TEMP, True),
    (PLACES.format("hwmon", "a/temp1"), PLACES.format("hwmon", "a/temp2"), TEMP, TEMP, False),
    ("{type: stdin}", "{type: system}", TEMP, OTHER, False),
    (PAGE.format("127.0.0.1", "a"), PAGE.format("localhost", "'a{b=\"c\"}'"), TEMP, TEMP, True),
    (PAGE.format("localhost", "a"), PAGE.format("localhost", "b"), TEMP, TEMP, False),
    (
        PAGE.format("localhost", "'a{b=\"c\"}'"),
        PAGE.format("localhost", "'a{b=\"d\"}'"),
        *(TEMP, TEMP, False),
    ),
]


@pytest.mark.parametrize(("one", "other", "holds", "holds_too", "same"), SOURCES)
def test_streams_of_one_source_are_found(read, one, other, holds, holds_too, same):
    config = read(stream("one", one, holds=holds), stream("other", other, holds=holds_too))
    first, second = config.streams
    assert streams_sharing_source(first, config.streams) == ((second,) if same else ())
    assert streams_sharing_source(second, config.streams) == ((first,) if same else ())


@pytest.mark.parametrize(
    ("one", "other", "both"),
    [
        ("#", "a/b", True),
        ("a/#", "a", True),
        ("a/+/c", "+/b/c", True),
        ("a/+/c", "a/b/d", False),
        ("a/+", "a/b/c", False),
        ("a/+/#", "a", False),
        ("$share/group/a/b", "a/b", True),
        ("a", "a/b", False),
        ("a/", "a/+", True),
    ],
)
def test_topic_filters_that_a_message_may_match_both(one, other, both):
    assert overlap(one, other) is overlap(other, one) is both


ROWS = "{type: replay, path: rows.csv}"
SPAN = "{span: 1h, max_readings: 60}"


def test_one_reading_in_three_streams_spends_in_all_three(read):
    config = read(
        *(stream(name, ROWS, epsilon) for name, epsilon in (("a", 1), ("b", 2), ("c", 4)))
    )
    for each in config.streams:
        found = shared(each, config.streams)
        assert (found.record_micro, found.unit_micro) == (7_000_000, 7_000_000)
        assert found.day_micro is None, "n readings pay n times"
    said = dict(all_costs(config.streams[1], config.streams))
    expected = "of the same source: one record that all absorb spends 7 (2 + 1 + 4)"
    assert said["with a and c"] == expected
    table = validation(config, MemoryProtection("", config.agent.state))
    assert table.count("one record that all absorb spends 7") == 3


def test_a_stream_that_shares_nothing_has_no_total(read):
    """Negative control."""
    config = read(stream("a", ROWS), stream("b", "{type: replay, path: others.csv}"))
    assert shared(config.streams[0], config.streams) is None
    assert not any(of.startswith("with") for of, _ in all_costs(config.streams[0], config.streams))


def test_a_span_spends_for_every_span_beside_it(read):
    config = read(stream("a", ROWS, 3, SPAN), stream("b", ROWS, 5, "{span: 25m, max_readings: 5}"))
    found = shared(config.streams[0], config.streams)
    assert found.record_micro == 3_000_000 // 60 + 1_000_000
    assert found.unit_micro == 3_000_000 + 3 * 5_000_000, "three spans of 25m touch an hour"
    assert found.day_micro == 24 * 3_000_000 + 58 * 5_000_000


def test_a_span_beside_single_readings_has_no_bound_of_its_own(read):
    config = read(stream("a", ROWS, 3, SPAN), stream("b", ROWS, 2))
    found = shared(config.streams[0], config.streams)
    assert (found.record_micro, found.unit_micro, found.day_micro) == (2_050_000, None, None)
    assert (
        "each record of a span spends epsilon there as well"
        in dict(all_costs(config.streams[0], config.streams))["with b"]
    )


def test_one_key_in_two_streams_and_another_key_beside_it(read):
    config = read(
        keys("hourly", ROWS, 2, window="1h"), keys("daily", ROWS, 6), keys("cards", ROWS, 1, "card")
    )
    hourly, daily, cards = config.streams
    assert shared(hourly, (hourly, daily)).unit_micro == 2_000_000 + 2 * 6_000_000
    assert shared(daily, (hourly, daily)).unit_micro == 6_000_000 + 25 * 2_000_000
    assert shared(daily, (hourly, daily)).day_micro == 6_000_000 + 24 * 2_000_000
    found = shared(cards, config.streams)
    assert found.record_micro == 9_000_000
    assert (found.unit_micro, found.day_micro) == (None, None), "a card may come with many badges"


def test_the_same_key_in_windows_of_one_length_spends_once_in_each(read):
    config = read(keys("a", ROWS, 2), keys("b", ROWS, 6))
    assert shared(config.streams[0], config.streams).unit_micro == 8_000_000


def test_a_key_at_twelve_doors_spends_twelve_times(read):
    config = read(keys("doors", ROWS, 6, expect="{devices_per_key: 12}"))
    said = dict(all_costs(config.streams[0], config.streams))
    assert said["at 12 devices"].startswith("a key spends 72 in a window (12 x 6); the collector")
    assert said["a day"] == "72 at most, for a key in every window at 12 devices (1 window of 1d)"
    shown = guarantee_object(config, config.streams[0], 9)
    assert shown["devices_per_key"] == 12
    assert shown["fleet"] == {"devices": 9, "epsilon": 54.0}
    assert shown["day"] == {"times": 1, "devices": 12, "epsilon": 72.0}
    assert (shown["epsilon"], shown["shared"]) == (6.0, None)


def test_without_a_number_it_is_stated_of_each_device(read):
    config = read(keys("doors", ROWS, 6))
    said = dict(all_costs(config.streams[0], config.streams))
    assert said["a key"].endswith("w windows on d devices cost w x d x 6")
    assert "on one device" in said["a day"]
    assert not any(of.startswith("at ") for of in said)
    assert "per key per window per device" in str(config.streams[0].spec.guarantee)


@pytest.mark.parametrize(
    ("expect", "says"),
    [
        ("{devices_per_key: 0}", "expect.devices_per_key: must lie between 1 and"),
        ("{devices_per_key: many}", "expect.devices_per_key: is text; write a whole number"),
        ("{devices: 3}", "expect.devices: unknown key; did you mean devices_per_key"),
    ],
)
def test_a_wrong_number_is_refused_with_its_line(read, expect, says):
    with pytest.raises(ConfigError, match=r"config.yaml:\d+: streams.doors") as caught:
        read(keys("doors", ROWS, expect=expect))
    assert says in str(caught.value)


def test_the_caps_of_streams_of_one_source_add_up(read):
    config = read(
        stream("a", ROWS, more=", daily_cap: 30"), stream("b", ROWS, more=", daily_cap: 12")
    )
    table = validation(config, MemoryProtection("", config.agent.state))
    assert table.count("(42 together with") == 2
    config = read(stream("a", ROWS, more=", daily_cap: 30"), stream("b", ROWS))
    said = validation(config, MemoryProtection("", config.agent.state))
    assert "of this stream on this device; b of the same source: not counted in it" in said


def test_the_ledger_adds_up_streams_of_one_source_and_devices(read, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("pansketch_agent.host.hardening.forbid_dumps", list)
    config = read(
        stream("a", ROWS, 1),
        stream("b", ROWS, 2),
        keys("doors", "{type: replay, path: others.csv}", 6, expect="{devices_per_key: 12}"),
    )
    with Ledger(config.agent.state) as ledger:
        for hour in range(3):
            ledger.debit({"a": 1_000_000}, 3600 * hour, 3600 * (hour + 1))
            ledger.debit({"b": 2_000_000}, 3600 * hour, 3600 * (hour + 1))
        ledger.debit({"doors": 6_000_000}, 0, 86400)
    file = str(tmp_path / "config.yaml")
    assert main(["ledger", "--config", file]) == 0
    out = capsys.readouterr().out
    assert out.count("a and b have one source: a record that all absorb spends 3;") == 1
    assert "lifetime 9." in out
    assert "doors: a key at 12 devices (expect.devices_per_key) spends 72 in a window" in out
    assert main(["ledger", "--json", "--config", file]) == 0
    said = json.loads(capsys.readouterr().out)["streams"]
    assert said["a"]["together"]["streams"] == ["a", "b"]
    assert said["b"]["together"]["record_micro"] == 3_000_000
    assert said["a"]["together"]["lifetime_micro"] == 9_000_000
    assert (said["doors"]["devices_per_key"], said["doors"]["together"]) == (12, None)
