"""The privacy a configuration asks for: units, spans, daily caps."""

import pytest

from pansketch import Span
from pansketch_fleet.config.loader import ConfigError, describe
from pansketch_fleet.sections.time_slots import MICROSECONDS, slots_of, slots_text
from pansketch_fleet.units import duration_text

UNIT = "      unit: reading\n"
SOURCES = {
    "replay": "type: replay\n      path: air.csv",
    "event": "type: stdin",
    "http": "type: http",
    "poll": "type: iio\n      sensors: {temp: a/b, wind: a/c, pm25: a/d}",
}


def spans(valid: str, source: str, unit: str) -> str:
    """A configuration whose stream `air` has that kind of source, and that unit."""
    text = valid.replace(SOURCES["replay"], SOURCES[source])
    return text.replace(UNIT, f"      unit: {unit}\n")


@pytest.mark.parametrize(
    ("source", "unit", "seconds"),
    [
        ("event", "{span: 10m, max_readings: 60}", 10),
        ("event", "{span: 10m, max_readings: 60, open: 20s}", 20),
        ("http", "{span: 8h, max_readings: 3, open: 60s}", 60),
    ],
)
def test_a_slot_of_events_is_open_for_seconds(load_text, valid, source, unit, seconds):
    config = load_text(spans(valid, source, unit))
    stream = config.streams[0]
    assert stream.open_seconds == seconds
    shown = {setting.path: setting.value_text for setting in describe(config)}
    assert shown["streams.air.privacy.unit.open"] == duration_text(seconds)
    said = slots_text(stream)
    opened = slots_of(stream).opened / MICROSECONDS
    assert f"open for its first {opened:.6g} s" in said
    assert f"is in memory for {opened:.6g} s at most" in said


@pytest.mark.parametrize(
    ("source", "words"), [("poll", "polled once in it"), ("replay", "by the times of the file")]
)
def test_other_slots_keep_nothing_of_a_reading(load_text, valid, source, words):
    config = load_text(spans(valid, source, "{span: 8h, max_readings: 3}"))
    assert config.streams[0].open_seconds is None
    assert words in slots_text(config.streams[0])
    assert "streams.air.privacy.unit.open" not in {s.path for s in describe(config)}


@pytest.mark.parametrize(
    ("source", "unit", "words"),
    [
        ("event", "{span: 8h, max_readings: 3}", "write max_readings: 30 or more, take a source"),
        ("event", "{span: 8h, max_readings: 3}", "or write open: 10s to have it so"),
        ("event", "{span: 10m, max_readings: 3, open: 61s}", "61s is impossible: whether a slot"),
        ("event", "{span: 10m, max_readings: 3, open: 8h}", "write 60s or less"),
        ("event", "{span: 10m, max_readings: 3, open: 0s}", "write whole seconds"),
        ("event", "{span: 10m, max_readings: 3, open: 1500ms}", "write whole seconds"),
        ("event", "{span: 10m, max_readings: 3, open: 10}", "'10' has no unit"),
        ("poll", "{span: 10m, max_readings: 3, open: 10s}", "and this source is none; remove"),
        ("replay", "{span: 10m, max_readings: 3, open: 10s}", "and this source is none"),
    ],
)
def test_an_open_part_that_cannot_be_had_is_refused(load_text, valid, source, unit, words):
    with pytest.raises(ConfigError) as caught:
        load_text(spans(valid, source, unit))
    assert "streams.air.privacy.unit" in str(caught.value)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "unit",
    [
        "      unit: {span: 10m, max_readings: 60}\n",
        "      unit:\n        span: 600s\n        max_readings: 60\n",
    ],
)
def test_a_span_is_a_unit_and_shares_epsilon_among_its_readings(load_text, valid, unit):
    (stream,) = load_text(valid.replace(UNIT, unit).replace("0.5", "0.6")).streams
    assert stream.spec.privacy.unit == Span(600, 60)
    assert stream.spec.guarantee.epsilon_micro == 600_000
    assert stream.spec.guarantee.reading_micro == 10_000
    assert stream.spec.fingerprint != load_text(valid).streams[0].spec.fingerprint


def test_the_collector_sees_the_same_span(load_text, valid):
    text = valid.replace(UNIT, "      unit: {span: 10m, max_readings: 60}\n")
    specs = [load_text(text, program).streams[0].spec for program in ("agent", "collector")]
    assert specs[0].privacy == specs[1].privacy


def test_a_daily_cap_is_whole_micro_epsilon_rounded_down(load_text, valid):
    assert load_text(valid).streams[0].daily_cap_micro is None
    capped = load_text(valid.replace(UNIT, UNIT + "      daily_cap: 0.5000009\n"))
    assert capped.streams[0].daily_cap_micro == 500_000


def test_print_config_shows_all_of_it(load_text, valid):
    unit = "      unit: {span: 10m, max_readings: 60}\n      daily_cap: 12\n"
    config = load_text(valid.replace(UNIT, unit))
    shown = {setting.path: setting.value_text for setting in describe(config)}
    assert shown["streams.air.privacy.unit.span"] == "10m"
    assert shown["streams.air.privacy.unit.max_readings"] == "60"
    assert shown["streams.air.privacy.daily_cap"] == "12"
    assert {s.path: s.value_text for s in describe(load_text(valid))}[
        "streams.air.privacy.daily_cap"
    ] == "none"
