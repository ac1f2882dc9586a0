"""The figures of the M2M benchmark, each as a picture and as a table of its numbers."""

from collections.abc import Sequence
from pathlib import Path

import matplotlib

from benchmarks.datasets.random10 import EPSILONS, FIGURES
from benchmarks.harness.result import Row, write_table

matplotlib.use("Agg")
from matplotlib import pyplot as plt
from matplotlib.axes import Axes

STYLES = {"RFF": ("#0072B2", "o"), "RACE": ("#D55E00", "s"), "HIST": ("#009E73", "^")}

Record = dict[str, str | float]


def draw(folder: Path, rows: Sequence[Row]) -> list[Path]:
    """Writes m2m-random10 and m2m-occupancy, .png and .csv each."""
    even = _records(rows, "Random10; ")
    rooms = _records(rows, "occupancy; ")
    files = []
    for name, records, drawing in (
        ("random10", even, _random10),
        ("occupancy", [each for each in rooms if "epsilon" in each], _occupancy),
    ):
        files += [folder / f"m2m-{name}.csv", folder / f"m2m-{name}.png"]
        write_table(files[-2], records)
        drawing(files[-1], records)
    return files


def _records(rows: Sequence[Row], prefix: str) -> list[Record]:
    """Rows called "PREFIX WAY; epsilon E", or "; no noise"."""
    found: list[Record] = []
    for row in rows:
        if row.name.startswith(prefix) and row.detail:
            way, _, condition = row.name.removeprefix(prefix).partition("; ")
            epsilon = condition.removeprefix("epsilon ").replace("no noise", "inf")
            found.append({"way": way, "epsilon": float(epsilon), **row.detail})
    return found


def _random10(file: Path, records: Sequence[Record]) -> None:
    """One panel a figure; solid as the product reads it, dotted as published; the level without
    noise at the right edge."""
    figure, axes = plt.subplots(2, 3, figsize=(13, 7.6), layout="constrained")
    for (name, unit), axis in zip(FIGURES.items(), axes.flat, strict=False):
        for way in (each + how for each in STYLES for how in ("", ", as published")):
            _line(axis, [each for each in records if each["way"] == way], way, name)
        axis.set(xscale="log", yscale="log", xlabel="epsilon", ylabel=unit)
        axis.grid(alpha=0.25)
    legend = axes.flat[-1]
    legend.axis("off")
    legend.legend(*axes.flat[0].get_legend_handles_labels(), frameon=False, loc="center")
    legend.text(0.5, 0.05, "bars at the right: without noise", ha="center")
    figure.suptitle(
        "Random10: 27,000 readings of 10 attributes, as even as the training; one release"
    )
    figure.savefig(file, dpi=130)
    plt.close(figure)


def _line(axis: Axes, records: Sequence[Record], way: str, name: str) -> None:
    colour, marker = STYLES[way.partition(",")[0]]
    line = ":" if "published" in way else "-"
    noisy = [each for each in records if each["epsilon"] in EPSILONS]
    axis.plot(
        [each["epsilon"] for each in noisy],
        [each[name] for each in noisy],
        line,
        color=colour,
        marker=marker,
        markersize=4,
        label=way,
    )
    for each in records:
        if each not in noisy:
            axis.plot([200, 400], [each[name]] * 2, line, color=colour)


def _occupancy(file: Path, records: Sequence[Record]) -> None:
    """Area under the curve: mean, and from the worst run to the best."""
    figure, axis = plt.subplots(figsize=(7, 4.6), layout="constrained")
    for way, colour, shift in (("RFF", "#0072B2", 1.0), ("as published", "#D55E00", 1.06)):
        own = [each for each in records if each["way"] == way]
        at = [float(each["epsilon"]) * shift for each in own]
        axis.plot(at, [each["mean"] for each in own], "o-", color=colour, label=way)
        axis.vlines(at, [each["min"] for each in own], [each["max"] for each in own], colour)
    axis.axhline(0.95, color="#999999", linestyle=":", label="bar")
    axis.set(xscale="log", xlabel="epsilon", ylabel="area under the ROC curve")
    axis.set_ylim(min(0.9, *(float(each["min"]) for each in records)) - 0.01, 1.005)
    axis.set_title("Occupancy: a classifier learned from one release (worst to best run)")
    axis.legend(frameon=False, loc="lower right")
    figure.savefig(file, dpi=130)
    plt.close(figure)
