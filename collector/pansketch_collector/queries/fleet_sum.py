"""The sum of stored sums and single releases: one release for the whole selection."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from pansketch import Release, Spec
from pansketch_collector.storage.reader import Reader
from pansketch_collector.storage.tables.corruption import Damage, decode_intact
from pansketch_collector.storage.tables.records import Selection, portions
from pansketch_collector.storage.tables.sums import Sum


@dataclass(frozen=True)
class FleetSum:
    """One release that is the sum of many, without their labels.

    `first`, `last`: first start and last end of their windows in unix seconds. `devices`: their
    names, if known.
    """

    release: Release
    first: int
    last: int
    devices: frozenset[str] = frozenset()

    @classmethod
    def of(cls, release: Release) -> "FleetSum":
        """The sum that consists of one release with labels."""
        windows = release.windows
        first, last = min(w.start for w in windows), max(w.end for w in windows)
        return cls(release, first, last, frozenset(window.device for window in windows))


def read_sum(
    reader: Reader, selection: Selection, spec: Spec, damaged: list[Damage]
) -> Iterator[FleetSum]:
    """The sum of the selected releases of one spec; nothing for an empty selection.

    Appends damaged single releases to `bad`; a release in a sum was intact when it was added.
    """
    counters, draws, count = np.zeros(sum(spec.blocks), np.int64), 0, 0
    first, last = 2**62, -(2**62)
    devices: set[str] = set()
    for part in reader.parts(selection, spec.fingerprint):
        for each in (
            [part] if isinstance(part, Sum) else _read(reader, part, spec, damaged, devices)
        ):
            assert each.counters is not None, "parts have releases read where there are none"
            counters += each.counters
            draws, count = draws + each.draws, count + each.releases
            first, last = min(first, each.first), max(last, each.last)
    if count:
        release = Release(spec, (), draws, counters, merged=count)
        named = frozenset(devices) if selection.devices is not None else frozenset()
        yield FleetSum(release, first, last, named)


def _read(
    reader: Reader, selection: Selection, spec: Spec, damaged: list[Damage], devices: set[str]
) -> Iterator[Sum]:
    """Single releases, a few at a time: a fleet's releases need not fit in memory."""
    for portion in portions(reader.releases(selection, spec.fingerprint)):
        for release in decode_intact(portion, spec, damaged):
            (window,) = release.windows
            devices.add(window.device)
            yield Sum(1, release.draws, window.start, window.end, release.counters)
