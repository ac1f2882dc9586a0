"""A summary of a stream's sketch: views, sizes and predicted errors, and alternatives with more or
less memory or epsilon. The windows that a first answer needs.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import combinations
from math import comb
from typing import TypeGuard

from pansketch import HierarchySpec, View, ViewsSpec
from pansketch.planning import Errors, windows_needed
from pansketch_fleet.sections.sketches.hierarchy import HierarchySettings
from pansketch_fleet.sections.sketches.views import ViewsSettings
from pansketch_fleet.settings.device_spec import DeviceSpec, SketchSettings
from pansketch_fleet.settings.profiles import Profile
from pansketch_fleet.settings.settings import KeyStream, ReadingStream, Stream
from pansketch_fleet.units import about_text

MAX_OTHERS = 4  # resolutions beside the chosen one

Planned = ViewsSettings | HierarchySettings


@dataclass(frozen=True)
class SketchOption:
    """One way to sketch a stream. `label`: its difference from the chosen way.

    `spec` is None if it is impossible, for the reason in `problem`; `errors` is None without a
    prediction.
    """

    label: str
    spec: DeviceSpec | None
    errors: Errors | None = None
    problem: str = ""


def is_planned(plan: SketchSettings) -> TypeGuard[Planned]:
    """Return whether omitted sizes are chosen by their predicted error."""
    return isinstance(plan, ViewsSettings | HierarchySettings)


def choices(stream: Stream, profile: Profile) -> list[SketchOption]:
    """Return the chosen way, other resolutions within its memory, and ways with other memory or
    epsilon.

    Raises ValueError, one line, when a device of this class cannot have the stream.
    """
    plan = stream.plan
    if not is_planned(plan):
        return [SketchOption("chosen", plan.spec(profile))]
    chosen, *others = _ways(plan, profile)
    found = [replace(chosen, label="chosen")]
    found += [replace(each, label=_beside(chosen, each)) for each in others[:MAX_OTHERS]]
    return [*found, *_with_more_and_less(plan, profile)]


def _beside(chosen: SketchOption, other: SketchOption) -> str:
    assert chosen.spec is not None
    assert other.spec is not None
    return "finer cells" if other.spec.nbytes > chosen.spec.nbytes else "coarser cells"


def _ways(plan: Planned, profile: Profile) -> list[SketchOption]:
    return [SketchOption("", each.spec, each.errors) for each in plan.choices(profile)]


def _with_more_and_less(plan: Planned, profile: Profile) -> Iterator[SketchOption]:
    memory, privacy = plan.memory(profile), plan.privacy
    variations = (
        ("a quarter of the memory", memory // 4, privacy.epsilon),
        ("4 x the memory", 4 * memory, privacy.epsilon),
        ("half of epsilon", memory, privacy.epsilon / 2),
        ("twice epsilon", memory, privacy.epsilon * 2),
    )
    for label, memory_bytes, epsilon in variations:
        try:
            other = replace(
                plan,
                memory_bytes=memory_bytes,
                privacy=replace(privacy, epsilon=epsilon),
            )
            yield replace(_ways(other, profile)[0], label=label)
        except ValueError as error:
            yield SketchOption(label, None, problem=str(error))


def sizes_text(spec: DeviceSpec) -> str:
    """Return the views or levels of a sketch in words; "" for other kinds."""
    if isinstance(spec, ViewsSpec):
        return _views_in_words(spec)
    if isinstance(spec, HierarchySpec):
        return _hierarchy_in_words(spec)
    return ""


def _views_in_words(spec: ViewsSpec) -> str:
    """ "21 views: 6 x 256 cells (20 % of epsilon), 15 x 32 x 32 (80 %)"."""
    groups: dict[tuple[int, ...], list[View]] = {}
    for view in spec.views:
        groups.setdefault(view.shape, []).append(view)
    whole = sum(view.micro for view in spec.views)
    parts = []
    for shape, views in groups.items():
        share = 100 * sum(view.micro for view in views) / whole
        parts.append(f"{_counted(views)} in {_grid(shape)} ({share:.0f} % of epsilon)")
    text = f"{_several(len(spec.views), 'view')}: {', '.join(parts)}"
    return text + _without_a_view(spec)


def _without_a_view(spec: ViewsSpec) -> str:
    """Return the number of pairs without a view: their answers rest on other pairs."""
    names = {name for view in spec.views for name in view.names}
    known = {pair for view in spec.views for pair in combinations(sorted(view.names), 2)}
    missing = comb(len(names), 2) - len(known)
    if not missing:
        return ""
    return f"; {missing} of {_several(comb(len(names), 2), 'pair')} in no view"


def _counted(views: list[View]) -> str:
    kinds = {1: "attribute", 2: "pair", 3: "triple"}
    kind = kinds.get(len(views[0].names), f"set of {len(views[0].names)}")
    plural = kind.replace("set", "sets") if kind.startswith("set") else f"{kind}s"
    return f"1 {kind}" if len(views) == 1 else f"{len(views)} {plural}"


def _grid(shape: tuple[int, ...]) -> str:
    return " x ".join(map(str, shape)) + (" cells" if len(shape) == 1 else "")


def _hierarchy_in_words(spec: HierarchySpec) -> str:
    bits = Counter(spec.domain.split_order(spec.depth))
    cells = ", ".join(
        f"{attribute.name} in {1 << bits[place]}"
        for place, attribute in enumerate(spec.domain.attributes)
        if bits[place]
    )
    text = f"hierarchy of {_several(len(spec.levels), 'level')}: {cells}"
    if spec.sketched_levels:
        exact = spec.exact_levels[-1].size
        text += f"; {exact} exact cells, below them {spec.k} are refined"
    return text


def _several(count: int, word: str) -> str:
    return f"{count} {word}" if count == 1 else f"{count} {word}s"


def expected_text(stream: ReadingStream) -> str:
    """Return the expected number of readings of a query."""
    expected = stream.expected
    parts = [
        _several(expected.windows, "window"),
        _several(expected.devices, "device"),
        _several(expected.readings, "reading"),
    ]
    return "{} of {} with about {} each".format(*parts)


def errors_text(errors: Errors) -> str:
    """Return the predicted errors in words; pairs and correlations only if there are any."""
    parts = [f"W1 of an attribute {errors.marginal:.2g} standard deviations"]
    if errors.pair:
        parts.append(f"total variation of a pair {errors.pair:.2g}")
    if errors.correlation:
        parts.append(f"correlation {errors.correlation:.2g}")
    return ", ".join(parts)


def first_answer_windows(stream: Stream, devices: int = 1, first: float = 1.0) -> int:
    """Return about how many windows of so many devices a first answer needs.

    `first`: the part of the first window that is left for readings.
    """
    if isinstance(stream, KeyStream):
        return 1  # Each window has an answer of its own.
    return windows_needed(stream.spec, replace(stream.expected, devices=devices), first)


def first_answer_text(stream: Stream) -> str:
    """Return when an answer is usable: "after about 2 windows (2m) of one device"."""
    devices = 1 if isinstance(stream, KeyStream) else stream.expected.devices
    text = f"usable after about {_windows_of(stream, 1)} of one device"
    if first_answer_windows(stream, devices) == first_answer_windows(stream):
        return text
    return f"{text}, or {_windows_of(stream, devices)} of the {devices} expected devices"


def _windows_of(stream: Stream, devices: int) -> str:
    windows = first_answer_windows(stream, devices)
    return f"{_several(windows, 'window')} ({about_text(windows * stream.window_seconds)})"
