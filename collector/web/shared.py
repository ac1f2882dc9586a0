"""Work that several wait for: done once, and left undone when nobody waits for it any more."""

import asyncio
import threading
from collections.abc import Callable
from typing import Generic, TypeVar

Result = TypeVar("Result")


class Shared(Generic[Result]):
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
