"""Fits one model of the fleet to stored releases of readings."""

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
    omitted_releases,
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
    """The noise outweighs the readings.

    `more_windows`: the estimated number of further windows of all devices that an answer needs;
    None if unknown.
    """

    def __init__(self, text: str, more_windows: int | None) -> None:
        super().__init__(text)
        self.more_windows = more_windows

    def as_object(self) -> dict[str, object]:
        """The error as JSON."""
        return {"refused": str(self), "more_windows": self.more_windows}


@contextmanager
def refusing(devices: int, expected_readings: float) -> Iterator[None]:
    """Raises NotYet if noise outweighs the requested readings.

    `expected_readings`: of a window; 0 if unknown.
    """
    try:
        yield
    except TooFewReadings as error:
        raise not_yet(error, devices, expected_readings) from error


def not_yet(error: TooFewReadings, devices: int, expected_readings: float) -> NotYet:
    """The error in windows of all devices."""
    of = f" of {devices} devices" if devices > 1 else ""
    if error.more is not None:
        more = ceil(error.more / devices)
        windows = f"about {more:,} more window{'s' * (more != 1)}{of}"
        verb = "is" if more == 1 else "are"
        return NotYet(f"the noise outweighs the readings: {windows} {verb} needed", more)
    text = "how many more windows are needed is not known yet"
    if expected_readings:
        total_windows = ceil(error.wanted(expected_readings) / devices)
        text += (
            f"; at the expected {expected_readings:,g} readings a window it takes about "
            f"{total_windows:,} window{'s' * (total_windows != 1)}{of}"
        )
    return NotYet(f"the noise outweighs the readings: {text}", None)


ANY_GENERATOR = GeneratorChoice()


@dataclass(frozen=True, kw_only=True)
class Merged(Basis):
    """Selected releases, merged, one for each spec.

    `expected_readings`: of a window, from the configuration; 0 if absent. `training`: releases of
    another sketch of the source, whose records the generator trains on. `named`: the devices, if
    answers of keepers name them.
    """

    releases: tuple[Release, ...] = ()
    named: frozenset[str] = frozenset()
    expected_readings: float = 0.0
    training: tuple[Release, ...] = ()

    def refusing(self) -> AbstractContextManager[None]:
        """The context for questions, which raises NotYet if noise outweighs the readings."""
        return refusing(self.devices, self.expected_readings)


@dataclass(frozen=True, kw_only=True)
class Model(Merged):
    """Merged releases, and the model that the generator fitted to them."""

    fitted: FittedModel

    def check_sample(self) -> None:
        """Raises NotYet if synthetic readings would follow the noise."""
        with self.refusing():
            self.fitted.check()


def build(
    reader: Reader,
    config: Config,
    selection: Selection,
    choice: GeneratorChoice = ANY_GENERATOR,
) -> Model:
    """Decodes and merges the releases of each device class and epoch, and fits one model to all.

    Raises CommandError: for an empty selection, for one without a usable release, for noise that
    outweighs the readings, and for an unsuitable generator or size.
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
    """The releases for `build`, without a check of their devices.

    `epochs`: those of the stream, if known. Raises CommandError as `build` does.
    """
    stream = next(s for s in config.streams if s.name == selection.stream)
    name = choose(stream.name, stream.spec.family, choice)
    epochs = reader.epochs(stream.name) if epochs is None else epochs
    counts = reader.counts(selection)
    specs, reasons = _usable(stream, config.specs(stream), epochs, list(counts))
    damaged: list[Damage] = []
    sums = AnswerReader(reader, selection)
    found: list[FleetSum] = []
    for spec in specs.values():
        if is_masked(spec):
            found += [FleetSum.of(release) for release in sums.read(spec)]
        else:
            found += read_sum(reader, selection, spec, damaged)
    out = [*sums.left, *_unusable(reader, selection, counts, specs, reasons, damaged)]
    out += omitted_releases(damaged, reader, selection, sums.excluded)
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
        guarantee=guarantee_of(stream, parts),
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
    """The releases of another sketch of the source, from the same devices and windows; none if
    unusable."""
    other = trainer(config.parts(stream))
    if other is None:
        return ()
    try:
        return merged(reader, config, replace(selection, stream=other.name)).releases
    except CommandError:
        return ()


def model_of(found: Merged, choice: GeneratorChoice = ANY_GENERATOR) -> Model:
    """The generator's model, without a check of the noise. Raises CommandError as `build` does."""
    fitted = _fitted(found, choice)
    return Model(**{each.name: getattr(found, each.name) for each in fields(found)}, fitted=fitted)


def guarantee_of(stream: Stream, parts: Sequence[EpochShare]) -> Guarantee:
    """The guarantee of a single epoch; of several epochs, that of the configuration."""
    return stream.spec.guarantee if len(parts) != 1 else parts[0].guarantee


def _usable(
    stream: Stream, own: Mapping[bytes, Spec], epochs: Sequence[Epoch], wanted: Sequence[bytes]
) -> tuple[dict[bytes, Spec], dict[bytes, str]]:
    """The wanted specs whose estimates can be added, the configuration's own first.

    Also the reasons against the others.
    """
    usable = {name: own[name] for name in wanted if name in own}
    reasons: dict[bytes, str] = {}
    for fingerprint in wanted:
        spec = None if fingerprint in own else spec_in(epochs, fingerprint)
        if spec is not None and (problem := _incompatibility(stream.spec, spec)):
            reasons[fingerprint] = problem
        elif spec is not None:
            usable[fingerprint] = spec
    return usable, reasons


def _incompatibility(own: Spec, other: Spec) -> str:
    """The reason why estimates of two specs cannot be added; "" if they can."""
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
    counts_by_spec: Mapping[bytes, int],
    specs: Mapping[bytes, Spec],
    reasons: Mapping[bytes, str],
    damaged: list[Damage],
) -> Iterator[LeftOut]:
    """The releases omitted for their settings.

    Each release with unknown settings is checked, since a changed byte in their name is damage.
    """
    counts: dict[str, int] = {}
    for fingerprint in sorted(counts_by_spec.keys() - specs.keys()):
        reason, releases = reasons.get(fingerprint, ""), counts_by_spec[fingerprint]
        if not reason:
            found = [label_damage(each) for each in reader.releases(selection, fingerprint)]
            damages = [damage for damage in found if damage is not None]
            damaged.extend(damages)
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
    """The number of devices with the selected releases of the used specs."""
    specs = [] if used.keys() >= counts.keys() else list(used)
    return reader.device_count([selection], releases, specs)


def _parts(merged: Sequence[Release], epochs: Sequence[Epoch]) -> Iterator[EpochShare]:
    """The releases by epoch, the newest first. A spec of several epochs belongs to the newest of
    them."""

    def position(release: Release) -> int:
        fingerprint = release.spec.fingerprint
        positions = (n for n, epoch in enumerate(epochs) if fingerprint in epoch.forms)
        return next(positions, -1)

    for at, releases in groupby(sorted(merged, key=position), position):
        found = list(releases)
        since = None if at < 0 else epochs[at].first_served
        yield EpochShare(sum(r.count for r in found), found[0].spec.guarantee, since)
