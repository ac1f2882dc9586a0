"""Releases that the collector does not take yet: when each is sent again, and what is said of it.

A collector that is configured otherwise than the device, has another clock or is of another version
answers "later". The release stays in the outbox and is retried with exponential backoff and jitter.
Once the collector takes one of them, the others of its stream that had the same reason follow.
"""

import logging
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace

from pansketch_agent.outbox.outbox import Key, Outbox
from pansketch_fleet.backoff import Backoff
from pansketch_fleet.protocol.messages import MAX_CLASSES, Ack

LOG = logging.getLogger(__name__)

FIRST_PAUSE_SECONDS = 60.0
MAX_PAUSE_SECONDS = 3600.0


@dataclass(frozen=True, slots=True)
class Deferral:
    """`reason`: the class of the collector's reason. `pause_seconds`: the last, before jitter."""

    reason: str
    pause_seconds: float


class Deferrals:
    """By release, why the collector has deferred it. `chance`: uniform in [0, 1), for the jitter.

    Times are monotonic seconds.
    """

    def __init__(self, chance: Callable[[], float]) -> None:
        self._backoff = Backoff(FIRST_PAUSE_SECONDS, MAX_PAUSE_SECONDS, chance=chance)
        self._deferred: dict[Key, Deferral] = {}
        self._said: set[tuple[str, str]] = set()

    def defer(self, key: Key, ack: Ack, now: float) -> float:
        """Notes the answer "later", and returns when the release is to be sent again."""
        last = self._deferred.get(key)
        pause = self._backoff.after(last.pause_seconds if last else 0.0)
        self._deferred[key] = Deferral(ack.reason_class, pause)
        if (key.stream, ack.reason_class) not in self._said:
            self._said.add((key.stream, ack.reason_class))
            LOG.warning(
                "%s: the collector deferred release %d (%s); releases stay in the outbox "
                "and are retried, at least hourly",
                key.stream,
                key.sequence,
                ack.reason or "no reason given",
            )
        return now + self._backoff.jittered(pause)

    def taken(self, key: Key) -> list[Key]:
        """The collector has this one now: those that it may take as well."""
        had = self._deferred.pop(key, None)
        if had is None:
            return []
        likewise = [
            other
            for other, deferral in self._deferred.items()
            if other.stream == key.stream and deferral.reason == had.reason
        ]
        if (key.stream, had.reason) in self._said:
            self._said.discard((key.stream, had.reason))
            LOG.info("%s: the collector stored a deferred release (%s)", key.stream, had.reason)
        return likewise

    def forget(self, key: Key) -> None:
        self._deferred.pop(key, None)

    def forget_gone(self, outbox: Outbox) -> None:
        """Drops what is in the outbox no more."""
        for key in [key for key in self._deferred if key not in outbox]:
            del self._deferred[key]

    def hurry(self) -> None:
        """All of them are sent at once: their pauses begin anew."""
        self._deferred = {k: replace(each, pause_seconds=0.0) for k, each in self._deferred.items()}

    def counts(self) -> dict[str, int]:
        """How many there are by the class of the reason; beyond MAX_CLASSES, under "other"."""
        found = Counter(each.reason for each in self._deferred.values())
        classes = dict(found.most_common(MAX_CLASSES - 1))
        if rest := found.total() - sum(classes.values()):
            classes["other"] = classes.get("other", 0) + rest
        return classes
