"""`python -m benchmarks`: measures, prints a table, and writes report.md, report.json, pictures.

A failed benchmark gets a row with its error, and the others continue.
"""

import argparse
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from pkgutil import resolve_name

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from benchmarks import pictures as picture
from benchmarks.harness import report
from benchmarks.harness.result import FAILED, MeasurementFailed, Row, failed
from pansketch_fleet.child_process import end_in_order

# Module and function, imported when they run: some need packages that only `make bench` installs.
BENCHMARKS = {
    "update": "performance.inner_loops:run_update",
    "noise": "performance.inner_loops:run_noise",
    "wire": "performance.sizes:run_wire",
    "footprint": "performance.footprint:run",
    "growth": "hierarchy.growth:run",
    "ingest": "performance.ingest:run",
    "duplicates": "performance.duplicates:run",
    "scale": "performance.scale:run",
    "workers": "performance.scale:run_workers",
    "outbox": "performance.outbox_formats:run",
    "web": "http.http:run",
    "garbage": "performance.garbage:run",
    "estimators": "hierarchy.estimators:run",
    "coverage": "error_bars.coverage:run",
    "young": "error_bars.few_readings:run",
    "periods": "error_bars.periods:run",
    "density": "density.density:run",
    "ppds": "distinct.papers:run",
    "papers": "papers.papers:run",
    "m2m": "moments.m2m:run",
    "kdtree": "kdtree.kdtree:run",
    "twelve": "views.stations:run",
    "blinded": "views.blinded:run",
    "keeper": "performance.keeper:run",
    "one-attribute": "hierarchy.one_attribute:run",
    "peers": "performance.peers:run",
    "sizes": "performance.sizes:run_sizes",
    "plans": "views.plans:run",
    "asked": "streams.asked_means:run",
    "streams": "streams.streams:run",
    "answers": "streams.coverage:run",
    "drawn": "streams.coverage:run_drawn",
    "twins": "streams.twins:run",
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
    """The rows of one benchmark, or the row with its error."""
    try:
        run: Callable[[bool], list[Row]] = resolve_name(f"benchmarks.{BENCHMARKS[name]}")
        return run(quick)
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
