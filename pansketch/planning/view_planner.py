"""Which views a stream should have, how fine each, and what part of epsilon: the least regret
(selection.py) over predicted errors (view_errors.py) of the views that fit into the memory.

Devices and collector must come to the same plan, so the search is over whole numbers, and errors
are compared in whole millionths.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations
from math import sqrt
from typing import NamedTuple

from pansketch.domain.domain import Domain
from pansketch.planning.expected_errors import Errors
from pansketch.planning.selection import NEAR, Expected, NoPlan, cases_of, frugal, regrets
from pansketch.planning.view_errors import Bits, Layout, varying
from pansketch.planning.view_plan import (
    NOTHING_STATED,
    StatedViews,
    ViewNames,
    ViewPlan,
    state_nbytes,
)
from pansketch.privacy import MICRO, Guarantee, Privacy
from pansketch.sketches.views import MAX_VIEW_BITS, MAX_VIEWS

SHARES = range(10, 70, 10)  # of epsilon for the views of one attribute, in per cent
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
    search = _Search(domain, privacy, expected, stated)
    choices = [_varying_only(domain, wanted)] if wanted is not None else list(_growing(domain))
    if stated.pair_bits is not None or stated.single_share is not None:
        # Whoever states a size of pairs wants pairs: without any it would have no effect.
        choices = [sets for sets in choices if any(len(names) > 1 for names in sets)] or choices
    for resolutions in (PAIR_BITS, COARSE_PAIR_BITS):
        if best := search.best(choices, resolutions, memory_bytes):
            return frugal(list(best.values()))
    raise NoPlan(search.nothing_fits(min(choices, key=len), memory_bytes))


class _Candidate(NamedTuple):
    """See `ViewPlan`; `scores` of its errors, by case."""

    sets: tuple[ViewNames, ...]
    shapes: tuple[Bits, ...]
    parts: tuple[int, ...]
    errors: Errors
    scores: tuple[int, ...]
    single_bits: int
    pair_bits: int


@dataclass(frozen=True)
class _Search:
    """What a plan is looked for; a collector looks for one in each size of memory."""

    domain: Domain
    privacy: Privacy
    expected: Expected
    stated: StatedViews

    @property
    def micro(self) -> int:
        return Guarantee.of_linear_counters(self.privacy).reading_micro

    def best(
        self,
        choices: Sequence[Sequence[ViewNames]],
        resolutions: Sequence[int],
        memory_bytes: int,
    ) -> dict[int, ViewPlan]:
        """The plan with the least regret of each pair resolution that fits."""
        candidates = [
            each
            for sets in choices
            for each in self._candidates(tuple(sets), resolutions, memory_bytes)
        ]
        scores = regrets([each.scores for each in candidates])
        found: dict[int, tuple[int, _Candidate]] = {}
        for score, candidate in zip(scores, candidates, strict=True):
            known = found.get(candidate.pair_bits)
            if known is None or score < known[0]:
                found[candidate.pair_bits] = score, candidate
        return {bits: self._plan(*each) for bits, each in found.items()}

    def _plan(self, score: int, candidate: "_Candidate") -> ViewPlan:
        sets, shapes, parts, errors, _, *bits = candidate
        return ViewPlan(self.domain, self.privacy, sets, shapes, parts, errors, score, *bits)

    def _candidates(
        self, sets: tuple[ViewNames, ...], resolutions: Sequence[int], memory_bytes: int
    ) -> Iterator["_Candidate"]:
        """What fits; it is predicted once, for all sizes of memory."""
        known = _predicted(self)
        for bits in self._resolutions(sets, resolutions):
            shapes = self._shapes(sets, *bits)
            if state_nbytes(shapes) <= memory_bytes:
                if (sets, bits) not in known:
                    known[sets, bits] = tuple(self._splits(sets, shapes, *bits))
                yield from known[sets, bits]

    def _splits(
        self,
        sets: tuple[ViewNames, ...],
        shapes: tuple[Bits, ...],
        single_bits: int,
        pair_bits: int,
    ) -> Iterator["_Candidate"]:
        """Views of these shapes, with each split of epsilon among them."""
        guarantee = Guarantee.of_linear_counters(self.privacy)
        layout, cases = _layout(self.domain, sets), cases_of(self.expected, NEAR, guarantee)
        for parts in (_parts(sets, self.micro, share) for share in self._shares(sets)):
            if min(parts) <= 0:
                continue
            errors = []
            for case in cases:
                deviation = sqrt(2 * case.draws)
                noise = [deviation * (MICRO / part) for part in parts]
                errors.append(layout.errors(shapes, noise, case.total, case.shape))
            scores = tuple(each.score for each in errors)
            yield _Candidate(sets, shapes, tuple(parts), errors[0], scores, single_bits, pair_bits)

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

    def _shapes(
        self, sets: Sequence[ViewNames], single_bits: int, pair_bits: int
    ) -> tuple[Bits, ...]:
        """As fine as asked for, and as atoms need: three attributes or more share the bits of a
        pair."""
        ends = {a.name: (a.least_bits, a.max_bits) for a in self.domain.attributes}
        each = [single_bits if len(n) == 1 else max(1, 2 * pair_bits // len(n)) for n in sets]
        return tuple(
            tuple(min(max(bits, ends[name][0]), ends[name][1]) for name in names)
            for names, bits in zip(sets, each, strict=True)
        )

    def nothing_fits(self, sets: Sequence[ViewNames], memory_bytes: int) -> str:
        """What to say of the fewest views."""
        if len(sets) > self.micro:
            return f"epsilon has parts for {self.micro} views at most, not {len(sets)}"
        least = min(
            state_nbytes(self._shapes(sets, *bits))
            for bits in self._resolutions(sets, COARSE_PAIR_BITS)
        )
        if least <= memory_bytes:
            return f"epsilon is too small to be shared among {len(sets)} views"
        return (
            f"memory of {memory_bytes} bytes is too small for {len(sets)} views: "
            f"they need {least} at least"
        )


Predicted = dict[tuple[tuple[ViewNames, ...], tuple[int, int]], tuple[_Candidate, ...]]


# One stream at a time is planned for all sizes of memory. More would stay with whoever plans anew
# for each published scale.
@lru_cache(maxsize=1)
def _predicted(search: _Search) -> Predicted:
    """The candidates of a search that are known, by attribute sets and resolution."""
    return {}


@lru_cache(maxsize=1)
def _layout(domain: Domain, sets: tuple[ViewNames, ...]) -> Layout:
    return Layout(domain, sets)


def _choices(stated: int | None, choices: Sequence[int]) -> Sequence[int]:
    return choices if stated is None else (stated,)


def _varying_only(domain: Domain, wanted: Sequence[ViewNames]) -> list[ViewNames]:
    """The wanted sets without constants, which have no cells. Raises NoPlan for a set of them."""
    for names in wanted:
        for name in names:
            domain.index(name)
    known = set(varying(domain))
    sets = [tuple(name for name in names if name in known) for names in wanted]
    if not all(sets):
        raise NoPlan(f"view {', '.join(wanted[sets.index(())])} has constants only")
    return list(dict.fromkeys(sets))


def _growing(domain: Domain) -> Iterator[list[ViewNames]]:
    """Every attribute alone, with all pairs, and with fewer and fewer of them: neighbours in the
    domain's order stay longest, for its first and last are neighbours too."""
    names = varying(domain)
    count = len(names)
    for reach in range(count // 2, -1, -1):
        pairs = [
            (names[i], names[j])
            for i, j in combinations(range(count), 2)
            if min(j - i, count - j + i) <= reach
        ]
        if count + len(pairs) <= MAX_VIEWS:
            yield [*((name,) for name in names), *pairs]


def _parts(sets: Sequence[ViewNames], micro: int, share: int) -> list[int]:
    """Parts of epsilon: `share` per cent for the single attributes together, equal among them."""
    alone = sum(len(names) == 1 for names in sets)
    single = micro * share // (100 * alone) if alone else 0
    joint = (micro - single * alone) // max(1, len(sets) - alone)
    parts = [single if len(names) == 1 else joint for names in sets]
    parts[-1] += micro - sum(parts)
    return parts
