"""Readings go in at the devices, and the answers come out at the collector's command line."""

import base64
import csv
import io
import json

import numpy as np
import pytest

from pansketch_collector.queries.fleet_model import build
from pansketch_collector.queries.questions import answer
from pansketch_collector.storage.reader import Selection, reading
from pansketch_fleet.config.loader import load_collector
from pansketch_fleet.protocol.messages import digest

HOURS, EACH = 6, 400
NEW_YEAR = 1704067200
MAX_OFFSET = 600
DEVICES = {"dev-1": 5.0, "dev-2": 20.0, "dev-3": 35.0}  # the mean of temp at each
# At epsilon 100, the maximum, nearly every counter is exact. The remaining error is that of the
# cells. 12 levels halve two attributes six times each, so a cell of temp is 100 / 2**6 degC wide.
CELL = 100 / 2**6


def drawn(mean, rng):
    """Readings of one device: (unix seconds, temp, pm25), none of them within a window's offset."""
    for hour in range(HOURS):
        for number in range(EACH):
            at = NEW_YEAR + 3600 * hour + 700 + number
            yield at, round(rng.normal(mean, 4.0), 2), round(rng.lognormal(3.5, 0.8), 1)


@pytest.fixture
def settled(fleet):
    """A fleet whose three devices have replayed everything, and the readings they had."""
    rng = np.random.default_rng(7)
    readings = {name: list(drawn(mean, rng)) for name, mean in DEVICES.items()}
    for name, rows in readings.items():
        fleet.configure(name, rows, epsilon=100)
    fleet.start_broker()
    collector = fleet.collector()
    agents = [fleet.agent(name) for name in DEVICES]
    assert [agent.wait() for agent in agents] == [0, 0, 0]
    # An agent ends when the broker has its last status. The collector gets it a moment later.
    everyone = [("stopped",)] * len(DEVICES)
    fleet.until(lambda: fleet.rows("SELECT state FROM devices") == everyone, "the last statuses")
    assert collector.stop() == 0
    return fleet, np.array([row for rows in readings.values() for row in rows])


def test_every_window_is_stored_once_and_the_answers_are_near_the_truth(settled):
    fleet, truth = settled
    for device in DEVICES:
        stored = fleet.stored(device)
        offset = stored[0][1] - NEW_YEAR
        assert 0 <= offset < MAX_OFFSET
        starts = [NEW_YEAR + offset + 3600 * hour for hour in range(HOURS)]
        assert stored == [(n + 1, start, start + 3600) for n, start in enumerate(starts)]
        assert fleet.ledger(device) == stored
        assert fleet.outbox(device) == []
    assert fleet.quarantine() == []
    assert fleet.rows("SELECT count(*) FROM releases") == [(len(DEVICES) * HOURS,)]
    answers_are_near(fleet, truth[:, 1])
    commands_agree(fleet)


def model_of(fleet, *devices):
    """The answers of the collector's commands, with one fit for all questions."""
    config = load_collector(fleet.folder / "dev-1.yaml", {})
    with reading(fleet.folder / "var/collector.sqlite") as reader:
        return build(reader, config, Selection("air", devices=frozenset(devices) or None))


def answers_are_near(fleet, temps):
    mean = json.loads(fleet.ask("query", "--stream", "air", "--json", "mean", "temp"))
    assert mean["value"] == pytest.approx(temps.mean(), abs=CELL)
    assert (mean["releases"], mean["devices"]) == (len(DEVICES) * HOURS, len(DEVICES))
    model = model_of(fleet)

    def asked(*words):
        return answer(model, words[0], list(words[1:])).value

    truth = np.quantile(temps, 0.9)
    assert asked("quantile", "temp", "0.9") == pytest.approx(truth, abs=2 * CELL)
    at_10 = asked("cdf", "temp", "10")
    assert np.mean(temps <= 10 - CELL) <= at_10 <= np.mean(temps <= 10 + CELL)
    # These bounds are bounds of cells (a quarter of -40 to 60), so only noise remains. 18 windows
    # have a deviation below one reading in each of the few cells of the range.
    half = asked("range", "temp", "10", "35")
    assert half == pytest.approx(np.sum((temps >= 10) & (temps < 35)), rel=0.02)
    # The negative control: one device alone is far from the fleet.
    alone = answer(model_of(fleet, "dev-1"), "mean", ["temp"]).value
    assert alone == pytest.approx(DEVICES["dev-1"], abs=CELL)
    assert alone != pytest.approx(temps.mean(), abs=CELL)


def commands_agree(fleet):
    sample = fleet.ask("sample", "--stream", "air", "--rows", "500", "--out", "-")
    header, *rows = csv.reader(io.StringIO(sample))
    assert header == ["temp", "pm25"]
    assert len(rows) == 500
    assert all(-40 <= float(temp) <= 60 and 0 <= float(pm25) <= 1000 for temp, pm25 in rows)
    devices = json.loads(fleet.ask("devices", "--json"))
    assert devices["quarantine"] == {}
    shown = {d["device"]: (d["state"], d["streams"]["air"]["windows"]) for d in devices["devices"]}
    assert shown == dict.fromkeys(DEVICES, ("stopped", HOURS))
    exported = fleet.ask("export", "--stream", "air", "--out", "-").splitlines()
    assert len(exported) == len(DEVICES) * HOURS
    for found in map(json.loads, exported):
        assert found["digest"] == digest(base64.b64decode(found["payload"]))
        window = found["sequence"], found["window"]["start"], found["window"]["end"]
        assert window in fleet.stored(found["device"])


def test_a_device_of_another_class_adds_up_with_the_others(fleet, hourly):
    hours, each = 4, 300
    fleet.configure("dev-1", hourly(hours, each, temp=10.0), epsilon=100)
    fleet.configure("dev-2", hourly(hours, each, temp=30.0), epsilon=100, profile="gateway-x86")
    fleet.start_broker()
    collector = fleet.collector()
    agents = [fleet.agent("dev-1"), fleet.agent("dev-2")]
    assert [agent.wait() for agent in agents] == [0, 0]
    assert collector.stop() == 0
    assert fleet.quarantine() == []
    assert [len(fleet.stored(device)) for device in ("dev-1", "dev-2")] == [hours, hours]
    assert fleet.rows("SELECT count(DISTINCT fingerprint) FROM releases") == [(2,)]

    whole = model_of(fleet)

    def readings(low, high, model=whole):
        return answer(model, "range", ["temp", low, high]).value

    # A deviation is below 5 readings at epsilon 100 (4 windows, 5 levels); a tenth is far beyond.
    near = pytest.approx(hours * each, rel=0.1)
    assert readings("20", "40") == near
    assert readings("0", "40") == pytest.approx(2 * hours * each, rel=0.1)
    assert readings("0", "40", model_of(fleet, "dev-2")) == near
