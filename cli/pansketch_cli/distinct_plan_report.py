"""The answers of `pansketch plan` as text and as JSON."""

import json
from collections.abc import Sequence
from dataclasses import asdict

from pansketch.planning import DistinctPlan, DistinctWanted

CONVENTION = """\
epsilon: what the state and the output's noise are each calibrated to, as in the papers. A key seen
before a snapshot and after it spends their sum, `together`; unit key, add or remove. {share}
between state and output as is best for the given memory.\
"""
LAST_LINE = "The last line\nof each epsilon shares the same sum"
EVERY_LINE = "Every line\nshares this sum"
PUBLISHED = """\
As published: 4 bytes an id, output noise too small for the guarantee, and the level of ppds leaks
(pansketch audit). Repaired: one bit a key. The bounds hold for every stream and every universe.\
"""
NUMBERED = """\
keys, 3 parts: sampling, bits and output noise have a share of alpha each, as in the paper, split in
the best way. keys: sampling and bits share one part, which is tighter. within: that bound again.
standard error: of the density, when half of the universe appears.\
"""
HASHED = """\
Keys of an open universe are hashed to slots. Errors are relative to the expected number of keys and
take the estimate as normal; the standard error is that of linear counting, bits and output noise.\
"""

LEVELS = """\
Keys of an open universe are hashed to slots on levels: half of them to the first level, a quarter
to the second, and so on. Errors are relative to the number of keys and take the estimate as normal.
More memory lowers the error of many keys and raises that of few.\
"""

NEEDED = ["epsilon", "together", "estimator", "share", "keys, 3 parts", "keys", "bytes", ""]
REACHED = ["epsilon", "together", "estimator", "share", "keys", "within", "std. error", ""]
ANY_NUMBER = ["epsilon", "together", "estimator", "share", "keys", "within", "std. error", ""]
THREE_PARTS = frozenset({4})


def as_json(wanted: DistinctWanted, answers: Sequence[DistinctPlan]) -> str:
    return json.dumps({"wanted": asdict(wanted), "answers": [asdict(a) for a in answers]}, indent=1)


def as_text(wanted: DistinctWanted, answers: Sequence[DistinctPlan]) -> str:
    """Two tables, what a wanted error needs and what a memory reaches, and what their words
    mean."""
    if wanted.any_number:
        return _levels_text(wanted, answers)
    hashed = wanted.expected_keys is not None
    error = f"{wanted.alpha:g}" + (" of the keys" if hashed else "")
    chance = f"with probability {1 - wanted.beta:g}"
    notes = [HASHED] if hashed else [NUMBERED, PUBLISHED]
    return "\n".join(
        [
            f"What is needed for an error of at most {error}, {chance}",
            *_aligned(
                [NEEDED, *(_needed_cells(each) for each in answers)],
                THREE_PARTS if hashed else frozenset(),
            ),
            "",
            f"What a memory of {wanted.memory:,} B reaches, {chance}",
            *_aligned([REACHED, *(_reached_cells(each, wanted) for each in answers)]),
            "",
            "\n\n".join([CONVENTION.format(share=LAST_LINE), *notes]),
        ]
    )


def _levels_text(wanted: DistinctWanted, answers: Sequence[DistinctPlan]) -> str:
    rows = [ANY_NUMBER, *map(_level_cells, answers)]
    head = f"What a memory of {wanted.memory:,} B reaches, with probability {1 - wanted.beta:g}"
    return "\n".join([head, *_aligned(rows), "", CONVENTION.format(share=EVERY_LINE), "", LEVELS])


def _level_cells(line: DistinctPlan) -> list[str]:
    errors = ["-" if e is None else f"{e:.3g}" for e in (line.within, line.standard_error)]
    return [*_names(line), f"{line.of_keys:,}", *errors, "too many" if line.problem else ""]


def _needed_cells(line: DistinctPlan) -> list[str]:
    numbers = (line.keys_three_parts, line.keys, line.memory_bytes)
    return [*_names(line), *(f"{n:,}" if n else "-" for n in numbers), line.problem]


def _reached_cells(line: DistinctPlan, wanted: DistinctWanted) -> list[str]:
    errors = (line.within, line.standard_error)
    whole = wanted.universe or wanted.expected_keys
    cells = ["-" if e is None else f"{e:.3g}" for e in errors]
    about = f"within {line.within * whole:,.0f} keys" if whole and line.within else ""
    return [*_names(line), "-" if line.tracked is None else f"{line.tracked:,}", *cells, about]


def _names(line: DistinctPlan) -> list[str]:
    return [f"{line.epsilon:g}", f"{line.together:g}", line.estimator, line.output_share]


def _aligned(rows: list[list[str]], without: frozenset[int] = frozenset()) -> list[str]:
    """Columns of equal width; numbers to the right, names and remarks to the left."""
    rows = [[cell for place, cell in enumerate(row) if place not in without] for row in rows]
    widths = [max(len(row[place]) for row in rows) for place in range(len(rows[0]))]
    left = {2, len(widths) - 1}
    return [
        "  ".join(
            cell.ljust(width) if place in left else cell.rjust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
