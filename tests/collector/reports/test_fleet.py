"""Totals of devices: right to their error, and a flag that finds a device out of line."""

import json

import numpy as np
import pytest
from pansketch_collector.reports.device_comparison import device_totals

from pansketch_collector.commands.verification import PORTION, BackgroundVerification
from pansketch_collector.storage import writer as store
from pansketch_collector.storage.reader import reading
from pansketch_collector.storage.writer import changing
from pansketch_collector.validation.validation import Rules


def test_the_flag_is_rarely_wrong_and_finds_who_invents():
    """False-alarm rate below 1 in 1,000 for seven normal devices: of 21,000 totals fewer than 50,
    which at that rate has probability below 1e-6."""
    rng, flagged, rounds = np.random.default_rng(5), 0, 3000
    for _ in range(rounds):
        rows = [(f"d{n}", "s", 1, float(rng.normal(700, 30)), 25.0) for n in range(7)]
        flagged += sum(total.out_of_line for total in device_totals(rows).values())
    assert flagged < 50
    found = device_totals([*rows[:-1], ("d6", "s", 1, 5000.0, 25.0)])
    assert [name for (name, _), total in found.items() if total.out_of_line] == ["d6"]
    # Control: six devices are too few to tell.
    found = device_totals([*rows[:5], ("d6", "s", 1, 5e3, 25.0)])
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
