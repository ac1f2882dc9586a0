"""Requests from outside while the agent runs: announced intrusions and questions about the outbox.

Swap may be turned on and off meanwhile, so the protection of memory is checked here too.
"""

import logging
import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pansketch_agent.control.requests import (
    REFUSED,
    Confirmations,
    OutboxReplies,
    intrusion_effect,
)
from pansketch_agent.delivery.delivery import Delivery
from pansketch_agent.host.hardening import MemoryProtection
from pansketch_agent.runtime.stream_worker import StreamWorker
from pansketch_fleet.settings.settings import Stream

LOG = logging.getLogger(__name__)

MEMORY_SECONDS = 60.0


@dataclass(frozen=True)
class Signals:
    """Events that signal handlers set: `stop` the agent, an announced intrusion, or a question
    about the outbox."""

    stop: threading.Event = field(default_factory=threading.Event)
    intruded: threading.Event = field(default_factory=threading.Event)
    asked: threading.Event = field(default_factory=threading.Event)


class Control:
    """Answers requests through the state folder. Raises OSError where it cannot be written."""

    def __init__(
        self, state: Path, signals: Signals, streams: Sequence[Stream], delivery: Delivery
    ) -> None:
        self._signals, self._streams, self._delivery = signals, streams, delivery
        self._confirmations, self._answers = Confirmations(state), OutboxReplies(state)
        self._confirmations.write()

    def answer_intrusion(self, workers: Iterable[StreamWorker]) -> None:
        """Rerandomises every open sketch if an intrusion was announced, then confirms it."""
        if not self._signals.intruded.is_set():
            return
        # Cleared first: an intrusion announced from here on is another one.
        self._signals.intruded.clear()
        for worker in workers:
            worker.rerandomise()
        LOG.info("an intrusion was announced: %s", intrusion_effect(self._streams))
        try:
            self._confirmations.confirm()
        except OSError as error:
            LOG.error("the fresh noise cannot be confirmed (%s); free the disk", error.strerror)

    def answer_question(self) -> None:
        """Answers a question about the outbox, and retransmits if that was requested."""
        if not self._signals.asked.is_set():
            return
        self._signals.asked.clear()
        outbox = self._delivery.outbox
        try:
            taken_back = self.retry_if_requested()
            sent, held_back = self._delivery.attempts(), self._delivery.held_back()
            self._answers.write(sent, outbox.held, outbox.dropped, held_back, taken_back)
        except OSError as error:
            LOG.error("the outbox cannot be listed (%s); check the disk", error.strerror)

    def retry_if_requested(self) -> int:
        """The number of dead-lettered releases that are queued again. Raises OSError."""
        wanted, taken_back = self._answers.asked_to_retry(), 0
        if wanted is None:
            return 0
        self._delivery.retry()
        LOG.info("retransmitting the releases in flight, on request")
        if wanted == REFUSED:
            taken_back = self._delivery.outbox.take_back()
            LOG.info("requeued dead-lettered releases, on request (releases: %d)", taken_back)
        return taken_back


class MemoryCheck:
    """Checks each minute whether swap can hold this process's memory; `required`: it must not."""

    def __init__(self, memory: MemoryProtection, required: bool, now: float) -> None:
        self._memory, self._required, self._checked_at = memory, required, now
        self.protected = memory.protected

    def step(self, now: float) -> bool:
        """Whether the protection has changed. Raises ExposedMemoryError."""
        if now - self._checked_at < MEMORY_SECONDS:
            return False
        self._checked_at = now
        if self._required:
            self._memory.demand()
        if (protected := self._memory.protected) == self.protected:
            return False
        self.protected = protected
        LOG.warning("the memory of this agent: %s", self._memory)
        return True
