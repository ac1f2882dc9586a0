"""What is audited. A sketch joins every part of the audit by an entry in `subjects()`."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise, product
from typing import Any

import numpy as np
import numpy.typing as npt

from pansketch.domain import Attribute, Domain
from pansketch.hierarchy import HierarchySpec
from pansketch.privacy import Intrusion, Privacy, Span, Unit, readings_of
from pansketch.sketch import Spec

Stream = tuple[int, ...]
MOST_COMMON_READINGS = 1


@dataclass(frozen=True)
class Subject:
    """A spec over a universe small enough to enumerate.

    `universe`: every reading there is, float64[n, d]. Streams are tuples of indices into it.
    `counts`: what an intruder computes from a sketch's memory, in the layout of a release.
    """

    name: str
    spec: Spec
    universe: npt.NDArray[np.float64]
    counts: Callable[[Any], npt.NDArray[np.int64]]

    @property
    def epsilon_micro(self) -> int:
        return self.spec.guarantee.epsilon_micro

    @property
    def intrusion(self) -> Intrusion:
        return self.spec.guarantee.intrusion

    @property
    def unit(self) -> Unit:
        return self.spec.guarantee.unit

    def reading(self, index: int) -> npt.NDArray[np.float64]:
        return self.universe[index : index + 1]


@dataclass(frozen=True)
class Neighbours:
    """Two streams that differ by one unit, and when the snapshot is taken.

    `without_at`, `with_at`: how many readings of each stream have arrived at the snapshot.
    """

    without: Stream
    with_unit: Stream
    without_at: int
    with_at: int


def subjects() -> list[Subject]:
    """All sketches of the product, in every mode."""
    half_line = Domain([Attribute("x", low=0, high=1)])
    universe = np.array([[0.25], [0.75]])
    found = []
    for intrusion in ("silent", "announced"):
        privacy = Privacy(epsilon=1.0, intrusion=intrusion)
        shapes = {
            "exact levels": {"k": 2, "width": 2, "rows": 1},
            "sketched level": {"k": 1, "width": 2, "rows": 1},
            "two rows": {"k": 1, "width": 2, "rows": 2},
        }
        for shape, sizes in shapes.items():
            spec = HierarchySpec(half_line, privacy, depth=1, fanout=2, **sizes)
            found.append(Subject(f"hierarchy, {shape}", spec, universe, hierarchy_counts))
    span = Privacy(epsilon=1.0, unit=Span(60, 2))
    spec = HierarchySpec(half_line, span, depth=1, fanout=2, k=2, width=2, rows=1)
    return [*found, Subject("hierarchy, exact levels", spec, universe, hierarchy_counts)]


def hierarchy_counts(sketch: Any) -> npt.NDArray[np.int64]:
    """The noisy counts of a hierarchy in memory: each exact level's differences added up again."""
    held = sketch._counters.astype(np.int64)
    exact = sketch._spec.exact_levels
    for parent, child in reversed([*pairwise(exact)]):
        children = held[child.offset : child.offset + child.size]
        held[parent.offset : parent.offset + parent.size] += children.reshape(parent.size, -1).sum(
            1
        )
    return np.asarray(held)


def neighbours(subject: Subject) -> Iterator[Neighbours]:
    """Every neighbouring pair of the universe with every moment of the snapshot.

    A unit's readings are put at every place among at most `MOST_COMMON_READINGS` others; of a
    reading that arrives at the place of the snapshot both orders are listed.
    """
    values = range(len(subject.universe))
    for count in range(MOST_COMMON_READINGS + 1):
        for common in product(values, repeat=count):
            for unit in product(values, repeat=readings_of(subject.unit)):
                yield from _interleaved(common, unit)


def _interleaved(common: Stream, unit: Stream) -> Iterator[Neighbours]:
    """All ways to merge two streams and a snapshot, each keeping its own order."""
    seen = set()
    for places in product(range(len(common) + 1), repeat=len(unit)):
        if list(places) != sorted(places):
            continue
        merged = _merge(common, unit, places)
        for with_at in range(len(merged) + 1):
            without_at = sum(not added for _, added in merged[:with_at])
            found = Neighbours(common, tuple(v for v, _ in merged), without_at, with_at)
            if found not in seen:
                seen.add(found)
                yield found


def _merge(common: Stream, unit: Stream, places: Stream) -> list[tuple[int, bool]]:
    """Values in order of arrival, each with whether it belongs to the unit."""
    merged = []
    for place in range(len(common) + 1):
        merged += [(v, True) for v, where in zip(unit, places, strict=True) if where == place]
        merged += [(v, False) for v in common[place : place + 1]]
    return merged
