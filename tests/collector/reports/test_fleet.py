"""Figures of a fleet: totals, the flag of a device out of line, and which devices are shown."""

import json
from math import sqrt
from statistics import median

import numpy as np
import pytest

from pansketch_collector.commands.verification import PORTION, BackgroundVerification
from pansketch_collector.reports.fleet import (
    MAX_DEVIATIONS,
    MIN_DEVICES,
    NORMAL,
    device_totals,
    middle_of,
    middles,
    out_of_line,
    with_problems_first,
)
from pansketch_collector.storage import writer as store
from pansketch_collector.storage.reader import reading
from pansketch_collector.storage.writer import changing
from pansketch_collector.validation.validation import Rules


def compared(rows):
    """Totals of one stream, compared with each other."""
    return device_totals(rows, {"s": middle_of(row[3] / row[2] for row in rows)})


def test_the_flag_is_rarely_wrong_and_finds_who_invents():
    """False-alarm rate below 1 in 1,000 for seven normal devices: of 21,000 totals fewer than 50,
    which at that rate has probability below 1e-6."""
    rng, flagged, rounds = np.random.default_rng(5), 0, 3000
    for _ in range(rounds):
        rows = [(f"d{n}", "s", 1, float(rng.normal(700, 30)), 25.0) for n in range(7)]
        flagged += sum(total.out_of_line for total in compared(rows).values())
    assert flagged < 50
    found = compared([*rows[:-1], ("d6", "s", 1, 5000.0, 25.0)])
    assert [name for (name, _), total in found.items() if total.out_of_line] == ["d6"]
    # Control: six devices are too few to tell.
    found = compared([*rows[:5], ("d6", "s", 1, 5e3, 25.0)])
    assert not any(total.out_of_line for total in found.values())


def test_devices_shows_totals_and_who_is_out_of_line(small_fleet, serve, run):
    many = [(20.0, 1.0)]
    for number in range(7):
        device = f"dev-{number}"
        readings = many * (20_000 if number == 6 else 900)
        serve((device, "fine", small_fleet.release(device, 1, "fine", readings)))
    out = run("devices")[1]
    (flagged,) = [line for line in out.splitlines() if "out of line" in line]
    assert flagged.startswith("total: dev-6 fine: ")
    said = {
        d["device"]: d["streams"]["fine"]["total"]
        for d in json.loads(run("devices", "--json")[1])["devices"]
    }
    assert said["dev-0"]["value"] == pytest.approx(900, abs=12 * said["dev-0"]["standard_error"])
    assert [name for name, total in said.items() if total["out_of_line"]] == ["dev-6"]
    run("exclude", "dev-6")
    assert "out of line" not in run("devices")[1]


def totals(small_fleet):
    with reading(small_fleet.database) as reader:
        return sorted(reader.totals())


def test_what_was_stored_without_a_total_gets_it_while_serve_runs(small_fleet, serve, caplog):
    """As for releases that were disputed: a portion at a turn. Unreadable ones stay without a
    total."""
    days, readings = range(1, 31), [[20.0]] * 40
    for device in ("one", "two", "three"):
        serve(*((device, "air", small_fleet.release(device, n, "air", readings)) for n in days))
    before = totals(small_fleet)
    with changing(small_fleet.database) as kept:
        kept.connection.execute("DELETE FROM totals WHERE device = 'one' OR window_start > 2000000")
    assert totals(small_fleet) != before
    with store.opened(small_fleet.database) as opened:
        unknown = BackgroundVerification(opened, Rules(small_fleet.fleet, {}))
        for _ in range(3):
            unknown.step(0.0, 0)
        assert totals(small_fleet) != before
        patrol = BackgroundVerification(opened, small_fleet.rules)
        patrol.step(0.0, 0)
        found = {device: windows for device, _, windows, *_ in totals(small_fleet)}
        assert PORTION <= sum(found.values()) < 90, "one portion alone"
        for _ in range(2):
            patrol.step(0.0, 0)
    after = totals(small_fleet)
    assert [row[:3] for row in after] == [row[:3] for row in before]
    assert [row[3:] for row in after] == [pytest.approx(row[3:]) for row in before]
    assert caplog.text == ""


def reference(rows):
    """Names of the devices out of line, by the definition, for each total."""
    found = set()
    for stream in {row[1] for row in rows}:
        own = [row for row in rows if row[1] == stream]
        means = [value / windows for _, _, windows, value, _ in own]
        middle = median(means)
        spread = NORMAL * median(abs(mean - middle) for mean in means)
        for (device, _, windows, _, variance), mean in zip(own, means, strict=True):
            deviation = sqrt(spread**2 + (sqrt(variance) / windows) ** 2)
            if len(own) >= MIN_DEVICES and abs(mean - middle) > MAX_DEVIATIONS * deviation:
                found.add(device)
    return sorted(found)


@pytest.mark.parametrize("seed", range(4))
def test_the_database_leaves_out_no_device_that_is_out_of_line(any_fleet, seed):
    """Distances around the limit; spreads of 0, and of the size of the errors; few devices."""
    rng = np.random.default_rng(seed)
    rows = [
        (f"d{n}", stream, int(rng.integers(1, 9)), value, float(rng.choice([0.0, 1.0, 900.0])))
        for stream, devices, spread in (
            ("a", 40, 3.0),
            ("b", 31, 30.0),
            ("c", 6, 1.0),
            ("d", 9, 0.0),
        )
        for n in range(devices)
        for distance in [rng.normal() if rng.random() < 0.7 else rng.uniform(-20, 20)]
        for value in [700 + spread * float(distance)]
    ]
    rows = [(*row[:3], row[3] * row[2], row[4]) for row in rows]
    with store.opened(any_fleet.database) as opened:
        opened.connection.executemany("INSERT INTO tallies VALUES (?, ?, ?, ?, ?)", rows)
    with reading(any_fleet.database) as reader:
        found = middles(reader.connection)
        totals = device_totals(reader.totals(), found)
        names = out_of_line(reader.connection, found)
    assert names == sorted({name for (name, _), each in totals.items() if each.out_of_line})
    assert names == reference(rows)
    assert 0 < len(names) < 40, "otherwise this test shows nothing"


def test_a_total_of_a_stream_without_earlier_ones_is_not_out_of_line():
    (total,) = device_totals([("one", "new", 2, 8.0, 9.0)], {}).values()
    assert (total.windows, total.value, total.standard_error) == (2, 8.0, 3.0)
    assert not total.out_of_line


def test_devices_with_rare_problems_come_before_those_with_frequent_ones():
    names = [f"d{n}" for n in range(9)]
    kinds = {"frequent": names[2:8], "rare": ["d8"], "both": ["d7", "d8"]}
    assert with_problems_first(names, {}, 3) == ["d0", "d1", "d2"]
    assert with_problems_first(names, kinds, 1) == ["d8"]
    assert with_problems_first(names, kinds, 3) == ["d2", "d7", "d8"]
    assert with_problems_first(names, kinds, 8) == [*names[2:], "d0"]
    assert with_problems_first(names, kinds, 99) == [*names[2:], "d0", "d1"]
    assert with_problems_first(["d0", "d3"], kinds, 99, {"d0", "d3"}) == ["d3", "d0"]
