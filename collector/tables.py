"""Text in columns, for a terminal."""

from collections.abc import Collection, Sequence


def aligned(
    header: Sequence[str], rows: Sequence[Sequence[str]], numbers: Collection[str]
) -> list[str]:
    """The header and the rows; the columns of these `numbers` end at one place."""
    widths = [max(map(len, column)) for column in zip(header, *rows, strict=True)]
    return [
        "  ".join(
            cell.rjust(width) if name in numbers else cell.ljust(width)
            for name, cell, width in zip(header, row, widths, strict=True)
        ).rstrip()
        for row in (header, *rows)
    ]
