"""Errors that end a command: a single-line message and an exit code."""

from typing import Literal

from pansketch_fleet.errors import one_line

ExitCode = Literal[1, 2]


class CommandError(Exception):
    """A single-line message with the problem and its fix.

    `code`: 1 for a failure at run time, 2 for input that has to change.
    """

    def __init__(self, text: str, code: ExitCode = 1) -> None:
        super().__init__(one_line(" ".join(text.split())))
        self.code: ExitCode = code


def wrong(text: str) -> CommandError:
    """An error that only other input can fix (exit code 2)."""
    return CommandError(text, code=2)
