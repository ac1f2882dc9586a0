"""Pictures of the benchmarks whose rows are easier seen than read."""

from pathlib import Path

import matplotlib

from benchmarks.density import pictures as density_picture
from benchmarks.distinct import papers_pictures
from benchmarks.harness.report import Results
from benchmarks.harness.result import Row
from benchmarks.hierarchy import one_attribute
from benchmarks.hierarchy.growth import MAX_ERROR, UNIT
from benchmarks.kdtree import kdtree as kdtree_picture
from benchmarks.moments import pictures as m2m_picture
from benchmarks.performance import sizes
from benchmarks.views import stations

matplotlib.use("Agg")
from matplotlib import pyplot as plt
from matplotlib.ticker import FixedLocator, NullLocator

TICKS = (0.003, 0.01, 0.03, 0.1, 0.3, 1, 3)
COLOURS = ("#2a6f97", "#d1495b", "#4d4d4d", "#66a182", "#edae49")


def draw(folder: Path, results: Results) -> list[Path]:
    """Writes growth.png, estimators.png, density.*, kdtree.*, ppds-*, m2m-*, one_attribute.png,
    sizes.png for what was run."""
    files = []
    for name, drawing in (("growth", _growth), ("estimators", _estimators)):
        if name in results:
            files.append(folder / f"{name}.png")
            drawing(files[-1], results[name])
    if "density" in results:
        files += density_picture.draw(folder, results["density"])
    if "ppds" in results:
        files += papers_pictures.draw(folder, results["ppds"])
    if "m2m" in results:
        files += m2m_picture.draw(folder, results["m2m"])
    if "one-attribute" in results:
        files += one_attribute.draw(folder, results["one-attribute"])
    if "sizes" in results:
        files += sizes.draw(folder, results["sizes"])
    if "kdtree" in results:
        files += kdtree_picture.draw(folder, results["kdtree"])
    if "twelve" in results:
        files += stations.draw(folder, results["twelve"])
    return files


def _growth(file: Path, rows: list[Row]) -> None:
    """Mean (dot) and worst fleet (end of the line) of every choice, one colour an attribute."""
    errors = [row for row in rows if row.unit == UNIT]
    choices = list(dict.fromkeys(row.name.split(": ")[0] for row in errors))
    attributes = list(dict.fromkeys(_attribute(row) for row in errors))
    figure, axis = plt.subplots(figsize=(8.5, 0.42 * len(choices) + 1.4), layout="constrained")
    for row in errors:
        place = attributes.index(_attribute(row))
        height = choices.index(row.name.split(": ")[0]) + 0.22 * place - 0.11
        first = row is next(r for r in errors if _attribute(r) == attributes[place])
        label = attributes[place] if first else None
        axis.plot([row.detail["mean"], row.detail["max"]], [height] * 2, color=COLOURS[place])
        axis.plot(row.detail["mean"], height, "o", color=COLOURS[place], label=label)
    axis.axvline(MAX_ERROR, color="#999999", linestyle=":", label="bar of the first two")
    axis.set_yticks(range(len(choices)), choices)
    axis.invert_yaxis()
    axis.set_xscale("log")
    axis.xaxis.set_major_locator(FixedLocator(TICKS))
    axis.xaxis.set_minor_locator(NullLocator())
    axis.xaxis.set_major_formatter("{x:g}")
    axis.set_xlabel("W1 / std: mean of the fleets (dot) to the worst (end of the line)")
    axis.set_title("588 merged releases, epsilon 1 per reading, silent")
    axis.legend(frameon=False)
    figure.savefig(file, dpi=130)
    plt.close(figure)


def _attribute(row: Row) -> str:
    return row.name.split(": ")[1].split(",")[0]


def _estimators(file: Path, rows: list[Row]) -> None:
    """Error of every estimator over the best one's, case by case."""
    figure, axis = plt.subplots(figsize=(8.5, 0.45 * len(rows) + 1.4), layout="constrained")
    for place, name in enumerate(rows[0].detail):
        ratios = [row.detail[name] / min(row.detail.values()) for row in rows]
        heights = [height + 0.14 * (place - 2) for height in range(len(rows))]
        axis.plot(ratios, heights, "o", color=COLOURS[place], label=name)
    axis.axvline(1, color="#999999", linestyle=":")
    axis.set_yticks(range(len(rows)), [row.name for row in rows])
    axis.invert_yaxis()
    axis.set_xlabel("W1 / std over that of the best estimator")
    axis.legend(frameon=False)
    figure.savefig(file, dpi=130)
    plt.close(figure)
