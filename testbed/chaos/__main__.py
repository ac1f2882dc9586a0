"""`python -m testbed.chaos`: takes mounts of its own before anything has threads, and goes on."""

import sys

from testbed.chaos.environment.host import own_mounts


def main() -> int:
    """Exit code 1: something is not installed."""
    mounts = own_mounts()
    try:
        # numpy starts threads, and the kernel refuses a user namespace to a process with threads.
        from testbed.chaos.cli import main as run
    except ModuleNotFoundError as missing:
        print(f"chaos: no module {missing.name}; make chaos installs it", file=sys.stderr)
        return 1
    return run(sys.argv[1:], mounts)


if __name__ == "__main__":
    sys.exit(main())
