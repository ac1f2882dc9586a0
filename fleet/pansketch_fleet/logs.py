"""The log of every program: lines of text or JSON on standard error, each with its time.

journald adds the time of a line, so a program under it omits the time from text lines. A log line
has no value of a reading, and its time depends on a clock, a connection or a disk.
"""

import argparse
import json
import logging
import os
import sys
from collections.abc import Mapping
from contextlib import suppress

from pansketch_fleet.errors import one_line
from pansketch_fleet.units import utc_text

LEVELS = ("debug", "info", "warning", "error")
FORMATS = ("text", "json")


def add_log_options(parser: argparse.ArgumentParser) -> None:
    """Add --log-level and --log-format."""
    parser.add_argument(
        "--log-level",
        choices=LEVELS,
        default="info",
        help="log what is at least so important (default: info)",
    )
    parser.add_argument(
        "--log-format",
        choices=FORMATS,
        default="text",
        help="json: an object a line, with time, level, program and message (default: text)",
    )


def set_up_log(program: str, options: argparse.Namespace, environ: Mapping[str, str]) -> None:
    """Send the log of this process to standard error. `options` may lack those of the log."""
    handler = logging.StreamHandler(sys.stderr)
    if getattr(options, "log_format", "text") == "json":
        handler.setFormatter(_Json(program))
    else:
        handler.setFormatter(_Text(program, with_time=not _is_journal(environ)))
    level = getattr(options, "log_level", "info").upper()
    logging.basicConfig(level=level, handlers=[handler], force=True)


def log_words(options: argparse.Namespace) -> list[str]:
    """Return the log options as words, for a child process of the program."""
    return ["--log-level", options.log_level, "--log-format", options.log_format]


class _Text(logging.Formatter):
    def __init__(self, program: str, *, with_time: bool) -> None:
        super().__init__()
        self._program, self._with_time = program, with_time

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - logging's name
        line = f"{record.levelname} {self._program}: {one_line(record.message)}"
        return f"{_time(record)} {line}" if self._with_time else line


class _Json(logging.Formatter):
    def __init__(self, program: str) -> None:
        super().__init__()
        self._program = program

    def format(self, record: logging.LogRecord) -> str:
        found = {
            "time": _time(record),
            "level": record.levelname.lower(),
            "program": self._program,
            "message": one_line(record.getMessage()),
        }
        if record.exc_info:
            found["exception"] = self.formatException(record.exc_info)
        return json.dumps(found)


def _time(record: logging.LogRecord) -> str:
    text = utc_text(int(record.created))
    return text if "T" in text else f"{text}T00:00:00Z"


def _is_journal(environ: Mapping[str, str]) -> bool:
    """Return whether journald reads standard error: JOURNAL_STREAM names the stream."""
    with suppress(OSError, ValueError):
        about = os.fstat(sys.stderr.fileno())
        return environ.get("JOURNAL_STREAM") == f"{about.st_dev}:{about.st_ino}"
    return False
