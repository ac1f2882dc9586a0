"""One benchmark as a command of its own: `python -m benchmarks.NAME [--quick] [--out FOLDER]`."""

import argparse
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import track

from benchmarks import report
from benchmarks.footprint import MeasurementFailed
from benchmarks.row import Row

# Passes on the pieces of a benchmark, one by one, and may show how far it is.
Watch = Callable[[Sequence[Any]], Iterable[Any]]
Run = Callable[[bool, Watch], list[Row]]
Draw = Callable[[Path, list[Row]], list[Path]]


def main(name: str, about: str | None, run: Run, draw: Draw, argv: Sequence[str] | None) -> int:
    """Exit code 0: measured, whether bars are met or not; 1: files cannot be written, or
    interrupted; 2: wrong input."""
    parser = argparse.ArgumentParser(f"python -m benchmarks.{name}", description=about)
    parser.add_argument("--quick", action="store_true", help="fewer and smaller runs")
    parser.add_argument(
        "--out", type=Path, default=Path("out/bench"), metavar="FOLDER", help="(out/bench)"
    )
    options = parser.parse_args(argv)
    try:
        options.out.mkdir(parents=True, exist_ok=True)
        rows = run(options.quick, lambda pieces: _shown(name, pieces))
        files = draw(options.out, rows)
    except (OSError, MeasurementFailed) as error:
        print(f"benchmarks.{name}: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print(f"benchmarks.{name}: interrupted", file=sys.stderr)
        return 1
    print(report.table({name: rows}))
    print(*files, sep="\n")
    return 0


def _shown(name: str, pieces: Sequence[Any]) -> Iterable[Any]:
    """With a bar, on a terminal only."""
    console = Console(stderr=True)
    return track(pieces, name, console=console, transient=True, disable=not console.is_terminal)
