"""Thread pools for blocking work: reads, fits and draws. Requests may share one piece of work."""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Generic, TypeVar

from pansketch_collector.storage.reader import Reader, reading
from pansketch_fleet.settings.settings import DatabaseServer

Result = TypeVar("Result")


class SharedTask(Generic[Result]):
    """One piece of work, for one event loop.

    What has begun is finished, whoever goes away, for the next one who asks; what has not begun is
    dropped with the last one who waits. `forget` is called when it was dropped or has failed.
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
        """What came of it. Raises what the work raised."""
        self._waiting += 1
        try:
            return await asyncio.shield(self._task)
        finally:
            self._waiting -= 1
            if not (self._waiting or self._begun.is_set() or self._task.done()):
                # Forgotten at once: nobody may come to wait for what is being dropped.
                self._forget()
                self._task.cancel()

    def _ended(self, task: "asyncio.Task[Result]") -> None:
        if task.cancelled() or task.exception() is not None:
            self._forget()
        # It holds whoever keeps this, and with it all that is kept, as long as both are there.
        del self._forget


def _pool(name: str, threads: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(threads, thread_name_prefix=name)


@dataclass(frozen=True)
class Executors:
    """A database to be read, and threads of three kinds, so that none waits for another kind."""

    database: Path | DatabaseServer
    reads: ThreadPoolExecutor = field(default_factory=lambda: _pool("read", 4))
    fits: ThreadPoolExecutor = field(default_factory=lambda: _pool("fit", 2))
    draws: ThreadPoolExecutor = field(default_factory=lambda: _pool("draw", 2))

    async def read(self, ask: Callable[[Reader], Result]) -> Result:
        """What `ask` makes of the database at one moment. Raises CommandError."""
        return await self.run(self.reads, lambda: self.ask(ask))

    def ask(self, ask: Callable[[Reader], Result]) -> Result:
        """`read`, in the thread that calls it."""
        with reading(self.database) as reader:
            return ask(reader)

    async def run(self, pool: ThreadPoolExecutor, work: Callable[[], Result]) -> Result:
        """Cancelled before a thread was free for it, the work is never done; once it has begun it
        cannot be interrupted."""
        return await asyncio.get_running_loop().run_in_executor(pool, work)

    def share(
        self,
        pool: ThreadPoolExecutor,
        work: Callable[[], Result],
        forget: Callable[[], object],
        turn: asyncio.Lock | None = None,
    ) -> SharedTask[Result]:
        """`run` for several at once, when it is its `turn`."""
        begun = threading.Event()

        def begin() -> Result:
            begun.set()
            return work()

        async def go() -> Result:
            async with turn or nullcontext():
                return await self.run(pool, begin)

        return SharedTask(asyncio.create_task(go()), begun, forget)

    def close(self) -> None:
        """Work that has not begun is left undone; what is under way ends with the process."""
        for pool in (self.reads, self.fits, self.draws):
            pool.shutdown(wait=False, cancel_futures=True)
