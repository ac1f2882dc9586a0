"""Bugs that a sceptic planted who knew what the audit looked at: in large specs, in batches, in the
process, in the agent.

Each replaces a name of the product while the audit's part that must see it runs. They exist here
and in tests only: no configuration reaches them.
"""

from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np

from pansketch_audit.planted_bugs.bug import Bug, Make, draws_bugs

LINEAR = "pansketch.sketches.linear_counters"
SKETCH = f"{LINEAR}:LinearSketch"
SAMPLER = "pansketch.randomness.exact_noise:ExactNoise"


def _last_counter_bare(add: Any) -> Any:
    def add_noise(spec: Any, rng: Any, counters: Any, factor: Fraction = Fraction(1)) -> None:
        start = 0
        for size, scale in zip(spec.blocks, spec.scales, strict=True):
            rng.add_discrete_laplace(scale * factor, counters[start : start + size - 1])
            start += size

    return add_noise


def _root_half(add: Any) -> Any:
    def added(self: Any, rng: Any) -> None:
        if not self._closed:
            add(self, rng)
            return
        start = 0
        for number, (size, scale) in enumerate(
            zip(self._spec.blocks, self._spec.scales, strict=True)
        ):
            part = self._counters[start : start + size]
            rng.add_discrete_laplace(scale if number else scale / 2, part)
            start += size
        self._draws += 1

    return added


def _count_in_sketch(update: Any) -> Any:
    def update_many(self: Any, readings: Any) -> None:
        self._seen = getattr(self, "_seen", 0) + len(readings)
        update(self, readings)

    return update_many


def _start_kept(start: Any) -> Any:
    def init(self: Any, spec: Any, rng: Any) -> None:
        start(self, spec, rng)
        self._first = self._counters.copy()

    return init


def shared_by_size(add: Any) -> Any:
    def add_noise(spec: Any, rng: Any, counters: Any, factor: Fraction = Fraction(1)) -> None:
        start, drawn = 0, dict[int, Any]()
        for size, scale in zip(spec.blocks, spec.scales, strict=True):
            part = counters[start : start + size]
            before = part.copy()
            if size in drawn:
                part += drawn[size]
            else:
                rng.add_discrete_laplace(scale * factor, part)
                drawn[size] = part - before
            start += size

    return add_noise


def _bare_after_intrusion(add: Any) -> Any:
    def added(self: Any, rng: Any) -> None:
        if not (self._closed and self._draws > 1):
            add(self, rng)

    return added


def _every_4097th_bare(add: Any) -> Any:
    def add_discrete_laplace(self: Any, scale: Any, counters: Any) -> None:
        for start in range(0, len(counters), 4096):
            add(self, scale, counters[start + (start > 0) : start + 4096])

    return add_discrete_laplace


def _first_section_only(draw: Any) -> Any:
    def draw_bits(packed: Any, count: int, chance: Any, rng: Any) -> None:
        draw(packed, min(count, 1 << 15), chance, rng)

    return draw_bits


def _batch_twice(count_many: Any) -> Any:
    def _count_many(self: Any, positions: Any, counters: Any) -> None:
        count_many(self, positions, counters)
        count_many(self, positions, counters)

    return _count_many


def _deep_half(derive: Any) -> Any:
    def derive_levels(*arguments: Any) -> Any:
        return tuple(
            replace(level, scale=level.scale / 2) if level.bits > 8 else level
            for level in derive(*arguments)
        )

    return derive_levels


def _guides_half(derive: Any) -> Any:
    def _derive_tables(self: Any, shares: Any) -> Iterator[Any]:
        *guides, finest = derive(self, shares)
        yield from (replace(table, scale=table.scale / 2) for table in guides)
        yield finest

    return _derive_tables


def _without_root(_: Any) -> Any:
    return property(lambda self: self.count * self.one)


def _scratch_left(count_many: Any) -> Any:
    def _count_many(self: Any, paths: Any, counters: Any) -> None:
        kept = paths.copy()
        count_many(self, paths, counters)
        self._prefixes[: len(kept)] = kept

    return _count_many


def _batch_dropped(update: Any) -> Any:
    def update_many(self: Any, readings: Any) -> None:
        if not np.isnan(readings).any():
            update(self, readings)

    return update_many


def _same_key(_: Any) -> Any:
    return lambda self, index: self


def sceptic_draws() -> list[Bug]:
    """Those of the twenty that the draws of a sketch show."""
    hierarchy, views, cells = "hierarchy", "views", "guided cells"
    drawn: dict[str, tuple[str, str, str, Make]] = {
        "last-counter-bare": (
            "last counter of each block without noise",
            views,
            f"{LINEAR}:add_noise",
            _last_counter_bare,
        ),
        "root-half": (
            "output noise of the root of half the scale",
            hierarchy,
            f"{SKETCH}._add_noise",
            _root_half,
        ),
        "count-in-sketch": (
            "exact count beside the counters",
            views,
            f"{SKETCH}.update_many",
            _count_in_sketch,
        ),
        "start-kept": (
            "copy of the noisy start in the sketch",
            views,
            f"{SKETCH}.__init__",
            _start_kept,
        ),
        "views-share-noise": (
            "views of one size with one array of noise",
            views,
            f"{LINEAR}:add_noise",
            shared_by_size,
        ),
        "bare-after-intrusion": (
            "no fresh output noise after an announced intrusion",
            hierarchy,
            f"{SKETCH}._add_noise",
            _bare_after_intrusion,
        ),
        "counter-4097-bare": (
            "the 4,097th counter of a block without noise",
            views,
            f"{SAMPLER}.add_discrete_laplace",
            _every_4097th_bare,
        ),
        "slots-beyond-32768": (
            "bits beyond the first 32,768 slots all 0",
            "distinct",
            "pansketch.sketches.distinct.sketch:draw_bits",
            _first_section_only,
        ),
        "batch-twice": (
            "a batch counts a reading twice",
            views,
            "pansketch.sketches.views:ViewCells._count_many",
            _batch_twice,
        ),
        "deep-levels-half": (
            "half the scale in levels deeper than 8 bits",
            hierarchy,
            "pansketch.sketches.hierarchy:derive_levels",
            _deep_half,
        ),
        "guides-half": (
            "half the scale in the tables that guide",
            cells,
            "pansketch.sketches.cells:CellsSpec._derive_tables",
            _guides_half,
        ),
        "fourier-no-root": (
            "Fourier sensitivity without the square root of 2",
            "moments, rff",
            "pansketch.sketches.moments.fourier:Fourier.sensitivity",
            _without_root,
        ),
        "batch-scratch-left": (
            "scratch of a batch not erased",
            hierarchy,
            "pansketch.sketches.path_counting:PathCounter._count_many",
            _scratch_left,
        ),
        "nan-drops-batch": (
            "one NaN drops its whole batch",
            views,
            f"{SKETCH}.update_many",
            _batch_dropped,
        ),
        "window-key-kept": (
            "keys have the same slots in every window",
            "distinct",
            "pansketch.sketches.distinct.spec:DistinctSpec.for_window",
            _same_key,
        ),
    }
    return draws_bugs(drawn)
