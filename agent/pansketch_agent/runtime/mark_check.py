"""When the agent compares the collector's mark with the ledger.

It does so before the first debit, if that could be a second one, otherwise before the first
transmission. The agent waits a little for the broker, and for the mark that the collector publishes
after the birth message.
"""

import logging
from math import inf

from pansketch_agent.mqtt.events import MarkArrived
from pansketch_agent.runtime.high_water_mark import LedgerReconciliation
from pansketch_agent.runtime.stream_worker import StreamWorker
from pansketch_fleet.protocol.messages import Mark

LOG = logging.getLogger(__name__)

CONNECT_SECONDS = 10.0  # The first debit waits so long for the broker,
MARK_SECONDS = 3.0  # and for the collector's mark after the connection.
DOUBT_SECONDS = 60.0  # The first transmission waits so long for the mark after an unchecked debit.


class MarkCheck:
    """One check in a run, and a second one with the first live mark.

    `done`: transmissions may begin. `stopped`: by stream, one line for each that must not run.
    Times are monotonic seconds.
    """

    def __init__(self, reconciliation: LedgerReconciliation, workers: list[StreamWorker]) -> None:
        self._reconciliation, self._workers = reconciliation, workers
        self.stopped: dict[str, str] = {}
        self.done = self.sent = False
        self._checked_live = self._in_doubt = self._connected = False
        self._mark: Mark | None = None
        self._connected_at = inf

    def connected(self, now: float) -> None:
        self._connected, self._connected_at = True, now

    def disconnected(self) -> None:
        self._connected = False

    def subscription_denied(self) -> None:
        """Stop waiting: the broker rejects the subscription of the mark."""
        self._connected_at = -inf

    def must_precede_debit(self) -> bool:
        """Return whether the first debit has to wait for the check."""
        return self._reconciliation.must_precede_debit()

    def step_before_debit(self, now: float, until: float) -> bool:
        """Return whether the wait before the first debit is over, at `until` at the latest."""
        if self._mark is None:
            return now >= min(until, self._connected_at + MARK_SECONDS)
        self.step(now)
        return self.done

    def debit(self) -> None:
        """Windows are debited from now on, even if the check is not done."""
        self._in_doubt = not self.done

    def step(self, now: float) -> None:
        """Check once: with the live mark of this connection, or with the retained one after a
        timeout.
        """
        waits = DOUBT_SECONDS if self._in_doubt and self._mark is None else MARK_SECONDS
        if self.done or not self._connected or now < self._connected_at + waits:
            return
        self.done = True
        if self._mark is None:
            LOG.info("no mark from the collector; continuing with the ledger")
            return
        workers = {name: worker for worker in self._workers for name in worker.names}
        stopped = self._reconciliation.check(self._mark, workers, self.sent)
        self.stopped |= stopped
        for name, worker in workers.items():
            if name in stopped and not worker.failure:
                worker.stop(stopped[name])

    def arrived(self, event: MarkArrived, now: float) -> None:
        """Store a mark. A retained one may be old until a live one arrives."""
        try:
            self._mark = Mark.decode(event.payload)
        except ValueError:
            return
        if event.live:
            self._reconciliation.requeue_missing(self._mark)
        if event.live and not self._checked_live:
            self.done, self._checked_live = False, True
            self._connected_at = -inf
            self.step(now)
