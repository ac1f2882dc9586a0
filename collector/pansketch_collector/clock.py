"""The only reader of this program's clock."""

import time


def now() -> int:
    """The wall clock in whole unix seconds."""
    return int(time.time())


def uptime() -> float:
    """Seconds on a clock that never jumps; only differences mean anything."""
    return time.monotonic()
