"""Where blocking work is done, off the event loop: reading, fitting and drawing."""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from collector.reader import Reader, reading
from collector.web.shared import Shared

Result = TypeVar("Result")


def _pool(name: str, threads: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(threads, thread_name_prefix=name)


@dataclass(frozen=True)
class Desk:
    """A database to be read, and threads of three kinds, so that none waits for another kind."""

    database: Path
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
    ) -> Shared[Result]:
        """`run` for several at once, when it is its `turn`."""
        begun = threading.Event()

        def begin() -> Result:
            begun.set()
            return work()

        async def go() -> Result:
            async with turn or nullcontext():
                return await self.run(pool, begin)

        return Shared(asyncio.create_task(go()), begun, forget)

    def close(self) -> None:
        """Work that has not begun is left undone; what is under way ends with the process."""
        for pool in (self.reads, self.fits, self.draws):
            pool.shutdown(wait=False, cancel_futures=True)
