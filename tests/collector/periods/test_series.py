"""`query --by`: a row for each window, day or device, near the truth or refused."""

import json
import re
from dataclasses import replace

import pytest

from pansketch_collector.queries.generator_registry import GENERATORS

ASK = ("query", "--stream", "many")


def test_each_window_has_the_mean_of_its_readings_or_none(fleet, run):
    """Errors of ten standard ones do not happen. The control: the next day's mean is further away
    than that where the readings rose."""
    code, out, err = run(*ASK, "mean", "temp", "--by", "window", "--json")
    assert (code, err) == (0, "")
    answer = json.loads(out)
    assert (answer["by"], answer["unit"], answer["releases"]) == ("window", "degC", 10)
    rows = answer["rows"]
    assert [row["from"] for row in rows] == [f"1970-01-0{day + 1}" for day in fleet]
    means = [fleet[day][:, 0].mean() for day in fleet]
    for row, mean in zip(rows[:-1], means, strict=False):
        assert abs(row["value"] - mean) < 10 * row["standard_error"] < 4
        readings = row["readings"]
        assert abs(readings["value"] - 2000) < 10 * readings["standard_error"]
        assert (row["devices"], row["releases"]) == (2, 2)
    assert abs(rows[1]["value"] - means[2]) > 10 * rows[1]["standard_error"]
    assert rows[-1]["value"] is None
    assert rows[-1]["refused"].startswith("the noise outweighs the readings")


def test_a_table_names_the_rows_that_are_too_noisy(fleet, run):
    code, out, _ = run(*ASK, "mean", "temp", "--by", "day")
    assert code == 0
    lines = out.splitlines()
    assert re.fullmatch(r"day +devices +releases +readings +value \(degC\)", lines[0])
    assert re.match(r"1970-01-02 +2 +2 +[\d.]+ ± [\d.]+ +1[45]\.\d+ ± 0\.\d+$", lines[1])
    assert lines[5].endswith("too noisy")
    assert lines[6].startswith("note: 1 of 5 rows have no value")
    # A day that is over gets no more windows: none is asked for.
    assert len(lines) == 8
    assert lines[-1].startswith("10 releases of 2 devices, epsilon 10 per reading")


def test_a_noisy_device_is_told_what_it_lacks(fleet, run):
    """The control of the test above: a device does get more windows."""
    code, out, _ = run(*ASK, "mean", "temp", "--by", "device", "--from", "1970-01-06")
    assert code == 1
    assert "more window" in out


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (("mean", "nothing"), "unknown attribute 'nothing'; the stream has temp"),
        (("mean", "wind"), "wind has categories"),
        (("quantile", "temp", "50"), "a quantile lies between 0 and 1"),
        (("quantile", "temp", "50%"), "'50%' is not a number"),
        (("cdf", "temp", "warm"), "'warm' is not a number"),
        (("range", "temp", "20", "10"), "LOW must not exceed HIGH"),
        (("range", "humidity", "0", "10"), "unknown attribute 'humidity'"),
        (("count", "tmp > 20"), "tmp"),
    ],
)
@pytest.mark.parametrize("by", [[], ["--by", "window"]])
def test_wrong_words_are_told_before_what_is_missing(fleet, run, words, problem, by):
    """Noise outweighs the last day, which would be the error of right words."""
    code, out, err = run(*ASK, *words, "--from", "1970-01-06", *by)
    assert (code, out) == (2, "")
    assert problem in err
    assert "noise" not in err


@pytest.mark.parametrize(
    "words",
    [
        ("quantile", "temp", "0.5"),
        ("cdf", "temp", "17"),
        ("count", "temp > 17"),
        ("count", "temp > 17 & humid > 50"),
        ("range", "wind", "calm"),
        ("mean", "way"),
    ],
)
def test_a_row_is_the_answer_of_its_releases_alone(fleet, run, words):
    """Of one window the same as a plain question; models of one attribute need no records, and
    differ by less than a standard error."""
    code, out, _ = run(*ASK, *words, "--by", "window", "--to", "1970-01-03", "--json")
    assert code == 0
    (row,) = json.loads(out)["rows"]
    plain = json.loads(run(*ASK, *words, "--to", "1970-01-03", "--json")[1])
    assert abs(row["value"] - plain["value"]) < plain["standard_error"]
    assert ("share" in row) == ("share" in plain)


def test_rows_of_devices(fleet, run):
    code, out, _ = run(*ASK, "mean", "humid", "--by", "device", "--json")
    assert code == 0
    rows = json.loads(out)["rows"]
    assert [row["device"] for row in rows] == ["one", "two"]
    assert all(row["releases"] == 5 and abs(row["value"] - 50) < 3 for row in rows)


def test_levels_stand_beside_the_rows(fleet, run):
    """Also beside the row that has no value, whose error is larger."""
    code, out, _ = run(*ASK, "mean", "humid", "--by", "window", "--smooth", "--json")
    assert code == 0
    answer = json.loads(out)
    levels = [row["level"] for row in answer["rows"]]
    assert answer["step"] >= 0
    assert all(abs(level["value"] - 50) < 10 * level["standard_error"] for level in levels)
    assert levels[-1]["standard_error"] > levels[0]["standard_error"]
    table = run(*ASK, "mean", "humid", "--by", "window", "--smooth")[1]
    assert table.splitlines()[0].endswith("level")


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("covariance", "--by", "day"), "covariance has no rows"),
        (("mean", "temp", "--by", "device", "--robust"), "--robust asks groups of devices"),
        (("mean", "temp", "--smooth"), "add --by window"),
        (("mean", "way", "--by", "day", "--smooth"), "way is cyclic"),
        (("mean", "temp", "--by", "device", "--smooth"), "devices have no order"),
        (("mean", "none", "--by", "day"), "unknown attribute 'none'"),
        (("count", "temp >", "--by", "day"), "temp"),
        (("mean", "temp", "--by", "day", "--from", "1980-01-01"), "no window of many starts"),
        (("mean", "temp", "--between", "1970-01-02", "1970-01-03"), "--between is for"),
    ],
)
def test_a_question_without_rows_is_rejected_with_a_single_line(fleet, run, words, says):
    code, out, err = run(*ASK, *words)
    assert (code, out) == (2, "")
    assert says in err
    assert err.count("\n") == 1


def test_too_many_rows_are_refused(fleet, run, monkeypatch):
    few = {name: replace(each, max_single_rows=4) for name, each in GENERATORS.items()}
    monkeypatch.setattr("pansketch_collector.periods.series.GENERATORS", few)
    code, _, err = run(*ASK, "mean", "temp", "--by", "window")
    assert code == 2
    assert "5 rows by window are more than 4" in err


def test_noise_that_outweighs_every_row_is_a_failure(fleet, run):
    code, out, _ = run(*ASK, "mean", "temp", "--by", "window", "--from", "1970-01-06")
    assert code == 1
    assert "too noisy" in out
