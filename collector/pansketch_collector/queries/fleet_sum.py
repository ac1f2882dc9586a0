"""From stored sums, and the releases beside them, to one release that stands for all of them."""

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
    """One release of many, without their labels; when the first of their windows starts and the
    last one ends, in unix seconds. `devices`: their names, where they are known."""

    release: Release
    first: int
    last: int
    devices: frozenset[str] = frozenset()

    @classmethod
    def of(cls, release: Release) -> "FleetSum":
        """A release that has its labels."""
        windows = release.windows
        first, last = min(w.start for w in windows), max(w.end for w in windows)
        return cls(release, first, last, frozenset(window.device for window in windows))


def read_sum(
    reader: Reader, selection: Selection, spec: Spec, bad: list[Damage]
) -> Iterator[FleetSum]:
    """The sum of the selected releases of one spec; nothing where there are none. A release that is
    read by itself and is damaged goes to `bad`; one in a sum was whole when it was added."""
    counters, draws, count = np.zeros(sum(spec.blocks), np.int64), 0, 0
    first, last = 2**62, -(2**62)
    devices: set[str] = set()
    for part in reader.parts(selection, spec.fingerprint):
        for each in [part] if isinstance(part, Sum) else _read(reader, part, spec, bad, devices):
            assert each.counters is not None, "parts have releases read where there are none"
            counters += each.counters
            draws, count = draws + each.draws, count + each.releases
            first, last = min(first, each.first), max(last, each.last)
    if count:
        release = Release(spec, (), draws, counters, merged=count)
        named = frozenset(devices) if selection.devices is not None else frozenset()
        yield FleetSum(release, first, last, named)


def _read(
    reader: Reader, selection: Selection, spec: Spec, bad: list[Damage], devices: set[str]
) -> Iterator[Sum]:
    """Single releases. A few at a time: a fleet's releases together need not fit in memory."""
    for portion in portions(reader.releases(selection, spec.fingerprint)):
        for release in decode_intact(portion, spec, bad):
            (window,) = release.windows
            devices.add(window.device)
            yield Sum(1, release.draws, window.start, window.end, release.counters)
