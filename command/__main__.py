"""`pansketch`: inspects a release, audits the promise, plans the sketches of a fleet."""

import argparse
import os
import sys
from datetime import UTC, datetime
from pathlib import Path

from command.auditing import add_audit
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
    add_audit(commands)
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
