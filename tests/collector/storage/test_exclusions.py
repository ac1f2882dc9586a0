"""Excluded releases are in no answer and are counted; a forgotten device makes room."""

import json

import pytest

from pansketch_collector.storage import writer as store

READINGS = [(20.0, 1.0)] * 900
HOSTILE = [(55.0, 1.0)] * 1000


@pytest.fixture
def fleet(small_fleet, serve):
    """Four devices with two windows each of about 20 degrees; `four` invents 55."""
    for device in ("one", "two", "three", "four"):
        readings = HOSTILE if device == "four" else READINGS
        serve(*((device, "fine", small_fleet.release(device, n, "fine", readings)) for n in (1, 2)))
    return small_fleet


def mean(run):
    return json.loads(run("query", "--stream", "fine", "mean", "temp", "--json")[1])


def test_an_excluded_device_is_in_no_answer_until_it_is_undone(fleet, run, tmp_path):
    poisoned = mean(run)
    assert poisoned["value"] > 25
    assert poisoned["left_out"] == 0

    code, out, err = run("exclude", "four")
    assert (code, err) == (0, "")
    assert out.startswith("four: 2 releases excluded from every answer")
    answer = mean(run)
    assert answer["value"] == pytest.approx(20, abs=1)
    assert (answer["releases"], answer["devices"], answer["left_out"]) == (6, 3, 2)
    assert "excluded by the operator" in answer["left_out_because"][0]["reason"]
    assert (
        "note: left out: 2 releases, excluded"
        in run("query", "--stream", "fine", "mean", "temp")[2]
    )
    code, _, err = run("export", "--stream", "fine", "--out", str(tmp_path / "x.jsonl"))
    assert len((tmp_path / "x.jsonl").read_text().splitlines()) == 6
    assert "excluded" in err

    assert run("exclude", "four", "--undo")[1] == "four: 1 exclusion undone\n"
    assert mean(run) == poisoned
    assert run("exclude", "four", "--undo")[0] == 2


def test_an_unknown_name_is_excluded_with_a_note(fleet, run):
    """A device that is expected may be excluded before it reports, so a typo is no error."""
    code, out, err = run("exclude", "fuor")
    assert (code, out[:16]) == (0, "fuor: 0 releases")
    assert err.startswith("note: no device 'fuor' is known yet")
    assert run("exclude", "four", "--from", "2300-01-01")[2] == ""


def test_a_range_is_excluded_alone_and_listed(fleet, run):
    assert run("exclude", "four", "--from", "1970-01-03")[1].startswith("four: 1 release excluded")
    assert mean(run)["releases"] == 7
    header, row = run("exclude", "--list")[1].splitlines()
    assert header.split() == ["device", "from", "to", "releases", "excluded"]
    assert row.split()[:4] == ["four", "1970-01-03", "-", "1"]
    (found,) = json.loads(run("exclude", "--list", "--json")[1])["excluded"]
    assert (found["device"], found["from"], found["to"], found["releases"]) == (
        "four", "1970-01-03", None, 1,
    )  # fmt: skip
    assert run("exclude", "four", "--undo", "--to", "1970-01-03")[0] == 2
    assert run("exclude", "four", "--undo", "--from", "1970-01-03")[0] == 0
    assert run("exclude", "--list")[1] == "no release is excluded\n"


def test_what_comes_later_of_an_excluded_device_stays_out(fleet, run, serve):
    run("exclude", "four")
    serve(("four", "fine", fleet.release("four", 3, "fine", HOSTILE)))
    assert mean(run)["left_out"] == 3


@pytest.mark.parametrize(
    "words",
    [
        ("exclude",),
        ("exclude", "--list", "four"),
        ("exclude", "four", "--from", "1970-01-03", "--to", "1970-01-03"),
        ("exclude", "four", "--json"),
        ("forget", "nobody"),
        ("forget", "one", "--yes"),
        ("forget", "one", "--releases"),
    ],
)
def test_wrong_input_changes_nothing(fleet, run, words):
    code, out, err = run(*words)
    assert (code, out) == (2, "")
    assert err.count("\n") == 1
    assert mean(run)["releases"] == 8


def test_a_forgotten_device_makes_room_and_keeps_its_releases_by_default(fleet, run, serve):
    assert run("forget", "four")[1] == "four: it had reported nothing, 0 releases deleted, 2 kept\n"
    assert mean(run)["releases"] == 8
    assert "2 releases deleted, 0 kept" in run("forget", "four", "--releases", "--yes")[1]
    assert mean(run)["releases"] == 6
    with store.opened(fleet.database):
        pass  # The lock and the generation agree with what was deleted.
