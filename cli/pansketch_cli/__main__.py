"""`pansketch`: inspects releases, plans sketches and audits the privacy guarantee."""

import gc
import sys
from datetime import UTC, datetime
from pathlib import Path

from pansketch import WindowId, WireError, __version__, read_header
from pansketch_cli.audit import add_audit
from pansketch_cli.plan import add_plan
from pansketch_fleet.errors import SingleLineParser
from pansketch_fleet.text_table import discard_stdout


def main(argv: list[str] | None = None) -> int:
    """Run a command. Exit code 0: done; 1: the audit found a failure; 2: wrong input."""
    if argv is None:
        gc.freeze()  # Modules stay: no collection visits them, also at exit.
    options = parser().parse_args(argv)
    try:
        code = int(options.run(options))
        sys.stdout.flush()
        return code
    except BrokenPipeError:  # the reader has closed the pipe, as in `| head`
        discard_stdout()
        return 0
    except KeyboardInterrupt:
        print("pansketch: interrupted", file=sys.stderr)
        return 1


def parser() -> SingleLineParser:
    """Return the parser of all commands."""
    found = SingleLineParser(
        prog="pansketch",
        description="Inspects releases, plans sketches and audits the privacy guarantee.",
    )
    found.add_argument("--version", action="version", version=f"pansketch {__version__}")
    commands = found.add_subparsers(dest="command", required=True, metavar="COMMAND")
    inspect = commands.add_parser(
        "inspect",
        help="show the header of a release file",
        description="Shows the header of a release file: family, wire format, fingerprint, "
        "windows. The exit code is 2 if the file is damaged.",
    )
    inspect.add_argument(
        "file", type=Path, metavar="FILE", help="the bytes of a release, such as a dead letter"
    )
    inspect.set_defaults(run=lambda options: _inspect(options.file))
    add_audit(commands)
    add_plan(commands)
    return found


def _inspect(file: Path) -> int:
    try:
        data = file.read_bytes()
        header = read_header(data)
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
    name = f"{window.device}/{window.stream} {window.sequence}"
    if window.incarnation:
        name += f" of {window.incarnation.hex()}"
    if window.end <= window.start:
        return name
    start, end = (datetime.fromtimestamp(t, UTC).isoformat() for t in (window.start, window.end))
    clock = {None: "", True: ", clock synchronised", False: ", clock not synchronised"}
    known = clock[window.clock_synchronised]
    return f"{name}: {start} to {end}{known}"


if __name__ == "__main__":
    sys.exit(main())
