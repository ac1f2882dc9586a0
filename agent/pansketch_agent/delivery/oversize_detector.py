"""Finds the release for which the broker ends the connection, because it is too large.

A broker of MQTT 3.1.1 does not state its limits, and some of MQTT 5 do not either: they close the
connection. After such an end, releases larger than any accepted one are sent one at a time, so the
next end has a single suspect. A broken network looks the same, so a release has to fail several
times.
"""

from collections import Counter
from collections.abc import Collection, Mapping

from pansketch_agent.outbox.records import Key

STRIKES = 3


class OversizeDetector:
    """Counts ends of connections by suspected release. Sizes are in bytes."""

    def __init__(self) -> None:
        self._isolating = False
        self._accepted_bytes = 0
        self._strikes: Counter[Key] = Counter()

    def may_send(self, size: int, unanswered: Collection[int]) -> bool:
        """Return whether a release of this size may be sent while those of `unanswered` have no
        PUBACK.
        """
        one_more = not self._isolating or size <= self._accepted_bytes
        return one_more or all(each <= self._accepted_bytes for each in unanswered)

    def accepted(self, key: Key, size: int) -> None:
        """Record a PUBACK: no release of this size or less is too large."""
        self._accepted_bytes = max(self._accepted_bytes, size)
        self._strikes.pop(key, None)

    def has_accepted(self, size: int) -> bool:
        """Return whether the broker accepted a release at least as large since the last end."""
        return size <= self._accepted_bytes

    def connection_lost(self, unanswered: Mapping[Key, int]) -> Key | None:
        """Return the release that made the broker end the connection, if it is clear."""
        suspects = [key for key, size in unanswered.items() if size > self._accepted_bytes]
        alone = self._isolating and len(suspects) == 1
        self._isolating = self._isolating or bool(unanswered)
        if unanswered:
            self._accepted_bytes = 0  # The broker may have lower limits than before.
        if not alone:
            return None
        (key,) = suspects
        self._strikes[key] += 1
        if self._strikes[key] < STRIKES:
            return None
        self._strikes[key] = STRIKES - 1  # Its next transmission is the last chance.
        return key
