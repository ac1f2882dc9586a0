"""The meaning of options: dates, ranges, devices."""

import pytest

from pansketch_collector.errors import CommandError
from pansketch_collector.queries.selection import select, when
from pansketch_fleet.units import utc_text

DAY = 86_400


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("1970-01-02", DAY),
        ("1970-01-02T00:00:01Z", DAY + 1),
        ("1970-01-02T01:00+01:00", DAY),
        ("2016-01-31T12:00", 1454241600),
        ("0", 0),
        ("1454241600", 1454241600),
    ],
)
def test_dates_are_utc_unless_they_have_an_offset(text, seconds):
    assert when(text) == seconds


@pytest.mark.parametrize(
    "text",
    [
        "",
        "yesterday",
        "2016",
        "20160131",
        "2016-13-01",
        "-5",
        "1969-12-31",
        "1e9",
        "٣",
        "7 d",
        "1y",
    ],
)
def test_what_is_no_date_is_refused(text):
    with pytest.raises(CommandError) as caught:
        when(text)
    assert caught.value.code == 2


@pytest.mark.parametrize(
    ("text", "ago"), [("0s", 0), ("90m", 5400), ("12h", DAY / 2), ("1w", 7 * DAY)]
)
def test_a_duration_is_so_long_ago(text, ago, monkeypatch):
    monkeypatch.setattr("pansketch_collector.clock.now", lambda: 400 * DAY)
    assert when(text) == 400 * DAY - ago


def test_a_duration_before_1970_is_refused(monkeypatch):
    monkeypatch.setattr("pansketch_collector.clock.now", lambda: 400 * DAY)
    with pytest.raises(CommandError, match="'401d' is not between 1970 and 9999"):
        when("401d")


def test_times_are_shown_as_they_can_be_typed():
    assert [when(utc_text(s)) for s in (0, DAY, DAY + 61, 253_402_300_799)] == [
        0,
        DAY,
        DAY + 61,
        253_402_300_799,
    ]


def test_a_selection_names_known_streams_and_a_range_that_goes_forward(small_fleet):
    config = small_fleet.config
    with pytest.raises(CommandError, match="'water'; the configuration has air, fine"):
        select(config, "water", None, None, None)
    with pytest.raises(CommandError, match="--from must be before --to"):
        select(config, "air", "1970-01-02", "1970-01-02", None)
    with pytest.raises(CommandError, match="--devices is empty"):
        select(config, "air", None, None, ",")
    assert select(config, "air", "0", None, "a,b").devices == {"a", "b"}
