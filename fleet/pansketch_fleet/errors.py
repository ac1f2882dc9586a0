"""Errors of one line: of the configuration with the place, the problem and the fix, and of a
command line."""

import argparse
from typing import Any, NoReturn

WRONG_INPUT = 2  # exit code
MAX_USAGE = 1000  # characters of an error of argparse, which quotes the command line


class ConfigError(Exception):
    """`config.yaml:12: streams.air.window: problem; fix`, always one line.

    `file` as given, `line` from 1 (0: no line applies). `where`: the dotted path of the key (empty:
    the file as a whole). `problem`: with its fix.
    """

    def __init__(self, file: str, line: int, where: str, problem: str) -> None:
        self.file, self.line = one_line(file), line
        self.where, self.problem = one_line(where), one_line(problem)
        place = f"{self.file}:{line}" if line else self.file
        super().__init__(": ".join(part for part in (place, self.where, self.problem) if part))


def one_line(text: str) -> str:
    """Replace non-printable characters by spaces, so that no error has two lines."""
    return "".join(c if c.isprintable() else " " for c in text)


class SingleLineParser(argparse.ArgumentParser):
    """Reports an error as one line instead of a usage text."""

    def error(self, message: str) -> NoReturn:
        problem = one_line(message)[:MAX_USAGE]
        self.exit(WRONG_INPUT, f"{self.prog}: {problem}; see {self.prog} --help\n")


class OnePath(argparse.Action):
    """Refuses a second path: `--config` and `--config-dir` together are one file too many."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: Any,
        option_string: str | None = None,
    ) -> None:
        given = getattr(namespace, self.dest, self.default)
        if given not in (self.default, values):
            raise argparse.ArgumentError(self, f"{str(given)!r} is given, too; name one of them")
        setattr(namespace, self.dest, values)
