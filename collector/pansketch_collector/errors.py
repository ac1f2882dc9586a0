"""What ends a command: one line for the person at the terminal, and an exit code."""

from typing import Literal

ExitCode = Literal[1, 2]


class CommandError(Exception):
    """`str()` is one line that says what is wrong and what to do.

    `code` is 1 for what failed at run time and 2 for input that has to change.
    """

    def __init__(self, text: str, code: ExitCode = 1) -> None:
        super().__init__(" ".join(text.split()))
        self.code: ExitCode = code


def wrong(text: str) -> CommandError:
    """A failure that only other input can mend (exit code 2)."""
    return CommandError(text, code=2)
