"""The papers' claims that need a counterexample, or a bound drawn beside a measurement.

`python -m benchmarks --only papers`: for each row the paper's statement, the measurement, and a
bar. The bar of a counterexample fails if the claim held after all. docs/explanation/papers.md lists
all claims, also those that other benchmarks reproduce.
"""

from collections.abc import Callable, Iterator

from benchmarks.harness.result import Row
from benchmarks.papers import density_sketches, kd_trees, m2m, ppds, privhp

PAPERS: tuple[Callable[[bool], Iterator[Row]], ...] = (
    density_sketches.rows,
    kd_trees.rows,
    privhp.rows,
    m2m.rows,
    ppds.rows,
)


def run(quick: bool) -> list[Row]:
    return [row for rows in PAPERS for row in rows(quick)]
