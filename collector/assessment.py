"""`sample --report`: how far the synthetic readings are likely to be from the ones nobody kept."""

from collections.abc import Iterator, Sequence

from collector.failure import wrong
from collector.generators import GENERATORS
from collector.model import Model
from pansketch import Attribute, Fidelity, fidelity

ASSESSED = "views"  # The family of sketches whose releases tell it.
MOST_PAIRS = 12  # are listed, the worst first


def check_assessed(family: str) -> None:
    """Raises CommandError for a stream whose sketch cannot be assessed, before anything is read."""
    if family != ASSESSED:
        suited = [name for name, each in GENERATORS.items() if each.family == ASSESSED]
        raise wrong(
            f"--report is for sketches of type {ASSESSED}, which {' or '.join(suited)} reads, and "
            f"this stream's is of type {family}: leave it out"
        )


def report(model: Model, rows: int) -> str:
    """Lines on a sample of so many rows: attributes, pairs, correlations, what is unknown."""
    found = fidelity(model.releases, rows)
    attributes = {each.name: each for each in model.partition.domain.attributes}
    return "\n".join(_lines(found, attributes, rows))


def _lines(found: Fidelity, attributes: dict[str, Attribute], rows: int) -> Iterator[str]:
    yield f"predicted distance of {rows:,} synthetic rows from the readings"
    table = [
        (name, f"{value:.4f}", _measure(attributes[name]))
        for name, value in found.marginals.items()
    ]
    yield from _aligned(table)
    if found.pairs:
        worst = sorted(found.pairs.items(), key=lambda item: -item[1])[:MOST_PAIRS]
        yield from _aligned(
            [
                ("mean of all pairs", f"{found.pair:.4f}", "total variation on 16 x 16 quantiles"),
                *((f"{a}, {b}", f"{value:.4f}", "") for (a, b), value in worst),
                ("correlations", f"{found.correlation:.4f}", "largest error of one"),
            ]
        )
    if found.unknown:
        pairs = "; ".join(f"{a}, {b}" for a, b in found.unknown[:MOST_PAIRS])
        more = "; ..." if len(found.unknown) > MOST_PAIRS else ""
        yield f"no view holds these pairs, and nothing is known of them: {pairs}{more}"


def _measure(attribute: Attribute) -> str:
    if attribute.categories is not None:
        return "total variation"
    return "W1 of an even spread's deviation" if attribute.cyclic else "W1 / std"


def _aligned(rows: Sequence[tuple[str, str, str]]) -> Iterator[str]:
    widths = [max(len(row[place]) for row in rows) for place in (0, 1)]
    for name, value, note in rows:
        yield f"  {name.ljust(widths[0])}  {value.rjust(widths[1])}  {note}".rstrip()
