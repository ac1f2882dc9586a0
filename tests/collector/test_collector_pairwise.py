"""A stream of several views: joint records and answers, and what their report says of them."""

import csv
import io
import re

import numpy as np
import pytest

from collector import store
from collector.inbox import Accepted
from collector.service import settle

STREAM = """
  many:
    source: {type: system, interval: 10s}
    window: 1d
    privacy: {epsilon: 100}
    attributes:
      temp: {low: -40, high: 60, unit: degC, step: 0.5}
      humid: {low: 0, high: 100}
      wind: {categories: [calm, "north, east", south]}
    views: [[temp], [humid], [wind], [temp, humid], [humid, wind]]
collector:"""
READINGS = 4000


@pytest.fixture(scope="module")
def weather():
    """Readings (temp, humid, wind) of a fixed seed: humid falls with temp, and with calm."""
    rng = np.random.default_rng(11)
    temp = np.clip(np.round(2 * (15 + 8 * rng.normal(size=READINGS))) / 2, -40, 60)
    humid = np.clip(60 - temp + 5 * rng.normal(size=READINGS), 0, 100)
    return np.column_stack([temp, humid, np.where(humid < 40, 0, rng.choice([1, 2], READINGS))])


@pytest.fixture
def fleet(bench, arrive, weather):
    """Two devices with two windows of the stream."""
    bench.path.write_text(bench.path.read_text().replace("\ncollector:", STREAM))
    messages = [
        arrive(bench.topic(device, "many"), bench.release(device, sequence, "many", part))
        for (device, sequence), part in zip(
            [("one", 1), ("one", 2), ("two", 1), ("two", 2)], np.split(weather, 4), strict=True
        )
    ]
    with store.opened(bench.database) as opened:
        verdicts = settle(opened, messages, bench.rules, 1000)
    assert all(isinstance(v, Accepted) for v in verdicts), verdicts
    return bench


def test_records_have_the_dependences_of_the_readings(fleet, run, weather):
    """Noise at epsilon 100 is some ten readings a cell: correlations err by less than 0.01."""
    code, out, err = run("sample", "--stream", "many", "--rows", "5000", "--out", "-")
    assert (code, err) == (0, "")
    rows = list(csv.DictReader(io.StringIO(out)))
    temp, humid = (np.array([float(row[name]) for row in rows]) for name in ("temp", "humid"))
    assert abs(np.corrcoef(temp, humid)[0, 1] - np.corrcoef(weather[:, :2].T)[0, 1]) < 0.1
    assert (temp * 2 == np.rint(temp * 2)).all()
    calm = np.array([row["wind"] == "calm" for row in rows])
    assert humid[calm].mean() < humid[~calm].mean() - 5


def test_a_report_stands_beside_the_records(fleet, run):
    words = ("sample", "--stream", "many", "--rows", "2000", "--out", "-", "--report")
    code, out, err = run(*words)
    assert code == 0
    assert out.count("\n") == 2001
    assert err.startswith("predicted distance of 2,000 synthetic rows from the readings\n")
    lines = dict(re.findall(r"^  (\S.*?)  +(\d\.\d{4})", err, re.MULTILINE))
    assert set(lines) == {
        "temp",
        "humid",
        "wind",
        "mean of all pairs",
        "temp, humid",
        "humid, wind",
        "correlations",
    }
    assert all(0 < float(value) < 0.5 for value in lines.values())
    assert "no view holds these pairs, and nothing is known of them: temp, wind" in err


def test_questions_have_answers_with_error_bars(fleet, run, weather):
    code, out, err = run("query", "--stream", "many", "mean", "temp")
    assert (code, err) == (0, "")
    found = re.match(r"([\d.]+) degC ± ([\d.]+)", out)
    assert found is not None
    assert abs(float(found[1]) - weather[:, 0].mean()) < 1


def test_a_report_is_for_views_alone(fleet, run):
    code, out, err = run("sample", "--stream", "air", "--rows", "1", "--out", "-", "--report")
    assert (code, out) == (2, "")
    assert err == (
        "--report is for sketches of type views, which pairwise reads, and this stream's is of "
        "type hierarchy: leave it out\n"
    )
