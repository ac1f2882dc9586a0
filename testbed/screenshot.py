"""`python -m testbed.screenshot ADDRESS FILE`: a picture of the collector's page, by Chromium."""

import argparse
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

WINDOW_HEIGHT = 900


def main(argv: list[str] | None = None) -> int:
    """Exit code 0: done; 1: there is no such page; 2: no browser, or nothing to drive it with."""
    options = _parser().parse_args(argv)
    try:
        from testbed.chromium import BrowserError, browser, browsing
    except ModuleNotFoundError as missing:
        return _wrong(f"no module {missing.name}: pip install it", 2)
    try:
        browser()
    except BrowserError as error:
        return _wrong(str(error), 2)
    try:
        with (
            TemporaryDirectory(ignore_cleanup_errors=True) as profile,
            browsing(Path(profile)) as tab,
        ):
            tab.emulate(options.width, WINDOW_HEIGHT, "dark" if options.dark else "light")
            tab.open(options.address)
            tab.shoot(options.file, options.height)
    except (BrowserError, OSError) as error:
        return _wrong(str(error).splitlines()[0], 1)
    return 0


def _wrong(problem: str, code: int) -> int:
    print(f"testbed.screenshot: {problem}", file=sys.stderr)
    return code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("testbed.screenshot", description=__doc__)
    parser.add_argument("address", help="such as http://127.0.0.1:8080/#stream/air")
    parser.add_argument("file", type=Path, help="where the PNG goes")
    parser.add_argument("--width", type=int, default=1100, help="in pixels (default: %(default)s)")
    parser.add_argument("--height", type=int, help="so many from the top (default: all)")
    parser.add_argument("--dark", action="store_true", help="as on a dark system")
    return parser


if __name__ == "__main__":
    sys.exit(main())
