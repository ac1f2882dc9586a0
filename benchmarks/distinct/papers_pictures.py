"""The figures of the ppds benchmark, each as a picture and as a table of its numbers."""

from collections.abc import Callable, Sequence
from pathlib import Path

import matplotlib

from benchmarks.distinct.curves import CONTENDERS, FAR, FIXED_EPSILON, SIZES
from benchmarks.distinct.published import ALPHA, BETA, Record, bounded, planned, spent
from benchmarks.harness.result import Row, write_table

matplotlib.use("Agg")
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, NullLocator

Drawing = Callable[[Figure, Sequence[Record]], None]

STREAMS = ("uniform", "Zipf(1)")
# Okabe and Ito's colours, which colour-blind people tell apart, and a marker each as well.
STYLES = {
    "Dwork, as published": ("#D55E00", "-", "s"),
    "OptBern, as published": ("#0072B2", "-", "^"),
    "PPDS, as published": ("#009E73", "-", "o"),
    "Dwork, repaired": ("#D55E00", ":", "s"),
    "PPDS = OptBern, repaired": ("#0072B2", ":", "^"),
    "Dwork, repaired, equal bytes": ("#E69F00", "--", "D"),
    "PPDS = OptBern, repaired, equal bytes": ("#000000", "--", "v"),
    "PPDS, repaired, best split and bound": ("#000000", "-.", ""),
    "Dwork, as published and repaired": ("#D55E00", "-", ""),
    "OptBern; PPDS, repaired": ("#0072B2", "-", ""),
    "OptBern and PPDS, as published": ("#0072B2", "-", ""),
    "PPDS, as published, key seen 1 x": ("#009E73", ":", ""),
    "PPDS, as published, key seen 2 x": ("#009E73", "--", ""),
    "PPDS, as published, key seen 5 x": ("#009E73", "-", ""),
}
PRODUCT = "DistinctSpec"
LOSS_TICKS = (0.5, 1, 2, 5, 10, 20)
TICKS = (0.1, 0.2, 0.4, 0.7, 1.0, 1.5)
SQUARED = "mean squared error of the density"


def draw(folder: Path, rows: Sequence[Row]) -> list[Path]:
    """Writes ppds-*.png and ppds-*.csv."""
    over_epsilon, over_m = (points(rows, over) for over in ("over epsilon", "over m"))
    figures: dict[str, tuple[Drawing, list[Record], float]] = {
        "1-sample-size": (_sample_sizes, list(planned()), 4.8),
        "2-3-budget": (_budgets, list(spent()), 4.8),
        "4-error-probability": (_probabilities, over_epsilon, 4.8),
        "5-6-error-over-epsilon": (_over_epsilon, over_epsilon, 8.4),
        "7-error-over-m": (_over_m, over_m, 4.8),
    }
    files = []
    for name, (drawing, records, height) in figures.items():
        table, picture = folder / f"ppds-{name}.csv", folder / f"ppds-{name}.png"
        write_table(table, records)
        whole = plt.figure(figsize=(11, height), layout="constrained")
        drawing(whole, records)
        whole.savefig(picture, dpi=120)
        plt.close(whole)
        files += [table, picture]
    return files


def points(rows: Sequence[Row], over: str) -> list[Record]:
    """The points of all curves whose names end with `over`, one record each."""
    found: list[Record] = []
    for row in rows:
        if not row.name.endswith(over):
            continue
        who, stream, fixed, _ = row.name.split("; ")
        for place in dict.fromkeys(name.split()[0] for name in row.detail):
            figures = {
                name.split()[1]: value
                for name, value in row.detail.items()
                if name.split()[0] == place
            }
            record: Record = {"estimator": who, "stream": stream, "fixed": fixed}
            found.append({**record, over.split()[1]: float(place), **figures})
    return found


def _sample_sizes(whole: Figure, records: Sequence[Record]) -> None:
    for axis, figure, label in zip(
        whole.subplots(1, 2),
        ("keys", "bytes"),
        ("tracked keys m", "bytes of state"),
        strict=True,
    ):
        _curves(axis, records, figure)
        axis.set_ylabel(label)
    whole.suptitle(f"Needed for an error of at most {ALPHA:g} with probability {1 - BETA:g}")
    _shared_legend(whole)


def _budgets(whole: Figure, records: Sequence[Record]) -> None:
    for axis, part, title in zip(
        whole.subplots(1, 2, sharey=True),
        ("state", "output"),
        ("The state", "The output, to who has a snapshot"),
        strict=True,
    ):
        found = [record for record in records if record["part"] == part]
        _curves(axis, found, "loss over epsilon")
        axis.axhline(1, color="#999999", lw=0.8)
        axis.yaxis.set_major_locator(FixedLocator(LOSS_TICKS))
        axis.yaxis.set_minor_locator(NullLocator())
        axis.yaxis.set_major_formatter("{x:g}")
        axis.set_title(title)
        axis.legend(frameon=False, fontsize=8)
    whole.axes[0].set_ylabel("privacy really spent / epsilon")


def _curves(axis: Axes, records: Sequence[Record], figure: str) -> None:
    """One line for each name, over epsilon, both logarithmic."""
    names = dict.fromkeys(str(record["estimator"]) for record in records)
    for place, name in enumerate(names):
        found = [record for record in records if record["estimator"] == name]
        colour, line, marker = STYLES[name]
        axis.plot(
            _column(found, "epsilon"), _column(found, figure), line, color=colour, label=name,
            marker=marker, ms=5, markevery=(place, len(names)),
        )  # fmt: skip
    axis.set_yscale("log")
    _epsilon_axis(axis)


def _probabilities(whole: Figure, records: Sequence[Record]) -> None:
    size = SIZES[1]
    shown = [each for each in CONTENDERS if each.equal_bytes or each.estimator.as_published]
    for axis, stream in zip(whole.subplots(1, 2, sharey=True), STREAMS, strict=True):
        for contender in shown:
            found = _of(records, contender.name, stream, f"m {size}")
            colour, line, marker = STYLES[contender.name]
            places = _column(found, "epsilon")
            axis.plot(
                places, _column(found, "far"), line, marker=marker, color=colour, ms=5,
                label=contender.name,
            )  # fmt: skip
            if not contender.levels:
                bounds = [bounded(contender, epsilon, size) for epsilon in places]
                axis.plot(places, bounds, color=colour, lw=0.8, alpha=0.5)
        axis.set_title(f"{stream} stream, m = {size:,}")
        _epsilon_axis(axis)
    whole.axes[0].set_ylabel(f"probability of an error above {FAR:g}")
    _shared_legend(whole, {"bound (thin)": ("#777777", "-", "")})


def _over_epsilon(whole: Figure, records: Sequence[Record]) -> None:
    for line, size in zip(whole.subplots(2, 2, sharex=True, sharey="row"), SIZES, strict=True):
        for axis, stream in zip(line, STREAMS, strict=True):
            _errors(axis, records, stream, f"m {size}", "epsilon")
            own = _of(records, PRODUCT, stream, f"{4 * size} B")
            own += _of(records, PRODUCT, stream, f"{size // 8} B") if size >= 1000 else []
            axis.errorbar(
                _column(own, "epsilon"), _column(own, "experiment"), _column(own, "doubt"),
                fmt="*", color="#CC79A7", ms=11, zorder=5,
            )  # fmt: skip
            axis.set_title(f"{stream} stream, m = {size:,}")
            _epsilon_axis(axis)
            axis.label_outer()
        line[0].set_ylabel(SQUARED)
    _shared_legend(whole, {f"{PRODUCT}, run as it is": ("#CC79A7", "", "*")})


def _over_m(whole: Figure, records: Sequence[Record]) -> None:
    for axis, stream in zip(whole.subplots(1, 2, sharey=True), STREAMS, strict=True):
        _errors(axis, records, stream, f"epsilon {FIXED_EPSILON}", "m")
        axis.set_xscale("log")
        axis.set_xlabel("sample size m")
        axis.set_title(f"{stream} stream, epsilon {FIXED_EPSILON:g}")
    whole.axes[0].set_ylabel(SQUARED)
    _shared_legend(whole)


def _errors(axis: Axes, records: Sequence[Record], stream: str, fixed: str, over: str) -> None:
    """Theory as lines, experiments as markers."""
    for contender in CONTENDERS:
        found = _of(records, contender.name, stream, fixed)
        colour, line, marker = STYLES[contender.name]
        places = _column(found, over)
        axis.plot(places, _column(found, "theory"), line, color=colour)
        axis.plot(
            places, _column(found, "experiment"), marker, color=colour, ms=5, mfc="none",
            label=contender.name,
        )  # fmt: skip
    axis.set_yscale("log")


def _of(records: Sequence[Record], name: str, stream: str, fixed: str) -> list[Record]:
    wanted = (name, stream, fixed)
    return [r for r in records if (r["estimator"], r["stream"], r["fixed"]) == wanted]


def _column(records: Sequence[Record], name: str) -> list[float]:
    return [float(record[name]) for record in records]


def _epsilon_axis(axis: Axes) -> None:
    axis.set_xscale("log")
    axis.xaxis.set_major_locator(FixedLocator(TICKS))
    axis.xaxis.set_minor_locator(NullLocator())
    axis.xaxis.set_major_formatter("{x:g}")
    axis.set_xlabel("epsilon, of state and output each")


def _shared_legend(whole: Figure, more: dict[str, tuple[str, str, str]] | None = None) -> None:
    """One legend below all panels, with every style that they use."""
    used = {text for axis in whole.axes for text in axis.get_legend_handles_labels()[1]}
    styles = {name: style for name, style in STYLES.items() if name in used} | (more or {})
    handles = [
        Line2D([], [], color=colour, ls=line or "none", marker=marker, ms=5, label=name)
        for name, (colour, line, marker) in styles.items()
    ]
    whole.legend(handles=handles, loc="outside lower center", ncols=3, frameon=False, fontsize=9)
