"""Exponential backoff with jitter: for connections, sources and releases."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from random import SystemRandom

# Not the noise source of a sketch: a broker sees when a client comes back.
system_chance: Callable[[], float] = SystemRandom().random


@dataclass(frozen=True)
class Backoff:
    """Pauses that double from `min_seconds` to `max_seconds`.

    `spread`: the jitter, as a share of a pause, up or down. `chance`: uniform in [0, 1).
    """

    min_seconds: float
    max_seconds: float
    spread: float = 0.25
    chance: Callable[[], float] = system_chance

    def after(self, pause_seconds: float) -> float:
        """The pause that follows one of `pause_seconds`, both without jitter; 0: the first one."""
        return min(max(2 * pause_seconds, self.min_seconds), self.max_seconds)

    def jittered(self, pause_seconds: float) -> float:
        """The pause with its jitter: clients that were cut off together return spread out."""
        return pause_seconds * (1 - self.spread + 2 * self.spread * self.chance())

    def pauses(self) -> Iterator[float]:
        """All pauses in order, with jitter, without end."""
        pause = self.after(0.0)
        while True:
            yield self.jittered(pause)
            pause = self.after(pause)
