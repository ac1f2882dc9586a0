"""`python -m testbed.fuzz`: fuzz inputs for every parser of bytes, for a chosen time.

Exit code 0: every property held; 1: one failed, and its input is kept; 2: wrong input.
"""

import argparse
import sys
import tempfile
import traceback
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from pansketch_fleet.child_process import end_in_order
from testbed.fuzz.engines import ENGINES, Found, available
from testbed.fuzz.harness.checks import Watch, watching
from testbed.fuzz.harness.target import Broken
from testbed.fuzz.targets.registry import TARGETS

WIDTH = max(map(len, TARGETS))


def main(argv: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(argv)
    names = options.target or list(TARGETS)
    try:
        if options.input is not None:
            return _again(names, options.input)
        engine = options.engine or available()
        print(f"engine: {engine}; {len(names)} targets, {options.minutes:g} minutes each")
        print(f"{'target':<{WIDTH}}  {'inputs':>10}  properties", flush=True)
        found = _searched(names, engine, options)
    except (OSError, RuntimeError) as error:
        print(f"fuzz: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("fuzz: interrupted", file=sys.stderr)
        return 1
    broken = [one for one in found if one.input is not None]
    print(f"{sum(one.runs for one in found):,} inputs; {len(broken)} targets with a finding")
    print(
        *(f"python -m testbed.fuzz --target {o.target} --input {o.input}" for o in broken), sep="\n"
    )
    return int(bool(broken))


def row(one: Found) -> str:
    """The result of a target, as a line of the table."""
    return f"{one.target:<{WIDTH}}  {one.runs:>10,}  {one.how or 'kept'}"


def _searched(names: Sequence[str], engine: str, options: argparse.Namespace) -> list[Found]:
    """One target after the other; how far they are is shown on a terminal only."""
    console, found = Console(stderr=True), []
    columns = TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[runs]:,}")
    with Progress(
        *columns, TimeElapsedColumn(), console=console, transient=True,
        disable=not console.is_terminal,
    ) as progress:  # fmt: skip
        task = progress.add_task("", total=len(names), runs=0)
        for name in names:
            progress.update(task, description=name)
            found.append(
                ENGINES[engine](
                    name,
                    options.out.absolute(),
                    60 * options.minutes,
                    options.seed,
                    lambda runs: progress.update(task, runs=runs),
                )
            )
            print(row(found[-1]), flush=True)
            progress.advance(task)
    return found


def _again(names: Sequence[str], path: Path) -> int:
    """One kept input once more, with the work counted too; a traceback shows where it breaks."""
    data, (name, *others) = path.read_bytes(), names
    if others:
        print("fuzz: an input is of one target; name it with --target", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory() as folder, watching():
        try:
            print(f"{name}: {Watch(TARGETS[name], Path(folder), count_steps=True)(data)}")
        except Broken:
            traceback.print_exc()
            return 1
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("python -m testbed.fuzz", description=__doc__)
    about = "; ".join(f"{name}: {target.about}" for name, target in TARGETS.items())
    parser.add_argument("--target", nargs="+", choices=list(TARGETS), metavar="NAME", help=about)
    parser.add_argument(
        "--minutes", type=float, default=1.0, help="for each target (default: %(default)s)"
    )
    parser.add_argument(
        "--engine", choices=list(ENGINES), help="(default: atheris where it is installed)"
    )
    parser.add_argument("--input", type=Path, metavar="FILE", help="run this one input instead")
    parser.add_argument("--seed", type=int, default=1, help="another one draws other inputs")
    parser.add_argument(
        "--out", type=Path, default=Path("out/fuzz"), metavar="FOLDER", help="(out/fuzz)"
    )
    return parser


if __name__ == "__main__":
    end_in_order()
    sys.exit(main())
