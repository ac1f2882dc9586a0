"""`sample`: synthetic readings as CSV, and their predicted distance from the raw readings."""

import csv
import io
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from decimal import Decimal
from itertools import pairwise
from math import floor, log10
from typing import TextIO

import numpy as np
import numpy.typing as npt

from pansketch import Attribute, Domain
from pansketch.generators import Fidelity, Sampler, fidelity
from pansketch_collector.errors import wrong
from pansketch_collector.queries.fleet_model import Model
from pansketch_collector.queries.generator_registry import GENERATORS
from pansketch_fleet.text_table import columns

MAX_ROWS = 100_000_000
CHUNK_ROWS = 65_536
ROWS_WORTH_A_BAR = 500_000
EMPTY = '""'
STEPS = 10_000  # of an attribute's range that printed decimals distinguish at least

Column = Callable[[npt.NDArray[np.float64]], list[str]]
Named = Callable[[str | None], str]
Texts = Sequence[Sequence[str]]


def write_csv(
    domain: Domain, sampler: Sampler, rows: int, rng: np.random.Generator, out: TextIO
) -> None:
    """A header and `rows` lines, drawn chunk by chunk: memory does not grow with `rows`."""
    out.write(csv_header(domain))
    sizes = _sizes(rows, bar=rows >= ROWS_WORTH_A_BAR and out is not sys.stdout)
    for texts in drawn(domain, sampler, sizes, rng, quoted):
        out.writelines(csv_lines(texts))


def csv_header(domain: Domain) -> str:
    """The header line."""
    return f"{','.join(map(quoted, domain.names))}\n"


def csv_lines(texts: Texts) -> Iterator[str]:
    """A line for each row of columns of quoted texts.

    A row with a single missing value is not an empty line, which many programs skip.
    """
    return (f"{','.join(line) or EMPTY}\n" for line in zip(*texts, strict=True))


def chunk_sizes(rows: int) -> Iterator[int]:
    """The number of rows of each chunk; the rows of a seed depend on it."""
    return (min(CHUNK_ROWS, rows - start) for start in range(0, rows, CHUNK_ROWS))


def drawn(
    domain: Domain,
    sampler: Sampler,
    sizes: Iterable[int],
    rng: np.random.Generator,
    named: Named,
) -> Iterator[Texts]:
    """Synthetic readings as columns of texts, chunk by chunk.

    Numbers have the decimals of their attribute in every format. `named` formats the names of
    categories, and None for a missing value.
    """
    columns = [_column(attribute, named) for attribute in domain.attributes]
    for size in sizes:
        records = sampler.sample(size, rng)
        yield [column(records[:, index]) for index, column in enumerate(columns)]


def _sizes(rows: int, bar: bool) -> Iterator[int]:
    """Chunk sizes that add up to `rows`; shows the progress on a terminal."""
    shown, done = bar and sys.stderr.isatty(), 0
    try:
        for size in chunk_sizes(rows):
            yield size
            done += size
            if shown:
                print(f"\rsampling {done / rows:4.0%}", end="", file=sys.stderr, flush=True)
    finally:
        if shown:
            print(file=sys.stderr)


def _column(attribute: Attribute, named: Named) -> Column:
    """A formatter of one attribute's values: names of categories, or numbers with its decimals."""
    if attribute.categories is not None:
        names = np.array([*map(named, attribute.categories), named(None)], dtype=object)
        return lambda values: list(names[np.nan_to_num(values, nan=-1.0).astype(np.intp)])
    if attribute.constant is not None:
        text = f"{attribute.constant:.15g}"
        return lambda values: [text] * len(values)
    pattern = f"%.{decimals(attribute)}f"
    if attribute.can_miss:
        missing = named(None)
        return lambda values: [missing if v != v else pattern % v for v in values.tolist()]
    return lambda values: [pattern % value for value in values.tolist()]


def decimals(attribute: Attribute) -> int:
    """The decimals of the attribute's step, or else enough to distinguish STEPS steps of its range.

    On a log scale these are steps near `low`. Atoms are written in full.
    """
    of_atoms = max(map(decimals_in_full, attribute.numeric_atoms), default=0)
    return min(max(_decimals_of_values(attribute), of_atoms), 12)


def decimals_in_full(value: float) -> int:
    """The decimals of the shortest text of a number."""
    exponent = Decimal(repr(value)).normalize().as_tuple().exponent
    return max(0, -exponent) if isinstance(exponent, int) else 0


def _decimals_of_values(attribute: Attribute) -> int:
    if attribute.lattice is not None:
        return attribute.lattice.decimals
    low, high = attribute.low or 0.0, attribute.high or 0.0
    smallest = (high - low) / STEPS
    if attribute.scale == "log":
        smallest = min(smallest, attribute.resolution / 100)
    if attribute.knots:
        narrowest = min(after - before for before, after in pairwise(attribute.knots))
        smallest = min(smallest, narrowest / 100)
    return max(0, -floor(log10(smallest)))


def quoted(name: str | None) -> str:
    """A text in CSV syntax; empty for a missing value."""
    if name is None:
        return ""
    cell = io.StringIO()
    csv.writer(cell, lineterminator="").writerow([name])
    return cell.getvalue()


ASSESSED = "views"  # The family of sketches whose releases tell it.
MAX_PAIRS = 12  # are listed, the worst first


def check_assessed(family: str) -> None:
    """Raises CommandError for a stream whose sketch cannot be assessed, before anything is read."""
    if family != ASSESSED:
        suited = [name for name, each in GENERATORS.items() if each.family == ASSESSED]
        raise wrong(
            f"--report is for sketches of type {ASSESSED}, which {' or '.join(suited)} reads, and "
            f"this stream's is of type {family}: leave it out"
        )


def report(model: Model, rows: int) -> str:
    """A report on a sample of `rows` rows: attributes, pairs, correlations, unknown pairs.

    Raises CommandError for releases whose bounds differ.
    """
    if len({release.spec.domain for release in model.releases}) > 1:  # type: ignore[attr-defined]
        raise wrong(
            "--report is of releases with the same bounds, and these differ: leave it out, or "
            "select those of one configuration with --from and --to"
        )
    found = fidelity(model.releases, rows)
    attributes = {each.name: each for each in model.fitted.domain.attributes}
    return "\n".join(_lines(found, attributes, rows))


def _lines(found: Fidelity, attributes: dict[str, Attribute], rows: int) -> Iterator[str]:
    yield f"predicted distance of {rows:,} synthetic rows from the readings"
    table = [
        (name, f"{value:.4f}", _measure(attributes[name]))
        for name, value in found.marginals.items()
    ]
    yield from _indented(table)
    if found.pairs:
        worst = sorted(found.pairs.items(), key=lambda item: -item[1])[:MAX_PAIRS]
        of_pairs = "of known pairs" if found.unknown else "of all pairs"
        listed = [
            (f"{a}, {b}", f"{value:.4f}", f"up to {found.upper[a, b]:.4f}")
            for (a, b), value in worst
        ]
        measure = "total variation on 16 x 16 quantiles"
        yield from _indented(
            [
                (f"mean {of_pairs}", f"{found.pair:.4f}", measure),
                *listed,
                ("correlations", f"{found.correlation:.4f}", "largest error of one"),
            ]
        )
    if found.unknown:
        pairs = "; ".join(f"{a}, {b}" for a, b in found.unknown[:MAX_PAIRS])
        more = "; ..." if len(found.unknown) > MAX_PAIRS else ""
        yield f"no view holds these pairs, and nothing is known of them: {pairs}{more}"


def _measure(attribute: Attribute) -> str:
    if attribute.categories is not None:
        return "total variation"
    return "W1 of an even spread's deviation" if attribute.cyclic else "W1 / std"


def _indented(rows: Sequence[tuple[str, str, str]]) -> list[str]:
    return [f"  {line}" for line in columns(rows, {1})]
