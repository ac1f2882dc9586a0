"""Releases that the collector defers: their retries, and their log lines.

A collector with another configuration, clock or version than the device answers "later". The
release stays in the outbox and is retried with exponential backoff and jitter. When the collector
stores one of them, the others of its stream with the same reason are retried, too.
"""

import logging
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace

from pansketch_agent.outbox.outbox import Key, Outbox
from pansketch_fleet.backoff import Backoff
from pansketch_fleet.protocol.messages import MAX_CLASSES, Ack

LOG = logging.getLogger(__name__)

FIRST_DELAY_SECONDS = 60.0
MAX_DELAY_SECONDS = 3600.0


@dataclass(frozen=True, slots=True)
class Deferral:
    """`reason`: the class of the collector's reason. `delay_seconds`: the last delay, before
    jitter.
    """

    reason: str
    delay_seconds: float


class Deferrals:
    """The deferred releases. `uniform`: draws from [0, 1), for the jitter.

    Times are monotonic seconds.
    """

    def __init__(self, uniform: Callable[[], float]) -> None:
        self._backoff = Backoff(FIRST_DELAY_SECONDS, MAX_DELAY_SECONDS, uniform=uniform)
        self._deferred: dict[Key, Deferral] = {}
        self._logged: set[tuple[str, str]] = set()

    def defer(self, key: Key, ack: Ack, now: float) -> float:
        """Record the answer "later", and return the time of the next transmission."""
        last = self._deferred.get(key)
        delay = self._backoff.following(last.delay_seconds if last else 0.0)
        self._deferred[key] = Deferral(ack.reason_class, delay)
        if (key.stream, ack.reason_class) not in self._logged:
            self._logged.add((key.stream, ack.reason_class))
            LOG.warning(
                "%s: the collector deferred release %d (%s); releases stay in the outbox "
                "and are retried, at least hourly",
                key.stream,
                key.sequence,
                ack.reason or "no reason given",
            )
        return now + self._backoff.jittered(delay)

    def acknowledged(self, key: Key) -> list[Key]:
        """The collector stored this release. Return others that it may store now, too."""
        before = self._deferred.pop(key, None)
        if before is None:
            return []
        same_reason = [
            other
            for other, deferral in self._deferred.items()
            if other.stream == key.stream and deferral.reason == before.reason
        ]
        if (key.stream, before.reason) in self._logged:
            self._logged.discard((key.stream, before.reason))
            LOG.info("%s: the collector stored a deferred release (%s)", key.stream, before.reason)
        return same_reason

    def forget(self, key: Key) -> None:
        self._deferred.pop(key, None)

    def forget_removed(self, outbox: Outbox) -> None:
        """Forget releases that have left the outbox."""
        for key in [key for key in self._deferred if key not in outbox]:
            del self._deferred[key]

    def reset_delays(self) -> None:
        """Restart the backoff of every release, because all of them are sent at once."""
        self._deferred = {k: replace(each, delay_seconds=0.0) for k, each in self._deferred.items()}

    def counts(self) -> dict[str, int]:
        """Count the releases by class of reason; classes beyond MAX_CLASSES are under "other"."""
        found = Counter(each.reason for each in self._deferred.values())
        classes = dict(found.most_common(MAX_CLASSES - 1))
        if rest := found.total() - sum(classes.values()):
            classes["other"] = classes.get("other", 0) + rest
        return classes
