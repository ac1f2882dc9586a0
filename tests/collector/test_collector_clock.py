"""What a release says of its device's clock is kept, also across versions of bytes and database."""

import base64
import json
import sqlite3
from contextlib import closing
from pathlib import Path

import msgpack
import pytest

from collector import schema, store
from collector.failure import CommandError
from collector.inbox import Accepted, Duplicate, Refused
from collector.reader import Selection, reading
from collector.service import settle
from fleet.messages import digest
from pansketch import WindowId, peek
from pansketch.hashing import digest as checksum

DAY = 86_400
SCHEMA_2 = Path(__file__).parents[1] / "vectors" / "collector-schema-2.sql"
CLOCKS = [True, False, None]


def as_version_1(data):
    """The same release in the first version of the wire, whose windows have no clock."""
    fields = msgpack.unpackb(data[13:])
    fields[2] = [entry[:5] for entry in fields[2]]
    body = msgpack.packb(fields)
    return b"PANS\x01" + checksum(body, 8) + body


def made(bench, sequence, clock=None, device="one", stream="air", readings=((20.0,),)):
    start, end = sequence * DAY, (sequence + 1) * DAY
    window = WindowId(device, stream, sequence, start, end, clock)
    return bench.release(device, sequence, stream, readings, window=window)


def settled(bench, arrive, *payloads, at=1000):
    with store.opened(bench.database) as opened:
        return settle(opened, [arrive(bench.topic(), p) for p in payloads], bench.rules, at)


def rows(path, query):
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute(query).fetchall()


def clocks(bench):
    with reading(bench.database) as reader:
        return [r.clock_synchronised for r in reader.releases(Selection("air"))]


def test_the_clock_is_stored_shown_and_exported(bench, arrive, run):
    payloads = [made(bench, n, CLOCKS[n % 3]) for n in range(1, 7)]
    verdicts = settled(bench, arrive, *payloads)
    assert all(isinstance(v, Accepted) for v in verdicts)
    assert clocks(bench) == [CLOCKS[n % 3] for n in range(1, 7)]
    said = json.loads(run("devices", "--json")[1])["devices"][0]["streams"]["air"]
    assert (said["windows"], said["clock_not_synchronised"]) == (6, 2)
    header, line = run("devices")[1].splitlines()[:2]
    assert line.split()[header.split().index("unsynced")] == "2"
    lines = run("export", "--stream", "air", "--out", "-")[1].splitlines()
    exported = [json.loads(line) for line in lines]
    assert [each["clock_synchronised"] for each in exported] == clocks(bench)
    assert [base64.b64decode(each["payload"]) for each in exported] == payloads


def test_a_replay_brings_the_same_clocks_into_another_database(bench, arrive, run, tmp_path):
    """From the bytes, not from the line: what stands beside them is not believed."""
    payloads = [made(bench, n, CLOCKS[n % 3]) for n in range(1, 7)]
    payloads[5] = as_version_1(payloads[5])
    settled(bench, arrive, *payloads)
    before, file = clocks(bench), tmp_path / "kept.jsonl"
    assert run("export", "--stream", "air", "--out", str(file))[0] == 0
    file.write_text(file.read_text().replace('"clock_synchronised": false', '"clock_synced": 9'))
    bench.database.unlink()
    assert run("replay", str(file))[:2] == (0, f"{file}: 6 stored, 0 held already, none refused\n")
    assert clocks(bench) == before == [False, None, True, False, None, None]


@pytest.mark.parametrize("stream", ["air", "fine", "heavy", "sums", "bars"])
def test_the_first_version_of_the_bytes_is_taken_in_as_it_came(bench, arrive, stream):
    columns = {"air": 1, "fine": 2}.get(stream, 3)
    new = made(bench, 1, True, stream=stream, readings=[[1.0] * columns] * 5)
    old = as_version_1(new)
    with store.opened(bench.database) as opened:
        message = arrive(bench.topic("one", stream), old)
        (verdict,) = settle(opened, [message], bench.rules, 1)
    assert isinstance(verdict, Accepted)
    with reading(bench.database) as reader:
        (stored,) = reader.releases(Selection(stream))
    assert (stored.payload, stored.digest) == (old, digest(old))
    assert stored.clock_synchronised is None


def test_the_same_release_in_both_versions_is_equivocation(bench, arrive):
    """A device sends the same bytes for ever, so other bytes are another release, whatever they
    hold; which of the two it made cannot be told."""
    new = made(bench, 1)
    old = as_version_1(new)
    verdicts = settled(bench, arrive, old, old, new)
    assert [type(v) for v in verdicts] == [Accepted, Duplicate, Refused]
    assert verdicts[2].reason == "equivocation"
    assert clocks(bench) == []


def test_a_disputed_release_keeps_what_is_known_of_its_clock(bench, arrive):
    first = made(bench, 1, False)
    settled(bench, arrive, first, made(bench, 1, True), at=77)
    query = "SELECT payload, received_at, disputed_at, clock_synchronised FROM disputed"
    assert rows(bench.database, query) == [(first, 77, 77, 0)]


@pytest.fixture
def second_schema(bench):
    """A database as a collector of schema 2 left it, with releases of the first version."""
    payloads = [as_version_1(made(bench, n)) for n in range(1, 5)]
    bench.database.parent.mkdir(parents=True, exist_ok=True)
    with closing(sqlite3.connect(bench.database)) as old:
        old.executescript(SCHEMA_2.read_text())
        for payload in payloads:
            (window,) = peek(payload).windows
            print_, name = peek(payload).fingerprint, digest(payload)
            row = ("one", "air", window.sequence, window.start, window.end, print_, name, 9)
            old.execute("INSERT INTO releases VALUES (?,?,?,?,?,?,?,?,?)", (*row, payload))
        query = "INSERT INTO disputed SELECT *, 10 FROM releases WHERE sequence = 4"
        old.execute(query)
        old.execute("DELETE FROM releases WHERE sequence = 4")
        old.execute("INSERT INTO devices VALUES ('one', 'online', 's1', 5, '{}')")
        old.execute("INSERT INTO refusals VALUES ('topic', 3)")
        old.commit()
    return payloads


def test_a_database_of_schema_2_is_brought_up_to_date_in_place(bench, arrive, run, second_schema):
    old = second_schema
    with pytest.raises(CommandError, match="is of an earlier version"):
        schema.open_reading(bench.database)
    new = made(bench, 5, True)
    verdicts = settled(bench, arrive, old[0], made(bench, 2), old[3], new)
    assert [type(v) for v in verdicts] == [Duplicate, Refused, Refused, Accepted]
    assert rows(bench.database, "PRAGMA user_version") == [(schema.VERSION,)]
    assert bench.stored() == [old[0], old[2], new]
    assert clocks(bench) == [None, None, True]
    query = "SELECT sequence, payload, clock_synchronised FROM disputed ORDER BY sequence"
    assert rows(bench.database, query) == [(2, old[1], None), (4, old[3], None)]
    said = json.loads(run("devices", "--json")[1])
    (one,) = said["devices"]
    assert (one["state"], one["health"], one["duplicates"]) == ("online", None, 1)
    assert one["streams"]["air"]["disputed"] == 2
    assert said["quarantine"] == {"equivocation": 2, "topic": 3}


def test_every_way_to_the_newest_schema_ends_at_the_same_tables(tmp_path):
    shapes = []
    for name, script in {
        "new": "",
        "first": f"{schema.TABLES} PRAGMA user_version = 1;",
        "second": SCHEMA_2.read_text(),
    }.items():
        path = tmp_path / f"{name}.sqlite"
        with closing(sqlite3.connect(path)) as old:
            old.executescript(script)
        schema.open_writing(path).close()
        query = (
            "SELECT m.name, p.cid, p.name, p.type FROM sqlite_schema m, pragma_table_info(m.name) p"
        )
        shapes.append(sorted(rows(path, f"{query} WHERE m.type = 'table'")))
    assert shapes[0] == shapes[1] == shapes[2]
