"""`pansketch-agent outbox`: list, export and retry, beside a running agent or without."""

import base64
import json
import signal

import pytest

from pansketch import peek
from pansketch_agent.__main__ import main
from pansketch_agent.ledger.ledger import Ledger
from pansketch_agent.outbox.outbox import Key, Outbox, OutboxFullError
from pansketch_agent.outbox.records import cost
from pansketch_collector.commands.release_files import as_object
from pansketch_collector.storage.tables.records import Stored
from pansketch_fleet.protocol.messages import digest


def outbox(device, *words):
    return main(["outbox", *words, "--config", str(device.config)])


@pytest.fixture
def filled(device, release_of):
    """Three releases wait, of an agent that does not run."""
    config = device.configure()
    made = Outbox(device.state / "outbox", config.profile.outbox_bytes)
    for number in (1, 2, 3):
        made.put(Key(number, "air"), release_of(config, number))
    return device


def test_a_list_without_an_agent(filled, capsys):
    before = {path: path.read_bytes() for path in filled.state.rglob("*") if path.is_file()}
    assert outbox(filled, "list") == 0
    header, *rows = capsys.readouterr().out.splitlines()
    assert header.split() == ["release", "stream", "window", "to", "bytes", "age", "attempts"]
    payloads = list(filled.releases().values())
    for number, (row, payload) in enumerate(zip(rows, payloads, strict=True), 1):
        words = row.split()
        start = f"1970-01-01T{number:02d}:00:00Z"
        assert words[:5] == [str(number), "air", start, words[3], str(len(payload))]
        assert words[5].endswith("d")
        assert words[6] == "-"
    after = {path: path.read_bytes() for path in filled.state.rglob("*") if path.is_file()}
    assert after == before


def test_a_list_before_there_is_an_outbox(device, capsys):
    device.configure()
    assert outbox(device, "list") == 0
    assert len(capsys.readouterr().out.splitlines()) == 1
    assert not device.state.exists()


def test_what_was_dropped_shows(device, capsys, release_of):
    config = device.configure()
    payload = release_of(config, 1)
    made = Outbox(device.state / "outbox", 2 * cost(len(payload)))
    made.put(Key(1, "air"), payload)
    for number in (2, 3):
        with pytest.raises(OutboxFullError):
            made.put(Key(number, "air"), payload)
    assert outbox(device, "list") == 0
    last = capsys.readouterr().out.splitlines()[-1]
    assert last == "dropped ever, because the outbox was full or could not be written: 2"


def test_an_export_is_what_the_collector_exports(filled, capsys, tmp_path):
    file = tmp_path / "left.jsonl"
    assert outbox(filled, "export", str(file)) == 0
    assert capsys.readouterr().out == f"{file}: 3 releases\n"
    assert outbox(filled, "export") == 0
    lines = file.read_text()
    assert capsys.readouterr().out == lines
    for line, payload in zip(lines.splitlines(), filled.releases().values(), strict=True):
        said = json.loads(line)
        assert base64.b64decode(said["payload"]) == payload
        header = peek(payload)
        (window,) = header.windows
        stored = Stored(
            device="dev-1",
            stream="air",
            sequence=window.sequence,
            start=window.start,
            end=window.end,
            fingerprint=header.fingerprint,
            digest=digest(payload),
            received_at=0,
            payload=payload,
        )
        assert said == {**as_object(stored, "testing"), "received_at": None}


def test_an_export_that_cannot_be_written_is_one_line(filled, capsys, tmp_path):
    assert outbox(filled, "export", str(tmp_path / "none/left.jsonl")) == 1
    assert capsys.readouterr().err.count("\n") == 1


def test_retransmitting_without_an_agent_is_what_a_start_does(filled, capsys):
    assert outbox(filled, "retry") == 0
    assert capsys.readouterr().out == (
        "no agent is running; when one starts it sends all queued releases at once\n"
    )
    assert not (filled.state / "retry").exists()


@pytest.mark.parametrize("words", [("list", "file"), ("retry", "file"), ("empty",), ()])
def test_other_words_are_refused(filled, capsys, words):
    assert outbox(filled, *words) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_beside_a_running_agent(device, broker, peer, until, capsys):
    device.configure(broker.url)
    with peer(broker.url, answer=lambda *_: None) as deaf:
        agent = device.start("run")
        until(lambda: len(set(deaf.releases)) == 4, "as many as may be on their way")
        assert outbox(device, "list") == 0
        rows = [line.split() for line in capsys.readouterr().out.splitlines()[1:]]
        assert [row[0] for row in rows] == ["1", "2", "3", "4", "5"]
        assert all(int(row[6]) >= 1 for row in rows[:4])
        assert rows[4][6] == "0"
        sent = len(deaf.releases)
        assert outbox(device, "retry") == 0
        assert capsys.readouterr().out == ("the running agent retransmits at once: 4 in flight\n")
        agent.wait_for_output("retransmitting the releases in flight")
        until(lambda: len(deaf.releases) >= sent + 4, "the same again")
        assert len(set(deaf.releases)) == 4
        assert outbox(device, "export", str(device.folder / "left")) == 0
        assert agent.stop(signal.SIGTERM) == 0
    assert len((device.folder / "left").read_text().splitlines()) == 5
    assert not (device.state / "retry").exists()


def test_an_agent_that_does_not_answer_is_reported(filled, capsys, monkeypatch):
    monkeypatch.setattr("pansketch_agent.control.requests.OUTBOX_SECONDS", 0.1)
    monkeypatch.setattr("signal.pidfd_send_signal", lambda *_: None)
    with Ledger(filled.state):
        assert outbox(filled, "list") == 1
    err = capsys.readouterr().err
    assert "did not answer within 0.1 s; see its log" in err
    assert err.count("\n") == 1


def test_the_collector_ingests_what_was_exported(device, capsys):
    device.configure()
    assert device.start("run", "--drain", "0").wait() == 1
    file = device.folder / "left.jsonl"
    assert outbox(device, "export", str(file)) == 0
    for expected in ("5 stored, 0 duplicates", "0 stored, 5 duplicates"):
        collector = device.start("replay", str(file), program=("-m", "pansketch_collector"))
        assert collector.wait() == 0, collector.output
        assert collector.process.stdout is not None
        assert expected in collector.output + collector.process.stdout.read()
