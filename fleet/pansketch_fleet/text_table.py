"""Text in columns, printed to a reader that may close the pipe early."""

import os
import sys
from collections.abc import Collection, Sequence


def aligned(
    header: Sequence[str], rows: Sequence[Sequence[str]], numbers: Collection[str]
) -> list[str]:
    """Return the header and the rows; the columns of these `numbers` are aligned to the right."""
    right = {place for place, name in enumerate(header) if name in numbers}
    return columns([header, *rows], right)


def columns(rows: Sequence[Sequence[str]], right: Collection[int]) -> list[str]:
    """Return a line for each row; the columns at the positions `right` are aligned to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            cell.rjust(width) if place in right else cell.ljust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]


def show(text: str) -> None:
    """Print the text; a reader that has closed the pipe, as in `| head`, is no error."""
    try:
        print(text, flush=True)
    except BrokenPipeError:
        discard_stdout()


def discard_stdout() -> None:
    """Discard buffered output, or the interpreter would fail on it at exit."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)
