"""One byte of one stored release changes on the disk: every reader names it and omits it.

A sum was made while the release was intact. An answer from sums stays the same until `serve` has
found and moved the row. A selection of devices is read from the releases.
"""

import json
import sqlite3
from contextlib import closing

import pytest

from pansketch_collector.commands.verification import BackgroundVerification
from pansketch_collector.storage import writer as store
from pansketch_collector.validation.validation import Rules
from pansketch_collector.validation.verdicts import Accepted

MANY = [[20.0]] * 2000
QUERY = "query", "--stream", "air", "mean", "temp"
NAMED = "damaged: one/air, window 1970-01-03T00:08:09Z to 1970-01-04T00:08:09Z, sequence 2: "


def flip(small_fleet, column, at=-1, sequence=2, bit=0x80):
    """Flips a bit of one stored column in the file itself, wherever the row lies."""
    with closing(sqlite3.connect(small_fleet.database)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        query = f"SELECT {column}, digest FROM releases WHERE sequence = ?"
        value, unique = connection.execute(query, (sequence,)).fetchone()
    known = unique.encode() if column == "digest" else value
    content = bytearray(small_fleet.database.read_bytes())
    place = content.find(known)
    assert place >= 0
    assert content.find(known, place + 1) == -1, "the column is not unique in the file"
    content[place + (at % len(known))] ^= bit
    small_fleet.database.write_bytes(content)


@pytest.fixture
def three(small_fleet, serve):
    releases = [small_fleet.release("one", n, "air", MANY) for n in (1, 2, 3)]
    serve(*(("one", "air", each) for each in releases))
    return small_fleet


@pytest.mark.parametrize("at", [0, 4, 30, 60, -1])
@pytest.mark.parametrize("bit", [0x01, 0x80])
def test_an_answer_of_releases_names_the_row_and_one_of_sums_stays(three, run, at, bit):
    before = run(*QUERY, "--json")[1]
    flip(three, "payload", at, bit=bit)
    assert run(*QUERY, "--json") == (0, before, "")
    code, out, err = run(*QUERY, "--json", "--devices", "one")
    said = json.loads(out)
    assert (code, said["releases"], said["left_out"]) == (0, 2, 1)
    assert said["left_out_because"][0]["reason"].startswith(NAMED)
    assert err.startswith(f"note: left out: 1 release, {NAMED}")
    assert err.count("\n") == 1


def test_text_samples_and_exports_as_well(three, run, tmp_path):
    flip(three, "payload", 50)
    code, out, err = run(*QUERY, "--devices", "one")
    assert code == 0
    assert out.endswith("2 releases of 1 device, epsilon 1 per reading (silent), left_out: 1\n")
    words = "--stream", "air", "--devices", "one", "--rows", "5", "--out", str(tmp_path / "s")
    code, out, err = run("sample", *words)
    assert code == 0
    assert NAMED in err
    assert "left_out: 1" in err
    exported = tmp_path / "e.jsonl"
    code, out, err = run("export", "--stream", "air", "--out", str(exported))
    assert (code, len(exported.read_text().splitlines())) == (0, 2)
    assert f"note: left out: 1 release, {NAMED}" in err
    assert f"{exported}: 2 releases" in err


def test_a_label_or_a_name_of_settings_that_has_changed_is_damage(three, run):
    """The release inside is whole, but what stands beside it is another one's."""
    with closing(sqlite3.connect(three.database)) as connection, connection:
        connection.execute("UPDATE releases SET fingerprint = zeroblob(8) WHERE sequence = 2")
    code, out, err = run(*QUERY, "--json", "--devices", "one")
    assert (code, json.loads(out)["left_out"]) == (0, 1)
    assert f"{NAMED}the settings named inside" in err
    with closing(sqlite3.connect(three.database)) as connection, connection:
        connection.execute("UPDATE releases SET sequence = 77 WHERE sequence = 3")
    code, out, err = run(*QUERY, "--json", "--devices", "one")
    assert (code, json.loads(out)["left_out"]) == (0, 2)
    assert "sequence 77: the label inside is another one" in err


def test_a_device_name_that_is_no_text_any_more_ends_no_answer(three, run):
    with closing(sqlite3.connect(three.database)) as connection, connection:
        connection.execute(
            "UPDATE releases SET device = CAST(x'ef6e65' AS TEXT) WHERE sequence = 2"
        )
    assert (run(*QUERY)[0], run("devices")[0]) == (0, 0)
    patrol(three)
    code, out, err = run(*QUERY, "--json")
    assert (code, json.loads(out)["releases"], json.loads(out)["left_out"]) == (0, 2, 1)
    assert "the label inside is another one" in err
    assert run("verify")[0] == 0


def test_where_all_are_damaged_there_is_no_answer_and_the_reason(three, run):
    with closing(sqlite3.connect(three.database)) as connection, connection:
        connection.execute("UPDATE releases SET payload = substr(payload, 1, 60)")
    patrol(three)
    code, out, err = run(*QUERY)
    assert (code, out) == (1, "")
    assert "damaged: one/air, window 1970-01-02" in err
    assert err.count("\n") == 1


def test_verify_names_what_is_damaged_also_in_what_no_answer_reads(three, run):
    assert run("verify")[0] == 0
    flip(three, "digest", 5, sequence=1, bit=0x01)
    flip(three, "payload", 50, sequence=2)
    code, out, err = run("verify")
    assert (code, err) == (1, "")
    lines = out.splitlines()
    assert "sequence 1: the digest beside it is another one" in lines[0]
    assert lines[1].startswith(NAMED)
    assert lines[-1].endswith(": 3 releases verified, damaged: 2")
    said = json.loads(run("verify", "--json")[1])
    assert (said["releases"], [each["sequence"] for each in said["damaged"]]) == (3, [1, 2])


def test_verification_moves_damaged_releases_and_answers_report_them(three, run, serve, caplog):
    """And the release itself takes its place again when it comes again."""
    whole = three.stored("air")[1]
    flip(three, "payload", 50)
    patrol(three)
    (line,) = [message for message in caplog.messages if "moved to the table" in message]
    assert NAMED.removeprefix("damaged: ") in line
    _, out, err = run("query", "--stream", "air", "mean", "temp", "--json")
    assert (json.loads(out)["releases"], json.loads(out)["left_out"]) == (2, 1)
    assert NAMED in err
    assert json.loads(run("devices", "--json")[1])["devices"][0]["streams"]["air"]["gaps"] == 0
    (outcome,) = serve(("one", "air", whole))
    assert isinstance(outcome, Accepted)
    _, out, err = run("query", "--stream", "air", "mean", "temp", "--json")
    assert (json.loads(out)["releases"], json.loads(out)["left_out"], err) == (3, 0, "")


def test_a_patrol_does_not_believe_a_changed_label(three, run):
    """A number that is none of the device's would tell it that its ledger was rolled back."""
    with closing(sqlite3.connect(three.database)) as connection, connection:
        connection.execute("UPDATE releases SET sequence = 1 << 60 WHERE sequence = 2")
    patrol(three)
    with closing(sqlite3.connect(three.database)) as connection:
        (highest,) = connection.execute("SELECT max(sequence) FROM high_water").fetchone()
        assert connection.execute("SELECT sequence FROM damaged").fetchall() == [(1 << 60,)]
    assert highest == 0


def patrol(small_fleet):
    with store.opened(small_fleet.database) as opened:
        rules = Rules.of(small_fleet.config, opened.serve_settings(small_fleet.config, 2000))
        look = BackgroundVerification(opened, rules)
        look.step(0.0, 2000)
        look.step(1.0, 2000)
        look.step(2.0, 2000)


def test_a_backup_is_whole_private_and_of_a_running_collector(three, run, tmp_path, monkeypatch):
    copy = tmp_path / "copy.sqlite"
    with store.opened(three.database) as serving, serving.batch():
        code, out, err = run("backup", str(copy))
    assert (code, err) == (0, "")
    assert out == f"{copy}: 3 releases verified, damaged: none\n"
    assert copy.stat().st_mode & 0o777 == 0o600
    assert sorted(path.name for path in tmp_path.glob("*copy*")) == ["copy.sqlite"]
    code, out, err = run("verify", str(copy))
    assert (code, out) == (0, f"{copy}: 3 releases verified, damaged: none\n")
    before = copy.read_bytes()
    code, out, err = run("backup", str(copy))
    assert (code, out) == (2, "")
    assert "exists already" in err
    assert copy.read_bytes() == before
    three.database.unlink()
    copy.rename(three.database)
    assert run("query", "--stream", "air", "mean", "temp")[0] == 0


def test_a_backup_of_what_is_damaged_names_it(three, run, tmp_path):
    flip(three, "payload", 50)
    copy = tmp_path / "copy.sqlite"
    code, out, err = run("backup", str(copy))
    assert (code, err) == (1, "")
    assert out.startswith(NAMED)
    assert out.endswith(f"{copy}: 3 releases verified, damaged: 1\n")
    assert copy.exists()


@pytest.mark.parametrize("name", ["none/copy.sqlite", "."])
def test_a_backup_that_cannot_be_written_is_one_line_and_leaves_nothing(three, run, tmp_path, name):
    before = sorted(tmp_path.iterdir())
    code, out, err = run("backup", str(tmp_path / name))
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert sorted(tmp_path.iterdir()) == before
