"""`pansketch plan`: its tables, its JSON, and what it refuses."""

import json
import re

import pytest

from pansketch import DistinctSpec, Privacy
from pansketch.planning.distinct_sample_size import ESTIMATORS, Budget, error_bound, sample_size
from pansketch_cli.__main__ import main


def answers(capsys, *options):
    assert main(["plan", *options, "--json"]) == 0
    return json.loads(capsys.readouterr().out)["answers"]


def test_every_estimator_has_a_line_for_every_epsilon(capsys):
    found = answers(capsys, "--epsilon", "0.3", "1.2", "--alpha", "0.1", "--beta", "0.01")
    assert len(found) == 2 * (len(ESTIMATORS) + 1)
    for line, estimator in zip(found, ESTIMATORS, strict=False):
        budget = Budget(0.3, 0.3)
        assert line["estimator"] == str(estimator)
        assert line["together"] == 0.6
        assert line["keys"] == sample_size(estimator, budget, 0.1, 0.01)
        assert line["within"] == error_bound(estimator, budget, line["tracked"], 0.01)


def test_a_planned_memory_reaches_the_wanted_error(capsys):
    """The two tables are each other's reverse."""
    for line in answers(capsys, "--epsilon", "0.7"):
        memory = str(line["memory_bytes"])
        again = answers(capsys, "--epsilon", "0.7", "--memory", memory)
        same = next(a for a in again if a["estimator"] == line["estimator"])
        assert same["within"] <= 0.05


def test_the_best_split_tracks_the_same_keys_with_less_error(capsys):
    *_, equal, best = answers(capsys, "--epsilon", "0.5")
    assert best["tracked"] == equal["tracked"]
    assert best["within"] < equal["within"]
    assert best["keys"] < equal["keys"]


def test_expected_keys_are_planned_by_the_sketch_itself(capsys):
    options = ("--epsilon", "1", "--expected-keys", "20000", "--memory", "2048")
    _, best = answers(capsys, *options)
    spec = DistinctSpec(Privacy(2.0, unit="key"), expected_keys=20_000, memory=2048)
    assert best["tracked"] == spec.tracked
    assert best["standard_error"] == pytest.approx(spec.planned_error(20_000) / 20_000)
    needed = ("--epsilon", "1", "--expected-keys", "20000", "--memory", str(best["memory_bytes"]))
    assert answers(capsys, *needed)[1]["within"] <= 0.05
    one_less = str(best["memory_bytes"] - 1)
    assert answers(capsys, *needed[:-1], one_less)[1]["within"] > 0.05


def test_any_number_of_keys_is_planned_by_the_sketch_itself(capsys):
    found = answers(capsys, "--epsilon", "1", "--any-number", "--memory", "2048")
    spec = DistinctSpec(Privacy(2.0, unit="key"), memory=2048)
    assert [line["of_keys"] for line in found] == [10**power for power in range(2, 10)]
    for line in found[:6]:
        error = spec.planned_error(line["of_keys"]) / line["of_keys"]
        assert line["standard_error"] == pytest.approx(error)
        assert line["tracked"] == spec.tracked
    assert "no empty slot on any of 16 levels" in found[-1]["problem"]
    assert found[-1]["standard_error"] is None
    assert main(["plan", "--any-number", "--epsilon", "1"]) == 0
    table, *notes = capsys.readouterr().out.split("\n\n")
    assert table.count("too many") == 1
    assert "Every line\nshares this sum" in notes[0]


def test_what_cannot_be_reached_is_reported_and_the_rest_is_shown(capsys):
    """Dwork's bits beyond epsilon 1.59; a universe that is too small; a memory below one id."""
    found = answers(capsys, "--epsilon", "2", "--universe", "1500", "--memory", "3")
    by_name = {line["estimator"]: line for line in found}
    assert "only up to 1.59" in by_name["dwork, repaired"]["problem"]
    assert by_name["optbern, as published"]["tracked"] == 0
    assert by_name["ppds, repaired"]["keys"] == 1456
    assert main(["plan", "--epsilon", "0.2", "--universe", "100"]) == 0
    assert "tracking all 100 keys reaches" in capsys.readouterr().out


def test_the_table_is_aligned_and_states_what_epsilon_means(capsys):
    assert main(["plan", "--universe", "100000", "--epsilon", "0.2"]) == 0
    said = capsys.readouterr().out
    assert "A key seen\nbefore a snapshot and after it spends their sum" in said
    table = said.split("\n\n")[1].splitlines()[1:]
    assert len({line.index("1/2") for line in table if "1/2" in line}) == 1
    assert all(re.search(r"within [\d,]+ keys$", line) for line in table[1:])


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--alpha", "0"], "alpha must lie between 0 and 1, not 0"),
        (["--beta", "1"], "beta must lie between 0 and 1, not 1"),
        (["--epsilon", "1", "nan"], "epsilon must lie between 0.0001 and 50"),
        (["--epsilon", "51"], "epsilon must lie between 0.0001 and 50"),
        (["--memory", "0"], "memory must lie between 1 and"),
        (["--universe", "0"], "universe must lie between 1 and"),
        (["--expected-keys", "0"], "expected_keys must lie between 1 and"),
    ],
)
def test_wrong_input_is_one_line_and_exit_code_2(options, said, capsys):
    assert main(["plan", *options]) == 2
    printed = capsys.readouterr()
    assert printed.err.startswith(f"pansketch: plan: {said}")
    assert printed.err.count("\n") == 1
    assert not printed.out


@pytest.mark.parametrize(
    "options",
    [
        ["--epsilon", "x"],
        ["--universe", "1", "--expected-keys", "1"],
        ["--any-number", "--expected-keys", "1"],
    ],
)
def test_what_the_parser_refuses_ends_with_2(options, capsys):
    with pytest.raises(SystemExit) as ended:
        main(["plan", *options])
    assert ended.value.code == 2
