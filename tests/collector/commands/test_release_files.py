"""`replay`: an exported file goes through the same judgement as what comes from the broker."""

import base64
import json

import pytest

from pansketch_collector.ingest.ingest_loop import commit_batch
from pansketch_collector.storage import writer as store
from pansketch_collector.storage.reader import reading
from pansketch_collector.storage.tables.records import Selection
from pansketch_fleet.protocol import topics
from pansketch_fleet.protocol.messages import Status, digest


@pytest.fixture
def exported(filled, run, tmp_path):
    """A file with the five releases of a database that is gone afterwards."""
    path = tmp_path / "releases.jsonl"
    assert run("export", "--stream", "fine", "--out", str(path))[0] == 0
    for file in filled.database.parent.glob("*"):
        file.unlink()
    return path


def line(topic, payload):
    return json.dumps({"topic": topic, "payload": base64.b64encode(payload).decode()}) + "\n"


def test_an_exported_file_brings_everything_back_byte_by_byte(filled, exported, run, tmp_path):
    code, out, err = run("replay", str(exported))
    assert (code, err) == (0, "")
    assert out == f"{exported}: 5 stored, 0 duplicates, none refused\n"
    again = tmp_path / "again.jsonl"
    assert run("export", "--stream", "fine", "--out", str(again))[0] == 0
    before, after = (list(map(json.loads, f.read_text().splitlines())) for f in (exported, again))
    assert [{**found, "received_at": 0} for found in before] == [
        {**found, "received_at": 0} for found in after
    ]


def test_a_second_time_changes_nothing(filled, exported, run):
    run("replay", str(exported))
    payloads = filled.stored("fine")
    assert run("replay", str(exported))[:2] == (
        0,
        f"{exported}: 0 stored, 5 duplicates, none refused\n",
    )
    assert filled.stored("fine") == payloads


def test_what_the_file_claims_is_not_believed(small_fleet, run, tmp_path):
    release, other = small_fleet.release(), small_fleet.release()
    path = tmp_path / "mixed.jsonl"
    damaged = bytearray(release)
    damaged[40] ^= 1
    path.write_text(
        line(small_fleet.topic("two"), release)
        + line(small_fleet.topic(), bytes(damaged))
        + line(topics.release("elsewhere", "one", "air"), release)
        + line(topics.status(small_fleet.fleet, "one"), Status("online", "s", {}).encode())
        + line("\ud800", b"x")
        + "no JSON\n\n[1]\n{}\n"
        + '{"topic": 1, "payload": ""}\n{"topic": "x", "payload": "?"}\n'
        + "[" * 5000
        + "\n"
        + line(small_fleet.topic(), b"\0" * 200_000)
        + line(small_fleet.topic(), release)
        + line(small_fleet.topic(), other)[:-30]
    )
    code, out, err = run("replay", str(path))
    assert (code, err) == (1, "")
    assert out.endswith(
        ": 1 stored, 0 duplicates, refused: checksum 1, fleet 1, identity 1, unreadable 10\n"
    )
    assert small_fleet.stored() == [release]
    with reading(small_fleet.database) as reader:
        assert reader.refusals() == {"checksum": 1, "fleet": 1, "identity": 1}
        assert reader.devices() == []


def test_an_equivocation_in_a_file_is_one(small_fleet, run, tmp_path, arrive):
    with store.opened(small_fleet.database) as opened:
        commit_batch(
            opened,
            [arrive(small_fleet.topic(), small_fleet.release())],
            small_fleet.rules,
            1_000_000_001,
        )
    (first,) = small_fleet.stored()
    path = tmp_path / "other.jsonl"
    path.write_text(line(small_fleet.topic(), small_fleet.release()))
    assert run("replay", str(path))[0] == 1
    assert small_fleet.stored() == [first]


def test_the_backlog_of_an_outbox_can_be_replayed(small_fleet, run, tmp_path):
    """The form of `pansketch-agent outbox export`: `received_at` is null."""
    release = small_fleet.release()
    found = {
        "topic": small_fleet.topic(),
        "received_at": None,
        "digest": digest(release),
        "payload": base64.b64encode(release).decode(),
    }
    path = tmp_path / "outbox.jsonl"
    path.write_text(json.dumps(found) + "\n")
    assert run("replay", str(path))[0] == 0
    assert small_fleet.stored() == [release]


def test_a_file_that_is_not_there_is_one_line(small_fleet, run):
    code, out, err = run("replay", "nowhere.jsonl")
    assert (code, out) == (2, "")
    assert err == "cannot read nowhere.jsonl: No such file or directory\n"


def test_another_server_is_named(small_fleet, run, exported):
    with store.opened(small_fleet.database):
        code, _, err = run("replay", str(exported))
    assert code == 1
    assert "another collector is serving" in err


def test_late_and_gaps_are_of_the_windows_and_not_of_the_file(filled, exported, run):
    run("replay", str(exported))
    with reading(filled.database) as reader:
        found = {h.device: (h.windows, h.gaps, h.late) for h in reader.holdings()}
        assert len(list(reader.releases(Selection("fine")))) == 5
    assert found == {"one": (3, 1, 0), "two": (2, 0, 0)}


def test_a_file_of_something_else_is_named_with_the_commands_that_write_one(filled, run, tmp_path):
    other = tmp_path / "fleet.yaml"
    other.write_text("fleet: testing\nstreams: {}\n")
    code, out, err = run("replay", str(other))
    assert code == 1
    assert "refused: unreadable 2; name a file of `export`, or of" in out + err
