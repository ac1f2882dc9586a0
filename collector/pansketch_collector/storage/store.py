"""What a store of releases does, whichever database keeps it.

`writer.py` has the stores. `reader.py` reads beside a process that serves, `Store` is for one that
writes. The callers of this folder depend on these two, not on a database.
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
from pansketch_collector.validation.verdicts import EstimatedTotal, Judged, StoredWindow, Verdict
from pansketch_fleet.config.loader import Config


class Store(Protocol):
    """The writing side, for one thread. Each method is one transaction: all of it is on the disk
    when it returns, or none of it. Methods raise one of ERRORS.

    Attributes:
        generation: names this database; one that was restored from a copy has another name.
    """

    @property
    def generation(self) -> str: ...

    @property
    def epochs(self) -> EpochStore:
        """Published scales, with their epochs."""

    @property
    def connection(self) -> Database:
        """For tables of their own: questions to keepers."""

    def settle(self, batch: Sequence[tuple[Incoming, Judged]], at: int) -> list[Verdict]:
        """Decides about messages that came at `at`, in unix seconds, and stores what follows."""

    def held(self, window: WindowId) -> StoredWindow | None:
        """The release that is stored of a window."""

    def high_water(self, device: str) -> list[HighWaterMark]:
        """How far a device's releases ever went; deleted ones too."""

    def stored_after(self, number: int | None) -> tuple[int, list[str]]:
        """The highest number of a stored release, and the devices of those above `number`; None:
        no device. Numbers are given in the order of the commits."""

    def serve_settings(self, config: Config, at: int) -> dict[str, list[Epoch]]:
        """Notes that the configuration's settings are served, and returns by stream all that ever
        were."""

    def portion(self, after: int, most: int) -> list[tuple[int, Stored]]:
        """At most so many stored releases after one, with their numbers."""

    def set_aside(self, number: int, damage: Damage, at: int) -> None:
        """Moves a stored release whose bytes have changed out of the releases and the sums."""

    def without_total(self, after: int, last: int) -> set[int]:
        """Numbers of the stored releases in (after, last] that have no estimated total."""

    def add_totals(self, found: Sequence[tuple[Stored, EstimatedTotal]]) -> None:
        """Stores totals of stored releases."""

    def remove(self, stream: str, seconds: int, now: int, most: int) -> int:
        """Removes at most so many releases of a stream whose windows ended `seconds` ago, and what
        is disputed of them: how many."""

    def rebuild(self) -> None:
        """Makes all sums and counts anew from the stored releases."""

    def quarantined(self, after: int, most: int) -> list[tuple[int, Incoming]]:
        """At most so many whole releases in quarantine after a row, with the rows' numbers."""

    def leave_quarantine(self, numbers: Sequence[int]) -> None:
        """Removes rows of the quarantine whose messages were ingested."""

    def exclude(self, device: str, since: int | None, until: int | None, at: int) -> int:
        """Excludes windows of a device from every answer: how many releases are stored of them."""

    def undo(self, device: str, since: int | None, until: int | None) -> int:
        """Takes exclusions of a device back: how many. Raises CommandError where there is none."""

    def forget(self, device: str, releases: bool) -> DeletionReport:
        """Deletes a device's reports, and with `releases` all that is stored of it. Raises
        CommandError for an unknown one."""

    def keep(self, numbers: Iterable[int]) -> None:
        """Has disputed releases count, and what counted until now disputed. Raises CommandError."""

    def drop(self, numbers: Iterable[int]) -> None:
        """Deletes disputed releases for good. Raises CommandError."""

    def close(self) -> None: ...
