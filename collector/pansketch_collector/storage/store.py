"""The interface of a store of releases, independent of the database.

`writer.py` implements it. `reader.py` reads beside a serving process; `Store` belongs to a writing
one. Callers of this folder depend on these two, not on a database.
"""

from collections.abc import Iterable, Sequence
from typing import Protocol

from pansketch import WindowId
from pansketch_collector.mqtt.connection import Incoming
from pansketch_collector.storage.config_epochs import EpochStore
from pansketch_collector.storage.exclusions import DeletionReport
from pansketch_collector.storage.tables.connection import Database
from pansketch_collector.storage.tables.corruption import Damage
from pansketch_collector.storage.tables.holdings import HighWaterMark
from pansketch_collector.storage.tables.records import Stored
from pansketch_collector.validation.accepted_specs import Epoch
from pansketch_collector.validation.verdicts import EstimatedTotal, Outcome, StoredWindow, Validated
from pansketch_fleet.config.loader import Config


class Store(Protocol):
    """The writing side, for one thread.

    Each method is one transaction: when it returns, its whole effect is on the disk; when it
    raises, nothing is. Methods raise one of ERRORS.

    Attributes:
        generation: names this database; one that was restored from a copy has another name.
        workers: the secret name of the processes that ingest into it; "" if one process does.
    """

    @property
    def generation(self) -> str: ...

    @property
    def workers(self) -> str: ...

    @property
    def epochs(self) -> EpochStore:
        """Published scales, with their epochs."""

    @property
    def connection(self) -> Database:
        """The connection, for modules with their own tables."""

    def commit(self, batch: Sequence[tuple[Incoming, Validated]], at: int) -> list[Outcome]:
        """Decides about messages received at `at` (unix seconds) and stores the effects."""

    def stored_window(self, window: WindowId) -> StoredWindow | None:
        """The stored release of a window."""

    def high_water(self, device: str) -> list[HighWaterMark]:
        """The last release of each of a device's ledgers, including deleted ones."""

    def stored_after(self, number: int | None) -> tuple[int, list[str]]:
        """The highest number of a stored release, and the devices of those above `number`.

        None: no device. The database assigns numbers in the order of the commits.
        """

    def serve_settings(self, config: Config, at: int) -> dict[str, list[Epoch]]:
        """Stores that the configuration's settings are served; returns all epochs by stream."""

    def portion(self, after: int, limit: int) -> list[tuple[int, Stored]]:
        """At most `limit` stored releases after number `after`, with their numbers."""

    def move_damaged(self, number: int, damage: Damage, at: int) -> None:
        """Moves a damaged stored release out of the releases and the sums."""

    def without_total(self, after: int, last: int) -> set[int]:
        """Numbers of the stored releases in (after, last] without an estimated total."""

    def add_totals(self, found: Sequence[tuple[Stored, EstimatedTotal]]) -> None:
        """Stores totals of stored releases."""

    def remove(self, stream: str, seconds: int, now: int, limit: int) -> int:
        """Removes releases of a stream whose windows ended `seconds` ago, and disputed ones of
        them.

        Removes at most `limit` and returns the number of removed releases.
        """

    def rebuild(self) -> None:
        """Recomputes all sums and counts from the stored releases."""

    def quarantined(self, after: int, limit: int) -> list[tuple[int, Incoming]]:
        """At most `limit` whole releases in quarantine after row `after`, with their row
        numbers."""

    def leave_quarantine(self, numbers: Sequence[int]) -> None:
        """Removes the quarantine rows of ingested messages."""

    def exclude(self, device: str, since: int | None, until: int | None, at: int) -> int:
        """Excludes windows of a device from every answer; returns the number of their stored
        releases."""

    def undo(self, device: str, since: int | None, until: int | None) -> int:
        """Removes exclusions of a device; returns their number. Raises CommandError if there is
        none."""

    def forget(self, device: str, releases: bool) -> DeletionReport:
        """Deletes a device's reports, and with `releases` all its stored data. Raises CommandError
        for an unknown device."""

    def keep(self, numbers: Iterable[int]) -> None:
        """Exchanges disputed releases with the counted ones of their windows. Raises
        CommandError."""

    def drop(self, numbers: Iterable[int]) -> None:
        """Deletes disputed releases permanently. Raises CommandError."""

    def close(self) -> None: ...
