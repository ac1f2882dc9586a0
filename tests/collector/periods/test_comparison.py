"""`query change` and `query drift`: attributes that changed are found, others are not."""

import json

import pytest

from tests.collector.periods.conftest import RISE

ASK = ("query", "--stream", "many")
BEFORE, AFTER = "1970-01-02..1970-01-04", "1970-01-04..1970-01-06"


def asked(run, *words):
    code, out, err = run(*ASK, *words, "--json")
    assert (code, err) == (0, "")
    answer = json.loads(out)
    return answer, {each["attribute"]: each for each in answer["attributes"]}


def test_the_means_of_two_periods_differ_by_the_rise(fleet, run):
    """Temp changed by RISE; it is found as p is below 1e-9. Humid did not: it is reported in one of
    a hundred runs at most, so that its p-value is asked to be above 1e-6."""
    answer, found = asked(run, "change", "--between", BEFORE, AFTER)
    assert (answer["level"], list(found)) == (0.01, ["temp", "humid", "way"])
    temp = found["temp"]
    assert abs(temp["change"]["value"] - RISE) < 1
    assert temp["second"]["value"] - temp["first"]["value"] == pytest.approx(
        temp["change"]["value"]
    )
    assert temp["beyond_noise"]
    assert temp["p_value"] < 1e-9
    assert found["humid"]["p_value"] > 1e-6
    assert [period["releases"] for period in answer["periods"]] == [4, 4]
    same, back = (
        asked(run, "change", "temp", "--between", AFTER, BEFORE)[1],
        temp["change"]["value"],
    )
    assert same["temp"]["change"]["value"] == pytest.approx(-back)


def test_drift_finds_the_attribute_that_changed(fleet, run):
    """As above; the p-value of a drift is 1 of 4,000 at least."""
    _, found = asked(run, "drift", "--between", BEFORE, AFTER)
    assert list(found) == ["temp", "humid", "way", "wind"]
    temp = found["temp"]
    assert temp["beyond_noise"]
    assert temp["p_value"] == 1 / 4000
    assert abs(temp["change"]["value"] - RISE) < 1
    assert found["wind"]["unit"] == "of the readings"


def test_two_days_alike_show_no_change(fleet, run):
    """The control of the tests above. A false alarm has a probability of 1e-6 for `change`, whose
    p-values are exact; drift's size is within six errors and the noise."""
    _, means = asked(run, "change", "--between", "1970-01-02", "1970-01-03")
    assert min(each["p_value"] for each in means.values()) > 3e-7
    _, found = asked(run, "drift", "temp", "--between", "1970-01-02", "1970-01-03")
    change = found["temp"]["change"]
    assert change["value"] < found["temp"]["from_noise"] + 6 * change["standard_error"] < RISE


def test_a_table_has_a_verdict_for_each_attribute(fleet, run):
    code, out, _ = run(*ASK, "drift", "temp", "wind", "--between", BEFORE, AFTER)
    assert code == 0
    lines = out.splitlines()
    assert lines[0].split() == ["attribute", "change", "unit", "p"]
    assert lines[1].endswith("< 0.001  changed")
    assert lines[3].startswith("changed: beyond noise at a level of 0.01 for all attributes")
    assert lines[4].startswith("first: 1970-01-02")


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("change",), "add --between A B"),
        (("change", "--between", BEFORE, "1970-01-03"), "the two periods overlap"),
        (("change", "--between", BEFORE, "soon"), "'soon' is no date"),
        (("change", "--between", BEFORE, "1970-01-09..1970-01-08"), "is empty"),
        (("change", "--between", BEFORE, "1980-01-01"), "no window of many starts"),
        (("change", "wind", "--between", BEFORE, AFTER), "wind has categories"),
        (("drift", "none", "--between", BEFORE, AFTER), "unknown attribute"),
        (("drift", "--between", BEFORE, AFTER, "--robust"), "--robust is not for drift"),
        (("drift", "--between", BEFORE, AFTER, "--by", "day"), "leave them out"),
    ],
)
def test_incomparable_periods_are_rejected_with_a_single_line(fleet, run, words, says):
    code, out, err = run(*ASK, *words)
    assert (code, out) == (2, "")
    assert says in err
    assert err.count("\n") == 1


def test_a_period_that_noise_outweighs_is_refused(fleet, run):
    code, out, err = run(*ASK, "drift", "temp", "--between", BEFORE, "1970-01-07")
    assert (code, out) == (1, "")
    assert "the noise outweighs the readings" in err
