"""A stream of several views: joint records, answers, and their report."""

import csv
import io
import json
import re

import numpy as np
import pytest

from pansketch_collector.ingest.ingest_loop import commit_batch
from pansketch_collector.storage import writer as store
from pansketch_collector.validation.verdicts import Accepted

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
def fleet(small_fleet, arrive, weather):
    """Two devices with two windows of the stream."""
    small_fleet.path.write_text(small_fleet.path.read_text().replace("\ncollector:", STREAM))
    messages = [
        arrive(
            small_fleet.topic(device, "many"), small_fleet.release(device, sequence, "many", part)
        )
        for (device, sequence), part in zip(
            [("one", 1), ("one", 2), ("two", 1), ("two", 2)], np.split(weather, 4), strict=True
        )
    ]
    with store.opened(small_fleet.database) as opened:
        outcomes = commit_batch(opened, messages, small_fleet.rules, 1_000_001_000)
    assert all(isinstance(v, Accepted) for v in outcomes), outcomes
    return small_fleet


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
        "mean of known pairs",
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


YOUNG = STREAM.replace("epsilon: 100", "epsilon: 1").replace("many", "young")


@pytest.fixture
def young(small_fleet, arrive, weather):
    """The same stream at epsilon 1, with two windows of sixty readings."""
    small_fleet.path.write_text(small_fleet.path.read_text().replace("\ncollector:", YOUNG))
    messages = [
        arrive(
            small_fleet.topic("one", "young"), small_fleet.release("one", sequence, "young", part)
        )
        for sequence, part in enumerate(np.split(weather[:120], 2), 1)
    ]
    with store.opened(small_fleet.database) as opened:
        outcomes = commit_batch(opened, messages, small_fleet.rules, 1_000_001_000)
    assert all(isinstance(v, Accepted) for v in outcomes), outcomes
    return small_fleet


@pytest.mark.parametrize(
    "words",
    [
        ("query", "--stream", "young", "mean", "temp"),
        ("query", "--stream", "young", "quantile", "humid", "0.5"),
        ("query", "--stream", "young", "count", "temp > 10"),
        ("query", "--stream", "young", "covariance"),
        ("sample", "--stream", "young", "--rows", "9", "--out", "-", "--report"),
    ],
)
def test_an_answer_below_noise_is_refused_with_the_windows_it_needs(young, run, words):
    """120 readings are less than two deviations of the noise on a running sum of 64 cells."""
    code, out, err = run(*words)
    assert (code, out) == (1, "")
    assert re.search(
        r"the noise outweighs the readings: (about [\d,]+ more windows? (?:is|are) needed|how many "
        r"more windows are needed is not known yet; at the expected 8,640 readings a window it "
        r"takes about [\d,]+ windows?)\n$",
        err,
    ), err


def test_a_refusal_is_also_an_object(young, run):
    code, out, _ = run("query", "--stream", "young", "mean", "temp", "--json")
    found = json.loads(out)
    assert code == 1
    assert set(found) == {"refused", "more_windows"}
    assert found["more_windows"] is None or found["more_windows"] > 0
