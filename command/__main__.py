"""`pansketch`: inspects a release, audits the promise, plans the sketches of a fleet."""

import argparse
import os
import sys
from datetime import UTC, datetime
from pathlib import Path

from command.planning import add_plan
from pansketch import WireError, __version__, peek
from pansketch.sketch import WindowId


def main(argv: list[str] | None = None) -> int:
    """Exit code 0: done; 1: the audit found something; 2: wrong input."""
    parser = argparse.ArgumentParser(
        prog="pansketch",
        description="Pan-private sketches; see also pansketch-agent and pansketch-collector.",
    )
    parser.add_argument("--version", action="version", version=f"pansketch {__version__}")
    commands = parser.add_subparsers(dest="command", required=True)
    inspect = commands.add_parser("inspect", help="say what a release file holds, if it is whole")
    inspect.add_argument(
        "file", type=Path, help="a release's bytes, as an agent keeps those that were refused"
    )
    inspect.set_defaults(run=lambda options: _inspect(options.file))
    audit = commands.add_parser(
        "audit",
        help="test the promise: exact, statistical, seizure of a running agent, planted bugs",
        description="Tests what the product promises. Exit code 0 only if every claim holds and "
        "every planted bug is caught. Seizing a running agent needs root.",
    )
    audit.add_argument("--quick", action="store_true", help="under a minute instead of fifteen")
    audit.add_argument("--json", action="store_true", help="the findings as one JSON object")
    audit.add_argument("--plant", metavar="BUG", help="audit the product with this bug in it")
    audit.set_defaults(run=_audit)
    add_plan(commands)
    options = parser.parse_args(argv)
    try:
        code = int(options.run(options))
        sys.stdout.flush()
        return code
    except BrokenPipeError:  # the reader has seen enough, as in `| head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt:
        print("pansketch: interrupted", file=sys.stderr)
        return 1


def _audit(options: argparse.Namespace) -> int:
    from pansketch.audit import report  # Not needed on a device, and not loaded there.

    if options.plant:
        try:
            findings = [report.plant(options.plant)]
        except ValueError as error:
            print(f"pansketch: {error}", file=sys.stderr)
            return 2
    else:
        findings = report.run_audit(options.quick, _progress)
    print(report.as_json(findings) if options.json else report.as_table(findings))
    return 0 if all(finding.holds for finding in findings) else 1


def _progress(finding: object, done: int, tasks: int) -> None:
    if sys.stderr.isatty():
        end = "\n" if done == tasks else ""
        print(f"\raudit: {done} of {tasks} findings", end=end, file=sys.stderr, flush=True)


def _inspect(file: Path) -> int:
    try:
        data = file.read_bytes()
        header = peek(data)
    except OSError as error:
        print(f"pansketch: {file}: {error.strerror}", file=sys.stderr)
        return 2
    except WireError as error:
        print(f"pansketch: {file}: {error}", file=sys.stderr)
        return 2
    print(f"family       {header.family}")
    print(f"wire format  {header.version}")
    print(f"fingerprint  {header.fingerprint.hex()}")
    print(f"bytes        {len(data)}")
    print(f"draws        {header.draws}")
    for window in header.windows:
        print(f"window       {_described(window)}")
    return 0


def _described(window: WindowId) -> str:
    if window.end <= window.start:
        return f"{window.device}/{window.stream} {window.sequence}"
    start, end = (datetime.fromtimestamp(t, UTC).isoformat() for t in (window.start, window.end))
    clock = {None: "", True: ", clock synchronised", False: ", clock not synchronised"}
    known = clock[window.clock_synchronised]
    return f"{window.device}/{window.stream} {window.sequence}: {start} to {end}{known}"


if __name__ == "__main__":
    sys.exit(main())
