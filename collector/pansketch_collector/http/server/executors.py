"""Thread pools for blocking work: reads, fits and draws. Requests may share one piece of work.

A count of a large fleet is kept for a time that grows with its cost.
"""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass, field
from math import inf
from pathlib import Path
from typing import Generic, TypeVar

from pansketch_collector import clock
from pansketch_collector.storage.reader import Reader, reading
from pansketch_fleet.settings.settings import DatabaseServer

MIN_AGE_SECONDS = 1.0
COUNT_LIFETIME_FACTOR = 20  # lifetime of a count, relative to its time

Result = TypeVar("Result")


class SharedTask(Generic[Result]):
    """One piece of work for several waiting callers, in one event loop.

    Work that has begun is finished even if all callers leave, for the next caller. Work that has
    not begun is cancelled with the last caller. `forget` is called after a cancellation or failure.
    """

    def __init__(
        self,
        task: "asyncio.Task[Result]",
        begun: threading.Event,
        forget: Callable[[], object],
    ) -> None:
        self._task, self._begun, self._forget = task, begun, forget
        self._waiting = 0
        task.add_done_callback(self._ended)

    async def wait(self) -> Result:
        """The result. Raises the exception of the work."""
        self._waiting += 1
        try:
            return await asyncio.shield(self._task)
        finally:
            self._waiting -= 1
            if not (self._waiting or self._begun.is_set() or self._task.done()):
                # Forgotten at once: no caller may wait for cancelled work.
                self._forget()
                self._task.cancel()

    def _ended(self, task: "asyncio.Task[Result]") -> None:
        if task.cancelled() or task.exception() is not None:
            self._forget()
        # A reference cycle with the cache would keep its entries in memory.
        del self._forget


def _pool(name: str, threads: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(threads, thread_name_prefix=name)


@dataclass(frozen=True)
class Executors:
    """A database, and three thread pools, so that no kind of work waits for another."""

    database: Path | DatabaseServer
    reads: ThreadPoolExecutor = field(default_factory=lambda: _pool("read", 4))
    fits: ThreadPoolExecutor = field(default_factory=lambda: _pool("fit", 2))
    draws: ThreadPoolExecutor = field(default_factory=lambda: _pool("draw", 2))

    async def read(self, query: Callable[[Reader], Result]) -> Result:
        """The result of a query on one snapshot of the database. Raises CommandError."""
        return await self.run(self.reads, lambda: self.read_blocking(query))

    def read_blocking(self, read: Callable[[Reader], Result]) -> Result:
        """Like `read`, in the calling thread."""
        with reading(self.database) as reader:
            return read(reader)

    async def run(self, pool: ThreadPoolExecutor, work: Callable[[], Result]) -> Result:
        """Runs work in a pool. A cancellation has no effect once a thread has begun it."""
        return await asyncio.get_running_loop().run_in_executor(pool, work)

    def share(
        self,
        pool: ThreadPoolExecutor,
        work: Callable[[], Result],
        forget: Callable[[], object],
        lock: asyncio.Lock | None = None,
    ) -> SharedTask[Result]:
        """Like `run`, for several callers; `lock` is held during the work."""
        begun = threading.Event()

        def begin() -> Result:
            begun.set()
            return work()

        async def go() -> Result:
            async with lock or nullcontext():
                return await self.run(pool, begin)

        return SharedTask(asyncio.create_task(go()), begun, forget)

    def close(self) -> None:
        """Cancels work that has not begun; running work ends with the process."""
        for pool in (self.reads, self.fits, self.draws):
            pool.shutdown(wait=False, cancel_futures=True)


@dataclass(frozen=True)
class Count(Generic[Result]):
    """The figures `found`, read at `at` (unix seconds)."""

    found: Result
    at: int


class CachedCount(Generic[Result]):
    """The last figures that a query read, renewed on request after they expire."""

    def __init__(self, executors: Executors, query: Callable[[Reader], Result]) -> None:
        self._executors, self._query = executors, query
        self._last: SharedTask[Count[Result]] | None = None
        self._expires_at = 0.0

    async def count(self) -> Count[Result]:
        """Raises CommandError when the database cannot be read."""
        if self._last is None or clock.uptime() >= self._expires_at:
            self._expires_at = inf  # until the count is finished
            self._last = self._executors.share(self._executors.reads, self._make, self.forget)
        return await self._last.wait()

    def _make(self) -> Count[Result]:
        began, at = clock.uptime(), clock.now()
        found = self._executors.read_blocking(self._query)
        took = clock.uptime() - began
        self._expires_at = clock.uptime() + max(MIN_AGE_SECONDS, COUNT_LIFETIME_FACTOR * took)
        return Count(found, at)

    def forget(self) -> None:
        """Clears the cache."""
        self._last = None
