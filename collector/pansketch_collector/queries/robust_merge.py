"""The robust merge: groups of devices are asked apart, and the answer is the median.

A device that invents its readings moves the answer of its own group alone. Devices are dealt to
groups by public hashes of their names, never by what they report.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from math import inf, pi, sqrt
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from pansketch.generators import Estimates
from pansketch_collector.errors import CommandError, wrong
from pansketch_collector.queries import questions as query
from pansketch_collector.queries.answered_sums import PER_DEVICE, is_masked
from pansketch_collector.queries.answers import Answer, Matrix
from pansketch_collector.queries.basis import EXCLUDED, Basis, LeftOut, joined_parts, joined_span
from pansketch_collector.queries.fleet_model import (
    ANY_GENERATOR,
    Model,
    NotYet,
    build,
    guarantee_of,
)
from pansketch_collector.queries.generator_registry import GeneratorChoice
from pansketch_collector.queries.selection import check_devices
from pansketch_collector.storage.reader import Reader
from pansketch_collector.storage.tables.corruption import Damage
from pansketch_collector.storage.tables.records import Selection
from pansketch_fleet.config.loader import Config
from pansketch_fleet.settings.settings import Stream

MIN_DEVICES = 5
MAX_GROUPS = 9
MEDIAN = sqrt(pi / 2)  # standard error of a median in that of a mean, for normal values
# The median of absolute deviations of so many normal values, times this, is a standard deviation.
# It is wide enough: a median lies within two of its standard errors in 95.4 % of all cases.
WIDTHS = {4: 4.04, 5: 3.98, 6: 2.72, 7: 2.76, 8: 2.29, 9: 2.32}

Floats = npt.NDArray[np.float64]
Result = TypeVar("Result")


@dataclass(frozen=True, kw_only=True)
class Groups(Basis):
    """Disjoint groups of devices, each with a model of its own. `formed`: how many groups there
    were; the releases of one that gives no answer are in `left`."""

    models: tuple[Model, ...]
    stream: Stream
    formed: int


def _groups(
    models: Sequence[Model], stream: Stream, formed: int, left: Sequence[LeftOut]
) -> Groups:
    parts = tuple(joined_parts(part for model in models for part in model.parts))
    return Groups(
        generator=models[0].generator,
        windows=sum(model.windows for model in models),
        devices=sum(model.devices for model in models),
        span=joined_span(models),
        guarantee=guarantee_of(stream, parts),
        shared=models[0].shared,
        left=tuple(left),
        parts=parts,
        groups=len(models),
        models=tuple(models),
        stream=stream,
        formed=formed,
    )


def grouped(devices: Sequence[str]) -> list[frozenset[str]]:
    """An odd number of groups, at most MAX_GROUPS, whose sizes differ by one at most. They depend
    on the names alone, and few devices change their group when one joins.

    Raises CommandError for less than MIN_DEVICES.
    """
    if len(devices) < MIN_DEVICES:
        raise wrong(
            f"--robust needs {MIN_DEVICES} devices or more, and {len(devices)} have releases "
            "here: leave it out, or select more devices"
        )
    number = min(MAX_GROUPS, len(devices) - 1 + len(devices) % 2)
    groups: list[set[str]] = [set() for _ in range(number)]
    for device in sorted(devices, key=lambda name: _hash(name, "")):
        preferred = [_hash(device, str(place)) for place in range(number)]
        place = min(range(number), key=lambda n: (len(groups[n]), preferred[n]))
        groups[place].add(device)
    return [frozenset(group) for group in groups]


def _hash(device: str, place: str) -> bytes:
    return sha256(f"{device}/{place}".encode()).digest()


def build_groups(
    reader: Reader,
    config: Config,
    selection: Selection,
    choice: GeneratorChoice = ANY_GENERATOR,
) -> Groups:
    """A model of each group of the devices whose releases are selected. Raises CommandError as
    `build` does, and below MIN_DEVICES devices."""
    stream = next(s for s in config.streams if s.name == selection.stream)
    if is_masked(stream.spec):
        raise wrong(PER_DEVICE)
    check_devices(reader, selection)
    devices = reader.releasing_devices(selection)
    if not devices:
        build(reader, config, selection, choice)  # raises what is wrong with the selection
    selections = [replace(selection, devices=group) for group in grouped(devices)]
    models, silent = _asked(
        selections,
        lambda each: build(reader, config, each, choice),
        reader.count,
        len(selections),
    )
    # A device that has nothing but excluded or damaged releases is in no group.
    others = [row for row in reader.damaged(selection) if row[0] not in devices]
    found = [each for model in models for each in model.left]
    found += silent + [LeftOut(1, f"damaged: {Damage(*row)}") for row in others]
    left = Counter({EXCLUDED: reader.excluded(selection)})
    for each in found:
        left[each.reason] += each.releases if each.reason != EXCLUDED else 0
    listed = [LeftOut(releases, reason) for reason, releases in left.items() if releases]
    return _groups(models, stream, len(selections), listed)


def answer(groups: Groups, name: str, words: Sequence[str]) -> tuple[Answer | Matrix, Groups]:
    """The median of what the groups answer, and the groups that do. Raises CommandError as
    `query.answer` does, NotYet where too many groups have too few readings."""
    found, silent = _asked(
        groups.models,
        lambda model: (model, query.answer(model, name, words)),
        lambda model: model.windows,
        groups.formed,
    )
    models = [model for model, _ in found]
    answered = _groups(models, groups.stream, groups.formed, [*groups.left, *silent])
    # A group's count stands for as many devices as there are in all: a device cannot report more
    # devices than one, but windows of years.
    devices = [model.devices for model in models]
    return _together([each for _, each in found], sum(devices) / np.array(devices)), answered


def _asked(
    things: Sequence[Selection] | Sequence[Model],
    ask: Callable[..., Result],
    releases: Callable[..., int],
    formed: int,
) -> tuple[list[Result], list[LeftOut]]:
    """The answers of the groups, and the releases of groups without an answer.

    One hostile device must not prevent an answer. Raises the groups' error if more than a quarter
    of all groups raise one.
    """
    found: list[Result] = []
    failures: list[CommandError] = []
    silent: list[LeftOut] = []
    for each in things:
        try:
            found.append(ask(each))
        except CommandError as error:
            failures.append(error)
            silent.append(LeftOut(releases(each), f"of a group that gives no answer: {error}"))
    if formed - len(found) > formed // 4 and failures:
        raise _refusal(failures, formed)
    return found, silent


def _refusal(failures: Sequence[CommandError], formed: int) -> CommandError:
    young = [each for each in failures if isinstance(each, NotYet)]
    if len(young) < len(failures):
        return next(each for each in failures if not isinstance(each, NotYet))
    more = [each.more_windows for each in young if each.more_windows is not None]
    worst = max(young, key=lambda each: each.more_windows or 0)
    if len(more) < len(young):
        worst = next(each for each in young if each.more_windows is None)
    return NotYet(
        f"{len(young)} of {formed} groups of devices cannot answer yet, of one of them {worst}; "
        "wait, or ask without --robust",
        worst.more_windows,
    )


def _together(answers: Sequence[Answer | Matrix], scales: Floats) -> Answer | Matrix:
    first = answers[0]
    if isinstance(first, Matrix):
        matrices = [each.estimates for each in answers if isinstance(each, Matrix)]
        value, error = median(
            np.array([each.value for each in matrices]),
            np.array([each.standard_error for each in matrices]),
        )
        columns = zip(*(each.missing for each in answers if isinstance(each, Matrix)), strict=True)
        return replace(
            first, estimates=Estimates(value, error), missing=tuple(map(_middle, columns))
        )
    numbers = [each for each in answers if isinstance(each, Answer)]
    shares = [each.share for each in numbers if each.share is not None]
    factors = scales if shares else np.ones(len(numbers))
    value, error = median(
        factors * np.array([each.value for each in numbers]),
        factors * np.array([each.standard_error for each in numbers]),
    )
    share = float(np.median(shares)) if shares else None
    missing = _middle([each.missing for each in numbers])
    return replace(
        first, value=float(value), standard_error=float(error), share=share, missing=missing
    )


def _middle(shares: Sequence[float | None]) -> float | None:
    """The median of what is known."""
    known = [share for share in shares if share is not None]
    return float(np.median(known)) if known else None


def median(values: Floats, errors: Floats) -> tuple[Floats, Floats]:
    """The median along the first axis, of groups, element by element; and its standard error.

    The error holds the spread of the groups, divided by the root of their number. Groups may share
    an error, such as the width of boxes and of cells that share a counter. It appears in no spread
    and is not divided. So the median of the groups' own standard errors bounds it.

    A group without a figure counts as one that is far too high, and so as a hostile one. If most
    groups have none, the result is NaN.
    """
    value = np.median(np.where(np.isfinite(values), values, inf), axis=0)
    value = np.where(np.isfinite(value), value, np.nan)
    away = np.abs(values - value)
    spread = WIDTHS[len(values)] * np.median(np.where(np.isnan(away), inf, away), axis=0)
    own = np.median(np.where(np.isnan(errors), inf, errors), axis=0)
    return value, np.hypot(MEDIAN * spread / sqrt(len(values)), own)
