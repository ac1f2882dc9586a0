"""The command line: hundreds of faults, and a reconciliation of every debited release."""

import argparse
import shutil
import sqlite3
import sys
from dataclasses import replace
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from pansketch_fleet.child_process import end_in_order
from testbed.chaos import report
from testbed.chaos.accounting import answers
from testbed.chaos.accounting.accounting import Account, account
from testbed.chaos.accounting.counter_sums import wrong_sums
from testbed.chaos.accounting.evidence import RUN, Evidence, gather
from testbed.chaos.environment.fleet import WrongInput
from testbed.chaos.faults.schedule import BY_NAME
from testbed.chaos.run import CannotRun, Size, run

FULL, SHORT = Size(devices=12, windows=200, faults=500), Size(devices=4, windows=20, faults=40)
SEED = 20170220
WIDTH = 110  # of what is piped


def main(argv: list[str], mounts: bool) -> int:
    """Run the command line. `mounts`: this process has its own mount namespace.

    Exit code 0: the reconciliation found no violation. 1: it found one, or the run failed. 2: wrong
    input.
    """
    options = _parser().parse_args(argv)
    width = None if sys.stdout.isatty() else WIDTH
    console = Console(highlight=False, width=width)
    end_in_order()
    try:
        folder = options.out.resolve()
        if not options.judge:
            _fresh(folder)
            _run(folder, options, mounts, console)
        return _judge(folder, console)
    except (CannotRun, WrongInput, OSError, ValueError, sqlite3.Error) as error:
        print(f"chaos: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("chaos: interrupted", file=sys.stderr)
        return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        "python -m testbed.chaos",
        description="Devices, a broker and a collector, each a process of its own, under kills, "
        "cut connections, full disks, set clocks, a failing broker and malformed messages. "
        "Afterwards every debited release must be in one class: merged exactly once, or lost for "
        "a known and counted reason.",
    )
    parser.add_argument("--short", action="store_true", help="a small run, about a minute")
    parser.add_argument("--seed", type=int, default=SEED, help=f"of the schedule ({SEED})")
    for name in ("devices", "windows", "faults"):
        parser.add_argument(f"--{name}", type=_positive, help=f"({getattr(FULL, name)})")
    text = "of faults, with commas between them (all)"
    parser.add_argument("--kinds", type=_kinds, default=frozenset(), help=text)
    parser.add_argument("--out", type=Path, default=Path("out/chaos"), help="(out/chaos)")
    text = "account again for the finished run in --out"
    parser.add_argument("--judge", action="store_true", help=text)
    return parser


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise ValueError
    return number


def _kinds(text: str) -> frozenset[str]:
    found = frozenset(text.split(","))
    if unknown := sorted(found - BY_NAME.keys()):
        raise argparse.ArgumentTypeError(
            f"{unknown[0]!r} is no kind of fault; there are {', '.join(BY_NAME)}"
        )
    return found


def _fresh(folder: Path) -> None:
    """An empty folder; nothing but an earlier run is removed. Raises CannotRun."""
    if folder.exists():
        if any(folder.iterdir()) and not (folder / "log").is_dir():
            raise CannotRun(f"{folder} holds something else than a run; choose another --out")
        shutil.rmtree(folder)
    folder.mkdir(parents=True)


def _run(folder: Path, options: argparse.Namespace, mounts: bool, console: Console) -> None:
    size = SHORT if options.short else FULL
    given = {k: v for k in ("devices", "windows", "faults") if (v := getattr(options, k))}
    size = replace(size, **given, kinds=options.kinds)
    console.print(
        f"{size.devices} devices, {size.windows} windows each, {size.faults} faults; "
        f"all files are in {folder}",
        soft_wrap=True,
    )
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(
        *columns, TimeElapsedColumn(), console=console, disable=not console.is_terminal
    ) as shown:
        task = shown.add_task("start", total=None)
        run(
            folder,
            size,
            options.seed,
            mounts,
            lambda what, done, total: shown.update(
                task, description=what, completed=done, total=total
            ),
        )


def _judge(folder: Path, console: Console) -> int:
    if not (folder / RUN).exists():
        raise CannotRun(f"{folder} holds no finished run; run it first, without --judge")
    evidence = gather(folder)
    found = account(evidence)
    answered = answers.account(folder, evidence, answers.gather(folder))
    more = *wrong_sums(folder, evidence), *answered.failures
    found = replace(found, failures=(*found.failures, *more))
    report.write(folder, evidence, found, answered)
    _show(evidence, found, answered, console)
    return int(bool(found.failures))


def _show(
    evidence: Evidence, found: Account, answered: answers.AnswerAccount, console: Console
) -> None:
    console.print(report.table("faults", report.rows_of_faults(evidence)))
    rows = report.rows_of_releases(evidence, found)
    console.print(report.table("what became of every debited release", rows))
    for line in report.lines(evidence, found, answered):
        console.print(line, soft_wrap=True, markup=False)
