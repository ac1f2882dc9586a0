"""`python -m benchmarks`: measures, prints a table, and writes report.md, report.json, pictures.

One that fails has a row that says so, and the others go on.
"""

import argparse
import sys
import traceback
from collections.abc import Callable
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from benchmarks import pictures as picture
from benchmarks.density import density
from benchmarks.distinct import papers as ppds
from benchmarks.error_bars import coverage, few_readings
from benchmarks.harness import report
from benchmarks.harness.result import FAILED, MeasurementFailed, Row, failed
from benchmarks.hierarchy import estimators, growth, one_attribute
from benchmarks.http import http as web
from benchmarks.kdtree import kdtree
from benchmarks.moments import m2m
from benchmarks.papers import papers
from benchmarks.performance import (
    duplicates,
    footprint,
    garbage,
    ingest,
    inner_loops,
    outbox_formats,
    peers,
    scale,
    sizes,
)
from benchmarks.streams import streams
from benchmarks.views import plans
from benchmarks.views import stations as twelve
from pansketch_fleet.child_process import end_in_order

BENCHMARKS: dict[str, Callable[[bool], list[Row]]] = {
    "update": inner_loops.run_update,
    "noise": inner_loops.run_noise,
    "wire": sizes.run_wire,
    "footprint": footprint.run,
    "growth": growth.run,
    "ingest": ingest.run,
    "duplicates": duplicates.run,
    "scale": scale.run,
    "outbox": outbox_formats.run,
    "web": web.run,
    "garbage": garbage.run,
    "estimators": estimators.run,
    "coverage": coverage.run,
    "young": few_readings.run,
    "density": density.run,
    "ppds": ppds.run,
    "papers": papers.run,
    "m2m": m2m.run,
    "kdtree": kdtree.run,
    "twelve": twelve.run,
    "one-attribute": one_attribute.run,
    "peers": peers.run,
    "sizes": sizes.run_sizes,
    "plans": plans.run,
    "streams": streams.run,
}


def main(argv: list[str] | None = None) -> int:
    """Exit code 0: measured, whether bars are met or not; 1: a benchmark failed; 2: wrong input."""
    options = _parser().parse_args(argv)
    try:
        options.out.mkdir(parents=True, exist_ok=True)
        results = _measured(options.only or list(BENCHMARKS), options.quick)
        report.write(options.out, results, options.quick)
        pictures = picture.draw(options.out, {n: r for n, r in results.items() if not failed(r)})
    except OSError as error:
        print(f"benchmarks: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("benchmarks: interrupted", file=sys.stderr)
        return 1
    print(report.table(results))
    print(*[options.out / "report.md", options.out / "report.json", *pictures], sep="\n")
    return int(any(map(failed, results.values())))


def _measured(names: list[str], quick: bool) -> report.Results:
    """The rows of these benchmarks; a bar shows how far they are, on a terminal only."""
    console = Console(stderr=True)
    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn()
    results: report.Results = {}
    # Drawn once a second: a benchmark runs beside it.
    with Progress(
        *columns,
        TimeElapsedColumn(),
        console=console,
        refresh_per_second=1,
        transient=True,
        disable=not console.is_terminal,
    ) as progress:
        task = progress.add_task("", total=len(names))
        for name in names:
            progress.update(task, description=name)
            results[name] = _rows(name, quick)
            progress.advance(task)
    return results


def _rows(name: str, quick: bool) -> list[Row]:
    """Those of one benchmark, or the one that says why there are none."""
    try:
        return BENCHMARKS[name](quick)
    except MeasurementFailed as error:
        why = str(error)
    except Exception as error:  # half an hour of others' figures must not be lost with it
        traceback.print_exc()
        why = f"{type(error).__name__}: {error}"
    print(f"benchmarks: {why}", file=sys.stderr)
    return [Row(FAILED, 0.0, "", note=why)]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("python -m benchmarks", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer repeats: some minutes")
    parser.add_argument(
        "--only", nargs="+", choices=list(BENCHMARKS), metavar="NAME", help=", ".join(BENCHMARKS)
    )
    parser.add_argument(
        "--out", type=Path, default=Path("out/bench"), metavar="FOLDER", help="(out/bench)"
    )
    return parser


if __name__ == "__main__":
    end_in_order()
    sys.exit(main())
