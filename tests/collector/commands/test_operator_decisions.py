"""`disputed`: both releases of a window are stored until a command drops one."""

import json
import sqlite3
from contextlib import closing

import pytest

from pansketch import WindowId
from pansketch_collector.ingest.ingest_loop import commit_batch
from pansketch_collector.storage import writer as store
from pansketch_fleet.settings.device_spec import schedule_offset

DAY = 86_400
NOW = 1_000_001_000


@pytest.fixture
def both(small_fleet, arrive):
    """Two releases of one window, the first of which is stored, and of another window one."""
    start = DAY + schedule_offset("one", DAY)
    named = [WindowId("one", "air", n, start, start + DAY, None, b"%08d" % n) for n in (1, 2)]
    first, other = (small_fleet.release(window=window) for window in named)
    with store.opened(small_fleet.database) as opened:
        messages = [
            arrive(small_fleet.topic(), each)
            for each in (first, other, small_fleet.release("one", 5))
        ]
        commit_batch(opened, messages, small_fleet.rules, NOW)
    return first, other


def listed(run):
    code, out, err = run("disputed", "list", "--json")
    assert (code, err) == (0, "")
    return json.loads(out)["disputed"]


def test_nothing_is_disputed(small_fleet, run):
    with store.opened(small_fleet.database):
        pass
    assert run("disputed", "list") == (0, "no window is disputed\n", "")
    assert listed(run) == []


def test_list_shows_both(both, run):
    (found,) = listed(run)
    assert (found["device"], found["stream"], found["sequence"]) == ("one", "air", 2)
    assert found["window"]["from"].startswith("1970-01-02")
    assert found["incarnation"] == b"00000002".hex()
    assert found["counts"]["sequence"] == 1
    assert found["counts"]["incarnation"] == b"00000001".hex()
    header, line = run("disputed", "list")[1].splitlines()
    assert header.startswith("id  device  stream")
    assert line.split()[:4] == [str(found["id"]), "one", "air", found["window"]["from"]]


@pytest.mark.parametrize("serving", [True, False])
def test_keep_exchanges_both_releases_and_back(small_fleet, both, run, serving):
    first, other = both
    rest = small_fleet.stored()[1:]
    with (
        store.opened(small_fleet.database)
        if serving
        else closing(sqlite3.connect(small_fleet.database))
    ):
        (found,) = listed(run)
        assert run("disputed", "keep", str(found["id"]))[0] == 0
        assert small_fleet.stored() == [other, *rest]
        (found,) = listed(run)
        assert found["sequence"] == 1
        assert run("disputed", "keep", str(found["id"]))[0] == 0
        assert small_fleet.stored() == [first, *rest]


def test_drop_deletes_the_other_one_alone(small_fleet, both, run):
    first, _ = both
    (found,) = listed(run)
    assert run("disputed", "drop", str(found["id"])) == (0, "no window is disputed\n", "")
    assert small_fleet.stored()[0] == first


def test_what_is_kept_stays_a_duplicate_and_the_other_one_refused(small_fleet, both, run, arrive):
    run("disputed", "keep", str(listed(run)[0]["id"]))
    with store.opened(small_fleet.database) as opened:
        messages = [arrive(small_fleet.topic(), each) for each in both]
        outcomes = commit_batch(opened, messages, small_fleet.rules, NOW)
    assert [type(outcome).__name__ for outcome in outcomes] == ["Rejected", "Duplicate"]
    assert len(listed(run)) == 1


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["keep"], "disputed keep ID"),
        (["list", "1"], "disputed list"),
        (["drop", "99"], "nothing disputed has the id 99"),
        (["drop", "1", "99"], "nothing disputed has the id 99"),
        (["keep", "0"], "whole number"),
        (["remove", "1"], "invalid choice"),
    ],
)
def test_wrong_input_is_one_line_and_changes_nothing(small_fleet, both, run, words, says):
    before = small_fleet.stored(), listed(run)
    code, out, err = run("disputed", *words)
    assert (code, out) == (2, "")
    assert says in err
    assert err.count("\n") == 1
    assert (small_fleet.stored(), listed(run)) == before
