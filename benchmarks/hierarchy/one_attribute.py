"""One attribute: W1 of a hierarchy beside PMM, which keeps all data, and the uniform guess.

`python -m benchmarks.hierarchy.one_attribute`: 100,000 readings in [0, 1] from four distributions,
epsilon 0.1 and 1, one window of one device. W1 is to the readings themselves, as in PMM's theorem,
and exact: the area between two distribution functions. Values are means over runs. Every run has
readings of its own seed and fresh noise from the operating system. PMM draws noise once, as
`announced` does; `silent` draws twice. Of PMM's two ways to consistency the better one counts.

One rule sets the sizes of the sketch: fanout 4, the library's default, and exact levels only. It is
as deep as a twentieth of PMM's memory allows: the readings' or its leaves' counters', whichever is
smaller. Writes one_attribute.png.
"""

import sys
import tracemalloc
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import matplotlib
import numpy as np

from benchmarks.datasets.mixtures import Mixture
from benchmarks.harness import report
from benchmarks.harness.report import Watch
from benchmarks.harness.result import Row, at_least, at_most
from benchmarks.hierarchy.pmm import (
    Curve,
    FloatArray,
    data_nbytes,
    leaves_nbytes,
    pmm,
    tree_nbytes,
    w1,
)
from pansketch import Attribute, Domain, HierarchySpec, Privacy, os_entropy
from pansketch.generators import privhp
from pansketch.privacy import Intrusion

matplotlib.use("Agg")
from matplotlib import pyplot as plt
from matplotlib.axes import Axes

COUNT, EPSILONS = 100_000, (0.1, 1.0)
OVER_PMM, LESS_MEMORY = 1.5, 20
FANOUT, OTHER_FANOUTS = 4, (2, 8, 16)
DOMAIN = Domain([Attribute("x", low=0, high=1)])
OURS, SILENT, PMM, UNIFORM = "pansketch, announced", "pansketch, silent", "PMM", "uniform guess"
STYLES = {OURS: ("o", "#2a6f97"), SILENT: ("s", "#8fb8d0"), PMM: ("D", "#d1495b")}
GREY = "#8c8c8c"

Draw = Callable[[int, np.random.Generator], FloatArray]
Mechanism = Callable[[FloatArray], list[Curve]]
"""A function that fits a model, or several from the same noise, to readings."""


def cascade(count: int, generator: np.random.Generator, left: float = 0.7) -> FloatArray:
    """A binomial cascade: the left half of every dyadic interval has the share `left` of it."""
    readings = np.zeros(count)
    for level in range(1, 49):
        readings += (generator.random(count) >= left) * 0.5**level
    return readings


GAUSSIANS = Mixture(np.array([0.5, 0.5]), np.array([[0.3], [0.7]]), np.full((2, 1), 0.01))

DISTRIBUTIONS: dict[str, Draw] = {
    "uniform": lambda count, generator: generator.random(count),
    "Beta(2, 20)": lambda count, generator: generator.beta(2, 20, count),
    "two Gaussians": lambda count, generator: GAUSSIANS.sample(count, generator)[:, 0],
    "multifractal": cascade,
}


@dataclass(frozen=True)
class Case:
    """Readings of one distribution at one epsilon."""

    distribution: str
    epsilon: float
    count: int = COUNT

    def __str__(self) -> str:
        return f"{self.distribution}, epsilon {self.epsilon:g}"

    def readings(self, run: int) -> FloatArray:
        seed = [run, list(DISTRIBUTIONS).index(self.distribution)]
        return DISTRIBUTIONS[self.distribution](self.count, np.random.default_rng(seed))


def sized(
    count: int, epsilon: float, intrusion: Intrusion = "announced", fanout: int = FANOUT
) -> HierarchySpec:
    """The deepest hierarchy of exact levels within a twentieth of PMM's memory."""
    most = min(data_nbytes(count), leaves_nbytes(count, epsilon)) // LESS_MEMORY
    privacy = Privacy(epsilon, intrusion=intrusion)
    found = [_exact(privacy, fanout, depth) for depth in range(1, most.bit_length())]
    return [spec for spec in found if spec.nbytes <= most][-1]


def _exact(privacy: Privacy, fanout: int, depth: int) -> HierarchySpec:
    # With 2**depth kept cells no level is a table, so width and rows size nothing.
    return HierarchySpec(DOMAIN, privacy, depth, k=1 << depth, width=2, rows=1, fanout=fanout)


def sketched(spec: HierarchySpec, readings: FloatArray) -> list[Curve]:
    """The model of one device's one window."""
    rng = os_entropy()
    sketch = spec.start(rng)
    sketch.update_many(readings[:, None].copy())
    return [privhp(sketch.release(rng)).filled(0)]


def mechanisms(count: int, epsilon: float) -> dict[str, Mechanism]:
    specs = {
        OURS: sized(count, epsilon),
        SILENT: sized(count, epsilon, "silent"),
        **{_with_fanout(each): sized(count, epsilon, fanout=each) for each in OTHER_FANOUTS},
    }
    flat = np.array([0.0, 1.0])
    return {
        **{name: partial(sketched, spec) for name, spec in specs.items()},
        PMM: lambda readings: pmm(readings, epsilon, os_entropy()),
        UNIFORM: lambda readings: [(flat, flat)],
    }


def errors(case: Case, runs: int) -> dict[str, FloatArray]:
    """W1 of every mechanism, float64[runs]; of several curves, those nearest on average."""
    found: dict[str, list[list[float]]] = {}
    makers = mechanisms(case.count, case.epsilon)
    for run in range(runs):
        readings = case.readings(run)
        for name, maker in makers.items():
            found.setdefault(name, []).append([w1(curve, readings) for curve in maker(readings)])
    columns = {name: np.array(values) for name, values in found.items()}
    return {name: each[:, each.mean(axis=0).argmin()] for name, each in columns.items()}


def run(quick: bool, watch: Watch = iter) -> list[Row]:
    cases = [Case(name, epsilon) for epsilon in EPSILONS for name in DISTRIBUTIONS]
    found = {case: errors(case, 5 if quick else 40) for case in watch(cases)}
    return [
        *(row for case, values in found.items() for row in ratios(case, values)),
        *(row for epsilon in EPSILONS for row in memories(COUNT, epsilon)),
        *_other_fanouts(found),
        *(row for case, values in found.items() for row in distances(case, values)),
    ]


def ratios(case: Case, values: dict[str, FloatArray]) -> Iterator[Row]:
    """Means over PMM's mean, and over the uniform guess's."""
    for name, bar in ((OURS, OVER_PMM), (SILENT, None)):
        ratio, error = _ratio(values[name], values[PMM])
        what, note = f"{case}: {name}, over PMM", f"standard error {error:.2g}"
        yield at_most(what, ratio, "x", bar, note) if bar else Row(what, ratio, "x", note=note)
    ratio, error = _ratio(values[OURS], values[UNIFORM])
    note = f"standard error {error:.2g}"
    if case.distribution == "uniform":
        note = "the guess is the truth"
    yield Row(f"{case}: {OURS}, over the guess", ratio, "x", note=note)


def _ratio(above: FloatArray, below: FloatArray) -> tuple[float, float]:
    """Of the means, and its standard error: runs of both on the same readings, fresh noise."""
    ratio = float(above.mean() / below.mean())
    spread = (above - ratio * below).std(ddof=1) / np.sqrt(len(above))
    return ratio, float(spread / below.mean())


def memories(count: int, epsilon: float) -> Iterator[Row]:
    """PMM's bytes over those that the sketch holds from the first reading to the last."""
    spec = sized(count, epsilon)
    leaves, tree = leaves_nbytes(count, epsilon), tree_nbytes(count, epsilon)
    sizes = f"{spec.nbytes:,} bytes, depth {spec.depth}"
    for what, nbytes in (("readings", data_nbytes(count)), ("leaves' counters", leaves)):
        note = f"{nbytes:,} bytes over {sizes}"
        name = f"epsilon {epsilon:g}: PMM's {what} over our state"
        yield at_least(name, nbytes / spec.nbytes, "x", LESS_MEMORY, note)
    name, note = f"epsilon {epsilon:g}: PMM's tree over our state", f"{tree:,} bytes over {sizes}"
    yield Row(name, tree / spec.nbytes, "x", note=note)
    space = work_space(spec, count)
    note = f"as much for any number of readings; these are {data_nbytes(count):,} bytes"
    yield Row(f"epsilon {epsilon:g}: our scratch, erased in each call", space, "bytes", note=note)


def work_space(spec: HierarchySpec, count: int) -> int:
    """Bytes that a sketch allocates at most, beyond its state, to absorb readings all at once."""
    readings, rng = np.zeros((count, 1)), os_entropy()
    tracemalloc.start()
    try:
        spec.start(rng).update_many(readings)
        return tracemalloc.get_traced_memory()[1] - spec.nbytes
    finally:
        tracemalloc.stop()


def _other_fanouts(found: dict[Case, dict[str, FloatArray]]) -> Iterator[Row]:
    """So that the rule's choice can be seen for what it is."""
    for fanout in (FANOUT, *OTHER_FANOUTS):
        name = OURS if fanout == FANOUT else _with_fanout(fanout)
        over = {str(case): _ratio(each[name], each[PMM])[0] for case, each in found.items()}
        worst = max(over, key=lambda case: over[case])
        note = f"{worst}; least {min(over.values()):.2f}"
        yield Row(f"{_with_fanout(fanout)} over PMM, largest ratio", over[worst], "x", note=note)


def _with_fanout(fanout: int) -> str:
    return f"pansketch, announced, fanout {fanout}"


def distances(case: Case, values: dict[str, FloatArray]) -> Iterator[Row]:
    for name in (*STYLES, UNIFORM):
        each = values[name]
        detail = {"mean": each.mean(), "least": each.min(), "most": each.max()}
        note = f"{each.min():.2g} to {each.max():.2g}, {len(each)} runs"
        yield Row(f"{case}: {name}", float(each.mean()), "W1", note=note, detail=detail)


def draw(folder: Path, rows: Sequence[Row]) -> list[Path]:
    """Writes one_attribute.png: a panel for each epsilon."""
    file = folder / "one_attribute.png"
    shown = {row.name: row for row in rows if row.unit == "W1"}
    columns = len(EPSILONS)
    figure, axes = plt.subplots(1, columns, figsize=(11, 5), sharey=True, layout="constrained")
    for axis, epsilon in zip(axes.flat, EPSILONS, strict=True):
        _panel(axis, shown, epsilon)
    axes.flat[0].set_ylabel("W1 to the readings")
    handles = axes.flat[0].get_legend_handles_labels()
    figure.legend(*handles, loc="outside lower center", ncols=len(handles[0]), frameon=False)
    figure.suptitle(f"{COUNT:,} readings in [0, 1]: mean of the runs, least to most")
    figure.savefig(file, dpi=130)
    plt.close(figure)
    return [file]


def _panel(axis: Axes, shown: dict[str, Row], epsilon: float) -> None:
    for place, distribution in enumerate(DISTRIBUTIONS):
        case = Case(distribution, epsilon)
        for step, (name, (marker, colour)) in enumerate(STYLES.items()):
            row, at = shown[f"{case}: {name}"], place + 0.16 * (step - 1)
            axis.plot([at] * 2, [row.detail["least"], row.detail["most"]], color=colour)
            axis.plot(at, row.value, marker, color=colour, label=name if place == 0 else None)
        guess = shown[f"{case}: {UNIFORM}"].value
        ends = place - 0.35, place + 0.35
        axis.plot(ends, [guess] * 2, ":", color=GREY, label=UNIFORM if place == 0 else None)
    spec = sized(COUNT, epsilon)
    data, leaves = data_nbytes(COUNT), leaves_nbytes(COUNT, epsilon)
    title = f"epsilon {epsilon:g}; state {spec.nbytes:,} bytes\n"
    title += f"PMM: readings {data:,}, or leaves' counters {leaves:,}"
    axis.set_title(title, fontsize="medium")
    axis.set_xticks(range(len(DISTRIBUTIONS)), list(DISTRIBUTIONS))
    axis.set_yscale("log")


if __name__ == "__main__":
    sys.exit(report.main("hierarchy.one_attribute", __doc__, run, draw, None))
