"""The threat model of docs/explanation/privacy.md: a status in each row, and all tests it names."""

import ast
import re
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
PRIVACY = (REPOSITORY / "docs/explanation/privacy.md").read_text()
STATUS = re.compile(r"(guaranteed|tolerated|not guaranteed)\b")
NAMED = re.compile(r"`((?:\w+/)*test_\w+\.py)(?:::(test_\w+))?`")
AUDIT = {"exact", "draws", "agent", "statistical", "seizure", "attack"}
# Without one of these the table is not complete.
PLACES = ("process", "kernel", "swap", "hibernation", "disk", "times", "logs", "network", "broker")


def rows_of(title: str) -> list[list[str]]:
    """The cells of the table below a heading, without its head."""
    section = PRIVACY.partition(f"\n## {title}\n")[2].partition("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines[2:]]


def names_in(name: str) -> set[str]:
    """The tests in a file below tests/; empty where there is no such file."""
    found: set[str] = set()
    for file in (REPOSITORY / "tests").rglob(name):
        tree = ast.walk(ast.parse(file.read_text()))
        found |= {each.name for each in tree if isinstance(each, ast.FunctionDef)}
    return found


def missing(text: str) -> list[str]:
    """The tests that a text names and that are not there."""
    return [
        f"{file}::{test}"
        for file, test in NAMED.findall(text)
        if not (test in names_in(file) if test else names_in(file))
    ]


THREATS = rows_of("Threat model")


@pytest.mark.parametrize("row", THREATS, ids=lambda row: row[0])
def test_a_row_has_a_status_and_evidence_that_exists(row):
    place, what, status, evidence = row
    assert place
    assert what
    assert STATUS.match(status), status
    assert missing(evidence) == []
    parts = set(re.findall(r"\w+", evidence.partition("audit: ")[2]))
    assert parts <= AUDIT
    assert NAMED.search(evidence) or evidence.startswith("none: "), "no evidence, and no reason"


def test_what_is_tolerated_says_for_how_long():
    tolerated = [status for _, _, status, _ in THREATS if status.startswith("tolerated")]
    assert tolerated
    assert all("until" in status for status in tolerated)


def test_no_place_is_left_out():
    places = " ".join(row[0] for row in THREATS)
    assert [place for place in (*PLACES, "collector") if place not in places] == []


def test_the_tests_of_the_pitfalls_exist():
    pitfalls = rows_of("Pitfalls")
    assert len(pitfalls) > 10
    assert [each for row in pitfalls for each in missing(row[3])] == []


def test_a_test_that_is_gone_would_be_noticed():
    """Negative control."""
    assert missing("`repository/test_threat_model.py::test_no`, `test_no_such_file.py`") == [
        "repository/test_threat_model.py::test_no",
        "test_no_such_file.py::",
    ]
