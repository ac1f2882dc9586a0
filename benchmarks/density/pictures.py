"""The density benchmark's rows as a table of numbers and as a picture."""

from collections.abc import Sequence
from pathlib import Path

import matplotlib

from benchmarks.harness.result import Row, write_table

matplotlib.use("Agg")
from matplotlib import pyplot as plt
from matplotlib.axes import Axes

VARIED = {"readings": "readings n", "depth": "cells", "width": "columns R", "rows": "rows K"}
TERMS = {
    "term bias": ("bias", "#edae49"),
    "term variance": ("variance", "#66a182"),
    "term collisions": ("collisions", "#8d6a9f"),
    "term noise": ("noise", "#d1495b"),
}
READ = {
    "median": ("density, median of rows, with noise", "x"),
    "published": ("sampler, as published, with noise", "v"),
    "fitted": ("sampler, fitted, with noise", "^"),
}

Case = dict[str, float]


def draw(folder: Path, rows: Sequence[Row]) -> list[Path]:
    """Writes density.csv and density.png."""
    found = [dict(row.detail) for row in rows if "terms" in row.detail]
    table, picture = folder / "density.csv", folder / "density.png"
    write_table(table, found)
    _picture(picture, found)
    return [table, picture]


def _picture(file: Path, found: list[Case]) -> None:
    """A row for each dimension, a column for what is varied: error, its terms, the samplers."""
    dimensions = sorted({case["dimension"] for case in found})
    figure, axes = plt.subplots(
        len(dimensions), len(VARIED), figsize=(14, 3.4 * len(dimensions)), layout="constrained"
    )
    for line, dimension in zip(axes, dimensions, strict=True):
        cases = [case for case in found if case["dimension"] == dimension]
        for axis, varied in zip(line, VARIED, strict=True):
            _panel(axis, _sweep(cases, varied), varied)
        line[0].set_ylabel(f"{dimension:g}-d: integrated\nsquared error / roughness")
    handles, labels = axes[0][0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=4, frameon=False)
    figure.savefig(file, dpi=110)
    plt.close(figure)


def _sweep(cases: list[Case], varied: str) -> list[Case]:
    """The cases that differ from the dimension's most common values in nothing else."""
    others = [name for name in VARIED if name != varied]
    usual = {name: _most_common([case[name] for case in cases]) for name in others}
    sweep = [case for case in cases if all(case[name] == usual[name] for name in others)]
    return sorted(sweep, key=lambda case: case[varied])


def _most_common(values: list[float]) -> float:
    return max(set(values), key=values.count)


def _panel(axis: Axes, sweep: list[Case], varied: str) -> None:
    for noise, colour, style, text in (
        (1, "#1d3557", "-", "with"),
        (0, "#7f9bb3", "--", "without"),
    ):
        cases = [case for case in sweep if case["noise"] == noise]
        places = [2.0 ** case[varied] if varied == "depth" else case[varied] for case in cases]
        values = _over_roughness(cases, "terms")
        axis.plot(places, values, style, color=colour, label=f"sum of the terms, {text} noise")
        values = _over_roughness(cases, "mean")
        axis.plot(places, values, "o", color=colour, label=f"density, mean of rows, {text} noise")
        if noise:
            for name, (label, tint) in TERMS.items():
                values = _over_roughness(cases, name)
                axis.plot(places, values, ":", color=tint, label=f"{label} term")
            for name, (label, marker) in READ.items():
                values = _over_roughness(cases, name)
                tint = "#4d4d4d" if name == "median" else "#d17a22"
                axis.plot(places, values, marker, color=tint, ms=4, label=label)
    axis.set_xscale("log", base=10 if varied == "readings" else 2)
    axis.set_yscale("log")
    axis.set_ylim(bottom=1e-4)
    axis.set_xlabel(VARIED[varied])


def _over_roughness(cases: list[Case], name: str) -> list[float]:
    return [case[name] / case["roughness"] for case in cases]
