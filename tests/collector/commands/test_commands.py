"""The command line: what it prints and writes, and one line for every wrong input."""

import base64
import csv
import io
import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from pansketch import decode
from pansketch_collector.__main__ import main
from pansketch_fleet.protocol.messages import digest
from tests.waiting import SECONDS, until

REPOSITORY = Path(__file__).resolve().parents[3]
HEADER = ["temp", "wind"]
WINDS = {"calm", "north, east", "south"}
# Four streams of the configuration read the system's values, one of them at epsilon 1.
PAID = "epsilon 100 per reading (silent), 301 for one record in fine, heavy, sums and bars together"


@pytest.mark.parametrize("place", [0, 1, 3, 5])
def test_the_configuration_may_stand_anywhere(filled, capsys, place):
    words = ["query", "--stream", "fine", "mean", "temp"]
    assert main([*words[:place], "--config", str(filled.path), *words[place:]]) == 0
    assert "5 releases of 2 devices" in capsys.readouterr().out


@pytest.mark.parametrize("command", [[], ["serve"], ["devices"], ["sample"], ["query"], ["export"]])
def test_every_command_has_help(capsys, command):
    assert main([*command, "--help"]) == 0
    said = capsys.readouterr().out
    assert "--config" in said
    assert "Exit codes" in said


def test_negative_numbers_are_numbers(filled, run):
    assert run("query", "--stream", "fine", "cdf", "temp", "-5.5")[0] == 0
    assert run("query", "--stream", "fine", "range", "temp", "-40", "-5", "wind", "south")[0] == 0


@pytest.mark.parametrize("sign", ["", "-"])
def test_times_are_so_long_ago_with_a_sign_and_without(filled, run, sign):
    words = ("query", "--stream", "fine", "--to", f"{sign}1d", "mean", "temp")
    assert run(*words) == run("query", "--stream", "fine", "mean", "temp")
    code, _, said = run("query", "--stream", "fine", "--from", f"{sign}1d", "mean", "temp")
    assert (code, "no window of fine starts in that range" in said) == (2, True)
    between = ("query", "--stream", "fine", "drift", "--between", f"{sign}9w", f"{sign}1w")
    assert "expected" not in run(*between)[2]


def test_query_prints_one_line_or_one_object(filled, run):
    code, out, err = run("query", "--stream", "fine", "quantile", "temp", "0.5")
    assert (code, err) == (0, "")
    assert " degC ± " in out
    assert out.count("\n") == 1
    assert out.endswith(f"5 releases of 2 devices, {PAID}\n")
    code, out, _ = run("query", "--stream", "fine", "range", "wind", "calm", "--json")
    said = json.loads(out)
    assert code == 0
    assert set(said) == {
        "value",
        "standard_error",
        "unit",
        "share",
        "generator",
        "releases",
        "devices",
        "windows",
        "guarantee",
        "shared",
        "epochs",
        "left_out",
        "left_out_because",
    }
    assert said["unit"] == "readings"


def test_sample_writes_rows_inside_the_bounds_with_names_of_categories(filled, run, tmp_path):
    path = tmp_path / "rows.csv"
    code, out, err = run("sample", "--stream", "fine", "--rows", "70000", "--out", str(path))
    assert (code, out) == (0, "")
    assert err == (f"{path}: 70,000 synthetic rows from 5 releases of 2 devices, {PAID}\n")
    header, *rows = csv.reader(path.read_text().splitlines())
    assert header == HEADER
    assert len(rows) == 70_000  # more than one chunk
    assert {row[1] for row in rows} == WINDS
    temps = [float(row[0]) for row in rows]
    assert min(temps) >= -40
    assert max(temps) <= 60
    assert all(len(row[0].split(".")[1]) == 2 for row in rows)


def test_sample_on_stdout_repeats_itself_with_a_seed(filled, run):
    words = ["sample", "--stream", "fine", "--rows", "50", "--out", "-"]
    once, again = (run(*words, "--seed", "4")[1] for _ in range(2))
    assert once == again != run(*words, "--seed", "5")[1]
    assert len(list(csv.reader(io.StringIO(once)))) == 51


def test_a_file_is_replaced_whole_or_not_at_all(filled, run, tmp_path, monkeypatch):
    path = tmp_path / "out" / "rows.csv"
    path.parent.mkdir()
    path.write_text("old")
    reader = path.open()
    words = ["sample", "--stream", "fine", "--rows", "10", "--out", str(path)]

    def full(*_):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        code, _, err = run(*words)
    assert code == 1
    assert err == f"cannot write {path}: No space left on device\n"
    assert path.read_text() == "old"
    assert os.listdir(path.parent) == ["rows.csv"]
    assert run(*words)[0] == 0
    assert path.read_text().startswith("temp,wind\n")
    with reader:
        assert reader.read() == "old"  # who was reading the old file still has all of it
    assert os.listdir(path.parent) == ["rows.csv"]
    mask = os.umask(0)
    os.umask(mask)
    assert path.stat().st_mode & 0o777 == 0o666 & ~mask


def test_export_gives_the_exact_bytes(filled, run):
    code, out, err = run("export", "--stream", "fine", "--devices", "one", "--out", "-")
    assert (code, err) == (0, "")
    objects = [json.loads(line) for line in out.splitlines()]
    assert [o["sequence"] for o in objects] == [1, 2, 4]
    spec = filled.specs("fine")[0]
    for found in objects:
        payload = base64.b64decode(found["payload"], validate=True)
        (window,) = decode(payload, spec).windows
        assert found["topic"] == filled.topic("one", "fine")
        assert found["window"] == {"start": window.start, "end": window.end}
        assert found["digest"] == digest(payload)
        assert found["received_at"] == 1_000_001_000


def test_devices_shows_windows_gaps_and_refusals(filled, run):
    code, out, err = run("devices")
    assert (code, err) == (0, "")
    parts = [part.splitlines() for part in out.split("\n\n")]
    (header, one, two), (counted, *totals, lag, refused, duplicates, generation) = parts
    assert header.split() == [
        "device", "state", "stream", "windows", "first", "last", "gaps", "late", "disputed",
        "ledgers", "rolled", "unsynced", "duplicates", "received",
    ]  # fmt: skip
    assert one.split() == [
        "one", "unknown", "fine", "3", "1970-01-02T00:08:09Z", "1970-01-06T00:08:09Z", "1",
        "0", "0", "1", "0",
        "0", "1", "2001-09-09T02:03:20Z",
    ]  # fmt: skip
    assert two.split()[3:7] == ["2", "1970-01-02T00:06:11Z", "1970-01-04T00:06:11Z", "0"]
    assert two.split()[7:13] == ["0", "0", "1", "0", "0", "0"]
    assert counted.split() == [
        "device",
        "stream",
        "lag",
        "counted",
        "in",
        "a",
        "window",
        "settings",
    ]
    for name, windows, total in zip(("one", "two"), (3, 2), totals, strict=True):
        found = re.match(
            rf"{name} +fine +[\d.]+ d +(\d+[.\d]*) ± [\d.]+ +600 +not reported$", total
        )
        assert float(found[1]) == pytest.approx(600 * windows, abs=1)
    assert lag.startswith("lag of fine: median device ")
    assert lag.endswith(" (two)")
    assert refused == "refused: 2 (topic 2)"
    assert duplicates == "duplicates: 1"
    said = json.loads(run("devices", "--json")[1])
    assert generation == f"database generation: {said['generation']}"
    assert said["quarantine"] == {"topic": 2}
    assert [d["device"] for d in said["devices"]] == ["one", "two"]
    assert said["devices"][0]["streams"]["fine"]["gaps"] == 1
    assert [d["duplicates"] for d in said["devices"]] == [1, 0]


def test_a_reader_that_goes_away_ends_the_command_quietly(filled):
    command = [
        sys.executable,
        "-m",
        "pansketch_collector",
        "sample",
        "--stream",
        "fine",
        "--out",
        "-",
    ]
    process = subprocess.Popen(
        [*command, "--rows", "2000000", "--config", str(filled.path)],
        cwd=REPOSITORY,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout.readline() == b"temp,wind\n"
    process.stdout.close()
    assert process.wait(SECONDS) == 1
    assert process.stderr.read() == b""
    process.stderr.close()


def test_a_pipe_is_written_to_and_stays_a_pipe(filled, run, tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with os.fdopen(os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)) as reader:
        code = run("sample", "--stream", "fine", "--rows", "3", "--out", str(pipe))[0]
        assert (code, reader.readline()) == (0, "temp,wind\n")
    assert pipe.is_fifo()


def test_a_full_disk_behind_stdout_is_one_line(filled):
    with open("/dev/full", "wb") as full:
        command = [
            sys.executable,
            "-m",
            "pansketch_collector",
            "devices",
            "--config",
            str(filled.path),
        ]
        done = subprocess.run(
            command, cwd=REPOSITORY, stdout=full, stderr=subprocess.PIPE, check=False
        )
    assert done.returncode == 1
    assert done.stderr.startswith(b"cannot write to stdout: No space left")
    assert done.stderr.count(b"\n") == 1


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_stopped_sample_leaves_no_unfinished_file(filled, tmp_path, number):
    folder = tmp_path / "out"
    folder.mkdir()
    words = ["sample", "--stream", "fine", "--rows", "100000000", "--out", str(folder / "rows.csv")]
    process = subprocess.Popen(
        [sys.executable, "-m", "pansketch_collector", *words, "--config", str(filled.path)],
        cwd=REPOSITORY,
        stderr=subprocess.PIPE,
    )
    until(lambda: os.listdir(folder) or process.poll() is not None)
    process.send_signal(number)
    assert process.wait(SECONDS) == 1
    assert process.stderr.read() == b"interrupted\n"
    process.stderr.close()
    assert os.listdir(folder) == []


def test_a_process_has_one_thread_for_linear_algebra_unless_its_environment_says_otherwise():
    """With more threads a fit on a busy machine takes several times as long."""
    solved = (
        "import pansketch_collector, os, numpy as np\n"
        "np.linalg.solve(np.eye(600), np.ones(600))\n"
        "print(len(os.listdir('/proc/self/task')), os.environ['OPENBLAS_NUM_THREADS'])"
    )
    own = {k: v for k, v in os.environ.items() if k != "OPENBLAS_NUM_THREADS"}
    for stated, wanted in (({}, "1 1"), ({"OPENBLAS_NUM_THREADS": "2"}, "2")):
        command = [sys.executable, "-c", solved]
        found = subprocess.run(
            command, env=own | stated, capture_output=True, text=True, check=True, timeout=SECONDS
        )
        assert found.stdout.strip().endswith(wanted)
