"""What the demo prints: the fleet's devices are the collector's own table, fidelity is ours."""

from rich.table import Table

from demo.fidelity import Comparison, attribute_label


def fidelity(comparisons: list[Comparison], estimated: float, readings: int) -> Table:
    """Each attribute's distance and answers beside the truth that only the demo knows."""
    table = Table(title="fidelity against the raw readings", title_justify="left")
    for header in ("attribute", "figure"):
        table.add_column(header)
    for header in ("truth", "estimate", "standard error", "error"):
        table.add_column(header, justify="right")
    for comparison in comparisons:
        label = attribute_label(comparison.attribute)
        table.add_row(label, "W1 / std", "", f"{comparison.relative_w1:.4f}", "", "")
        for name, (truth, estimate) in comparison.answers.items():
            table.add_row(
                "",
                name,
                f"{truth:.2f}",
                f"{estimate.value:.2f}",
                f"{estimate.standard_error:.2f}",
                f"{estimate.value - truth:+.2f}",
            )
    error = estimated - readings
    table.add_row("readings", "number", f"{readings}", f"{estimated:.0f}", "", f"{error:+.0f}")
    return table
