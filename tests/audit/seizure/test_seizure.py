"""The seizure finds planted readings, and finds none in the product's agent."""

import os
import socket
import struct
from contextlib import ExitStack
from dataclasses import replace

import numpy as np
import pytest

from pansketch_audit.seizure import captive_process
from pansketch_audit.seizure.agent_process import SPEC, Run, run_agent
from pansketch_audit.seizure.captive_process import (
    Captive,
    Sighting,
    Snapshot,
    running,
    take_snapshot,
)
from pansketch_audit.seizure.marked_readings import forms_of, marked_readings
from pansketch_audit.seizure.mqtt_recorder import Recorder
from pansketch_audit.seizure.process_memory import BLOCK_BYTES, Scanner, process_memory
from pansketch_audit.seizure.seizure import (
    LEAKS,
    PositiveControl,
    Seizure,
    catches_leak,
    finds_planted,
    seize,
)

COUNT = 300
MARKED, OTHERS = np.split(marked_readings(COUNT + 1000), [COUNT])
FORMS = forms_of(MARKED, SPEC)
SCANNER = Scanner(FORMS)

LEAKY_AGENT = """
import sys
from pansketch_agent.windows import window
from pansketch_agent.__main__ import main

kept, absorb = [], window.Windows.absorb

def leaky(self, index, rows):
    kept.append(rows.copy())
    absorb(self, index, rows)

window.Windows.absorb = leaky
sys.exit(main(sys.argv[1:]))
"""


def noise(size):
    return np.frombuffer(os.urandom(size), np.uint8).copy()


def test_markings_are_unmistakable():
    decimals = [f"{value:.12f}".partition(".")[2][:6] for value in MARKED.ravel()]
    assert len(set(decimals)) == 2 * COUNT
    assert (MARKED > [10, 100]).all()
    assert (MARKED < [60, 1000]).all()


def test_forms_are_what_other_code_writes():
    """Independent of numpy's views: struct, str and array write the same bytes."""
    a, b = MARKED[7].tolist()
    assert FORMS["temp float64, little-endian"][7].tobytes() == struct.pack("<d", a)
    assert FORMS["float32, both attributes, big-endian"][7].tobytes() == struct.pack(">ff", a, b)
    micro = struct.pack("<ii", round(a * 1e6), round(b * 1e6))
    assert FORMS["x 10^6 int32, both attributes, little-endian"][7].tobytes() == micro
    for encoding in ("ascii", "utf-16-le", "utf-32-be"):
        assert FORMS[f"pm25 text, {encoding}"][7].tobytes() in str(b).encode(encoding)


@pytest.mark.parametrize("shift", range(8))
@pytest.mark.parametrize("form", FORMS)
def test_every_form_is_found_at_every_alignment(form, shift):
    region = noise(4096)
    rows = FORMS[form][[11, COUNT - 1]]
    for row, place in zip(rows, (1024 + shift, 4096 - rows.shape[1]), strict=True):
        region[place : place + len(row)] = row
    found = {(hit.form, hit.reading, hit.offset) for hit in SCANNER.search(region)}
    assert {(form, 11, 1024 + shift), (form, COUNT - 1, 4096 - rows.shape[1])} <= found
    assert {reading for _, reading, _ in found} == {11, COUNT - 1}


@pytest.mark.parametrize("form", FORMS)
def test_a_form_across_two_blocks_is_found_once(form):
    region = np.zeros(2 * BLOCK_BYTES, np.uint8)
    row = FORMS[form][5]
    place = BLOCK_BYTES - len(row) // 2
    region[place : place + len(row)] = row
    hits = [hit for hit in SCANNER.search(region) if hit.form == form]
    assert [(hit.reading, hit.offset) for hit in hits] == [(5, place)]


def test_a_changed_block_is_looked_at_again():
    region = noise(4096)
    assert not SCANNER.search(region)
    region[96:104] = FORMS["temp float64, little-endian"][3]
    assert {hit.reading for hit in SCANNER.search(region)} == {3}


@pytest.mark.parametrize("size", [0, 7, 8, 4 * BLOCK_BYTES])
def test_nothing_is_found_where_nothing_is(size):
    assert not SCANNER.search(noise(size))
    others = repr(OTHERS.tolist()).encode()
    assert not SCANNER.search(np.frombuffer(others, np.uint8))


@pytest.mark.parametrize("form", FORMS)
def test_a_near_miss_is_no_hit(form):
    region = np.zeros(64, np.uint8)
    row = FORMS[form][2]
    region[8 : 8 + len(row)] = row
    region[8 + len(row) - 1] ^= 1
    assert form not in {hit.form for hit in SCANNER.search(region)}


def test_memory_of_a_process_that_is_gone_is_an_error():
    with pytest.raises(OSError, match="No such file"):
        list(process_memory(2**22 + 1))


def test_the_recorder_takes_packets_in_pieces():
    with Recorder() as recorder, ExitStack() as stack:
        peer = stack.enter_context(socket.create_connection(("127.0.0.1", recorder.port), 10))
        peer.sendall(b"\x10\x02")
        peer.sendall(b"ab")
        assert peer.recv(4) == b"\x20\x02\x00\x00"
        peer.sendall(b"\x82\x06\x00\x07\x00\x01a\x01\x32\x0b\x00\x05")
        assert peer.recv(5) == b"\x90\x03\x00\x07\x01"
        peer.sendall(b"topic\x00\x09xy")
        assert peer.recv(4) == b"\x40\x02\x00\x09"
        peer.sendall(b"\xc0\x00")
        assert peer.recv(2) == b"\xd0\x00"
        assert [(p.topic, p.payload) for p in recorder.published] == [("topic", b"xy")]
        assert bytes(recorder.raw).endswith(b"topic\x00\x09xy\xc0\x00")
        peer.sendall(b"\x10\xff\xff\xff\xff")
        assert peer.recv(1) == b""


def may_read_others():
    """The agent forbids others to read its memory; root may, and CI is root."""
    return os.geteuid() == 0 or "CI" in os.environ


def reports_that_it_needs_root(holds, output):
    assert not holds
    assert "the audit needs root, or CAP_SYS_PTRACE" in " ".join(output)


@pytest.mark.parametrize("way", LEAKS)
def test_a_leak_is_caught(way, tmp_path):
    assert catches_leak(tmp_path, way, MARKED, SCANNER)


def test_a_program_without_a_leak_is_not_reported(tmp_path):
    """Negative control of the control."""
    assert not catches_leak(tmp_path, "nowhere", MARKED, SCANNER)


def test_planted_forms_are_found_in_another_process(tmp_path):
    assert finds_planted(tmp_path, MARKED, SPEC)


def test_an_agent_that_keeps_its_readings_is_caught(tmp_path):
    """The agent's own program with an additional line."""
    run = run_agent("stdin", tmp_path / "run", MARKED, SCANNER, 1, ("-c", LEAKY_AGENT))
    if not may_read_others():
        reports_that_it_needs_root(run.holds, run.unread)
        return
    assert not run.problem
    assert {s.reading for s in run.leaks if s.place == "memory"} >= set(range(COUNT - 1))
    assert not run.holds


def test_an_agent_that_does_not_run_shows_nothing(tmp_path):
    run = run_agent("stdin", tmp_path / "run", MARKED, SCANNER, 1, ("-c", "print('no agent')"))
    assert "has ended before it had published a message; no agent" in run.problem
    assert not run.holds


def test_memory_that_cannot_be_read_is_no_pass(tmp_path, monkeypatch):
    def closed(pid):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(captive_process, "process_memory", closed)
    command = ["-c", "import sys; sys.stdin.read()"]
    with Recorder() as peer, running(command, tmp_path / "run", peer) as program:
        assert isinstance(program, Captive)
        seen = take_snapshot(program, SCANNER, "now", 0)
    assert seen.unread[0].startswith("the memory of the process (Permission denied; the audit ne")
    assert len(seen.unread) == 1
    assert not Run("stdin", COUNT, COUNT, 4, (seen,)).holds


def test_what_a_run_must_be_to_hold():
    clean = Snapshot("now", 9, 1, (Sighting("memory", 9, "text", "anonymous"),), ())
    run = Run("stdin", 10, 10, 4, (clean,))
    assert run.holds
    for place, reading in (("memory", 8), ("disk", 9), ("log", 9), ("wire", 9), ("memory", 12)):
        seen = replace(clean, sightings=(Sighting(place, reading, "text", "somewhere"),))
        assert not replace(run, snapshots=(seen,)).holds
    assert not replace(run, snapshots=()).holds
    assert not replace(run, releases=1).holds
    dropped = replace(run, counted=3)
    assert not dropped.holds, "an agent that drops its readings proves nothing"
    shown = Seizure(10, (), (dropped,), (), 0.0, 0.0, ())
    assert "but 3 of 10 readings counted in 4 releases" in str(shown)


def test_the_agent_holds_none_of_its_readings():
    found = seize(1_000)
    if not may_read_others():
        reports_that_it_needs_root(found.holds, [str(found)])
        return
    assert found.holds, str(found)
    assert [run.source for run in found.runs] == ["stdin"]
    assert len(found.controls) == 6
    missed = replace(found, controls=(*found.controls, PositiveControl("a leak", False)))
    assert not missed.holds
    assert "not caught: a leak" in str(missed)


def test_a_paced_replay_holds_none_of_the_rows_it_has_absorbed(tmp_path):
    run = run_agent("replay", tmp_path / "run", MARKED, SCANNER, 1)
    if not may_read_others():
        reports_that_it_needs_root(run.holds, run.unread)
        return
    assert not run.problem
    assert run.snapshots
    assert not run.leaks
