"""The daily privacy loss of a unit: computed in one place, the same on device and page."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pansketch import Guarantee, Privacy, Span
from pansketch_agent.diagnostics.validate_report import validation
from pansketch_agent.host.hardening import MemoryProtection
from pansketch_collector.http.endpoints.listing import guarantee_object
from pansketch_fleet.config.loader import load_agent, load_collector
from pansketch_fleet.config.privacy_cost import (
    DAY_SECONDS,
    costs,
    day_micro,
    times_a_day,
    weak_epsilon_warning,
)

HOUR = 3600
DAILY = "72 at most, for a source in every span (24 spans of 1h)"
KEYED = "8 at most, for a key in every window on one device (4 windows of 6h)"
CONFIG = """
fleet: testing
mqtt: {{url: "mqtt://localhost"}}
agent: {{device: one}}
streams:
  air:
    source: {{type: stdin}}
    window: {window}
    privacy: {{epsilon: 3, unit: {unit}}}
    {holds}
"""
READINGS = "attributes: {temp: {low: 0, high: 1}}"
KEYS = "key: badge\n    sketches: [{type: distinct, universe: 100}]"


def linear(unit, epsilon=3.0):
    return Guarantee.of_linear_counters(Privacy(epsilon, unit))


def keyed(epsilon=2.0):
    return Guarantee.of_keys(Privacy(epsilon, "key"), Fraction(1, 2))


def test_a_span_spends_in_each_span_of_a_day_for_any_windows():
    hourly = linear(Span(HOUR, 60))
    for window in (60, HOUR, DAY_SECONDS, 30 * DAY_SECONDS):
        assert times_a_day(hourly, window) == 24
        assert day_micro(hourly, window) == 72_000_000
    assert dict(costs(hourly, HOUR))["a day"] == DAILY
    assert (
        dict(costs(hourly, HOUR))["a reading"]
        == "spends 0.05: it is in one window of this stream only"
    )
    assert dict(costs(hourly, HOUR))["a span"].startswith("spends 3 as a whole")


def test_a_span_longer_than_a_day_spends_once():
    assert day_micro(linear(Span(7 * DAY_SECONDS, 3)), HOUR) == 3_000_000


def test_a_key_spends_in_each_window_that_ends_on_a_day():
    assert day_micro(keyed(), 6 * HOUR) == 8_000_000
    assert day_micro(keyed(), 7 * HOUR) == 8_000_000  # three of them, or four
    assert day_micro(keyed(), 30 * DAY_SECONDS) == 2_000_000
    assert dict(costs(keyed(), 6 * HOUR))["a day"] == KEYED


def test_readings_spend_one_by_one():
    assert times_a_day(linear("reading"), HOUR) is None
    assert day_micro(linear("reading"), HOUR) is None
    assert dict(costs(linear("reading"), HOUR))["a day"].startswith("3 for each reading in it")


@given(st.integers(1, 3 * DAY_SECONDS), st.integers(0, DAY_SECONDS))
def test_so_many_spans_cover_any_24_hours_and_fewer_do_not(seconds, begin):
    times = times_a_day(linear(Span(seconds, 2)), HOUR)
    ends = [begin + n * seconds for n in range(times + 1)]
    assert ends[-1] >= begin + DAY_SECONDS
    assert ends[-2] < begin + DAY_SECONDS


@given(st.integers(1, 3 * DAY_SECONDS), st.integers(0, 10**6))
def test_no_more_windows_end_within_24_hours(seconds, offset):
    first = -(-(offset + 1) // seconds) * seconds  # the first end after the offset
    ends = (offset + DAY_SECONDS - first) // seconds + 1 if first <= offset + DAY_SECONDS else 0
    assert ends <= times_a_day(keyed(), seconds)


@pytest.mark.parametrize(
    ("unit", "holds", "window"),
    [
        ("reading", READINGS, "1h"),
        ("{span: 1h, max_readings: 60}", READINGS, "1d"),
        ("{span: 1d, max_readings: 10, open: 60s}", READINGS, "1h"),
        ("key", KEYS, "6h"),
    ],
)
def test_the_device_and_the_page_state_the_same(tmp_path, unit, holds, window):
    file = tmp_path / "config.yaml"
    file.write_text(CONFIG.format(window=window, unit=unit, holds=holds))
    table = validation(load_agent(file, {}), MemoryProtection("", tmp_path))
    config = load_collector(file, {})
    shown = guarantee_object(config, config.streams[0], 0)
    assert len(shown["costs"]) >= 2
    for row in shown["costs"]:
        assert any(
            line.split("  ")[1] == row["of"] and line.endswith(f"  {row['says']}")
            for line in table.splitlines()
            if line.startswith("  ")
        ), row
    told = next(row["says"] for row in shown["costs"] if row["of"] == "a day")
    assert told.startswith(f"{shown['day']['epsilon']:g} at most" if shown["day"] else "3 for each")


@pytest.mark.parametrize(("epsilon", "warned"), [("10", False), ("10.000001", True), ("50", True)])
def test_an_epsilon_that_hides_nothing_is_warned_about(load_text, valid, epsilon, warned):
    text = valid.replace("epsilon: 0.5", f"epsilon: {epsilon}")
    (stream,) = load_text(text).streams
    says = f"epsilon {epsilon} hides next to nothing; write 10 or less"
    assert weak_epsilon_warning(stream, (stream,)) == (says if warned else None)


def test_the_sketches_of_a_stream_are_warned_about_together(load_text, valid):
    both = "sketches: [{type: hierarchy}, {type: moments}]\n    views: [[pm25, temp]]"
    text = valid.replace("views: [[pm25, temp]]", both).replace("epsilon: 0.5", "epsilon: 12")
    streams = load_text(text).streams
    assert len(streams) == 2
    assert {weak_epsilon_warning(each, streams) for each in streams} == {
        "epsilon 12 hides next to nothing; write 10 or less"
    }
