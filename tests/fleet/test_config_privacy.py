"""The privacy a configuration asks for: units, spans, daily caps."""

import pytest

from fleet.config import describe
from pansketch import Span

UNIT = "      unit: reading\n"


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
