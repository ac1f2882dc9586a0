"""The time by which a live stream's windows go: the wall clock's, which only labels them.

A clock that is set forward ends windows early; one that is set back a little makes the open one
longer. One that is set back further, or that wakes in 1970, would keep a window open for years.
Time then goes on from where it was, by the seconds that no one can set, until the clock has caught
up.
"""

MAX_HELD_SECONDS = 60


def far_behind(wall: float, begun: int, window_seconds: int) -> bool:
    """Whether the clock is further before the start of a window than is worth waiting for: more
    than a window, and more than a minute.
    """
    return wall < begun - max(window_seconds, MAX_HELD_SECONDS)


class Timeline:
    """Time that never leaves an open window behind, whatever the wall clock does."""

    def __init__(self, window_seconds: int) -> None:
        self._window_seconds = window_seconds
        self._newest: tuple[float, float] | None = None  # it, and the monotonic clock's seconds
        self.adrift = False  # Whether the clock is so far behind that time goes on without it.

    def now(self, wall: float, up: float, begun: int | None) -> float:
        """Unix seconds, from the wall clock's and the monotonic clock's. `begun`: start of the
        stream's open window, or of the first that it may open; None: any may be.
        """
        self.adrift = begun is not None and far_behind(wall, begun, self._window_seconds)
        if begun is None or not self.adrift:
            self._newest = (wall, up)
            return wall
        newest, then = self._newest or (begun, up)
        self._newest = (max(float(begun), newest + up - then), up)
        return self._newest[0]
