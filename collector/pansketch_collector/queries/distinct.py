"""`query distinct`: the number of distinct keys of each window, as a table and as JSON.

The hash key changes with every window, so a key in one window cannot be matched with the same key
in another. So figures of several windows have no total.
"""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Literal

from pansketch import (
    DistinctSpec,
    Estimate,
    Guarantee,
    MergeError,
    NoEstimate,
    Release,
    distinct_keys,
    frozen,
)
from pansketch_collector.errors import CommandError, wrong
from pansketch_collector.queries.answers import decimals_of, shown
from pansketch_collector.queries.basis import (
    SETTINGS,
    LeftOut,
    nothing_usable,
    omissions_object,
    omitted_releases,
    total,
)
from pansketch_collector.queries.selection import check_devices, nothing_selected
from pansketch_collector.storage.reader import Reader
from pansketch_collector.storage.tables.corruption import Damage, decode_intact, label_damage
from pansketch_collector.storage.tables.records import Selection, Stored
from pansketch_collector.validation.accepted_specs import StreamSpecs
from pansketch_fleet.config.loader import Config
from pansketch_fleet.config.privacy_cost import SharedCost, shared
from pansketch_fleet.settings.device_spec import window_index
from pansketch_fleet.settings.settings import KeyStream
from pansketch_fleet.text_table import aligned
from pansketch_fleet.units import utc_text

By = Literal["window", "device"]
Keys = Literal["shared", "disjoint"]


@dataclass(frozen=True)
class Figure:
    """The distinct keys of some devices in one window.

    `start`: of the window by the fleet's clock, in unix seconds; a device's own window starts a
    little later. `seconds`: its length. `frozen`: the devices that stopped counting after an
    announced intrusion. `estimate`: None if the releases allow none; then `problem` has the reason.
    """

    start: int
    devices: tuple[str, ...]
    frozen: tuple[str, ...]
    estimate: Estimate | None
    problem: str = ""
    seconds: int = 0


@dataclass(frozen=True)
class DistinctAnswer:
    """Figures by window, or by window and device, in order.

    `keys`: whether the devices of a figure may share keys. `fleet`: the number of devices.
    `shared`: see `Basis`. `left`: omitted releases.
    """

    stream: str
    by: By
    keys: Keys
    window_seconds: int
    fleet: int
    figures: tuple[Figure, ...]
    guarantee: Guarantee
    shared: SharedCost | None
    left: tuple[LeftOut, ...]

    @property
    def left_out(self) -> int:
        """The number of omitted releases."""
        return total(self.left)


def count_keys(
    reader: Reader, config: Config, selection: Selection, by: By, keys: Keys | None
) -> DistinctAnswer:
    """The answer for the selected releases. `keys` None: shared if the releases allow a union.

    Raises CommandError: for an empty selection, for one without a usable release, for a union of
    counts, and if no figure has an estimate.
    """
    keyed = (s for s in config.streams if isinstance(s, KeyStream))
    stream = next(s for s in keyed if s.name == selection.stream)
    spec = stream.spec
    relation = _relation(stream.name, spec, keys)
    check_devices(reader, selection)
    work = _Work(StreamSpecs.of(config, stream, reader.epochs(stream.name)))
    devices = set[str]()
    figures: list[Figure] = []
    for window, stored in work.by_window(reader.releases(selection)):
        releases = [r for r in map(work.decoded, stored) if r is not None]
        devices.update(each.device for each in stored)
        figures += _figures(window, releases, by, relation)
    left = [*work.left(), *omitted_releases(work.damaged, reader, selection)]
    _check(reader, selection, figures, left)
    return DistinctAnswer(
        stream.name,
        by,
        relation,
        stream.window_seconds,
        len(devices),
        tuple(figures),
        spec.guarantee,
        shared(stream, config.streams),
        tuple(left),
    )


def _relation(stream: str, spec: DistinctSpec, keys: Keys | None) -> Keys:
    union = spec.release == "bitmap"
    if keys == "shared" and not union:
        raise wrong(
            f"stream {stream} releases counts, and devices that share keys need bitmaps: leave out "
            "--keys shared, or set release: bitmap for windows to come"
        )
    return keys or ("shared" if union else "disjoint")


Window = tuple[int, int]  # its start by the fleet's clock, and its length in seconds


class _Work:
    """Stored releases of keys by window, under the settings of all epochs."""

    def __init__(self, specs: StreamSpecs) -> None:
        self._specs = specs
        self.damaged: list[Damage] = []
        self._omitted = Counter[str]()

    def by_window(self, releases: Iterable[Stored]) -> Iterator[tuple[Window, list[Stored]]]:
        """The releases of each window by device, in the order of the windows' ends.

        `releases`: in the order of their starts. No device is late by a whole window.
        """
        found: dict[Window, list[Stored]] = {}
        for stored in releases:
            for window in [each for each in found if sum(each) <= stored.start]:
                yield window, sorted(found.pop(window), key=lambda each: each.device)
            lengths = self._specs.lengths_at(stored.start, stored.fingerprint)
            seconds = next(iter(lengths), self._specs.window_seconds)
            start = window_index(stored.start, seconds) * seconds
            found.setdefault((start, seconds), []).append(stored)
        for window in sorted(found, key=sum):
            yield window, sorted(found[window], key=lambda each: each.device)

    def decoded(self, stored: Stored) -> Release | None:
        """The release; None for an unusable one, whose reason is recorded."""
        spec = self._specs.at(stored.start).get(stored.fingerprint)
        if spec is None:
            damage = label_damage(stored)
            if damage is None:
                self._omitted[SETTINGS] += 1
            else:
                self.damaged.append(damage)
            return None
        if not isinstance(spec, DistinctSpec):
            self._omitted[f"a sketch of type {spec.family}, and now it is distinct"] += 1
            return None
        found = decode_intact([stored], spec, self.damaged)
        return found[0] if found else None

    def left(self) -> list[LeftOut]:
        """The releases omitted for their settings."""
        return [LeftOut(releases, reason) for reason, releases in self._omitted.items()]


def _figures(window: Window, releases: Sequence[Release], by: By, keys: Keys) -> Iterator[Figure]:
    if by == "device":
        for release in releases:
            yield _figure(window, [release], "disjoint")
    elif releases:
        yield _figure(window, releases, keys)


def _figure(window: Window, releases: Sequence[Release], keys: Keys) -> Figure:
    start, seconds = window
    devices = tuple(release.windows[0].device for release in releases)
    stopped = tuple(release.windows[0].device for release in releases if frozen(release))
    try:
        return Figure(start, devices, stopped, distinct_keys(releases, keys), seconds=seconds)
    except (NoEstimate, MergeError) as error:
        problem = " ".join(str(error).split())
        return Figure(start, devices, stopped, None, problem, seconds)


def _check(
    reader: Reader, selection: Selection, figures: Sequence[Figure], left: Sequence[LeftOut]
) -> None:
    if not figures:
        raise nothing_usable(left) if left else nothing_selected(reader, selection)
    if all(figure.estimate is None for figure in figures):
        raise CommandError(figures[-1].problem)


MERGES = {"shared": "union", "disjoint": "sum"}


def as_table(counted: DistinctAnswer) -> str:
    """An aligned table, and a sentence about the newest window."""
    header = ["window", "devices" if counted.by == "window" else "device", "keys", "± error", ""]
    rows = [_row(counted, figure) for figure in counted.figures]
    lines = aligned(header, rows, {"keys", "± error"})
    return "\n".join([*lines, *_newest(counted)])


def as_json(counted: DistinctAnswer) -> str:
    """`as_object` on one line."""
    return json.dumps(as_object(counted), ensure_ascii=False)


def as_object(counted: DistinctAnswer) -> dict[str, object]:
    """All figures; None for a missing estimate or an unknown error."""
    figures = [_object(counted, figure) for figure in counted.figures]
    return {
        "stream": counted.stream,
        "by": counted.by,
        "keys": counted.keys,
        "window_seconds": counted.window_seconds,
        "figures": figures,
        "guarantee": str(counted.guarantee),
        "shared": None if counted.shared is None else counted.shared.as_object(),
        **omissions_object(counted.left),
    }


def _row(counted: DistinctAnswer, figure: Figure) -> list[str]:
    value, error = "-", "-"
    if figure.estimate is not None:
        digits = decimals_of(figure.estimate.standard_error)
        value = shown(figure.estimate.value, digits)
        error = shown(figure.estimate.standard_error, digits)
    of = f" of {counted.fleet}" if len(figure.devices) < counted.fleet else ""
    devices_text = f"{len(figure.devices)}{of}" if counted.by == "window" else figure.devices[0]
    return [utc_text(figure.start), devices_text, value, error, _remark(counted, figure)]


def _remark(counted: DistinctAnswer, figure: Figure) -> str:
    if figure.estimate is None:
        return "no estimate"
    if not figure.frozen:
        return ""
    devices_text = "" if counted.by == "device" else f" {', '.join(figure.frozen)}"
    return (
        f"incomplete: frozen by an announced intrusion{':' if devices_text else ''}{devices_text}"
    )


def _newest(counted: DistinctAnswer) -> Iterator[str]:
    """The figure of the newest window as a sentence."""
    figure, guarantee = counted.figures[-1], counted.guarantee
    if counted.by == "device" or figure.estimate is None:
        return
    digits = decimals_of(figure.estimate.standard_error)
    value, error = figure.estimate.value, figure.estimate.standard_error
    releases = len(figure.devices)
    left = f", left_out: {counted.left_out}" if counted.left_out else ""
    merged, cost = f"{releases} release{'s' * (releases != 1)}", ""
    if releases > 1:
        merged = f"{MERGES[counted.keys]} of {merged}"
        cost = f", {releases * guarantee.epsilon:g} for a key in all {releases}"
    if counted.shared is not None:
        cost += f", {counted.shared}"
    yield (
        f"newest window: {shown(value, digits)} distinct keys ± {shown(error, digits)} "
        f"(standard error), {merged}, epsilon {guarantee.epsilon:g} per key, window and "
        f"device ({guarantee.intrusion}){cost}{left}"
    )


def _object(counted: DistinctAnswer, figure: Figure) -> dict[str, object]:
    estimate = figure.estimate
    error = None if estimate is None else estimate.standard_error
    found: dict[str, object] = {
        "from": utc_text(figure.start),
        "to": utc_text(figure.start + figure.seconds),
        "devices": list(figure.devices),
        "value": None if estimate is None else estimate.value,
        "standard_error": None if error is None or not isfinite(error) else error,
        "frozen": list(figure.frozen),
    }
    return found | ({"problem": figure.problem} if figure.problem else {})
