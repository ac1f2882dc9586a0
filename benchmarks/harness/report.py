"""The rows of benchmarks as a table, as Markdown and as JSON; one benchmark as a command.

python -m benchmarks.NAME [--quick] [--out FOLDER]
"""

import argparse
import json
import os
import platform
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import track

from benchmarks.harness.result import MeasurementFailed, Row, failed

Results = dict[str, list[Row]]


def machine() -> dict[str, str]:
    """The versions and settings on which a figure depends, without a name of the machine."""
    return {
        "python": platform.python_version(),
        "numpy": np.__version__,
        "system": f"{sys.platform} {platform.machine()}",
        "cores": str(os.cpu_count()),
    }


def table(results: Results) -> str:
    """Compact text: one line a row, notes last."""
    lines = []
    for name, rows in results.items():
        lines.append(f"\n{name}")
        width = max((len(row.name) for row in rows), default=0)
        lines += [_line(row, width) for row in rows]
    return "\n".join(lines) + "\n\n" + verdict(results)


def verdict(results: Results) -> str:
    """The number of bars that are met, and the names of those that are not."""
    barred = [(name, row) for name, rows in results.items() for row in rows if row.bar]
    missed = [f"{name}: {row.name}" for name, row in barred if not row.meets]
    broken = [name for name, rows in results.items() if failed(rows)]
    met = f"{len(barred) - len(missed)} of {len(barred)} bars met"
    met += f"; missed: {'; '.join(missed)}" if missed else ""
    return met + (f"; failed: {', '.join(broken)}" if broken else "")


def write(folder: Path, results: Results, quick: bool) -> None:
    """report.json and report.md below `folder`."""
    found = {name: [asdict(row) for row in rows] for name, rows in results.items()}
    document = {"quick": quick, "machine": machine(), "benchmarks": found}
    (folder / "report.json").write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    (folder / "report.md").write_text(_markdown(results, quick), encoding="utf-8")


def _line(row: Row, width: int) -> str:
    figure = f"{_number(row.value)} {row.unit}"
    return f"  {row.name:<{width}}  {figure:<20} {row.bar:<10} {_mark(row):<6} {row.note}".rstrip()


def _markdown(results: Results, quick: bool) -> str:
    about = ", ".join(f"{name} {value}" for name, value in machine().items())
    lines = [f"# Benchmarks{' (quick)' if quick else ''}", "", about, "", verdict(results)]
    for name, rows in results.items():
        lines += ["", f"## {name}", "", "| what | value | unit | bar | | note |"]
        lines.append("|---|---:|---|---|---|---|")
        lines += [
            f"| {r.name} | {_number(r.value)} | {r.unit} | {r.bar} | {_mark(r)} | {r.note} |"
            for r in rows
        ]
    return "\n".join(lines) + "\n"


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def _mark(row: Row) -> str:
    return {True: "ok", False: "MISSED", None: ""}[row.meets]


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
    print(table({name: rows}))
    print(*files, sep="\n")
    return 0


def _shown(name: str, pieces: Sequence[Any]) -> Iterable[Any]:
    """With a bar, on a terminal only."""
    console = Console(stderr=True)
    return track(pieces, name, console=console, transient=True, disable=not console.is_terminal)
