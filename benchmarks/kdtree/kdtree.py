"""KD-trees: the distance of their weighted points from the data, beside equal bins and others.

`python -m benchmarks.kdtree.kdtree`: a mixture of ten Gaussians in 2, 5 and 10 dimensions, with
weights as 1, 1/2, ..., 1/10. Means are from N(100, 200 I), the covariance is 30 I, in 10 dimensions
also 3 I. Public bounds follow from those figures. MMD has a Gaussian kernel of the median
bandwidth. It is measured against epsilon and against the number of readings. Noise is drawn once,
since a batch has no intrusion. Every generator is judged by the centres of its cells and their
weights. Writes kdtree.csv and kdtree.png, prints a table.
"""

import sys
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np

from benchmarks.harness import report
from benchmarks.harness.report import Watch
from benchmarks.harness.result import Row, at_most, write_table
from benchmarks.kdtree.cases import (
    ADAPTIVE,
    BARRED_EPSILONS,
    EQUAL_BINS,
    FEATURES,
    FINEST,
    Case,
    Data,
    bins_name,
    cases,
    data_of,
    sizes_of,
    tree_points,
)
from pansketch import Privacy
from pansketch.generators import mmd

matplotlib.use("Agg")
from matplotlib import pyplot as plt
from matplotlib.axes import Axes

STYLES = {
    "adaptive": ("-o", "#d1495b"),
    "adaptive, as published": ("--o", "#e8a0a8"),
    "adaptive, h > 0": ("-v", "#edae49"),
    "KD-tree of a hierarchy": ("-^", "#8d6a9f"),
    "PrivHP": ("-s", "#2a6f97"),
    "Density Sketch": ("-D", "#66a182"),
}
GREY = "#8c8c8c"
EQUAL_BINS_LABEL = "equal bins (number beside)"
SIZES_COLOURS = {2: "#2a6f97", 5: "#d1495b"}

Found = dict[str, Any]


def draw(folder: Path, rows: Sequence[Row]) -> list[Path]:
    """Writes kdtree.csv and kdtree.png."""
    found: list[Found] = [
        {"method": row.name.split(": ")[-1], **row.detail} for row in rows if row.detail
    ]
    table, picture = folder / "kdtree.csv", folder / "kdtree.png"
    write_table(table, found)
    _picture(picture, found)
    return [table, picture]


def _picture(file: Path, found: list[Found]) -> None:
    """Four panels of MMD against epsilon, one of MMD against the number of readings."""
    most = max(each["readings"] for each in found)
    panels = sorted({(each["dimension"], each["covariance"]) for each in found})
    figure, axes = plt.subplots(2, 3, figsize=(14, 8.6), layout="constrained")
    for axis, panel in zip(axes.flat, panels, strict=False):
        shown = [
            each
            for each in found
            if (each["dimension"], each["covariance"]) == panel and each["readings"] == most
        ]
        _against_epsilon(axis, shown)
        axis.set_title(f"{panel[0]:g} dimensions, covariance {panel[1]:g}, n {most:,}")
    _against_readings(axes.flat[4], found)
    axes.flat[5].set_axis_off()
    handles = dict(
        pair
        for axis in axes.flat[:5]
        for pair in zip(*reversed(axis.get_legend_handles_labels()), strict=True)
    )
    axes.flat[5].legend(handles.values(), handles.keys(), loc="center left", frameon=False)
    figure.savefig(file, dpi=110)
    plt.close(figure)


def _against_epsilon(axis: Axes, shown: list[Found]) -> None:
    for method in dict.fromkeys(each["method"] for each in shown):
        points = sorted(
            (each for each in shown if each["method"] == method), key=lambda each: each["epsilon"]
        )
        if method in STYLES:
            style, colour = STYLES[method]
            _line(axis, points, "epsilon", style, colour, method)
            continue
        _line(axis, points, "epsilon", ":x", GREY, EQUAL_BINS_LABEL)
        last = points[-1]
        axis.annotate(
            method.split(", ")[-1],
            (last["epsilon"], last["mean"]),
            (5, 0),
            textcoords="offset points",
            color="#595959",
            fontsize="small",
            va="center",
        )
    axis.margins(x=0.16)
    axis.set_xlabel("epsilon per reading")
    axis.set_ylabel("MMD to the data")


def _against_readings(axis: Axes, found: list[Found]) -> None:
    for dimension, colour in SIZES_COLOURS.items():
        for method, style in (("adaptive", "-o"), ("PrivHP", "--s")):
            points = [
                each
                for each in found
                if (each["dimension"], each["method"], each["epsilon"]) == (dimension, method, 1.0)
            ]
            points.sort(key=lambda each: float(each["readings"]))
            label = f"{method}, {dimension}-d, epsilon 1"
            _line(axis, points, "readings", style, colour, label)
    axis.set_title("epsilon 1, covariance 30")
    axis.set_xlabel("readings n")
    axis.set_ylabel("MMD to the data")


def _line(axis: Axes, points: list[Found], along: str, style: str, colour: str, label: str) -> None:
    """Means, with the span of the runs."""
    places = [each[along] for each in points]
    axis.plot(places, [each["mean"] for each in points], style, color=colour, label=label, ms=4)
    least, most = ([each[end] for each in points] for end in ("least", "most"))
    axis.fill_between(places, least, most, color=colour, alpha=0.15, linewidth=0)
    axis.set_xscale("log")
    axis.set_yscale("log")


FEATURE_ERROR = 0.1


def measured(case: Case, quick: bool) -> Row:
    """MMD of one generator, mean of several runs."""
    runs = [case.run() for _ in range(2 if quick else 4)]
    distances, cells = np.array(runs).T
    detail = {
        "dimension": case.data.dimension,
        "covariance": case.data.covariance,
        "readings": case.data.count,
        "epsilon": case.epsilon,
        "mean": float(distances.mean()),
        "least": float(distances.min()),
        "most": float(distances.max()),
        "cells": float(cells.mean()),
    }
    note = f"{detail['least']:.2g} to {detail['most']:.2g}; {detail['cells']:,.0f} cells"
    return Row(str(case), detail["mean"], "MMD", note=note, detail=detail)


def run(quick: bool, watch: Watch = iter) -> list[Row]:
    return summarised([measured(case, quick) for case in watch(cases(quick))], quick)


def summarised(rows: list[Row], quick: bool) -> list[Row]:
    """The rows with bars, then all others."""
    found = {row.name: row.value for row in rows}
    most = sizes_of(quick)[-1]
    return [
        *(
            row
            for epsilon in BARRED_EPSILONS
            for row in _over_bins(found, data_of(5, 30, most), epsilon)
        ),
        *_over_fewer(found, quick),
        _over_published(found),
        _features(),
        *rows,
    ]


def _over_bins(found: dict[str, float], data: Data, epsilon: float) -> Iterator[Row]:
    """Algorithm 2 over Algorithm 1: with the same finest cells, and with the best number of bins of
    all tried. That number is unknown in advance, so the second bears no bar."""
    values = {
        depth: found[str(Case(data, epsilon, bins_name(depth)))]
        for depth in EQUAL_BINS[data.dimension]
    }
    adaptive = found[str(Case(data, epsilon, ADAPTIVE))]
    finest, best = FINEST[data.dimension], min(values, key=lambda depth: values[depth])
    name = f"{data}, epsilon {epsilon:g}: adaptive over equal bins"
    yield at_most(f"{name}, 2^{finest}", adaptive / values[finest], "x", 1.0)
    yield Row(f"{name}, best in hindsight", adaptive / values[best], "x", note=f"2^{best} bins")


def _over_fewer(found: dict[str, float], quick: bool) -> Iterator[Row]:
    for dimension in (2, 5):
        values = {
            count: found[str(Case(data_of(dimension, 30, count), 1.0, ADAPTIVE))]
            for count in sizes_of(quick)
        }
        for fewer, more in pairwise(sizes_of(quick)):
            name = f"{dimension}-d, epsilon 1: adaptive, n {more:,} over n {fewer:,}"
            yield at_most(name, values[more] / values[fewer], "x", 1.0)


def _over_published(found: dict[str, float]) -> Row:
    """All counts fitted over the leaves' counts alone, over every panel and epsilon."""
    ratios = [
        value / found[f"{name}, as published"]
        for name, value in found.items()
        if f"{name}, as published" in found
    ]
    note = f"{min(ratios):.2f} to {max(ratios):.2f} over {len(ratios)}"
    name = "adaptive: all counts fitted over leaves as published, median"
    return at_most(name, float(np.median(ratios)), "x", 1.0, note)


def _features() -> Row:
    """The features' MMD over the exact one, for trees of two sizes."""
    data, ratios = data_of(2, 30, 5_000), []
    for epsilon in (0.3, 3.0):
        points, weights = tree_points(data, Privacy(epsilon, intrusion="announced"), depth=20)
        exact = mmd(data.points, points, None, weights, bandwidth=data.distance.bandwidth)
        ratios.append(data.distance(points, weights) / exact)
    worst = max(abs(ratio - 1) for ratio in ratios)
    note = f"{FEATURES:,} random features; largest distance from 1 of {len(ratios)}"
    return at_most("MMD by features over exact MMD", worst, "off", FEATURE_ERROR, note)


if __name__ == "__main__":
    sys.exit(report.main("kdtree.kdtree", __doc__, run, draw, None))
