"""The subjects of the audit. A sketch joins every part of the audit by an entry in `subjects()`."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache
from itertools import pairwise
from typing import Any, get_args

import numpy as np
import numpy.typing as npt

from pansketch import (
    Attribute,
    CellsSpec,
    DistinctSpec,
    Domain,
    Entropy,
    Guarantee,
    HierarchySpec,
    MomentsSpec,
    Privacy,
    Sketch,
    Span,
    Spec,
    View,
    ViewsSpec,
)
from pansketch.domain import MISSING
from pansketch.privacy import Intrusion, Unit
from pansketch_audit.mechanisms.zero_noise import NoNoise

Stream = tuple[int, ...]
MANY_KEYS = 64  # Of an open universe: enough for two to meet in one of eight slots.
TWO_LEVELS = (2, 1)  # Slots of each level: fewer than a byte holds, so that all can be enumerated.
SAMPLED = ("sample counted", "hashed, bitmap")


@dataclass(frozen=True)
class Subject:
    """A spec over a universe small enough to enumerate.

    `universe`: every reading there is, float64[n, d], or every key, int64[n]. Streams are tuples of
    indices into it. `counts`: what an intruder computes from a sketch's memory: counters in the
    layout of a release, or a bit for each slot. `sampled`: whether the statistical part runs it;
    one that differs from another in its universe alone is left out there.
    """

    name: str
    spec: Spec
    universe: npt.NDArray[np.float64] | npt.NDArray[np.int64]
    counts: Callable[[Any], npt.NDArray[np.int64]]
    sampled: bool = True

    @property
    def epsilon_micro(self) -> int:
        return self.spec.guarantee.epsilon_micro

    @property
    def intrusion(self) -> Intrusion:
        return self.spec.guarantee.intrusion

    @property
    def unit(self) -> Unit:
        return self.spec.guarantee.unit

    @property
    def removes(self) -> bool:
        """Return whether a key can be removed again."""
        return bool(getattr(self.spec, "turnstile", False))

    @property
    def draws(self) -> int:
        """Number of draws at the start of a state."""
        return len(self.counts(self.spec.start(NoNoise())))

    def reading(self, index: int) -> npt.NDArray[Any]:
        return self.universe[index : index + 1]


@cache
def subjects() -> tuple[Subject, ...]:
    """All sketches of the product, in every mode; made once, as a worker asks for each task."""
    return (*_hierarchies(), *_cells(), *_moments(), *_views(), *_several(), *_key_counters())


def _hierarchies() -> list[Subject]:
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
    return [*found, Subject("hierarchy, exact levels", spec, universe, hierarchy_counts, False)]


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


def _cells() -> list[Subject]:
    half_line = Domain([Attribute("x", low=0, high=1)])
    universe = np.array([[0.25], [0.75]])
    return [
        Subject("density sketch", spec, universe, lambda sketch: sketch._counters.copy())
        for intrusion in get_args(Intrusion)
        for spec in [
            CellsSpec(half_line, Privacy(1.0, "reading", intrusion), depth=1, width=2, rows=1)
        ]
    ]


def _moments() -> list[Subject]:
    """Fourier features differ by too many steps to be enumerated; histograms share their code."""
    half_line = Domain([Attribute("x", low=0, high=1)])
    universe = np.array([[0.25], [0.75]])
    return [
        Subject("moments, histogram", spec, universe, lambda sketch: sketch._counters.copy())
        for intrusion in get_args(Intrusion)
        for spec in [MomentsSpec(half_line, Privacy(1.0, "reading", intrusion), "hist", bins=2)]
    ]


def _views() -> list[Subject]:
    """Two views of one attribute: a reading, also a missing one, spends epsilon for both of them
    together. A number with atoms has too many cells for an enumeration; they are counted alike."""
    number = Attribute("x", low=0, high=1)
    category = Attribute("x", categories=("a",), atoms=(MISSING,))
    views = View(("x",), (1,), 600_000), View(("x",), (1,), 400_000)
    shapes = {
        "two views": (number, [[0.25], [0.75]]),
        "two views, missing readings": (category, [[0.0], [np.nan]]),
    }
    return [
        Subject(name, spec, np.array(universe), linear_counts, name == "two views")
        for name, (attribute, universe) in shapes.items()
        for intrusion in get_args(Intrusion)
        for spec in [ViewsSpec(Domain([attribute]), Privacy(1.0, "reading", intrusion), views)]
    ]


def linear_counts(sketch: Any) -> npt.NDArray[np.int64]:
    """The counters in memory, of a sketch that holds them in the layout of a release."""
    return np.asarray(sketch._counters.astype(np.int64))


@dataclass(frozen=True)
class SeveralSpecs:
    """The sketches of one source, as the agent runs them: each absorbs every reading, with noise of
    its own, and all are released. A reading spends the sum."""

    specs: tuple[Spec, ...]

    @property
    def blocks(self) -> tuple[int, ...]:
        """Those of all sketches: `LinearSpec.blocks`."""
        return tuple(size for spec in self.specs for size in spec.blocks)

    @property
    def guarantee(self) -> Guarantee:
        each = [spec.guarantee for spec in self.specs]
        return replace(
            each[0],
            state_micro=sum(one.state_micro for one in each),
            release_micro=sum(one.release_micro for one in each),
        )

    def start(self, rng: Entropy) -> "SeveralSketches":
        return SeveralSketches(tuple(spec.start(rng) for spec in self.specs))


@dataclass(frozen=True)
class SeveralSketches:
    """The state of one window."""

    sketches: tuple[Sketch, ...]

    def update_many(self, readings: npt.NDArray[Any]) -> None:
        for sketch in self.sketches:
            sketch.update_many(readings)

    def rerandomise(self, rng: Entropy) -> None:
        for sketch in self.sketches:
            sketch.rerandomise(rng)


def _several() -> list[Subject]:
    """Two sketches with 3/4 and 1/4 of epsilon: one reading spends epsilon for both."""
    return [several_subject(intrusion) for intrusion in get_args(Intrusion)]


def several_subject(intrusion: Intrusion = "silent") -> Subject:
    """Two sketches of one source, of an attribute each, which share an epsilon of 1.

    Sketches of few counters and one value of a reading: all of their draws are enumerated together.
    """
    domain = Domain([Attribute("x", low=0, high=1), Attribute("y", low=0, high=1)])
    specs = tuple(
        ViewsSpec(domain, Privacy(share, "reading", intrusion), (View((name,), (1,), micro),))
        for name, share, micro in (("x", 0.75, 750_000), ("y", 0.25, 250_000))
    )
    universe = np.array([[0.25, 0.75]])
    spec: Any = SeveralSpecs(specs)  # No spec of the wire: its releases are.
    return Subject("two sketches", spec, universe, _counts_of_all, sampled=False)


def _counts_of_all(sketch: Any) -> npt.NDArray[np.int64]:
    return np.concatenate([each._counters.astype(np.int64) for each in sketch.sketches])


def _key_counters() -> list[Subject]:
    """Universes of a few keys, and a few keys of larger ones: see `_telling`."""
    shapes: dict[str, dict[str, Any]] = {
        "counted": {"universe": 3},
        "four counted": {"universe": 4},
        "bitmap": {"universe": 3, "release": "bitmap"},
        "sample counted": {"universe": 64, "memory": 1},
        "hashed, counted": {"expected_keys": 2},
        "hashed, bitmap": {"expected_keys": 2, "release": "bitmap"},
        "hashed, sample counted": {"expected_keys": 12, "memory": 1},
        "levels, counted": {"levels": TWO_LEVELS},
        "levels, bitmap": {"levels": TWO_LEVELS, "release": "bitmap"},
        "removable": {"universe": 3, "turnstile": True},
        "optbern": {"universe": 2, "variant": "optbern"},
        "dwork": {"universe": 2, "variant": "dwork", "release": "bitmap"},
    }
    return [
        key_subject(f"distinct, {name}", intrusion, name in SAMPLED, **sizes)
        for intrusion in get_args(Intrusion)
        for name, sizes in shapes.items()
    ]


def key_subject(
    name: str,
    intrusion: Intrusion = "silent",
    sampled: bool = False,
    levels: tuple[int, ...] = (),
    **sizes: Any,
) -> Subject:
    """A counter of distinct keys with epsilon 1: in silent mode a half for the state and a half for
    the release. `levels`: their sizes, instead of those that a memory has."""
    share = Fraction(1, 2) if intrusion == "silent" else None
    privacy = Privacy(epsilon=1.0, unit="key", intrusion=intrusion)
    spec = DistinctSpec(privacy=privacy, output_share=share, **sizes)
    if levels:
        object.__setattr__(spec, "levels", levels)
        object.__setattr__(spec, "tracked", sum(levels))
    universe = np.arange(spec.universe or MANY_KEYS)
    if len(universe) > spec.tracked:
        universe = _telling(spec, universe)
    return Subject(name, spec, universe, key_bits, sampled)


def key_bits(sketch: Any) -> npt.NDArray[np.int64]:
    """The bit of every slot of a counter of distinct keys."""
    return np.unpackbits(sketch._bits, count=sketch._spec.tracked).astype(np.int64)


def slot_of(spec: Spec, key: int) -> int | None:
    """The address of a key's bit in memory; None if it is not tracked."""
    sketch = spec.start(NoNoise())
    sketch.update_many(np.array([key]))
    set_bits = np.flatnonzero(key_bits(sketch))
    return int(set_bits[0]) if len(set_bits) else None


def _telling(spec: Spec, keys: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """The few of many keys that can differ. They are two of one slot, if any share one, and a key
    of another slot. They also include one of another level, if there is one, and one that is not
    tracked."""
    by_slot: dict[int, list[int]] = {}
    untracked: list[int] = []
    for key in keys.tolist():
        slot = slot_of(spec, key)
        (untracked if slot is None else by_slot.setdefault(slot, [])).append(key)
    found = sorted(by_slot.items(), key=lambda each: len(each[1]), reverse=True)
    (first, fullest), *others = found
    levels = getattr(spec, "levels", ())
    apart = [keys for one, keys in others if levels and (one < levels[0]) != (first < levels[0])]
    other = (apart or [keys for _, keys in others])[0]
    return np.array([*fullest[:2], other[0], *untracked[:1]])
