"""The only module that reads this program's clock."""

import time


def now() -> int:
    """The wall clock in whole unix seconds."""
    return int(time.time())


def uptime() -> float:
    """Monotonic seconds; only differences are meaningful."""
    return time.monotonic()
