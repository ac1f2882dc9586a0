"""What is stored of the whole fleet, counted now and then: no request waits for a full count."""

import asyncio
from dataclasses import dataclass

from collector import clock
from collector.devices import Overview, overview
from collector.web.desk import Desk

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
        self._turn = asyncio.Lock()
        self._last: Count | None = None
        self._good_until = 0.0

    async def count(self) -> Count:
        """Raises CommandError when the database cannot be read."""
        async with self._turn:
            if self._last is None or clock.uptime() >= self._good_until:
                began, at = clock.uptime(), clock.now()
                self._last = Count(await self._desk.read(overview), at)
                took = clock.uptime() - began
                self._good_until = clock.uptime() + max(LEAST_AGE_SECONDS, SHARE * took)
            return self._last
