"""Real beside synthetic: a histogram of each attribute and the density of the first two."""

from pathlib import Path

import matplotlib
import numpy as np
import numpy.typing as npt

from demo.fidelity import Comparison, attribute_label
from pansketch import Attribute

matplotlib.use("Agg")
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm

FloatArray = npt.NDArray[np.float64]
REAL, SYNTHETIC = "#4d4d4d", "#d1495b"
BINS = 80
CELLS = 60


def draw(
    file: Path, comparisons: list[Comparison], truth: FloatArray, sample: FloatArray, caption: str
) -> None:
    """Writes the picture as PNG. `truth` and `sample` are float64[n, d]; the first two columns."""
    figure, axes = plt.subplots(2, 2, figsize=(11, 8.4), layout="constrained")
    for place, axis in enumerate(axes[0]):
        _histogram(axis, comparisons[place], truth[:, place], sample[:, place])
    attributes = comparisons[0].attribute, comparisons[1].attribute
    edges = [_edges(a, truth[:, i], CELLS) for i, a in enumerate(attributes)]
    shares = [
        np.histogram2d(rows[:, 0], rows[:, 1], bins=edges)[0] / len(rows)
        for rows in (truth, sample)
    ]
    shared_colours = LogNorm(1 / len(truth), max(share.max() for share in shares))
    titles = (f"real: {len(truth):,} readings", f"synthetic: {len(sample):,} records")
    for axis, title, share in zip(axes[1], titles, shares, strict=True):
        mesh = axis.pcolormesh(
            *edges, share.T, norm=shared_colours, cmap="viridis", rasterized=True
        )
        _label(axis, title, *attributes)
    figure.colorbar(mesh, ax=axes[1].tolist(), label="share of records in a cell")
    figure.suptitle(caption, fontsize=10)
    figure.savefig(file, dpi=130)
    plt.close(figure)


def _histogram(axis: Axes, comparison: Comparison, truth: FloatArray, sample: FloatArray) -> None:
    attribute = comparison.attribute
    edges = _edges(attribute, truth, BINS)
    for rows, colour, label in ((truth, REAL, "real"), (sample, SYNTHETIC, "synthetic")):
        shares = np.histogram(rows, edges)[0] / len(rows)
        axis.stairs(shares, edges, color=colour, label=label, fill=rows is truth, alpha=0.45)
        axis.stairs(shares, edges, color=colour, linewidth=1.1)
    if attribute.scale == "log":
        axis.set_xscale("log")
    axis.set_xlabel(attribute_label(attribute))
    axis.set_ylabel("share of records in a bin")
    axis.set_title(f"{attribute.name}: W1 / std = {comparison.relative_w1:.4f}")
    axis.legend(frameon=False)


def _label(axis: Axes, title: str, first: Attribute, second: Attribute) -> None:
    axis.set_title(title)
    axis.set_xlabel(attribute_label(first))
    axis.set_ylabel(attribute_label(second))
    for attribute, scale in ((first, axis.set_xscale), (second, axis.set_yscale)):
        if attribute.scale == "log":
            scale("log")


def _edges(attribute: Attribute, truth: FloatArray, count: int) -> FloatArray:
    """Bin edges over the bulk of the truth, even on the attribute's own scale."""
    low, high = np.quantile(truth, [0.0005, 0.9995])
    if attribute.scale == "log":
        # No bin narrower than the resolution: values on a grid would leave every other one empty.
        edges = np.geomspace(max(low, attribute.resolution), high, count + 1)
        return np.unique(np.round(edges / attribute.resolution) - 0.5) * attribute.resolution
    return np.linspace(low, high, count + 1)
