"""A small run of chaos, as a program."""

import sqlite3
import sys
from contextlib import closing
from pathlib import Path

from testbed.chaos.accounting import evidence
from testbed.chaos.accounting.accounting import account
from testbed.chaos.accounting.counter_sums import wrong_sums
from testbed.chaos.environment.configuration import database_in
from testbed.program import Program

SMALL = ("--devices", "2", "--windows", "4", "--faults", "6", "--seed", "155")
MAX_SECONDS = 900.0  # Of a whole run, which bounds itself; this is for one that hangs.


def start(folder: Path, *options: str) -> Program:
    command = [sys.executable, "-m", "testbed.chaos", "--out", str(folder), *options]
    return Program(command, folder.with_suffix(".log"))


def ended(run: Program) -> tuple[int, str]:
    with run:
        return run.wait(MAX_SECONDS), run.output


def left_behind(folder: Path) -> list[str]:
    """The command lines of processes that have to do with the folder."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if str(folder) in words:
            found.append(words)
    return found


def failures(folder: Path) -> list[str]:
    found = evidence.gather(folder)
    return [*account(found).failures, *wrong_sums(folder, found)]


def in_database(folder: Path, *statements: str) -> None:
    with closing(sqlite3.connect(database_in(folder), isolation_level=None)) as database:
        for statement in statements:
            database.execute(statement)
