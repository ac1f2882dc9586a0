"""python -m testbed.reference: write the generated files of docs/reference, or check them."""

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from testbed.reference import command_line, configuration, json_schema

FOLDER = Path(__file__).parents[2] / "docs/reference"
FIX = "run python -m testbed.reference"


def files() -> dict[str, str]:
    """The text of every generated file of docs/reference."""
    return {
        "cli.md": command_line.page(),
        "configuration.md": configuration.page(),
        "config.schema.json": json.dumps(json_schema.schema(), indent=1) + "\n",
        "keeper-configuration.md": configuration.keeper_page(),
        "keeper.schema.json": json.dumps(json_schema.keeper_schema(), indent=1) + "\n",
    }


def outdated(folder: Path) -> list[str]:
    """A line for each file that is not what the code makes it."""
    found = []
    for name, text in files().items():
        path = folder / name
        if not path.is_file() or path.read_text(encoding="utf-8") != text:
            found.append(f"docs/reference/{name} does not match the code; {FIX}")
    return found


def main(argv: Sequence[str] | None = None) -> int:
    """0: done, or up to date; 1: a file is outdated."""
    parser = argparse.ArgumentParser("testbed.reference", description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; name outdated files")
    if parser.parse_args(argv).check:
        found = outdated(FOLDER)
        print("".join(f"{line}\n" for line in found), end="", file=sys.stderr)
        return int(bool(found))
    for name, text in files().items():
        (FOLDER / name).write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
