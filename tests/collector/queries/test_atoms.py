"""Atoms from a configuration to answers and files: found, declared, counted, told."""

import csv
import io
import json

import numpy as np
import pyarrow.parquet
import pytest
import yaml

from pansketch_collector.http.endpoints.histogram import histogram
from pansketch_collector.http.endpoints.row_formats import SHAPES, pieces
from pansketch_collector.queries.fleet_model import build
from pansketch_collector.storage.reader import reading
from pansketch_collector.storage.tables.records import Selection
from pansketch_collector.validation.verdicts import Accepted

STREAM = """
  gaps:
    source: {type: system, interval: 10s}
    window: 1d
    privacy: {epsilon: 50}
    attributes:
      rain: {low: 0, high: 200, unit: mm, step: 0.1%s}
      co: {low: 0, high: 15, atoms: [-200.25, missing]}
      sky: {categories: [clear, cloudy], atoms: [missing]}
collector:"""
EACH = 20_000


def readings(seed):
    rng = np.random.default_rng(seed)
    rain = np.where(rng.random(EACH) < 0.8, 0.0, np.round(rng.uniform(0.1, 200, EACH), 1))
    co = np.where(rng.random(EACH) < 0.3, -200.25, rng.uniform(0, 15, EACH))
    co[rng.random(EACH) < 0.25] = np.nan
    sky = rng.integers(0, 2, EACH).astype(float)
    sky[rng.random(EACH) < 0.5] = np.nan
    return np.column_stack([rain, co, sky])


@pytest.fixture
def fleet(small_fleet, serve):
    def make(atoms=""):
        small_fleet.path.write_text(
            small_fleet.path.read_text().replace("\ncollector:", STREAM % atoms)
        )
        given = [
            ("one", "gaps", small_fleet.release("one", n, "gaps", readings(n))) for n in (1, 2)
        ]
        assert all(isinstance(outcome, Accepted) for outcome in serve(*given, at=1000))
        return small_fleet

    return make


def test_atoms_are_proposed_from_stored_releases(fleet, run):
    fleet()
    code, out, err = run("scales", "--stream", "gaps")
    assert code == 0, err
    assert yaml.safe_load(out)["rain"]["atoms"] == [0]
    assert "0 is taken to be their value" in out
    assert "co" not in (yaml.safe_load(out) or {}) or "atoms" not in yaml.safe_load(out)["co"]


def test_answers_tell_what_is_missing(fleet, run):
    fleet(", atoms: [0]")

    def asked(*words):
        code, out, err = run("query", "--stream", "gaps", *words)
        assert code == 0, err
        return out

    truth = np.concatenate([readings(n) for n in (1, 2)])
    mean = json.loads(asked("mean", "co", "--json"))
    assert mean["missing"] == pytest.approx(0.25, abs=0.02)
    assert mean["value"] == pytest.approx(np.nanmean(truth[:, 1]), abs=2)
    assert "missing in 25" in asked("quantile", "co", "0.1").replace("24.9", "25")
    assert "missing" not in json.loads(asked("mean", "rain", "--json"))
    assert json.loads(asked("count", "rain = 0", "--json"))["share"] == pytest.approx(0.8, abs=0.01)
    assert json.loads(asked("range", "co", "missing", "--json"))["share"] == pytest.approx(
        0.25, abs=0.02
    )
    assert json.loads(asked("cdf", "co", "-1", "--json"))["unit"] == "of the readings with a value"
    lacking = json.loads(asked("covariance", "rain", "co", "--json"))["missing"]
    assert lacking[0] is None
    assert lacking[1] == pytest.approx(0.25, abs=0.02)


def test_files_of_records_have_what_is_missing(fleet, run):
    small_fleet = fleet(", atoms: [0]")
    words = ("--rows", "4000", "--seed", "1", "--out", "-")
    code, out, err = run("sample", "--stream", "gaps", *words)
    assert code == 0, err
    rows = list(csv.DictReader(io.StringIO(out)))
    assert np.mean([row["rain"] == "0.0" for row in rows]) == pytest.approx(0.8, abs=0.05)
    assert np.mean([row["co"] == "" for row in rows]) == pytest.approx(0.25, abs=0.05)
    assert {float(row["co"]) for row in rows if row["co"].startswith("-")} == {-200.25}
    assert np.mean([row["sky"] == "" for row in rows]) == pytest.approx(0.5, abs=0.06)
    with reading(small_fleet.database) as reader:
        model = build(reader, small_fleet.config, Selection("gaps"))
    of_json = json.loads(b"".join(pieces(model, SHAPES["json"], 500, 1)))
    assert {None, "clear", "cloudy"} == {row["sky"] for row in of_json}
    assert None in {row["co"] for row in of_json}
    table = pyarrow.parquet.read_table(
        io.BytesIO(b"".join(pieces(model, SHAPES["parquet"], 500, 1)))
    ).to_pylist()
    assert table == of_json
    (axis,) = histogram(model, ["co"], 8)["axes"]
    assert [each["value"] for each in axis["atoms"]] == [-200.25, "missing"]
    assert None not in axis["edges"]
    (sky,) = histogram(model, ["sky"], 8)["axes"]
    assert sky["categories"] == ["clear", "cloudy", "missing"]


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("atoms: [missing]", "atoms: [1]", "sky.atoms"),
        ("atoms: [missing]}", "atoms: [missing]}\n    sketch: {depth: 8}", "type views"),
        ("[-200.25, missing]", "[-200.25, gone]", "co.atoms"),
    ],
)
def test_atoms_that_cannot_be_are_refused_at_their_key(small_fleet, run, old, new, problem):
    text = small_fleet.path.read_text().replace("\ncollector:", STREAM % "")
    assert old in text
    small_fleet.path.write_text(text.replace(old, new))
    code, _, err = run("scales", "--stream", "gaps")
    assert code != 0
    assert problem in err
