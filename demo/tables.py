"""The tables of the demo: the fleet's devices by the collector's own table, fidelity by ours."""

from collections.abc import Sequence

from rich.table import Table

from demo.comparison import Comparison, KeyComparison, attribute_label
from pansketch.generators import Fidelity
from pansketch_collector.queries.distinct import MERGES
from pansketch_fleet.units import utc_text
from testbed.metrics import Distances


def fidelity(
    comparisons: list[Comparison],
    measured: Distances,
    predicted: Fidelity,
    estimated: float,
    readings: int,
) -> Table:
    """Each attribute's distance and answers beside the truth that only the demo knows, and what
    the collector predicts of them without it."""
    table = _table("fidelity against the raw readings", "attribute", "figure")
    for comparison in comparisons:
        label = attribute_label(comparison.attribute)
        expected = f"predicted {predicted.marginals[comparison.attribute.name]:.4f}"
        table.add_row(label, "W1 / std", "", f"{comparison.relative_w1:.4f}", expected, "")
        for name, (truth, estimate) in comparison.answers.items():
            table.add_row(
                "",
                name,
                f"{truth:.2f}",
                f"{estimate.value:.2f}",
                f"{estimate.standard_error:.2f}",
                f"{estimate.value - truth:+.2f}",
            )
    for what, value, guess in (
        ("TV, mean", float(measured.pairs.mean()), predicted.pair),
        ("correlation", measured.correlation, predicted.correlation),
    ):
        table.add_row("all pairs", what, "", f"{value:.4f}", f"predicted {guess:.4f}", "")
    error = estimated - readings
    table.add_row("readings", "number", f"{readings}", f"{estimated:.0f}", "", f"{error:+.0f}")
    return table


def keys(comparisons: Sequence[KeyComparison]) -> Table:
    """Every window's number of distinct keys beside the truth that only the demo knows."""
    table = _table("distinct keys against the raw events", "stream", "window")
    for comparison in comparisons:
        label = f"{comparison.stream} ({MERGES[comparison.keys]})"
        for window in comparison.windows:
            table.add_row(
                label,
                utc_text(window.start),
                f"{window.truth}",
                f"{window.estimate.value:.0f}",
                f"{window.estimate.standard_error:.0f}",
                f"{window.estimate.value - window.truth:+.0f}",
            )
            label = ""
    return table


def _table(title: str, *headers: str) -> Table:
    """A row stays on its line: no number is cut, for bounds limit all of them."""
    table = Table(title=title, title_justify="left")
    for header in headers:
        table.add_column(header, no_wrap=True)
    for header in ("truth", "estimate", "standard error", "error"):
        table.add_column(header, justify="right", no_wrap=True)
    return table
