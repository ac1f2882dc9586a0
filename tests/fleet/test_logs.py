"""The log of the programs: times, levels, JSON, and journald."""

import argparse
import json
import logging
import os
import re
import subprocess
import sys

import pytest

from pansketch_agent.commands import command_line as agent
from pansketch_collector.commands import command_line as collector
from pansketch_fleet.logs import LEVELS, add_log_options, log_words, set_up_log
from pansketch_keeper import command_line as keeper

TIME = r"2[0-9]{3}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z"


@pytest.fixture(autouse=True)
def own_handlers(monkeypatch):
    """Those of pytest stay out."""
    monkeypatch.setattr(logging.root, "handlers", [])


def options(*words):
    parser = argparse.ArgumentParser()
    add_log_options(parser)
    return parser.parse_args(words)


def logged(capsys, *words, environ=None):
    set_up_log("prog", options(*words), environ or {})
    for level in LEVELS:
        logging.getLogger("some.module").log(getattr(logging, level.upper()), "%s\nit is", level)
    return capsys.readouterr().err.splitlines()


def test_a_line_of_text_has_its_time_level_and_program(capsys):
    info, warning, error = logged(capsys)
    assert re.fullmatch(rf"{TIME} INFO prog: info it is", info)
    assert re.fullmatch(rf"{TIME} WARNING prog: warning it is", warning)
    assert re.fullmatch(rf"{TIME} ERROR prog: error it is", error)


def test_midnight_has_a_time_too(capsys):
    set_up_log("prog", options(), {})
    record = logging.makeLogRecord({"msg": "here", "created": 86400.5, "levelname": "INFO"})
    assert logging.root.handlers[0].format(record) == "1970-01-02T00:00:00Z INFO prog: here"


def test_json(capsys):
    first, *rest = [json.loads(line) for line in logged(capsys, "--log-format", "json")]
    assert re.fullmatch(TIME, first.pop("time"))
    assert first == {"level": "info", "program": "prog", "message": "info it is"}
    assert [each["level"] for each in rest] == ["warning", "error"]


@pytest.mark.parametrize("place", range(len(LEVELS)))
def test_levels(capsys, place):
    assert len(logged(capsys, "--log-level", LEVELS[place])) == len(LEVELS) - place


CODE = """
import argparse, logging, os
from pansketch_fleet.logs import set_up_log
set_up_log("prog", argparse.Namespace(), os.environ)
logging.warning("here")
"""


@pytest.mark.parametrize("listens", [True, False])
def test_journald_states_the_time_itself(tmp_path, listens):
    """systemd names the stream that journald reads; an inherited name is of another one."""
    with open(tmp_path / "err", "wb") as err:
        about = os.fstat(err.fileno())
        stream = f"{about.st_dev}:{about.st_ino + (not listens)}"
        environ = {**os.environ, "JOURNAL_STREAM": stream}
        subprocess.run([sys.executable, "-c", CODE], check=True, stderr=err, env=environ)
    line = (tmp_path / "err").read_text()
    assert (line == "WARNING prog: here\n") == listens
    assert line.endswith("WARNING prog: here\n")


def test_the_words_for_a_process_state_the_same():
    given = options("--log-level", "error", "--log-format", "json")
    assert options(*log_words(given)) == given


@pytest.mark.parametrize(
    ("parser", "command"),
    [(agent.parser, "run"), (agent.parser, "once"), (collector.parser, "serve"),
     (keeper.parser, "run")],
)  # fmt: skip
def test_every_program_has_the_options(parser, command):
    found = parser().parse_args([command, "--log-level", "warning", "--log-format", "json"])
    assert (found.log_level, found.log_format) == ("warning", "json")
