"""Commands on streams of keys: rejections and omissions, each as a single line."""

import json
import sqlite3
from contextlib import closing

import pytest

from pansketch_collector.__main__ import main
from tests.collector.key_site import keys, rows


def test_a_union_without_an_estimate_is_reported_as_a_single_line(make_site, ask):
    """Forty devices at epsilon 1: their noise multiplies."""
    site = make_site(doors=1)
    devices = [f"dev-{n}" for n in range(40)]
    site.store(*(site.release(d, 10, keys((300,))) for d in devices), devices=devices)
    code, out, err = ask("query", "--stream", "doors", "distinct")
    assert (code, out) == (1, "")
    assert err.count("\n") == 1
    assert "40 bitmaps" in err
    assert ask("query", "--stream", "doors", "distinct", "--keys", "disjoint")[0] == 0
    # Beside a window that has an answer it is a line of the table.
    site.store(site.release("dev-1", 9, keys((300,))), devices=["dev-1"])
    code, out, err = ask("query", "--stream", "doors", "distinct")
    assert code == 1
    assert [row[-2:] for row in rows(out)][1] == ["no", "estimate"]
    assert err.startswith("window 1970-01-11: ")
    assert err.count("\n") == 1
    code, out, _ = ask("query", "--stream", "doors", "distinct", "--json")
    figure = json.loads(out)["figures"][1]
    assert (code, figure["value"], figure["standard_error"]) == (1, None, None)
    assert "40 bitmaps" in figure["problem"]


def test_releases_of_settings_that_are_gone_are_left_out_and_counted(site, ask):
    site.store(site.release("one", 10, keys((9,))), devices=["one"])
    site.path.write_text(site.path.read_text().replace("universe: 1000", "universe: 900"))
    code, out, err = ask("query", "--stream", "doors", "distinct")
    assert (code, out) == (1, "")
    assert "made with other settings" in err
    site.store(site.release("two", 10, keys((5,))), devices=["two"])
    code, out, err = ask("query", "--stream", "doors", "distinct")
    assert code == 0
    other = "made with other settings than any that this collector served"
    assert err == f"note: left out: 1 release, {other}\n"
    assert out.endswith(", left_out: 1\n")
    assert float(rows(out)[0][-2]) == 5


def test_damaged_stored_bytes_are_reported_as_a_single_line(week, ask):
    with closing(sqlite3.connect(week.config.collector.database)) as connection, connection:
        connection.execute("UPDATE releases SET payload = substr(payload, 1, 60)")
    code, out, err = ask("query", "--stream", "doors", "distinct")
    assert (code, out) == (1, "")
    assert "damaged" in err
    assert err.count("\n") == 1


BAD = [
    ("query --stream doors quantile x 0.5", 2, "ask `query --stream doors distinct`"),
    ("query --stream doors mean x", 2, "stream doors counts distinct keys, and has no mean"),
    ("sample --stream doors --rows 5 --out -", 2, "and has no sample: ask `query --stream doors"),
    (
        "query --stream air distinct",
        2,
        "range, count, covariance, change, sample, drift; distinct is for a stream",
    ),
    ("query --stream doors --generator kdtree distinct", 2, "--generator is for a stream of readi"),
    (
        "query --stream doors --cells 9 distinct",
        2,
        "size is for a stream of readings, and doors has",
    ),
    ("query --stream doors --smooth distinct", 2, "keys of several windows do not add up"),
    (
        "query --stream air --keys shared mean temp",
        2,
        "--keys is for the question distinct: leave it out",
    ),
    ("query --stream doors distinct badge", 2, "distinct, and nothing behind it"),
    ("query --stream doors --by day distinct", 2, "keys of several windows do not add up"),
    ("query --stream doors --keys some distinct", 2, "invalid choice: 'some'"),
    ("query --stream doors --by device --keys shared distinct", 2, "--keys is about devices toget"),
    ("query --stream lockers --keys shared distinct", 2, "stream lockers releases counts, and dev"),
    ("query --stream windows distinct", 2, "unknown stream 'windows'; the configuration has air"),
    ("query --stream doors --from 1999-01-01 distinct", 2, "there are windows from 1970-01-11"),
    ("query --stream doors --devices zed distinct", 2, "from device 'zed'; there are one, two"),
    ("query --stream lockers distinct", 1, "nothing stored yet of stream lockers"),
    ("query --stream air mean", 2, "write: query --stream STREAM mean ATTRIBUTE"),
]


@pytest.mark.parametrize(("words", "code", "part"), BAD)
def test_wrong_input_gives_one_line_and_its_exit_code(week, ask, words, code, part):
    got, out, err = ask(*words.split())
    assert (got, out) == (code, "")
    assert part in err
    assert err.count("\n") == 1


def test_devices_and_export_work_for_streams_of_keys(week, ask):
    out = ask("devices")[1]
    assert [line.split()[:4] for line in out.splitlines()[1:3]] == [
        ["one", "unknown", "doors", "3"],
        ["two", "unknown", "doors", "2"],
    ]
    exported = ask("export", "--stream", "doors", "--out", "-")[1].splitlines()
    assert len(exported) == 5
    assert len({json.loads(line)["fingerprint"] for line in exported}) == 3


def test_help_states_that_windows_do_not_add_up(ask, capsys):
    assert main(["query", "--help"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "The keys of different windows cannot be matched, so there is no total" in said
    assert "--by {window,day,device}" in said
