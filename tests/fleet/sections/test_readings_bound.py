"""The maximum readings of a window, from the configuration."""

from pathlib import Path

import pytest

from pansketch import Privacy, Span
from pansketch_fleet.config.loader import ConfigError, load_collector
from pansketch_fleet.sections.expected_load import readings_bound
from pansketch_fleet.settings.sources import (
    ReplaySource,
    StdinSource,
    SystemSource,
)

CONFIG = """fleet: f
mqtt: {url: "mqtt://localhost:1883"}
agent: {device: d}
streams:
  s:
    source: {type: system, interval: 10s}
    window: 1h
    privacy: {epsilon: 1}
    attributes: {t: {low: 0, high: 1}}
    views: [[t]]
    expect: EXPECT
"""


def loaded(tmp_path: Path, expect: str):
    path = tmp_path / "config.yaml"
    path.write_text(CONFIG.replace("EXPECT", expect))
    return load_collector(path, {}).streams[0]


def test_a_polled_window_holds_its_polls_also_when_the_clock_is_set_back() -> None:
    assert readings_bound(3600, SystemSource(10.0), Privacy(1)) == 3 * 360 + 1
    assert readings_bound(5, SystemSource(10.0), Privacy(1)) == 7 + 1


def test_a_pushed_window_holds_the_highest_rate_of_any_profile() -> None:
    assert readings_bound(3600, StdinSource(), Privacy(1)) == 3 * 3600 * 20_000
    assert readings_bound(3600, ReplaySource(Path("x.csv")), Privacy(1)) == 3600 * 20_000


def test_a_span_bounds_a_window_by_its_slots() -> None:
    privacy = Privacy(1, unit=Span(3600, 4))
    assert readings_bound(86400, ReplaySource(Path("x.csv")), privacy) == 24 * 4 + 2
    assert readings_bound(86400, StdinSource(), privacy) == 3 * 24 * 4 + 2


def test_what_is_stated_comes_first(tmp_path: Path) -> None:
    assert loaded(tmp_path, "{max_readings: 500, readings: 300}").most_readings == 500
    assert loaded(tmp_path, "{readings: 300}").most_readings == 3 * 360 + 1
    assert loaded(tmp_path, "{readings: 5000}").most_readings == 5000
    small = loaded(tmp_path, "{max_readings: 7}")
    assert small.most_readings == 7
    assert small.expected is not None
    assert small.expected.readings == 7


@pytest.mark.parametrize(
    ("expect", "key", "says"),
    [
        (
            "{readings: 20, max_readings: 10}",
            "expect.max_readings",
            "less than the 20 readings",
        ),
        ("{max_readings: 0}", "expect.max_readings", "between 1 and"),
        ("{max_reading: 5}", "expect.max_reading", "did you mean max_readings?"),
    ],
)
def test_contradictions_are_refused_with_their_line(
    tmp_path: Path, expect: str, key: str, says: str
) -> None:
    with pytest.raises(ConfigError, match=says) as caught:
        loaded(tmp_path, expect)
    assert f":11: streams.s.{key}" in str(caught.value)
