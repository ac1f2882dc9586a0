"""`sample`: synthetic readings of the fleet as CSV."""

import csv
import io
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from math import floor, log10
from typing import TextIO

import numpy as np
import numpy.typing as npt
from rich.console import Console
from rich.progress import Progress

from collector.generators import Fitted
from pansketch import Attribute, Domain, Partition
from pansketch.generators.resampling import weighted_points
from pansketch.generators.training import Sampler

CHUNK_ROWS = 65_536
ROWS_WORTH_A_BAR = 500_000
STEPS = 10_000  # of an attribute's range that printed decimals can tell apart, at least

Column = Callable[[npt.NDArray[np.float64]], list[str]]
Texts = Sequence[Sequence[str]]


def sampler_of(fitted: Fitted) -> Sampler:
    """What draws records: points of boxes, or a training's points by their weights."""
    return fitted if isinstance(fitted, Partition) else weighted_points(fitted)


def write_csv(
    domain: Domain, sampler: Sampler, rows: int, rng: np.random.Generator, out: TextIO
) -> None:
    """A header and `rows` lines, drawn chunk by chunk: memory does not grow with `rows`."""
    out.write(csv_header(domain))
    sizes = _sizes(rows, bar=rows >= ROWS_WORTH_A_BAR and out is not sys.stdout)
    for texts in drawn(domain, sampler, sizes, rng, quoted):
        out.writelines(csv_lines(texts))


def csv_header(domain: Domain) -> str:
    """The line above the rows."""
    return f"{','.join(map(quoted, domain.names))}\n"


def csv_lines(texts: Texts) -> Iterator[str]:
    """A line for each row of columns whose texts are quoted where they have to be."""
    return (f"{','.join(line)}\n" for line in zip(*texts, strict=True))


def chunk_sizes(rows: int) -> Iterator[int]:
    """How many rows are drawn at a time, in order; a sample of one seed depends on it."""
    return (min(CHUNK_ROWS, rows - start) for start in range(0, rows, CHUNK_ROWS))


def drawn(
    domain: Domain,
    sampler: Sampler,
    sizes: Iterable[int],
    rng: np.random.Generator,
    named: Callable[[str], str],
) -> Iterator[Texts]:
    """Synthetic readings as columns of texts, chunk by chunk: numbers with due decimals, the same
    wherever they are written, and categories as `named` writes their names."""
    columns = [_column(attribute, named) for attribute in domain.attributes]
    for size in sizes:
        records = sampler.sample(size, rng)
        yield [column(records[:, place]) for place, column in enumerate(columns)]


def _sizes(rows: int, bar: bool) -> Iterator[int]:
    """Chunk sizes that add up to `rows`, with a progress bar on a terminal."""
    console = Console(stderr=True)
    with Progress(console=console, disable=not (bar and console.is_terminal)) as progress:
        task = progress.add_task("sampling", total=rows)
        for size in chunk_sizes(rows):
            yield size
            progress.update(task, advance=size)


def _column(attribute: Attribute, named: Callable[[str], str]) -> Column:
    """How one attribute's values are written: names of categories, or numbers with due decimals."""
    if attribute.categories is not None:
        names = np.array([named(name) for name in attribute.categories], dtype=object)
        return lambda values: list(names[values.astype(np.int64)])
    if attribute.constant is not None:
        text = f"{attribute.constant:.15g}"
        return lambda values: [text] * len(values)
    pattern = f"%.{decimals(attribute)}f"
    return lambda values: [pattern % value for value in values.tolist()]


def decimals(attribute: Attribute) -> int:
    """Decimals of the attribute's step; without one, as many as tell at least 10,000 steps of the
    range apart, on a log scale near `low`."""
    if attribute.lattice is not None:
        return min(attribute.lattice.decimals, 12)
    low, high = attribute.low or 0.0, attribute.high or 0.0
    smallest = (high - low) / STEPS
    if attribute.scale == "log":
        smallest = min(smallest, attribute.resolution / 100)
    return min(max(0, -floor(log10(smallest))), 12)


def quoted(name: str) -> str:
    """A text as CSV has it."""
    cell = io.StringIO()
    csv.writer(cell, lineterminator="").writerow([name])
    return cell.getvalue()
