"""How tests wait: for a state, and never for a time. The bound is there for what hangs alone, so it
is far beyond what a busy machine needs."""

import time
from collections.abc import Callable

SECONDS = 180.0
LOOK_SECONDS = 0.01


def until(happened: Callable[[], object], what: str | Callable[[], str] = "a state") -> None:
    """Returns as soon as it has; `what` is said otherwise."""
    deadline = time.monotonic() + SECONDS
    while not happened():
        if time.monotonic() > deadline:
            raise AssertionError(f"still waiting for: {what if isinstance(what, str) else what()}")
        time.sleep(LOOK_SECONDS)
