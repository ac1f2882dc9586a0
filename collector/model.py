"""From stored releases of readings to one generator for the fleet."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

from collector.failure import CommandError, wrong
from collector.generators import GENERATORS, Choice, Fitted, choose, readings_of
from collector.reader import Reader, Selection
from collector.selection import check_devices, nothing_selected
from fleet.config import Config
from pansketch import (
    Guarantee,
    MergeError,
    Partition,
    Release,
    Spec,
    WindowId,
    WireError,
    decode_all,
    merge,
)

ANY_GENERATOR = Choice()
TOGETHER = 16  # releases that are decoded together


@dataclass(frozen=True)
class Model:
    """What the selected releases say together, and what they are.

    `generator`: the name of what made `fitted` of them. `windows` in order; `guarantee` is what
    each of them promised; `left_out` counts releases made with settings that the configuration no
    longer has. `releases` are merged, one for each spec.
    """

    generator: str
    fitted: Fitted
    windows: tuple[WindowId, ...]
    guarantee: Guarantee
    left_out: int
    releases: tuple[Release, ...] = ()

    @property
    def partition(self) -> Partition:
        """The boxes of a generator that has some."""
        assert isinstance(self.fitted, Partition)
        return self.fitted

    @property
    def devices(self) -> tuple[str, ...]:
        return tuple(sorted({window.device for window in self.windows}))

    @property
    def span(self) -> tuple[int, int]:
        """First start and last end, unix seconds."""
        return min(w.start for w in self.windows), max(w.end for w in self.windows)


def build(
    reader: Reader, config: Config, selection: Selection, choice: Choice = ANY_GENERATOR
) -> Model:
    """Decodes, merges per device class, grows each class's generator and adds the generators up.

    Raises CommandError: for an empty selection, for one whose noisy total is not positive, for
    stored bytes that are damaged, and for a generator or a size that does not suit the sketch.
    """
    stream = next(s for s in config.streams if s.name == selection.stream)
    name = choose(stream.name, stream.spec.family, choice)
    check_devices(reader, selection)
    specs = config.specs(stream)
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
    fitted = _fitted(name, merged, choice)
    if readings_of(fitted) <= 0:
        raise CommandError(
            "the noise outweighs the few readings selected: select more, or wait for more windows"
        )
    return Model(name, fitted, windows, specs[known[0]].guarantee, left_out, tuple(merged))


def _fitted(name: str, merged: list[Release], choice: Choice) -> Fitted:
    try:
        return GENERATORS[name].fit(merged, choice)
    except ValueError as error:
        raise wrong(f"{name}: {error}") from error


def _merged(reader: Reader, selection: Selection, fingerprint: bytes, spec: Spec) -> Release:
    try:
        return merge(_decoded(reader, selection, fingerprint, spec))
    except (WireError, MergeError) as error:
        raise CommandError(
            f"a stored release of {selection.stream} is damaged ({error}): "
            "restore a copy of the database"
        ) from error


def _decoded(
    reader: Reader, selection: Selection, fingerprint: bytes, spec: Spec
) -> Iterator[Release]:
    # A few at a time: a fleet's releases together need not fit in memory.
    found = reader.releases(selection, fingerprint)
    while portion := list(islice(found, TOGETHER)):
        yield from decode_all([stored.payload for stored in portion], spec)
