"""Requests from outside while the agent runs: announced intrusions, outbox requests, and reloads.

A reload changes the broker and the credentials only, nothing that affects a window, a reading or
the ledger. Any other difference needs a restart, so the agent refuses the whole reload.

Swap may be turned on and off meanwhile, so this module also checks the protection of memory.
"""

import logging
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
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
from pansketch_fleet.config.effective_settings import DERIVED, describe
from pansketch_fleet.config.programs import AgentConfig
from pansketch_fleet.errors import ConfigError
from pansketch_fleet.settings.settings import Stream
from pansketch_fleet.systemd import SignalEvent

LOG = logging.getLogger(__name__)

MEMORY_SECONDS = 60.0
MAX_NAMED = 4  # settings, in the line of a refused reload
_RELOADED = ("mqtt.", "agent.credentials", "collector.")
_FOLLOWING = (DERIVED, "planned for", "profile ")  # origins of settings


@dataclass(frozen=True)
class Signals:
    """Events that signal handlers set.

    `stop`: stop the agent. `intrusion`: an announced one. `outbox_request`: of the command line.
    `reload`: the configuration.
    """

    stop: SignalEvent = field(default_factory=SignalEvent)
    intrusion: SignalEvent = field(default_factory=SignalEvent)
    outbox_request: SignalEvent = field(default_factory=SignalEvent)
    reload: SignalEvent = field(default_factory=SignalEvent)


class Control:
    """Answers requests through the state folder.

    A full disk does not keep the agent from starting: its delivery may be what frees the disk.
    """

    def __init__(
        self, state: Path, signals: Signals, streams: Sequence[Stream], delivery: Delivery
    ) -> None:
        self._signals, self._streams, self._delivery = signals, streams, delivery
        self._confirmations, self._answers = Confirmations(state), OutboxReplies(state)
        try:
            self._confirmations.begin()
        except OSError as error:
            LOG.error("intrusions cannot be confirmed yet (%s); free the disk", error.strerror)

    def answer_intrusion(self, workers: Iterable[StreamWorker]) -> None:
        """Rerandomise every open sketch if an intrusion was announced, then confirm it."""
        if not self._signals.intrusion.is_set():
            return
        # Cleared first: an intrusion announced from here on is another one.
        self._signals.intrusion.clear()
        for worker in workers:
            worker.rerandomise()
        LOG.info("an intrusion was announced: %s", intrusion_effect(self._streams))
        try:
            self._confirmations.confirm()
        except OSError as error:
            LOG.error("the fresh noise cannot be confirmed (%s); free the disk", error.strerror)

    def answer_outbox_request(self) -> None:
        """Answer a request about the outbox, and retransmit if that was requested."""
        if not self._signals.outbox_request.is_set():
            return
        self._signals.outbox_request.clear()
        outbox = self._delivery.outbox
        try:
            requeued = self.retry_if_requested()
            sent, on_hold = self._delivery.attempts(), self._delivery.on_hold()
            self._answers.write(sent, outbox.buffered, outbox.dropped, on_hold, requeued)
        except OSError as error:
            LOG.error("the outbox cannot be listed (%s); check the disk", error.strerror)

    def retry_if_requested(self) -> int:
        """Retransmit if requested; return the number of requeued dead letters. Raises OSError."""
        wanted, requeued = self._answers.take_retry_request(), 0
        if wanted is None:
            return 0
        self._delivery.retry()
        LOG.info("retransmitting the releases in flight, on request")
        if wanted == REFUSED:
            requeued = self._delivery.outbox.requeue_refused()
            LOG.info("requeued dead-lettered releases, on request (releases: %d)", requeued)
        return requeued


class MemoryCheck:
    """Checks each minute whether swap can contain this memory; `required`: it must not."""

    def __init__(self, memory: MemoryProtection, required: bool, now: float) -> None:
        self._memory, self._required, self._checked_at = memory, required, now
        self.protected = memory.protected

    def step(self, now: float) -> bool:
        """Return whether the protection has changed. Raises ExposedMemoryError."""
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


def reloaded(config: AgentConfig, load: Callable[[], AgentConfig]) -> AgentConfig | None:
    """Return the result of `load`, if the running agent can use it instead of `config`.

    Otherwise return None and log one line: `config` stays in effect. `load` may raise ConfigError
    or OSError.
    """
    try:
        found = load()
    except (ConfigError, OSError) as error:
        LOG.error("the configuration before stays in effect: %s", error)
        return None
    if _fixed(config) != _fixed(found):
        named = _different(config, found) or ["streams"]
        more = f" and {len(named) - MAX_NAMED} more" if len(named) > MAX_NAMED else ""
        LOG.error(
            "the configuration before stays in effect: a reload does not change %s%s; restart the "
            "agent, which loses its open windows",
            ", ".join(named[:MAX_NAMED]),
            more,
        )
        return None
    return found


def _fixed(config: AgentConfig) -> tuple[object, ...]:
    """Return the settings of a device that stay until its agent ends."""
    own = replace(config.agent, credentials=None)
    # The other devices of a stream do not change this one's.
    streams = [replace(stream, devices=None) for stream in config.streams]
    return config.fleet, streams, config.profile, own


def _different(config: AgentConfig, found: AgentConfig) -> list[str]:
    """Return what differs and a reload cannot change: settings, and streams that come or go.

    Settings that follow from others are named if they differ alone. A secret has no name.
    """
    sent, wanted = ({each.section for each in c.streams} for c in (config, found))
    streams = [f"streams.{name} (no longer sent)" for name in sorted(sent - wanted)]
    streams += [f"streams.{name} (new)" for name in sorted(wanted - sent)]
    unequal = tuple(f"streams.{name}." for name in sent ^ wanted)
    before, after = ({each.path: each for each in describe(c)} for c in (config, found))
    stated: list[str] = []
    following: list[str] = []
    for path in {**before, **after}:
        pair = before.get(path), after.get(path)
        is_same = pair[0] and pair[1] and pair[0].value_text == pair[1].value_text
        others = re.fullmatch(r"streams\.[^.]*\.devices", path)
        if is_same or others or path.startswith((*_RELOADED, *unequal)):
            continue
        is_stated = any(each and not each.origin.startswith(_FOLLOWING) for each in pair)
        (stated if is_stated else following).append(path)
    return [*streams, *stated] or following
