"""Plan the views of a stream, their sizes and their parts of epsilon. The plan has the least regret
(selection.py) over predicted errors (view_errors.py), among views that fit into the memory.

Devices and collector must come to the same plan, so the search is over whole numbers, and errors
are compared in whole millionths.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import chain
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from pansketch.domain.domain import Domain
from pansketch.planning.expected_errors import Errors, score
from pansketch.planning.selection import NEAR, WORTH, Expected, NoPlan, cases_of, frugal
from pansketch.planning.view_errors import Bits, Layout, Predicted, ViewSizes
from pansketch.planning.view_plan import (
    NOTHING_STATED,
    StatedViews,
    ViewNames,
    ViewPlan,
    growing,
    mean_views,
    shapes_of,
    state_nbytes,
    varying_only,
)
from pansketch.privacy import MICRO, Guarantee, Privacy
from pansketch.sketches.views import MAX_VIEW_BITS, MAX_VIEWS, View

# Of epsilon for the views of one attribute, in per cent. With more, noise hides near-duplicates.
SHARES = range(10, 70, 10)
SINGLE_BITS = range(MAX_VIEW_BITS, 3, -1)
# Of an attribute in a pair. Coarser only where nothing else fits: too fine is only noisy, and too
# coarse cannot be repaired.
PAIR_BITS = range(6, 2, -1)
COARSE_PAIR_BITS = range(2, 0, -1)


def plan_views(
    domain: Domain,
    privacy: Privacy,
    memory_bytes: int,
    expected: Expected,
    wanted: Sequence[ViewNames] | None = None,
    stated: StatedViews = NOTHING_STATED,
) -> ViewPlan:
    """Return the best views over a domain that fit.

    Args:
        domain: the attributes of a reading.
        privacy: epsilon, unit and intrusion.
        memory_bytes: maximum of the state.
        expected: the releases of a typical query.
        wanted: attribute sets of the views; None: the planner chooses them.
        stated: sizes that are fixed already.

    Raises:
        NoPlan: no views fit; one line with those that would.
        ValueError: an attribute is unknown, or the unit is "key".
    """
    return view_plans(domain, privacy, memory_bytes, expected, wanted, stated)[0]


def view_plans(
    domain: Domain,
    privacy: Privacy,
    memory_bytes: int,
    expected: Expected,
    wanted: Sequence[ViewNames] | None = None,
    stated: StatedViews = NOTHING_STATED,
) -> list[ViewPlan]:
    """Return the best plan of each pair resolution that fits, the chosen one first, then by regret.
    For the arguments and errors see `plan_views`."""
    choices = list[Sequence[ViewNames]]()
    for learned in (True, False):
        search = _Search(domain, privacy, expected, stated, learned)
        choices = choices or search.choices(wanted)
        for resolutions in (PAIR_BITS, COARSE_PAIR_BITS):
            if best := search.best(choices, resolutions, memory_bytes):
                return frugal(list(best.values()))
    raise NoPlan(search.nothing_fits(min(choices, key=len), memory_bytes))


class _Choice(NamedTuple):
    """Views of a few attribute sets with pairs of so many bits, in each resolution of attributes
    alone and with each split of epsilon. `shapes` by the first, `parts` by the second; `errors` and
    `scores` have an axis for each, and one for the cases."""

    sets: tuple[ViewNames, ...]
    pair_bits: int
    single_bits: tuple[int, ...]
    shapes: tuple[tuple[Bits, ...], ...]
    parts: tuple[tuple[int, ...], ...]
    errors: Predicted
    scores: npt.NDArray[np.int64]


@dataclass(frozen=True)
class _Search:
    """Inputs of the search for a plan; a collector searches for each size of memory."""

    domain: Domain
    privacy: Privacy
    expected: Expected
    stated: StatedViews
    learned: bool  # whether attributes alone have cells for each part of a learned scale

    @property
    def micro(self) -> int:
        """Of the views whose sizes are chosen."""
        spent = sum(view.micro for view in self.means)
        return Guarantee.of_linear_counters(self.privacy).reading_micro - spent

    @cached_property
    def means(self) -> tuple[View, ...]:
        """The views of `Expected.means`. Raises NoPlan."""
        return mean_views(self.domain, self.privacy, self.expected.means)

    def nbytes(self, shapes: Sequence[Bits]) -> int:
        """Of a state of views with these bits, and of `means`."""
        return state_nbytes([*shapes, *(view.bits for view in self.means)])

    def choices(self, wanted: Sequence[ViewNames] | None) -> list[Sequence[ViewNames]]:
        """The attribute sets that are searched. `wanted`: see `plan_views`."""
        if wanted is not None:
            return [varying_only(self.domain, wanted)]
        found = list[Sequence[ViewNames]](growing(self.domain, MAX_VIEWS - len(self.means)))
        if self.stated.pair_bits is None and self.stated.single_share is None:
            return found
        # A configured size of pairs needs pairs: without any it would have no effect.
        return [sets for sets in found if any(len(names) > 1 for names in sets)] or found

    def best(
        self,
        choices: Sequence[Sequence[ViewNames]],
        resolutions: Sequence[int],
        memory_bytes: int,
    ) -> dict[int, ViewPlan]:
        """The plan with the least regret of each pair resolution that fits."""
        fitting = [
            (choice, place)
            for sets in choices
            for choice in self._of_sets(tuple(sets), resolutions)
            for place, shapes in enumerate(choice.shapes)
            if self.nbytes(shapes) <= memory_bytes
        ]
        if not fitting:
            return {}
        least = np.min([choice.scores[place].min(axis=0) for choice, place in fitting], axis=0)
        found: dict[int, tuple[int, _Choice, int, int]] = {}
        for choice, place in fitting:
            split, regret = _split(1000 * choice.scores[place] // np.maximum(least, 1))
            known = found.get(choice.pair_bits)
            if known is None or regret < known[0]:
                found[choice.pair_bits] = regret, choice, place, split
        return {bits: self._plan(*each) for bits, each in found.items()}

    def _plan(self, regret: int, choice: _Choice, place: int, split: int) -> ViewPlan:
        errors = Errors(*(float(np.asarray(each)[place, split, 0]) for each in choice.errors))
        sizes = choice.shapes[place], choice.parts[split]
        bits = choice.single_bits[place], choice.pair_bits
        chosen = choice.sets, *sizes, errors, regret, *bits, self.means
        return ViewPlan(self.domain, self.privacy, *chosen)

    def _of_sets(
        self, sets: tuple[ViewNames, ...], resolutions: Sequence[int]
    ) -> Iterator[_Choice]:
        """The candidates; their errors are predicted once, for all sizes of memory."""
        known = _predicted(self)
        parts = [_parts(sets, self.micro, share) for share in self._shares(sets)]
        parts = [each for each in parts if min(each) > 0]
        singles: dict[int, list[int]] = {}
        for single_bits, pair_bits in self._resolutions(sets, resolutions) if parts else ():
            singles.setdefault(pair_bits, []).append(single_bits)
        for pair_bits, bits in singles.items():
            if (sets, pair_bits) not in known:
                known[sets, pair_bits] = self._choice(sets, pair_bits, bits, parts)
            yield known[sets, pair_bits]

    def _choice(
        self,
        sets: tuple[ViewNames, ...],
        pair_bits: int,
        single_bits: Sequence[int],
        parts: Sequence[Sequence[int]],
    ) -> _Choice:
        guarantee = Guarantee.of_linear_counters(self.privacy)
        cases = cases_of(self.expected, NEAR, guarantee)
        shapes = [
            shapes_of(self.domain, sets, bits, pair_bits, self.learned) for bits in single_bits
        ]
        bits = np.array([list(chain(*each)) for each in shapes])
        columns = iter((1 << bits).astype(np.float64).T[:, :, None, None])
        draws = np.sqrt(np.array([2.0 * case.draws for case in cases]))
        scales = MICRO / np.array(parts, dtype=np.float64)
        sizes = ViewSizes(
            [[next(columns) for _ in names] for names in sets],
            [scale[:, None] * draws for scale in scales.T],
        )
        wide = len(single_bits), len(parts), len(cases)
        found = _layout(self.domain, sets).errors(sizes, cases)
        errors = Predicted(*(np.broadcast_to(each, wide) for each in found))
        scores = np.asarray(score(*errors)).astype(np.int64)
        sizes_of = tuple(single_bits), tuple(shapes), tuple(map(tuple, parts))
        return _Choice(sets, pair_bits, *sizes_of, errors, scores)

    def _resolutions(
        self, sets: Sequence[ViewNames], resolutions: Sequence[int]
    ) -> Iterator[tuple[int, int]]:
        """(bits alone, bits in a pair), 0 for what there is none of. Nothing is finer in a pair
        than alone, unless that is stated."""
        alone = any(len(names) == 1 for names in sets)
        joint = any(len(names) > 1 for names in sets)
        for pair_bits in _choices(self.stated.pair_bits, resolutions) if joint else (0,):
            for single_bits in _choices(self.stated.single_bits, SINGLE_BITS) if alone else (0,):
                if not alone or single_bits >= pair_bits or self.stated.single_bits is not None:
                    yield single_bits, pair_bits

    def _shares(self, sets: Sequence[ViewNames]) -> Sequence[int]:
        if all(len(names) == 1 for names in sets):
            return (100,)
        if all(len(names) > 1 for names in sets):
            return (0,)
        return _choices(self.stated.single_share, SHARES)

    def nothing_fits(self, sets: Sequence[ViewNames], memory_bytes: int) -> str:
        """Problem of the fewest views."""
        if len(sets) > self.micro:
            return f"epsilon has parts for {self.micro} views at most, not {len(sets)}"
        least = min(
            self.nbytes(shapes_of(self.domain, sets, *bits, self.learned))
            for bits in self._resolutions(sets, COARSE_PAIR_BITS)
        )
        if least <= memory_bytes:
            return f"epsilon is too small to be shared among {len(sets)} views"
        return (
            f"memory of {memory_bytes} bytes is too small for {len(sets)} views: "
            f"they need {least} at least"
        )


def _split(ratios: npt.NDArray[np.int64]) -> tuple[int, int]:
    """Which split of epsilon, and its regret: of those whose worst case is about as good as can be,
    the best in all cases together. `ratios`: int64[splits, cases], in thousandths."""
    worst = ratios.max(axis=1)
    good = np.flatnonzero(100 * worst <= WORTH * worst.min())
    split = int(good[ratios[good].sum(axis=1).argmin()])
    return split, int(worst[split])


# One stream at a time is planned for all sizes of memory. A larger cache would waste memory in a
# collector, which plans again for each published scale.
@lru_cache(maxsize=1)
def _predicted(search: _Search) -> dict[tuple[tuple[ViewNames, ...], int], _Choice]:
    """The choices of a search that are known, by attribute sets and bits in a pair."""
    return {}


@lru_cache(maxsize=1)
def _layout(domain: Domain, sets: tuple[ViewNames, ...]) -> Layout:
    return Layout(domain, sets)


def _choices(stated: int | None, choices: Sequence[int]) -> Sequence[int]:
    return choices if stated is None else (stated,)


def _parts(sets: Sequence[ViewNames], micro: int, share: int) -> list[int]:
    """Parts of epsilon: `share` per cent for the single attributes together, equal among them."""
    alone = sum(len(names) == 1 for names in sets)
    single = micro * share // (100 * alone) if alone else 0
    joint = (micro - single * alone) // max(1, len(sets) - alone)
    parts = [single if len(names) == 1 else joint for names in sets]
    parts[-1] += micro - sum(parts)
    return parts
