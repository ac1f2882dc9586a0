"""Retention: what is too old is removed, stays known, and a dry run removes nothing."""

import json

import pytest

from pansketch_collector.validation.verdicts import Duplicate
from pansketch_fleet.config.loader import ConfigError, load_collector

DAY = 86_400


def keep(small_fleet, retention):
    window = "    window: 1d\n"
    text = small_fleet.path.read_text().replace(window, f"{window}    retention: {retention}\n", 1)
    small_fleet.path.write_text(text)


@pytest.fixture
def ten(small_fleet, serve):
    """Ten days of two devices; of one the third day is missing. Four days are kept."""
    text = small_fleet.path.read_text()
    small_fleet.path.write_text(
        text.replace("    window: 1d\n", "    window: 1d\n    retention: 4d\n", 1)
    )
    releases = {
        (device, n): small_fleet.release(device, n, "air", [[20.0]] * 500)
        for device in ("one", "two")
        for n in range(1, 11)
        if (device, n) != ("two", 3)
    }
    serve(*((device, "air", each) for (device, _), each in releases.items()))
    return small_fleet, releases


def streams(run):
    found = json.loads(run("devices", "--json")[1])["devices"]
    return {each["device"]: each["streams"]["air"] for each in found}


def test_a_dry_run_lists_releases_and_removes_none(ten, run):
    small_fleet, releases = ten
    code, out, err = run("retention", "--dry-run")
    assert (code, err) == (0, "")
    _, row, last = out.splitlines()
    assert row.split() == ["air", "4d", "11", "19", "1970-01-08T00:08:09Z"]
    assert last == "a dry run: nothing was removed"
    assert len(small_fleet.stored("air")) == len(releases)
    said = json.loads(run("retention", "--dry-run", "--json")[1])
    assert said["streams"] == [
        {
            "stream": "air",
            "retention_seconds": 4 * DAY,
            "removed": 11,
            "stored": 19,
            "until": "1970-01-08T00:08:09Z",
        }
    ]


def test_what_is_removed_is_no_gap_and_comes_no_second_time(ten, run, serve):
    small_fleet, releases = ten
    assert {name: each["gaps"] for name, each in streams(run).items()} == {"one": 0, "two": 1}
    assert run("retention")[0] == 0
    left = small_fleet.stored("air")
    assert len(left) == 8
    found = streams(run)
    assert {name: each["gaps"] for name, each in found.items()} == {"one": 0, "two": 1}
    assert {each["windows"] for each in found.values()} == {4}
    assert found["one"]["first_window"] == "1970-01-08T00:08:09Z"
    outcomes = serve(*((device, "air", each) for (device, _), each in releases.items()))
    assert all(isinstance(outcome, Duplicate) for outcome in outcomes)
    assert small_fleet.stored("air") == left
    assert "11" not in run("retention")[1].split()
    assert run("query", "--stream", "air", "mean", "temp")[1].endswith(
        "8 releases of 2 devices, epsilon 1 per reading (silent)\n"
    )


def test_what_comes_after_the_removal_counts(ten, run, serve):
    small_fleet, _ = ten
    run("retention")
    (outcome,) = serve(("one", "air", small_fleet.release("one", 11)))
    assert not isinstance(outcome, Duplicate)
    assert streams(run)["one"]["gaps"] == 0
    run("retention")
    assert streams(run)["one"] | {"received_at": ""} == {
        **streams(run)["one"],
        "windows": 4,
        "gaps": 0,
        "received_at": "",
    }


def test_a_clock_that_is_years_ahead_removes_nothing(small_fleet, serve, run, monkeypatch):
    text = small_fleet.path.read_text()
    small_fleet.path.write_text(
        text.replace("    window: 1d\n", "    window: 1d\n    retention: 4d\n", 1)
    )
    serve(*(("one", "air", small_fleet.release("one", n)) for n in (1, 2, 3)))
    monkeypatch.setattr("pansketch_collector.clock.now", lambda: 100 * 366 * DAY)
    run("retention")
    assert len(small_fleet.stored("air")) == 3


@pytest.mark.parametrize("text", ["1h", "0d", "never", "99999999d"])
def test_a_retention_that_cannot_be_is_refused_with_its_line(small_fleet, text):
    line = small_fleet.path.read_text().splitlines().index("    window: 1d") + 2
    keep(small_fleet, text)
    with pytest.raises(ConfigError, match=rf"config.yaml:{line}: streams.air.retention: "):
        load_collector(small_fleet.path, {})
