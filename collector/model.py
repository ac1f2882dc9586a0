"""From stored releases to one generator for the fleet."""

from collections.abc import Iterator
from dataclasses import dataclass

from collector.failure import CommandError
from collector.reader import Reader, Selection
from collector.selection import check_devices, nothing_selected
from fleet.config import Config
from pansketch import (
    Guarantee,
    HierarchySpec,
    MergeError,
    Partition,
    Release,
    WindowId,
    WireError,
    combine,
    decode,
    merge,
    privhp,
)


@dataclass(frozen=True)
class Model:
    """What the selected releases say together, and what they are.

    `windows` in order; `guarantee` is what each of them promised; `left_out` counts releases made
    with settings that the configuration no longer has.
    """

    partition: Partition
    windows: tuple[WindowId, ...]
    guarantee: Guarantee
    left_out: int

    @property
    def devices(self) -> tuple[str, ...]:
        return tuple(sorted({window.device for window in self.windows}))

    @property
    def span(self) -> tuple[int, int]:
        """First start and last end, unix seconds."""
        return min(w.start for w in self.windows), max(w.end for w in self.windows)


def build(reader: Reader, config: Config, selection: Selection) -> Model:
    """Decodes, merges per device class, grows each class's generator and adds the generators up.

    Raises CommandError: for an empty selection, for one whose noisy total is not positive, and for
    stored bytes that are damaged.
    """
    check_devices(reader, selection)
    specs = config.specs(next(s for s in config.streams if s.name == selection.stream))
    found = reader.fingerprints(selection)
    if not found:
        raise nothing_selected(reader, selection)
    known = [fingerprint for fingerprint in found if fingerprint in specs]
    if not known:
        raise CommandError(
            f"all stored releases of {selection.stream} were made with other settings than the "
            "configuration's: use the configuration that the devices had"
        )
    merged = [_merged(reader, selection, f, specs[f]) for f in known]
    left_out = sum(reader.count(selection, f) for f in found if f not in specs)
    windows = tuple(sorted(w for release in merged for w in release.windows))
    partition = combine([privhp(release) for release in merged])
    if partition.total <= 0:
        raise CommandError(
            "the noise outweighs the few readings selected: select more, or wait for more windows"
        )
    return Model(partition, windows, specs[known[0]].guarantee, left_out)


def _merged(
    reader: Reader, selection: Selection, fingerprint: bytes, spec: HierarchySpec
) -> Release:
    try:
        return merge(_decoded(reader, selection, fingerprint, spec))
    except (WireError, MergeError) as error:
        raise CommandError(
            f"a stored release of {selection.stream} is damaged ({error}): "
            "restore a copy of the database"
        ) from error


def _decoded(
    reader: Reader, selection: Selection, fingerprint: bytes, spec: HierarchySpec
) -> Iterator[Release]:
    # One at a time: a fleet's releases together need not fit in memory.
    for stored in reader.releases(selection, fingerprint):
        yield decode(stored.payload, spec)
