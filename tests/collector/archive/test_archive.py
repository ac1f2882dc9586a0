"""An archive of ended days: it answers as the database does, and keeps what the database drops."""

import json
import os
import sqlite3
from contextlib import closing
from functools import partial

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from pansketch_collector.__main__ import main
from pansketch_collector.archive import archive_reader
from pansketch_collector.archive.archive_reader import ArchiveReader, in_processes
from pansketch_collector.archive.day_files import Part, files, part
from pansketch_collector.storage.reader import reading
from pansketch_collector.storage.tables.records import Selection
from tests.collector.key_site import keys
from tests.collector.small_fleet import DAY, rows

DEVICES, DAYS = ("one", "two", "three", "four", "five"), range(1, 5)
QUESTIONS = (
    ("mean", "temp"),
    ("quantile", "temp", "0.5"),
    ("cdf", "temp", "12"),
    ("range", "temp", "0", "20"),
    ("mean", "temp", "--by", "day"),
    ("mean", "temp", "--by", "device"),
    ("mean", "temp", "--devices", "two"),
    ("mean", "temp", "--from", "1970-01-03", "--to", "1970-01-05"),
    ("mean", "temp", "--robust"),
    ("change", "--between", "1970-01-02..1970-01-04", "1970-01-04..1970-01-08"),
    ("drift", "--devices", "one", "--against", "two"),
)


@pytest.fixture
def stored(small_fleet, serve):
    """Four days of five devices; the last release of `two` is not there yet."""
    readings = np.random.default_rng(1).normal(12, 6, (2_000, 1))
    releases = {
        (device, n): small_fleet.release(device, n, "air", readings + n)
        for device in DEVICES
        for n in DAYS
    }
    late = releases.pop(("two", 4))
    serve(*((device, "air", each) for (device, _), each in releases.items()))
    return partial(serve, ("two", "air", late))


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "cold"


def names(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


@pytest.mark.parametrize("words", QUESTIONS, ids=" ".join)
def test_the_archive_answers_as_the_database_does(stored, run, folder, words):
    assert run("archive", str(folder))[0] == 0
    ask = "query", "--stream", "air", "--json", *words
    code, out, err = run(*ask)
    assert (code, err) == (0, "")
    assert run(*ask, "--archive", str(folder)) == (code, out, err)


def test_a_file_for_each_day_of_windows_starts(small_fleet, stored, run, folder):
    code, out, _ = run("archive", str(folder))
    assert code == 0
    header, *lines = out.splitlines()
    assert header.split() == ["stream", "day", "releases", "new", "bytes"]
    with reading(small_fleet.database) as reader:
        starts = [each.start // DAY for each in reader.releases(Selection("air"))]
    days = sorted(set(starts))
    assert [line.split()[1] for line in lines] == [f"1970-01-{1 + day:02}" for day in days]
    assert [int(line.split()[2]) for line in lines] == [starts.count(day) for day in days]
    assert names(folder) == [f"air/1970-01-{1 + day:02}.parquet" for day in days]
    for path in files(folder, "air"):
        assert path.stat().st_mode & 0o777 == 0o600


def test_a_second_run_writes_only_what_is_new(stored, run, folder):
    assert run("archive", str(folder))[0] == 0
    before = {path: path.stat().st_mtime_ns for path in files(folder, "air")}
    assert "no ended day has a release that is not in it" in run("archive", str(folder))[1]
    stored()
    dry = json.loads(run("archive", str(folder), "--dry-run", "--json")[1])
    assert dry["dry_run"]
    assert [(day["releases"], day["new"]) for day in dry["days"]] == [(5, 1)]
    assert {path: path.stat().st_mtime_ns for path in files(folder, "air")} == before
    (day,) = json.loads(run("archive", str(folder), "--json")[1])["days"]
    assert (day["releases"], day["new"], day["damaged"]) == (5, 1, [])
    changed = [p for p in files(folder, "air") if before.get(p) != p.stat().st_mtime_ns]
    assert [path.stem for path in changed] == [day["day"]]


def test_days_that_have_not_ended_are_left(stored, run, folder):
    assert "no ended day" in run("archive", str(folder), "--before", "1970-01-02T12:00")[1]
    assert run("archive", str(folder), "--before", "1970-01-04")[0] == 0
    assert all(name < "air/1970-01-04" for name in names(folder))


def test_what_retention_removes_stays_in_the_archive(small_fleet, stored, run, folder):
    assert run("archive", str(folder))[0] == 0
    ask = "query", "--stream", "air", "mean", "temp", "--json"
    before = run(*ask)[1]
    text = small_fleet.path.read_text()
    small_fleet.path.write_text(text.replace("window: 1d\n", "window: 1d\n    retention: 1d\n", 1))
    assert run("retention")[0] == 0
    assert rows(small_fleet.database, "SELECT count(*) FROM releases") < [(len(DEVICES) * 2,)]
    assert run(*ask, "--archive", str(folder))[1] == before
    stored()  # a late release comes, into a day that the file has other releases of
    assert run("archive", str(folder))[0] == 0
    after = json.loads(run(*ask, "--archive", str(folder))[1])
    assert after["releases"] == json.loads(before)["releases"] + 1


def test_exclusions_of_the_database_hold(stored, run, folder):
    assert run("archive", str(folder))[0] == 0
    run("exclude", "two", "--from", "1970-01-03")
    ask = "query", "--stream", "air", "mean", "temp", "--json"
    code, out, err = run(*ask)
    assert json.loads(out)["left_out"] > 0
    assert run(*ask, "--archive", str(folder)) == (code, out, err)


def test_excluded_releases_are_archived(stored, run, folder):
    run("exclude", "two")
    assert run("archive", str(folder))[0] == 0
    run("exclude", "two", "--undo")
    ask = "query", "--stream", "air", "mean", "temp", "--json"
    assert run(*ask, "--archive", str(folder)) == run(*ask)


def test_processes_and_this_one_find_the_same(stored, run, folder, monkeypatch):
    run("archive", str(folder))
    paths = files(folder, "air")
    one = partial(part, selection=Selection("air"))
    alone = [one(path) for path in paths]
    monkeypatch.setattr(archive_reader, "BYTES_A_PROCESS", 1)
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    together = in_processes(paths, one)
    assert len(together) == len(alone) > 1
    for mine, other in zip(alone, together, strict=True):
        assert mine.devices == other.devices
        assert all(mine.sums[name].agrees(other.sums[name]) for name in mine.sums)


def test_parts_join_in_any_order(stored, run, folder):
    run("archive", str(folder))
    parts = [part(path, Selection("air")) for path in files(folder, "air")]
    whole, other = Part(), Part()
    for each in parts:
        whole = whole.join(each)
    for each in reversed(parts):
        other = each.join(other)
    (total,), (again,) = whole.sums.values(), other.sums.values()
    assert total.agrees(again)
    assert whole.devices == other.devices
    assert total.releases == sum(
        p.num_rows for p in map(parquet.read_metadata, files(folder, "air"))
    )


def rewritten(path, change):
    """The file with one changed row, as a program would write it."""
    table = parquet.read_table(path)
    found = table.to_pylist()
    change(found[0])
    parquet.write_table(pa.Table.from_pylist(found, table.schema), path, write_page_checksum=True)


def flip(name):
    def change(row):
        content = bytearray(row[name])
        content[len(content) // 2] ^= 1
        row[name] = bytes(content)

    return change


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (flip("counters"), "the counters beside it are not its own"),
        (flip("payload"), "checksum"),
        (lambda row: row.update(draws=row["draws"] + 1), "the counters beside it are not its own"),
        (lambda row: row.update(sequence=77), "the label inside is another one"),
    ],
    ids=["counters", "payload", "draws", "label"],
)
def test_verify_finds_changed_rows(stored, run, folder, change, says):
    run("archive", str(folder))
    code, out, _ = run("archive", str(folder), "--verify")
    assert code == 0
    assert "damaged" not in out
    rewritten(files(folder, "air")[0], change)
    code, out, _ = run("archive", str(folder), "--verify")
    assert code == 1
    assert says in out


def flipped_in(path, column):
    """One byte of the column's pages."""
    found = parquet.read_metadata(path).row_group(0)
    place = next(
        found.column(n)
        for n in range(found.num_columns)
        if found.column(n).path_in_schema == column
    )
    content = bytearray(path.read_bytes())
    content[place.data_page_offset + place.total_compressed_size // 2] ^= 0x10
    path.write_bytes(content)


def test_a_flipped_byte_of_a_counter_ends_the_answer_and_is_named(stored, run, folder):
    run("archive", str(folder))
    path = files(folder, "air")[1]
    flipped_in(path, "counters")
    code, out, err = run("query", "--stream", "air", "mean", "temp", "--archive", str(folder))
    assert (code, out) == (1, "")
    assert str(path) in err
    assert err.count("\n") == 1
    code, out, _ = run("archive", str(folder), "--verify")
    assert code == 1
    assert path.name in out


def test_a_flipped_byte_that_no_answer_reads_is_found_by_verify(stored, run, folder):
    run("archive", str(folder))
    ask = "query", "--stream", "air", "mean", "temp", "--archive", str(folder)
    before = run(*ask)
    path = files(folder, "air")[1]
    flipped_in(path, "payload")
    assert run(*ask) == before
    code, out, _ = run("archive", str(folder), "--verify")
    assert code == 1
    assert path.name in out


def test_a_damaged_release_is_left_out_and_named(small_fleet, stored, run, folder):
    flipped = bytearray(small_fleet.stored("air")[0])
    flipped[-1] ^= 1

    with closing(sqlite3.connect(small_fleet.database)) as db, db:
        db.execute("UPDATE releases SET payload = ? WHERE id = 1", (bytes(flipped),))
    code, out, _ = run("archive", str(folder))
    assert code == 1
    assert "damaged: one/air" in out
    assert run("archive", str(folder), "--verify")[0] == 0


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("archive", "{tmp}/no/cold"), "create its folder first"),
        (("archive", "{tmp}/cold", "--stream", "rain"), "unknown stream 'rain'"),
        (("archive", "{tmp}/cold", "--verify", "--dry-run"), "--verify writes nothing"),
        (("archive", "{tmp}/none", "--verify"), "no archive"),
        (("archive", "/dev/null"), "is a file: name a folder"),
        (("query", "--stream", "air", "--archive", "{tmp}/none", "mean", "temp"), "no archive"),
        (("query", "--stream", "air", "--cluster", "auto", "mean", "temp"), "add --archive"),
        (("query", "--stream", "air", "--archive", "{tmp}", "mean", "temp"), "nothing stored yet"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_wrong_input_is_one_line(stored, run, tmp_path, words, says):
    code, out, err = run(*(word.format(tmp=tmp_path) for word in words))
    assert code in (1, 2)
    assert out == ""
    assert says in err
    assert err.count("\n") == 1


def test_keys_are_counted_from_an_archive(site, tmp_path, folder, capsys):
    plan = [("one", 10, keys((100,))), ("two", 10, keys((50, 150))), ("one", 11, keys((30,)))]
    site.store(*(site.release(*each) for each in plan), devices=[each[0] for each in plan])
    config = ("--config", str(tmp_path / "config.yaml"))
    assert main(["archive", str(folder), *config]) == 0
    capsys.readouterr()
    ask = ["query", "--stream", "doors", "distinct", "--json", *config]
    assert main(ask) == 0
    expected = capsys.readouterr().out
    assert main([*ask, "--archive", str(folder)]) == 0
    assert capsys.readouterr().out == expected


def test_an_archive_reader_has_no_release_of_the_database(small_fleet, stored, folder):
    folder.mkdir()
    with reading(small_fleet.database) as reader:
        empty = ArchiveReader(reader, folder)
        assert empty.counts(Selection("air")) == {}
        assert reader.counts(Selection("air"))
        assert list(empty.releases(Selection("air"))) == []
        assert empty.stored_span("air") is None
        assert empty.holders("air", -1) == []
