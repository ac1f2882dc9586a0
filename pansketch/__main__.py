"""`pansketch`: looks at what the library makes. The only file of the library that does I/O."""

import argparse
import sys
from datetime import UTC, datetime
from pathlib import Path

from pansketch import WireError, __version__, peek
from pansketch.sketch import WindowId


def main(argv: list[str] | None = None) -> int:
    """Exit code 0: done; 2: the file is missing or is not a release."""
    parser = argparse.ArgumentParser(
        prog="pansketch",
        description="Pan-private sketches; see also pansketch-agent and pansketch-collector.",
    )
    parser.add_argument("--version", action="version", version=f"pansketch {__version__}")
    commands = parser.add_subparsers(dest="command", required=True)
    inspect = commands.add_parser(
        "inspect", help="say what a release file holds, and whether it is whole"
    )
    inspect.add_argument(
        "file", type=Path, help="a release as it travels over MQTT or lies in an outbox"
    )
    return _inspect(parser.parse_args(argv).file)


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
    for window in header.windows:
        print(f"window       {_described(window)}")
    return 0


def _described(window: WindowId) -> str:
    if window.end <= window.start:
        return f"{window.device}/{window.stream} {window.sequence}"
    start, end = (datetime.fromtimestamp(t, UTC).isoformat() for t in (window.start, window.end))
    return f"{window.device}/{window.stream} {window.sequence}: {start} to {end}"


if __name__ == "__main__":
    sys.exit(main())
