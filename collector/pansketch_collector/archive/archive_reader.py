"""A `Reader` of an archive's files.

Settings, exclusions and devices' reports are read from the database. Each file is summed
separately, in one of several processes or on a Ray cluster, and the sums are joined.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial, reduce
from multiprocessing import get_context
from pathlib import Path
from typing import Final

from pansketch_collector.archive.day_files import Part, files, part, releases, spans
from pansketch_collector.errors import CommandError, wrong
from pansketch_collector.storage.reader import Reader
from pansketch_collector.storage.tables.records import Selection, Stored
from pansketch_collector.storage.tables.sums import Sum
from pansketch_fleet.child_process import end_with

BYTES_A_PROCESS: Final = (
    16 << 20
)  # of files: a process that starts for fewer costs more than it adds
Summing = Callable[[Sequence[Path], Callable[[Path], Part]], list[Part]]


def in_processes(paths: Sequence[Path], one: Callable[[Path], Part]) -> list[Part]:
    """The parts of files, computed by a process for each core while there is enough work."""
    size = sum(path.stat().st_size for path in paths)
    count = min(os.cpu_count() or 1, len(paths), size // BYTES_A_PROCESS + 1)
    if count <= 1:
        return [one(path) for path in paths]
    context = get_context("spawn")  # a fork would share the database's connection
    with ProcessPoolExecutor(count, context, end_with, (os.getpid(),)) as pool:
        return list(pool.map(one, paths))


def on_cluster(address: str) -> Summing:
    """A function that computes parts on a Ray cluster with the archive under the same path.

    Raises CommandError if Ray is not installed, or no cluster answers.
    """
    try:
        import ray
    except ImportError:
        raise wrong("--cluster needs Ray: install pansketch[cluster]") from None
    try:
        ray.init(address, log_to_driver=False, logging_level="error")
    except (ConnectionError, ValueError, RuntimeError) as error:
        text = str(error).strip().partition("\n")[0]
        raise CommandError(f"no Ray cluster at {address}: {text}") from error

    def summed(paths: Sequence[Path], one: Callable[[Path], Part]) -> list[Part]:
        remote = ray.remote(_applied)
        return list(ray.get([remote.remote(one, path) for path in paths]))

    return summed


def _applied(one: Callable[[Path], Part], path: Path) -> Part:
    """Calls `one`: Ray accepts functions, but no partial ones."""
    return one(path)


class ArchiveReader(Reader):
    """The releases of an archive's files, read as `Reader` reads those of the database.

    Keepers' answers of blinded streams are read from the database.
    """

    def __init__(self, reader: Reader, folder: Path, summing: Summing = in_processes) -> None:
        super().__init__(reader.connection)
        self._folder, self._summing = folder, summing
        self._out = self.exclusions()
        self._found: dict[Selection, Part] = {}

    def counts(self, selection: Selection) -> dict[bytes, int]:
        return {name: each.releases for name, each in sorted(self._part(selection).sums.items())}

    def parts(self, selection: Selection, fingerprint: bytes) -> Iterator[Sum | Selection]:
        found = self._part(selection).sums.get(fingerprint)
        if found is not None:
            yield found if found.counters is not None else selection

    def releases(
        self,
        selection: Selection,
        fingerprint: bytes | None = None,
        excluded: bool | None = False,
    ) -> Iterator[Stored]:
        """The selected releases without excluded ones, loaded day by day."""
        for path in files(self._folder, selection.stream, selection):
            found = [
                each
                for each in releases(path, selection.stream)
                if (fingerprint is None or each.fingerprint == fingerprint)
                and (selection.since is None or each.start >= selection.since)
                and (selection.until is None or each.start < selection.until)
                and (selection.devices is None or each.device in selection.devices)
                and not any(
                    e.device == each.device and e.since <= each.start < e.until for e in self._out
                )
            ]
            yield from sorted(found, key=lambda each: (each.start, each.device, each.sequence))

    def excluded(self, selection: Selection) -> int:
        return self._part(selection).excluded

    def damaged(self, selection: Selection) -> list[tuple[str, str, int, int, int, str]]:
        """None: an archive omits damaged releases."""
        return []

    def device_count(
        self, periods: Sequence[Selection], releases: int, fingerprints: Sequence[bytes] = ()
    ) -> int:
        devices: set[str] = set()
        for period in periods:
            for name, found in self._part(period).devices.items():
                if not fingerprints or name in fingerprints:
                    devices |= found
        return len(devices)

    def releasing_devices(self, selection: Selection) -> list[str]:
        return sorted(set[str]().union(*self._part(selection).devices.values()))

    def holders(self, stream: str, limit: int) -> list[str]:
        found = self.releasing_devices(Selection(stream))
        return found if limit < 0 else found[:limit]

    def holds(self, stream: str, device: str) -> bool:
        return device in self.holders(stream, -1)

    def stored_span(self, stream: str) -> tuple[int, int] | None:
        found = self._part(Selection(stream)).sums.values()
        if not found:
            return None
        return min(each.first for each in found), max(each.last for each in found)

    def spans(self, selection: Selection, seconds: int) -> list[int]:
        found: set[int] = set()
        for path in files(self._folder, selection.stream, selection):
            found |= spans(path, selection, self._out, seconds)
        return sorted(found)

    def _part(self, selection: Selection) -> Part:
        if selection not in self._found:
            paths = files(self._folder, selection.stream, selection)
            one = partial(part, selection=selection, exclusions=self._out)
            self._found[selection] = reduce(Part.join, self._summing(paths, one), Part())
        return self._found[selection]
