"""How tests wait: for a state, and never for a time. The bound is there for what hangs alone, so it
is far beyond what a busy machine needs."""

import time
from collections.abc import Callable

SECONDS = 180.0
# Between two looks: first and at most. Whoever waits long leaves the core to the program.
POLL_SECONDS, MAX_POLL_SECONDS = 0.01, 0.05


def until(happened: Callable[[], object], what: str | Callable[[], str] = "a state") -> None:
    """Returns as soon as it has; `what` is said otherwise."""
    deadline, pause = time.monotonic() + SECONDS, POLL_SECONDS
    while not happened():
        if time.monotonic() > deadline:
            raise AssertionError(f"still waiting for: {what if isinstance(what, str) else what()}")
        time.sleep(pause)
        pause = min(1.2 * pause, MAX_POLL_SECONDS)
