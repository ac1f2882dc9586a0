"""Synthetic records of the twelve stations' six attributes, from small private views.

`python -m benchmarks.views.stations` sketches, releases and merges as a fleet does, with the views
of the planner. It prints the distance of 100,000 synthetic records from the readings, beside other
generators. One of them is PrivSyn's gradual update on the same tables that are raked here
(gradual_update.py).

Then come the predicted distances over the measured ones
(pansketch/generators/fidelity/fidelity.py), predicted from the releases alone. They are for streams
on which the constants were set, and for others.
"""

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from time import perf_counter

import matplotlib
import numpy as np

from benchmarks.datasets.small_streams import PILED_UP, STREAMS, UNSEEN, FloatArray, Stream
from benchmarks.harness.report import Watch, machine, main
from benchmarks.harness.result import Row, at_most
from benchmarks.views.gradual_update import gum
from benchmarks.views.plans import MEMORY, RECORDS, planned, released, sampled, shown
from pansketch import Attribute, HierarchySpec, Privacy
from pansketch.generators import fidelity, pairwise, privhp
from pansketch.planning import Expected, plan_views
from pansketch.privacy import Intrusion
from testbed.metrics import Distances, distances

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


WINDOWS = 49  # of 30 days
REPEATS = 3
GUM_REPEATS = 2
GUM_RUNS = [(epsilon, many * RECORDS) for epsilon in (0.1, 1.0, 10.0) for many in (1, 4)]
MAX_PAIR, MAX_W1, MAX_CORRELATION, MAX_SECONDS = 0.08, 0.02, 0.1, 10.0
FACTOR = 1.5  # that a prediction may be off

Run = tuple[float, Intrusion, int]


def run(quick: bool, watch: Watch = iter) -> list[Row]:
    """The bars at epsilon 1, the table around them, references, and predicted over measured."""
    repeats = 1 if quick else REPEATS
    rows = [*_bars(repeats), *_references(repeats)]
    if not quick:
        runs: list[Run] = [
            (epsilon, intrusion, windows)
            for epsilon in (0.1, 1.0, 10.0)
            for intrusion in ("silent", "announced")
            for windows in (1, WINDOWS)
        ]
        rows += [_row(_name(each), _of_views(STREAMS[0], *each)) for each in watch(runs)]
    for epsilon, records in watch([(1.0, RECORDS)] if quick else GUM_RUNS):
        rows += _updated_and_raked(epsilon, records, 1 if quick else GUM_REPEATS)
    for stream in watch([*STREAMS, PILED_UP]):
        for epsilon in (1.0,) if quick else (0.1, 1.0, 10.0):
            rows += _predictions(stream, epsilon, repeats, epsilon == 1 and stream is not PILED_UP)
    for stream, epsilon in watch(UNSEEN):
        rows += _predictions(stream, epsilon, repeats, True)
    return rows


def _bars(repeats: int) -> list[Row]:
    """Epsilon 1 per reading, silent, one window a device."""
    stream, seconds, found = STREAMS[0], 0.0, []
    spec = planned(stream, Privacy(1.0))
    for _ in range(repeats):
        release = released(stream, spec)
        begin = perf_counter()
        records = sampled(pairwise(release))
        seconds = max(seconds, perf_counter() - begin)
        found.append(distances(stream.domain, stream.truth, records))
    note = f"mean of {repeats}; {len(spec.views)} views, {spec.nbytes:,} bytes of state"
    pair = float(np.mean([each.pairs.mean() for each in found]))
    worst = float(np.mean([each.marginals.max() for each in found]))
    apart = float(np.mean([each.correlation for each in found]))
    return [
        at_most("epsilon 1: mean pairwise TV", pair, "", MAX_PAIR, note),
        at_most("epsilon 1: largest W1", worst, "std", MAX_W1, note),
        at_most("epsilon 1: largest correlation error", apart, "", MAX_CORRELATION, note),
        at_most("epsilon 1: 100,000 records", seconds, "s", MAX_SECONDS, "slowest run"),
    ]


def _references(repeats: int) -> list[Row]:
    """The comparisons, from no data at all to the readings themselves."""
    stream, privacy = STREAMS[0], Privacy(1.0)
    generator, truth = np.random.default_rng(0), stream.truth
    units = generator.random((RECORDS, stream.domain.dimension))
    alone = plan_views(
        stream.domain,
        privacy,
        MEMORY,
        Expected(len(truth) // 12, 12),
        [(name,) for name in stream.domain.names],
    ).spec
    joint = HierarchySpec(stream.domain, privacy, fanout=4)
    return [
        _row("uniform records", [_off(stream, stream.domain.from_unit(units))]),
        _row(
            "resampled readings",
            [_off(stream, truth[generator.integers(len(truth), size=RECORDS)])],
        ),
        _row(
            "one joint hierarchy",
            [_off(stream, sampled(privhp(released(stream, joint)))) for _ in range(repeats)],
        ),
        _row(
            "independent attributes",
            [_off(stream, sampled(pairwise(released(stream, alone)))) for _ in range(repeats)],
        ),
    ]


def _off(stream: Stream, records: FloatArray) -> Distances:
    return distances(stream.domain, stream.truth, records)


def _of_views(
    stream: Stream, epsilon: float, intrusion: Intrusion, windows: int
) -> list[Distances]:
    spec = planned(stream, Privacy(epsilon, intrusion=intrusion), windows)
    return [_off(stream, sampled(pairwise(released(stream, spec, windows))))]


def _updated_and_raked(epsilon: float, updated: int, repeats: int) -> list[Row]:
    """Records of the same releases, by gradual update of so many and by raking; what the one is
    over the other."""
    stream, found = STREAMS[0], {"gradual update": np.zeros(4), "raking": np.zeros(4)}
    for _ in range(repeats):
        release = released(stream, planned(stream, Privacy(epsilon)))
        for name, total in found.items():
            begin = perf_counter()
            if name == "raking":
                records = sampled(pairwise(release))
            else:
                records = sampled(gum(release, updated, np.random.default_rng(0)))
            seconds, off = perf_counter() - begin, _off(stream, records)
            total += [off.pairs.mean(), off.marginals.mean(), off.correlation, seconds]
    each = [(total / repeats).tolist() for total in found.values()]
    return [
        Row(
            f"epsilon {epsilon:g}, gradual update of {updated:,}: {kind}",
            there / here,
            "x raking's",
            note=f"{there:.4f} over {here:.4f}{unit}, mean of {repeats}",
            detail={"gum": there, "raking": here},
        )
        for kind, unit, there, here in zip(
            ("mean pairwise TV", "mean W1", "largest correlation error", "time"),
            ("", " std", "", " s"),
            *each,
            strict=True,
        )
    ]


def _name(run: Run) -> str:
    epsilon, intrusion, windows = run
    return f"epsilon {epsilon:g}, {intrusion}, {windows} window{'s' * (windows > 1)} a device"


def _row(name: str, found: Sequence[Distances]) -> Row:
    """Mean pairwise TV as the value, the others beside it."""
    detail = {
        "pair": float(np.mean([each.pairs.mean() for each in found])),
        "worst_pair": float(np.mean([each.pairs.max() for each in found])),
        "w1": float(np.mean([each.marginals.mean() for each in found])),
        "worst_w1": float(np.mean([each.marginals.max() for each in found])),
        "correlation": float(np.mean([each.correlation for each in found])),
    }
    note = (
        f"worst pair {detail['worst_pair']:.3f}; W1/std mean {detail['w1']:.4f}, "
        f"worst {detail['worst_w1']:.4f}; correlations {detail['correlation']:.3f}"
    )
    return Row(name, detail["pair"], "mean TV", note=note, detail=detail)


def _predictions(stream: Stream, epsilon: float, repeats: int, barred: bool) -> list[Row]:
    """Predicted over measured, for means over attributes, pairs and as many releases."""
    spec = planned(stream, Privacy(epsilon))
    measured, predicted = np.zeros(3), np.zeros(3)
    for _ in range(repeats):
        release = released(stream, spec)
        off = _off(stream, sampled(pairwise(release)))
        told = fidelity([release], RECORDS)
        alone = float(np.mean(list(told.marginals.values())))
        measured += [off.pairs.mean(), off.marginals.mean(), off.correlation]
        predicted += [told.pair, alone, told.correlation]
    rows = []
    for kind, there, expected in zip(
        ("mean pairwise TV", "mean marginal distance", "correlation error"),
        (measured / repeats).tolist(),
        (predicted / repeats).tolist(),
        strict=True,
    ):
        name = f"{stream.name}, epsilon {epsilon:g}: predicted {kind}"
        note, detail = (
            f"{expected:.4f} over {there:.4f}",
            {"predicted": expected, "measured": there},
        )
        meets = 1 / FACTOR <= expected / there <= FACTOR if barred else None
        bar = f"{1 / FACTOR:.2g} to {FACTOR:g}" if barred else ""
        rows.append(Row(name, expected / there, "x measured", bar, meets, note, detail))
    return rows


if __name__ == "__main__":
    sys.exit(main("twelve", __doc__, run, draw, None))
