"""What is stored of the whole fleet, counted now and then: no request waits for a full count."""

from dataclasses import dataclass
from math import inf

from collector import clock
from collector.devices import Overview, overview
from collector.web.desk import Desk
from collector.web.shared import Shared

LEAST_AGE_SECONDS = 1.0
SHARE = 20  # of the time at most, a large database is being counted


@dataclass(frozen=True)
class Count:
    """`found` as it was at `at`, in unix seconds."""

    found: Overview
    at: int


class Census:
    """The last count, renewed when somebody asks and it is old: the older, the longer it took."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._last: Shared[Count] | None = None
        self._good_until = 0.0

    async def count(self) -> Count:
        """Raises CommandError when the database cannot be read."""
        if self._last is None or clock.uptime() >= self._good_until:
            self._good_until = inf  # Until it is made.
            self._last = self._desk.share(self._desk.reads, self._make, self._forget)
        return await self._last.wait()

    def _make(self) -> Count:
        began, at = clock.uptime(), clock.now()
        found = self._desk.ask(overview)
        took = clock.uptime() - began
        self._good_until = clock.uptime() + max(LEAST_AGE_SECONDS, SHARE * took)
        return Count(found, at)

    def _forget(self) -> None:
        self._last = None
