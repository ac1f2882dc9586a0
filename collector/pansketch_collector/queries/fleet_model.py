"""From stored releases of readings to one generator for the fleet."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, fields, replace
from itertools import groupby
from math import ceil

from pansketch import DistinctSpec, Guarantee, MomentsSpec, Release, Spec
from pansketch.generators import FittedModel, TooFewReadings, common_domain
from pansketch_collector.errors import CommandError, wrong
from pansketch_collector.queries.answered_sums import AnswerReader, is_masked
from pansketch_collector.queries.basis import (
    SETTINGS,
    Basis,
    EpochShare,
    LeftOut,
    nothing_usable,
    set_aside,
)
from pansketch_collector.queries.fleet_sum import FleetSum, read_sum
from pansketch_collector.queries.generator_registry import (
    GENERATORS,
    GeneratorChoice,
    choose,
    records,
    trainer,
)
from pansketch_collector.queries.selection import check_devices, nothing_selected
from pansketch_collector.storage.reader import Reader
from pansketch_collector.storage.tables.corruption import Damage, label_damage
from pansketch_collector.storage.tables.records import Selection
from pansketch_collector.validation.accepted_specs import Epoch, spec_in
from pansketch_fleet.config.loader import Config
from pansketch_fleet.config.privacy_cost import shared
from pansketch_fleet.settings.settings import ReadingStream, Stream


class NotYet(CommandError):
    """`more_windows`: about how many more windows of all devices an answer needs, None where that
    cannot be told yet."""

    def __init__(self, text: str, more_windows: int | None) -> None:
        super().__init__(text)
        self.more_windows = more_windows

    def as_object(self) -> dict[str, object]:
        """For programs."""
        return {"refused": str(self), "more_windows": self.more_windows}


@contextmanager
def refusing(devices: int, expected_readings: float) -> Iterator[None]:
    """Raises NotYet where the noise outweighs the readings that are asked for, of so many devices
    whose windows are expected to have so many readings; 0 where nobody knows."""
    try:
        yield
    except TooFewReadings as error:
        raise not_yet(error, devices, expected_readings) from error


def not_yet(error: TooFewReadings, devices: int, expected_readings: float) -> NotYet:
    """The refusal in windows: releases of all of so many devices."""
    of = f" of {devices} devices" if devices > 1 else ""
    if error.more is not None:
        more = ceil(error.more / devices)
        windows = f"about {more:,} more window{'s' * (more != 1)}{of}"
        return NotYet(f"the noise outweighs the readings: {windows} are needed", more)
    told = "how many more windows are needed is not known yet"
    if expected_readings:
        whole = ceil(error.wanted(expected_readings) / devices)
        told += (
            f"; at the expected {expected_readings:,g} readings a window it takes about "
            f"{whole:,} window{'s' * (whole != 1)}{of}"
        )
    return NotYet(f"the noise outweighs the readings: {told}", None)


ANY_GENERATOR = GeneratorChoice()


@dataclass(frozen=True, kw_only=True)
class Merged(Basis):
    """Selected releases, merged, one for each spec. `expected_readings`: of a window, as the
    configuration has it; 0 where it has none. `training`: those of another sketch of the source,
    whose records the generator trains on. `named`: the devices, where answers of keepers name
    them."""

    releases: tuple[Release, ...] = ()
    named: frozenset[str] = frozenset()
    expected_readings: float = 0.0
    training: tuple[Release, ...] = ()

    def refusing(self) -> AbstractContextManager[None]:
        """Where questions are asked of it: what noise outweighs raises NotYet."""
        return refusing(self.devices, self.expected_readings)


@dataclass(frozen=True, kw_only=True)
class Model(Merged):
    """What the selected releases say together, and what they are.

    `fitted`: what the generator made of them.
    """

    fitted: FittedModel

    def check_sample(self) -> None:
        """Raises NotYet where synthetic readings would follow the noise."""
        with self.refusing():
            self.fitted.check()


def build(
    reader: Reader,
    config: Config,
    selection: Selection,
    choice: GeneratorChoice = ANY_GENERATOR,
) -> Model:
    """Decodes, merges per device class and epoch, grows a generator of each and adds them up.

    Raises CommandError: for an empty selection, for one of which nothing can be used, for one whose
    number of readings the noise outweighs, and for a generator or a size that does not suit the
    sketch.
    """
    check_devices(reader, selection)
    model = model_of(merged(reader, config, selection, choice), choice)
    with model.refusing():
        model.fitted.check(())
    return model


def merged(
    reader: Reader,
    config: Config,
    selection: Selection,
    choice: GeneratorChoice = ANY_GENERATOR,
    epochs: Sequence[Epoch] | None = None,
) -> Merged:
    """The releases that `build` makes a model of; their devices are not checked. `epochs`: those of
    the stream, where they are known. Raises CommandError as `build` does."""
    stream = next(s for s in config.streams if s.name == selection.stream)
    name = choose(stream.name, stream.spec.family, choice)
    epochs = reader.epochs(stream.name) if epochs is None else epochs
    counts = reader.counts(selection)
    specs, apart = _usable(stream, config.specs(stream), epochs, list(counts))
    bad: list[Damage] = []
    sums = AnswerReader(reader, selection)
    found: list[FleetSum] = []
    for spec in specs.values():
        if is_masked(spec):
            found += [FleetSum.of(release) for release in sums.read(spec)]
        else:
            found += read_sum(reader, selection, spec, bad)
    out = [*sums.left, *_unusable(reader, selection, counts, specs, apart, bad)]
    out += set_aside(bad, reader, selection, sums.excluded)
    if not found:
        raise nothing_usable(out) if out else nothing_selected(reader, selection)
    parts = tuple(_parts([each.release for each in found], epochs))
    windows = sum(each.release.count for each in found)
    named = frozenset[str]().union(*(each.devices for each in found))
    return Merged(
        generator=name,
        windows=windows,
        devices=len(named) or _devices(reader, selection, windows, specs, counts),
        span=(min(each.first for each in found), max(each.last for each in found)),
        guarantee=promise(stream, parts),
        shared=shared(stream, config.streams),
        left=tuple(out),
        parts=parts,
        answered=sums.answered,
        releases=tuple(each.release for each in found),
        named=named,
        expected_readings=(
            float(stream.expected.readings) if isinstance(stream, ReadingStream) else 0.0
        ),
        training=_training(reader, config, selection, stream) if GENERATORS[name].trained else (),
    )


def _training(
    reader: Reader, config: Config, selection: Selection, stream: Stream
) -> tuple[Release, ...]:
    """What the same devices released of another sketch of the source in the same windows; nothing
    where that cannot be used."""
    other = trainer(config.parts(stream))
    if other is None:
        return ()
    try:
        return merged(reader, config, replace(selection, stream=other.name)).releases
    except CommandError:
        return ()


def model_of(found: Merged, choice: GeneratorChoice = ANY_GENERATOR) -> Model:
    """The generator's model. It is not checked whether noise outweighs the readings. Raises
    CommandError as `build` does."""
    fitted = _fitted(found, choice)
    return Model(**{each.name: getattr(found, each.name) for each in fields(found)}, fitted=fitted)


def promise(stream: Stream, parts: Sequence[EpochShare]) -> Guarantee:
    """Of several epochs, what the configuration's own settings promise."""
    return stream.spec.guarantee if len(parts) != 1 else parts[0].guarantee


def _usable(
    stream: Stream, own: Mapping[bytes, Spec], epochs: Sequence[Epoch], wanted: Sequence[bytes]
) -> tuple[dict[bytes, Spec], dict[bytes, str]]:
    """The wanted specs whose estimates can be added, the configuration's own first, and why others
    cannot."""
    usable = {name: own[name] for name in wanted if name in own}
    why: dict[bytes, str] = {}
    for fingerprint in wanted:
        spec = None if fingerprint in own else spec_in(epochs, fingerprint)
        if spec is not None and (problem := _apart(stream.spec, spec)):
            why[fingerprint] = problem
        elif spec is not None:
            usable[fingerprint] = spec
    return usable, why


def _apart(own: Spec, other: Spec) -> str:
    """Why estimates of these two cannot be added; "" where they can."""
    if other.family != own.family:
        return f"a sketch of type {other.family}, and now it is {own.family}"
    if isinstance(own, MomentsSpec | DistinctSpec):
        return "feature sums of earlier settings, which do not add up"
    try:
        common_domain([own.domain, other.domain])  # type: ignore[attr-defined]
    except ValueError as error:
        return f"{error} under earlier settings"
    return ""


def _unusable(
    reader: Reader,
    selection: Selection,
    held: Mapping[bytes, int],
    specs: Mapping[bytes, Spec],
    why: Mapping[bytes, str],
    bad: list[Damage],
) -> Iterator[LeftOut]:
    """What is left out for its settings. Of settings that nobody knows each release is looked at:
    their name may be what has changed on the disk, and then it is damage."""
    counts: dict[str, int] = {}
    for fingerprint in sorted(held.keys() - specs.keys()):
        reason, releases = why.get(fingerprint, ""), held[fingerprint]
        if not reason:
            found = [label_damage(each) for each in reader.releases(selection, fingerprint)]
            damages = [damage for damage in found if damage is not None]
            bad.extend(damages)
            reason, releases = SETTINGS, releases - len(damages)
        counts[reason] = counts.get(reason, 0) + releases
    yield from (LeftOut(releases, reason) for reason, releases in counts.items() if releases)


def _fitted(found: Merged, choice: GeneratorChoice) -> FittedModel:
    try:
        return GENERATORS[found.generator].fit(found.releases, choice, records(found.training))
    except ValueError as error:
        raise wrong(f"{found.generator}: {error}") from error


def _devices(
    reader: Reader,
    selection: Selection,
    releases: int,
    used: Mapping[bytes, Spec],
    counts: Mapping[bytes, int],
) -> int:
    """How many devices have so many selected releases that are used."""
    specs = [] if used.keys() >= counts.keys() else list(used)
    return reader.device_count([selection], releases, specs)


def _parts(merged: Sequence[Release], epochs: Sequence[Epoch]) -> Iterator[EpochShare]:
    """The releases by epoch, the newest first. One of several epochs is of the newest of them."""

    def place(release: Release) -> int:
        fingerprint = release.spec.fingerprint
        there = (n for n, epoch in enumerate(epochs) if fingerprint in epoch.forms)
        return next(there, -1)

    for at, releases in groupby(sorted(merged, key=place), place):
        found = list(releases)
        since = None if at < 0 else epochs[at].first_served
        yield EpochShare(sum(r.count for r in found), found[0].spec.guarantee, since)
