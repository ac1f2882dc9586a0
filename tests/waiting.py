"""Tests wait for a state, and never for a time.

The bound is only for a hanging test, so it is far beyond the needs of a busy machine.
"""

import time
from collections.abc import Callable

SECONDS = 180.0
# Interval between polls: first and maximum. A long wait leaves the core to the program.
POLL_SECONDS, MAX_POLL_SECONDS = 0.01, 0.05


def until(happened: Callable[[], object], what: str | Callable[[], str] = "a state") -> None:
    """Return once `happened()` is true; the failure names `what`."""
    deadline, pause = time.monotonic() + SECONDS, POLL_SECONDS
    while not happened():
        if time.monotonic() > deadline:
            raise AssertionError(f"still waiting for: {what if isinstance(what, str) else what()}")
        time.sleep(pause)
        pause = min(1.2 * pause, MAX_POLL_SECONDS)
