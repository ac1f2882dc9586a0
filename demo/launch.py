"""`pansketch-demo`: says in one line what is missing where the demo cannot run."""

import sys

from demo.fleet import CONFIG


def main() -> int:
    """Exit code 2: not a clone of the repository, or its packages are not installed."""
    if not CONFIG.is_file():
        print("pansketch-demo: runs from a clone of the repository: make demo", file=sys.stderr)
        return 2
    try:
        from demo.__main__ import main as run
    except ModuleNotFoundError as missing:
        print(f"pansketch-demo: no module {missing.name}; make demo installs it", file=sys.stderr)
        return 2
    return run()
