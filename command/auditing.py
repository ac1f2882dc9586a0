"""`pansketch audit`: tests the promise, says what was found, and keeps a record of it."""

import argparse
import sys
from pathlib import Path
from typing import Any


def add_audit(commands: Any) -> None:
    """The command and its options, into argparse's subcommands."""
    audit = commands.add_parser(
        "audit",
        help="test the promise: exact, statistical, seizure of a running agent, planted bugs",
        description="Tests what the product promises. Exit code 0 only if every claim holds and "
        "every planted bug is caught. Seizing a running agent needs root.",
    )
    audit.add_argument("--quick", action="store_true", help="under a minute instead of fifteen")
    audit.add_argument("--json", action="store_true", help="the findings as one JSON object")
    only = audit.add_mutually_exclusive_group()
    only.add_argument("--plant", metavar="BUG", help="audit the product with this bug in it")
    only.add_argument(
        "--record",
        type=Path,
        metavar="FILE",
        help="write what was found there, for the collector to show (collector.audit)",
    )
    audit.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    # Not needed on a device, and not loaded there.
    from command import recording
    from pansketch.audit import report

    if options.record is not None and (problem := recording.refusal(options.record)):
        return _wrong(problem, 2)
    if options.plant:
        try:
            findings = [report.plant(options.plant)]
        except ValueError as error:
            return _wrong(str(error), 2)
    else:
        findings = report.run_audit(options.quick, _progress)
    print(report.as_json(findings) if options.json else report.as_table(findings))
    if options.record is not None:
        try:
            recording.write(options.record, recording.record_of(findings, options.quick))
        except OSError as error:
            return _wrong(f"cannot write {options.record}: {error.strerror}", 1)
    return 0 if all(finding.holds for finding in findings) else 1


def _wrong(problem: str, code: int) -> int:
    print(f"pansketch: {problem}", file=sys.stderr)
    return code


def _progress(finding: object, done: int, tasks: int) -> None:
    if sys.stderr.isatty():
        end = "\n" if done == tasks else ""
        print(f"\raudit: {done} of {tasks} findings", end=end, file=sys.stderr, flush=True)
