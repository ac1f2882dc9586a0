"""Which release makes the broker end the connection, as one that is too large for it does.

A broker of MQTT 3.1.1 says nothing of its limits, and some of MQTT 5 do not either: they just hang
up. So after an end with releases unanswered, those larger than what the broker has taken since go
one at a time; then an end has one release to blame. A network that breaks does the same, so it has
to happen again and again to the same release.
"""

from collections import Counter
from collections.abc import Collection, Mapping

from pansketch_agent.outbox.records import Key

STRIKES = 3


class OversizeDetector:
    """Ends of connections, and what the broker took between them. Sizes are in bytes."""

    def __init__(self) -> None:
        self._careful = False
        self._taken = 0
        self._strikes: Counter[Key] = Counter()

    def may_send(self, size: int, unanswered: Collection[int]) -> bool:
        """Whether one of this size may go while those of the sizes `unanswered` are on the way."""
        one_more = not self._careful or size <= self._taken
        return one_more or all(each <= self._taken for each in unanswered)

    def took(self, key: Key, size: int) -> None:
        """The broker has it: whatever is no larger is not too large."""
        self._taken = max(self._taken, size)
        self._strikes.pop(key, None)

    def absolves(self, size: int) -> bool:
        """Whether the broker has taken one at least as large since the last end."""
        return size <= self._taken

    def ended(self, unanswered: Mapping[Key, int]) -> Key | None:
        """A connection has ended while these were unanswered: the one to blame, if it is clear."""
        suspects = [key for key, size in unanswered.items() if size > self._taken]
        alone = self._careful and len(suspects) == 1
        self._careful = self._careful or bool(unanswered)
        if unanswered:
            self._taken = 0  # The broker may have lower limits than before.
        if not alone:
            return None
        (key,) = suspects
        self._strikes[key] += 1
        if self._strikes[key] < STRIKES:
            return None
        self._strikes[key] = STRIKES - 1  # Once more is enough when it has its next turn.
        return key
