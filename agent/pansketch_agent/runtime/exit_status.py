"""When a run ends, and its exit status."""

import logging
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path

from pansketch_agent.delivery.delivery import Delivery
from pansketch_agent.runtime.stream_worker import StreamWorker
from pansketch_fleet.config.programs import AgentConfig

LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class RunOptions:
    """The options of a run.

    `once`: one window of each stream. `drain_seconds`: the longest wait for acknowledgements after
    the last release, None for ever. `root`: the folder with proc/ and sys/. `load`: reads the
    configuration again, None if reloads are not supported.
    """

    once: bool = False
    drain_seconds: float | None = None
    root: Path = Path("/")
    load: Callable[[], AgentConfig] | None = None


class ExitStatus:
    """Decides when a run ends: after its streams and the acknowledgement of the outbox.

    `drain_seconds`: the longest wait for that acknowledgement, None for ever.
    """

    def __init__(self, delivery: Delivery, drain_seconds: float | None) -> None:
        self._delivery, self._drain_seconds = delivery, drain_seconds
        self._finished_at: float | None = None

    def of(self, workers: Collection[StreamWorker], now: float) -> int | None:
        """Return 0, or 1 after a failure; None while there is work left."""
        if any(worker.fatal for worker in workers):
            return 1
        if not all(worker.done.is_set() for worker in workers):
            return None
        failed = any(worker.failure for worker in workers)
        if not len(self._delivery.outbox):
            return int(failed or self._delivery.refused)
        return self._drained(now)

    def _drained(self, now: float) -> int | None:
        outbox, limit = self._delivery.outbox, self._drain_seconds
        if self._finished_at is None:
            self._finished_at = now
            LOG.info(
                "waiting for the collector to acknowledge the outbox (releases: %d)", len(outbox)
            )
        if limit is None or now - self._finished_at < limit:
            return None
        LOG.error(
            "not acknowledged after %g s; kept in %s for the next start (releases: %d)",
            limit,
            outbox.folder,
            len(outbox),
        )
        return 1
