"""Bytes that releases write to the card, and the capacity of the outbox, for `validate`."""

from collections.abc import Sequence

from pansketch_agent.ledger.ledger import Ledger
from pansketch_agent.outbox.backlog import capacity_for_releases
from pansketch_agent.outbox.records import cost
from pansketch_fleet.config.blinded_summary import release_nbytes
from pansketch_fleet.settings.profiles import OutboxRules
from pansketch_fleet.settings.settings import Stream
from pansketch_fleet.units import size_text

BLOCK_BYTES = 4096  # The minimum write of a file system.
DAY_SECONDS = 86400


def written_each(stream: Stream, rules: OutboxRules) -> int:
    """Return bytes a window, in whole blocks: the ledger's line, the release, and the note of its
    ack.

    Writes of the file system for itself are not included.
    """
    blocks = 1
    if rules.persist == "always":
        # A release seldom begins with a block: one more than it fills, and one for the note.
        blocks += 2 - (-cost(release_nbytes(stream)) // BLOCK_BYTES)
    return blocks * BLOCK_BYTES


def written_daily(stream: Stream, rules: OutboxRules) -> float:
    """Return bytes a day: see `written_each`."""
    return written_each(stream, rules) * DAY_SECONDS / stream.window_seconds


class DiskWrites:
    """The bytes that an agent has written on the current UTC day, or since its start on that day.

    They follow from the number of debited windows and the expected size of a release, never from
    the releases.
    """

    def __init__(
        self, streams: Sequence[Stream], rules: OutboxRules, ledger: Ledger, now: float
    ) -> None:
        self._each = {stream.name: written_each(stream, rules) for stream in streams}
        self._ledger = ledger
        self._begin(now)

    def written_today(self, now: float) -> int:
        """Return about so many bytes. `now` in unix seconds; a clock that is set begins another
        day.
        """
        if int(now // DAY_SECONDS) != self._day:
            self._begin(now)
        since = self._since
        return sum(
            (released - since[name]) * self._each[name]
            for name, released in self._released().items()
        )

    def _begin(self, now: float) -> None:
        self._day, self._since = int(now // DAY_SECONDS), self._released()

    def _released(self) -> dict[str, int]:
        return {name: self._ledger.spent(name).releases for name in self._each}


def outbox_text(streams: Sequence[Stream], outbox_bytes: int, rules: OutboxRules) -> str:
    """Return how long the outbox lasts without the collector, its policy, and when it writes."""
    daily = sum(DAY_SECONDS / s.window_seconds * cost(release_nbytes(s)) for s in streams)
    days = capacity_for_releases(outbox_bytes) / daily
    lasts = f"{days:.0f} days" if days >= 2 else f"{24 * days:.1f} hours"
    then = {"reject_new": "new releases are dropped", "drop_oldest": "the oldest are dropped"}
    when = {
        "always": "written before it is sent",
        "when_unacknowledged": "written after seconds without an ack; a crash before loses it",
    }
    full = f"about {lasts} without the collector, then {then[rules.policy]}"
    return f"{size_text(outbox_bytes)}, {full}; a release is {when[rules.persist]}"
