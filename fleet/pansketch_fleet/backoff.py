"""Exponential backoff with jitter: for connections, sources and releases."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from random import SystemRandom

# Not the noise source of a sketch: a broker sees when a client reconnects.
system_uniform: Callable[[], float] = SystemRandom().random


@dataclass(frozen=True)
class Backoff:
    """Delays that double from `min_seconds` to `max_seconds`.

    `spread`: the jitter, as a share of a delay, up or down. `uniform`: draws from [0, 1).
    """

    min_seconds: float
    max_seconds: float
    spread: float = 0.25
    uniform: Callable[[], float] = system_uniform

    def following(self, delay_seconds: float) -> float:
        """Return the delay after one of `delay_seconds`, both without jitter; 0: the first one."""
        return min(max(2 * delay_seconds, self.min_seconds), self.max_seconds)

    def jittered(self, delay_seconds: float) -> float:
        """Return the delay with jitter, so that clients of one outage do not return together."""
        return delay_seconds * (1 - self.spread + 2 * self.spread * self.uniform())

    def delays(self) -> Iterator[float]:
        """Yield all delays in order, with jitter, without end."""
        delay = self.following(0.0)
        while True:
            yield self.jittered(delay)
            delay = self.following(delay)
