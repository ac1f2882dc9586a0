"""The readings of the twelve stations beside synthetic records, pair by pair; and the figures."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import matplotlib
import numpy as np

from benchmarks.report import machine
from benchmarks.row import Row
from benchmarks.six import STREAMS, FloatArray
from benchmarks.twelve_fleet import shown
from pansketch import Attribute

matplotlib.use("Agg")
from matplotlib import pyplot as plt
from matplotlib.axes import Axes

CELLS = 48
BLUE, RED = "#2a6f97", "#d1495b"


def draw(folder: Path, rows: Sequence[Row]) -> list[Path]:
    """Writes twelve.json and twelve.png."""
    figures, picture = folder / "twelve.json", folder / "twelve.png"
    document = {"machine": machine(), "rows": [asdict(row) for row in rows]}
    figures.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    _picture(picture, STREAMS[0].truth, shown())
    return [figures, picture]


def _picture(file: Path, truth: FloatArray, records: FloatArray) -> None:
    """A matrix of panels: readings below the diagonal, records above, both on it."""
    attributes = STREAMS[0].domain.attributes
    count = len(attributes)
    edges = [_edges(a, truth[:, place]) for place, a in enumerate(attributes)]
    figure, axes = plt.subplots(count, count, figsize=(13, 13), layout="constrained")
    for row in range(count):
        for column in range(count):
            axis = axes[row, column]
            if row == column:
                _alone(axis, edges[row], truth[:, row], records[:, row], attributes[row])
                continue
            side, colours = (truth, "Blues") if row > column else (records, "Reds")
            held, _, _ = np.histogram2d(
                side[:, column], side[:, row], bins=[edges[column], edges[row]]
            )
            shares = np.sqrt(held.T / len(side))
            axis.pcolormesh(edges[column], edges[row], shares, cmap=colours, rasterized=True)
            _scales(axis, attributes[column], attributes[row])
    for place, attribute in enumerate(attributes):
        axes[-1, place].set_xlabel(f"{attribute.name} [{attribute.unit}]")
        axes[place, 0].set_ylabel(f"{attribute.name} [{attribute.unit}]")
    figure.suptitle(
        f"{len(truth):,} readings (blue, below) and {len(records):,} synthetic records (red, "
        "above): epsilon 1 per reading, silent"
    )
    figure.savefig(file, dpi=90)
    plt.close(figure)


def _edges(attribute: Attribute, column: FloatArray) -> FloatArray:
    """Of cells on the attribute's own scale, over what nearly all readings fill."""
    low, high = (attribute.to_unit(float(q)) for q in np.quantile(column, [0.0005, 0.9995]))
    edges = attribute.from_unit(np.linspace(low, high, CELLS + 1))
    if attribute.step is not None:
        # Between the values of a sensor, so that no cell has one value more than its neighbours.
        edges = np.unique(np.round(edges / attribute.step)) * attribute.step - attribute.step / 2
    return np.asarray(edges)


def _alone(
    axis: Axes, edges: FloatArray, truth: FloatArray, records: FloatArray, attribute: Attribute
) -> None:
    for side, colour in ((truth, BLUE), (records, RED)):
        held, _ = np.histogram(side, edges)
        axis.stairs(held / len(side) / np.diff(edges), edges, color=colour)
    axis.set_yticks([])
    _scales(axis, attribute, None)


def _scales(axis: Axes, along: Attribute, up: Attribute | None) -> None:
    if along.scale == "log":
        axis.set_xscale("symlog", linthresh=along.resolution)
    if up is not None and up.scale == "log":
        axis.set_yscale("symlog", linthresh=up.resolution)
