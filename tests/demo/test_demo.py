"""The demo, as a person starts it."""

import csv
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
MAX_SECONDS = 900.0
DEVICES = 3
BOUNDS = {
    "temp": (-30, 50),
    "dewp": (-45, 35),
    "pres": (970, 1060),
    "pm25": (0, 1000),
    "o3": (0, 1200),
    "wspm": (0, 25),
}


def demo(*options):
    command = [sys.executable, "-m", "demo", *options]
    return subprocess.run(
        command, cwd=REPOSITORY, capture_output=True, text=True, timeout=MAX_SECONDS
    )


def test_the_demo_ends_by_itself_with_records_and_a_picture(tmp_path):
    out = tmp_path / "demo"
    done = demo("--short", "--blinded", "--out", str(out))
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    distances = [float(found) for found in re.findall(r"W1 / std +│\D+([\d.]+)", done.stdout)]
    assert len(distances) == len(BOUNDS), done.stdout
    # Fifty windows of three stations at epsilon 1 come to 0.1; uniform records are beyond 1.
    assert max(distances) <= 0.5
    apart, predicted = re.search(r"TV, mean\D+([\d.]+)\D+predicted ([\d.]+)", done.stdout).groups()
    # Independent attributes are 0.2 apart, even ones 0.6.
    assert float(apart) <= 0.35
    assert 0.5 <= float(predicted) / float(apart) <= 2
    for stream in ("air", "doors", "lockers"):
        line = rf"^\S+ +stopped +{stream} +(\d+) .* 0 +0 +\S+$"
        assert len(re.findall(line, done.stdout, re.M)) == DEVICES, done.stdout
    assert "refused: none" in done.stdout
    assert "intrusion silent" in done.stdout
    keys_are_within_their_errors(done.stdout)
    records_are_inside_the_bounds(out / "synthetic.csv")
    picture = (out / "fleet.png").read_bytes()
    assert picture.startswith(b"\x89PNG\r\n\x1a\n")
    assert len(picture) > 20_000
    answers_have_less_noise_than_releases(json.loads((out / "report.json").read_text()))


def answers_have_less_noise_than_releases(report):
    """Two draws where local noise has three hundred, and a hundred where answers are monthly."""
    assert set(report) == {"air"}
    assert set(report["air"]) == {"local", "blinded", "blinded_once"}
    assert all(set(each) == {"pair_tv", "w1", "correlation"} for each in report["air"].values())
    figures = {way: each["pair_tv"] for way, each in report["air"].items()}
    assert figures["blinded_once"] < 0.75 * figures["local"], figures


def keys_are_within_their_errors(said):
    """Fourteen windows within six standard errors: by chance one is not with less than 1e-6."""
    number = r" *([+-]?\d+) │"
    line = rf"^│ ([a-z]* [^│]*)│ (2017-02-2\d) │{number * 4}$"
    rows = re.findall(line, said, re.M)
    assert len(rows) == 14, said
    assert [row[0].strip() for row in rows if row[0].strip()] == ["doors (union)", "lockers (sum)"]
    for *_, truth, estimate, error, off in rows:
        assert int(truth) > 100
        assert abs(int(off) - (int(estimate) - int(truth))) <= 1
        assert abs(int(off)) <= 6 * int(error) + 1 < int(truth)


def records_are_inside_the_bounds(file):
    header, *rows = csv.reader(file.read_text().splitlines())
    assert header == list(BOUNDS)
    assert len(rows) > 1000
    for cells in rows:
        for cell, (low, high) in zip(cells, BOUNDS.values(), strict=True):
            assert low <= float(cell) <= high
    assert len({tuple(cells) for cells in rows}) > 1000
    # Records look like the sensor's: whole micrograms, tenths of a degree.
    assert all("." not in row[3] and len(row[0].partition(".")[2]) <= 1 for row in rows)


@pytest.mark.parametrize("kind", ["folder", "file"])
def test_the_demo_removes_nothing_but_an_earlier_demo(tmp_path, kind):
    out = tmp_path / "mine"
    kept = out
    if kind == "folder":
        out.mkdir()
        kept = out / "thesis.txt"
    kept.write_text("years of work")
    refused = demo("--short", "--out", str(out))
    assert refused.returncode == 1
    assert refused.stdout == ""
    assert refused.stderr.count("\n") == 1
    assert refused.stderr.startswith("demo: ")
    assert kept.read_text() == "years of work"
