"""`python -m testbed.mutation`: how many mutants of the privacy-critical modules are noticed.

Exit code 0: every mutant was noticed or has a reason in `unnoticed.toml`. 1: one was not. 2: the
tests fail without a mutation, or wrong input.
"""

import argparse
import json
import os
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path

from testbed.mutation.mutants import Mutant, Name, mutants_of
from testbed.mutation.report import Result, as_page, reasons
from testbed.mutation.targets import TARGETS, Target


def main(argv: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(argv)
    part, _, parts = options.shard.partition("/")
    targets = [each for each in TARGETS if not options.module or each.module in options.module]
    options.out.mkdir(parents=True, exist_ok=True)
    session = options.out / f"session-{part}-{parts}.jsonl"
    if not options.report:
        try:
            _run(targets, int(part), int(parts), session, options)
        except RuntimeError as error:
            print(f"mutation: {error}", file=sys.stderr)
            return 2
    tested = list(_tested(options.out.glob("session-*.jsonl"), targets))
    page = as_page(tested)
    options.out.with_suffix(".md").write_text(page)
    print(page)
    known = reasons()
    return int(any(each.outcome == "survived" and each.name not in known for each in tested))


def _run(
    targets: Iterable[Target], part: int, parts: int, session: Path, options: argparse.Namespace
) -> None:
    """Adds what becomes of each mutant that no session has yet."""
    # Loads pytest, which only a run needs.
    from testbed.mutation.runner import Runner

    os.nice(options.nice)
    runner = Runner(options.out / f"tree-{part}-{parts}")
    end = time.monotonic() + 60 * options.minutes
    for target in targets:
        done = _done(options.out)
        left = [
            mutant
            for number, mutant in enumerate(mutants_of(target.module))
            if number % parts == part - 1 and done.get(mutant.name) != mutant.source_digest
        ]
        if left:
            times = runner.times(target)
            print(f"{target.module}: {len(left)} mutants, {len(times)} tests", flush=True)
        for mutant in left:
            if time.monotonic() > end:
                return
            row = _row(mutant, runner.outcome(target, mutant, times))
            with session.open("a") as file:
                file.write(json.dumps(row) + "\n")


def _row(mutant: Mutant, outcome: str) -> dict[str, str]:
    return {**asdict(mutant.name), "source": mutant.source_digest, "outcome": outcome}


def _done(folder: Path) -> dict[Name, str]:
    rows = _rows(folder.glob("session-*.jsonl"))
    # A survivor may have been killed by a test since then.
    return {_name(row): row["source"] for row in rows if row["outcome"] != "survived"}


def _rows(sessions: Iterable[Path]) -> Iterable[dict[str, str]]:
    for session in sorted(sessions):
        yield from map(json.loads, session.read_text().splitlines())


def _name(row: dict[str, str]) -> Name:
    return Name(row["module"], row["where"], row["was"], row["becomes"])


def _tested(sessions: Iterable[Path], targets: Iterable[Target]) -> Iterable[Result]:
    """The last outcome of each mutant that still exists."""
    outcomes = {_name(row): (row["source"], row["outcome"]) for row in _rows(sessions)}
    for target in targets:
        for mutant in mutants_of(target.module):
            source, outcome = outcomes.get(mutant.name, ("", ""))
            if source == mutant.source_digest:
                yield Result(mutant.name, outcome)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("python -m testbed.mutation", description=__doc__)
    modules = [target.module for target in TARGETS]
    parser.add_argument("--module", nargs="+", choices=modules, metavar="FILE", help="only these")
    parser.add_argument("--shard", default="1/1", metavar="I/N", help="every Nth mutant, from I")
    parser.add_argument("--minutes", type=float, default=600, help="then it stops (%(default)s)")
    parser.add_argument("--nice", type=int, default=10, help="(%(default)s)")
    parser.add_argument("--report", action="store_true", help="write the report, run nothing")
    parser.add_argument("--out", type=Path, default=Path("out/mutants"), metavar="FOLDER")
    return parser


if __name__ == "__main__":
    sys.exit(main())
