"""Real beside synthetic: every attribute, every pair of them, and numbers of keys."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
import numpy.typing as npt

from demo.comparison import Comparison, KeyComparison, attribute_label
from pansketch import Attribute
from pansketch_collector.queries.distinct import MERGES
from pansketch_fleet.units import utc_text

matplotlib.use("Agg")
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm
from matplotlib.figure import SubFigure

FloatArray = npt.NDArray[np.float64]
REAL, SYNTHETIC = "#4d4d4d", "#d1495b"
BINS = 80
CELLS = 40
ROOM_ABOVE = 1.12  # for a legend


def draw(
    file: Path,
    comparisons: Sequence[Comparison],
    truth: FloatArray,
    sample: FloatArray,
    keys: Sequence[KeyComparison],
    caption: str,
) -> None:
    """Writes the picture as PNG. `truth` and `sample` are float64[n, d]."""
    figure = plt.figure(figsize=(13, 16), layout="constrained")
    parts: Any = figure.subfigures(2, 1, height_ratios=[13, 3])
    above, below = parts
    _matrix(above, comparisons, truth, sample)
    for axis, comparison in zip(below.subplots(1, len(keys)), keys, strict=True):
        _key_counts(axis, comparison)
    figure.suptitle(caption, fontsize=10)
    figure.savefig(file, dpi=110)
    plt.close(figure)


def _matrix(
    figure: SubFigure, comparisons: Sequence[Comparison], truth: FloatArray, sample: FloatArray
) -> None:
    """Attributes on the diagonal; pairs below it as they are, above it as the records have them."""
    attributes = [comparison.attribute for comparison in comparisons]
    axes = figure.subplots(len(attributes), len(attributes), squeeze=False)
    edges = [_edges(a, truth[:, place], CELLS) for place, a in enumerate(attributes)]
    colours = LogNorm(1e-5, 1e-2, clip=True)
    for row, across in enumerate(axes):
        for column, axis in enumerate(across):
            if row == column:
                _histogram(axis, comparisons[row], truth[:, row], sample[:, row])
                continue
            rows = truth if row > column else sample
            grid = edges[column], edges[row]
            share = np.histogram2d(rows[:, column], rows[:, row], bins=grid)[0] / len(rows)
            mesh = axis.pcolormesh(*grid, share.T, norm=colours, cmap="viridis", rasterized=True)
            _scale(axis, attributes[column], attributes[row])
    for attribute, across, down in zip(attributes, axes, axes.T, strict=True):
        across[0].set_ylabel(attribute_label(attribute))
        down[-1].set_xlabel(attribute_label(attribute))
    axes[0][0].legend(frameon=False, fontsize=7)
    figure.colorbar(mesh, ax=axes.ravel().tolist(), label="share of records in a cell", aspect=60)
    figure.suptitle(
        f"below the diagonal: {len(truth):,} real readings; above it: {len(sample):,} synthetic "
        "records",
        fontsize=11,
    )


def _histogram(axis: Axes, comparison: Comparison, truth: FloatArray, sample: FloatArray) -> None:
    attribute = comparison.attribute
    edges = _edges(attribute, truth, BINS)
    for rows, colour, label in ((truth, REAL, "real"), (sample, SYNTHETIC, "synthetic")):
        shares = np.histogram(rows, edges)[0] / len(rows)
        axis.stairs(shares, edges, color=colour, label=label, fill=rows is truth, alpha=0.45)
        axis.stairs(shares, edges, color=colour, linewidth=1.1)
    if attribute.scale == "log":
        axis.set_xscale("symlog", linthresh=attribute.resolution)
    axis.tick_params(labelsize=7)
    axis.set_title(f"W1 / std = {comparison.relative_w1:.4f}", fontsize=8)


def _scale(axis: Axes, across: Attribute, up: Attribute) -> None:
    axis.tick_params(labelsize=7)
    if across.scale == "log":
        axis.set_xscale("symlog", linthresh=across.resolution)
    if up.scale == "log":
        axis.set_yscale("symlog", linthresh=up.resolution)


def _price(comparison: KeyComparison) -> str:
    """The privacy loss of a key in a window, also of one that all devices see."""
    price = f"epsilon {comparison.epsilon:g} per key and device"
    if comparison.keys == "disjoint" or comparison.devices == 1:
        return price
    return f"{price}, {comparison.devices * comparison.epsilon:g} at {comparison.devices} devices"


def _key_counts(axis: Axes, comparison: KeyComparison) -> None:
    windows = comparison.windows
    places = np.arange(len(windows))
    axis.bar(places, [w.truth for w in windows], 0.6, color=REAL, alpha=0.45, label="real")
    axis.errorbar(
        places,
        [w.estimate.value for w in windows],
        [2 * w.estimate.standard_error for w in windows],
        fmt="o",
        color=SYNTHETIC,
        capsize=4,
        label="estimate ± 2 standard errors",
    )
    axis.set_xticks(places, [utc_text(w.start)[5:] for w in windows])
    axis.set_xlabel("window")
    axis.set_ylabel("distinct keys")
    merge = f"{MERGES[comparison.keys]} of {comparison.devices} devices"
    axis.set_title(f"{comparison.stream}: {merge}\n{_price(comparison)}")
    axis.set_ylim(0, ROOM_ABOVE * axis.get_ylim()[1])
    axis.legend(frameon=False, loc="upper center", ncols=2)


def _edges(attribute: Attribute, truth: FloatArray, count: int) -> FloatArray:
    """Bin edges over the bulk of the truth, even on the attribute's own scale.

    They lie between the values of a sensor. Otherwise bins would hold unequal numbers of values,
    and the picture would look like a comb.
    """
    low, high = np.quantile(truth, [0.0005, 0.9995])
    units = np.linspace(attribute.to_unit(low), attribute.to_unit(high), count + 1)
    edges = attribute.from_unit(units)
    step = attribute.step
    if step is None:
        return edges
    return np.unique(np.round(np.append(edges, edges[-1] + step) / step) - 0.5) * step
