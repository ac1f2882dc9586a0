"""Which views a stream should have, how fine each, and what part of epsilon: the least predicted
error (view_errors.py) that fits into the memory.

Devices and collector must come to the same plan, so the search is over whole numbers, and errors
are compared in whole millionths, the first of equals winning.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import sqrt

from pansketch.domain import Domain
from pansketch.privacy import MICRO, Guarantee, Privacy
from pansketch.view import MOST_VIEW_BITS, View
from pansketch.view_errors import Layout, varying
from pansketch.views import MOST_VIEWS, ViewsSpec

CELL_BYTES = 4
SHARES = range(5, 65, 5)  # of epsilon for the views of one attribute, in per cent
SINGLE_BITS = range(MOST_VIEW_BITS, 3, -1)
PAIR_BITS = range(6, 0, -1)

Names = tuple[str, ...]


class NoPlan(ValueError):
    """No choice of sizes fits. The text says what would."""


@dataclass(frozen=True)
class Expected:
    """What a query will read together: `windows` releases of each of `devices` devices, with about
    `readings` readings in each. Public guesses; a wrong one costs accuracy and never privacy.

    Raises ValueError unless all are positive.
    """

    readings: int
    devices: int = 1
    windows: int = 1

    def __post_init__(self) -> None:
        for name in ("readings", "devices", "windows"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be a positive number, not {getattr(self, name)}")

    @property
    def releases(self) -> int:
        return self.devices * self.windows

    @property
    def total(self) -> int:
        return self.readings * self.releases


@dataclass(frozen=True)
class Stated:
    """Sizes that somebody has chosen already; None leaves one to the planner.

    `single_bits`, `pair_bits`: of an attribute in a view of its own and in a pair. `single_share`:
    of epsilon, in whole per cent, for all views of one attribute together.
    """

    single_bits: int | None = None
    pair_bits: int | None = None
    single_share: int | None = None

    def __post_init__(self) -> None:
        for name, most in (("single_bits", MOST_VIEW_BITS), ("pair_bits", MOST_VIEW_BITS)):
            value = getattr(self, name)
            if value is not None and not 1 <= value <= most:
                raise ValueError(f"{name} must lie between 1 and {most}, not {value}")
        if self.single_share is not None and not 1 <= self.single_share <= 99:
            raise ValueError(f"single_share must lie between 1 and 99, not {self.single_share}")


NOTHING_STATED = Stated()


@dataclass(frozen=True)
class ViewPlan:
    """A choice of views. `pair_error`: predicted mean total variation of all pairs on 16 x 16
    quantile bins. `marginal_error`: predicted mean W1 of the attributes, in standard deviations.
    `pair_bits`, `single_bits`: the finest resolution of an attribute in a pair and alone."""

    domain: Domain
    privacy: Privacy
    views: tuple[View, ...]
    pair_error: float
    marginal_error: float
    single_bits: int
    pair_bits: int

    @property
    def spec(self) -> ViewsSpec:
        return ViewsSpec(self.domain, self.privacy, self.views)

    @property
    def single_percent(self) -> float:
        """Of epsilon: the part of all views of one attribute together."""
        alone = sum(view.micro for view in self.views if len(view.names) == 1)
        return 100 * alone / sum(view.micro for view in self.views)

    @property
    def score(self) -> int:
        """What is least for the best plan: in whole millionths, so that machines agree."""
        return round(1e6 * (self.pair_error + 2 * self.marginal_error))


def plan_views(
    domain: Domain,
    privacy: Privacy,
    memory_bytes: int,
    expected: Expected,
    wanted: Sequence[Names] | None = None,
    stated: Stated = NOTHING_STATED,
) -> ViewPlan:
    """The best views over a domain that fit, or the best sizes for the `wanted` attribute sets.

    Raises NoPlan, one line that says what would fit, ValueError for an unknown attribute.
    """
    return plans(domain, privacy, memory_bytes, expected, wanted, stated)[0]


def plans(
    domain: Domain,
    privacy: Privacy,
    memory_bytes: int,
    expected: Expected,
    wanted: Sequence[Names] | None = None,
    stated: Stated = NOTHING_STATED,
) -> list[ViewPlan]:
    """The best plan of each pair resolution that fits, the best of all first."""
    best: dict[int, ViewPlan] = {}
    for plan in _candidates(domain, privacy, memory_bytes, expected, wanted, stated):
        known = best.get(plan.pair_bits)
        if known is None or plan.score < known.score:
            best[plan.pair_bits] = plan
    if not best:
        raise NoPlan(_nothing_fits(domain, privacy, memory_bytes, wanted, stated))
    return sorted(best.values(), key=lambda plan: plan.score)


def _candidates(
    domain: Domain,
    privacy: Privacy,
    memory_bytes: int,
    expected: Expected,
    wanted: Sequence[Names] | None,
    stated: Stated,
) -> Iterator[ViewPlan]:
    guarantee = Guarantee.of_linear_counters(privacy)
    micro, draws = guarantee.reading_micro, guarantee.draws * expected.releases
    for sets in _attribute_sets(domain, wanted):
        layout = Layout(domain, sets)
        for single_bits, pair_bits, share in _sizes(sets, stated):
            shapes = [_bits(domain, names, single_bits, pair_bits) for names in sets]
            parts = _parts(sets, micro, share)
            if min(parts) < 1 or CELL_BYTES * _cells(shapes) > memory_bytes:
                continue
            deviations = [sqrt(2 * draws) * (MICRO / part) for part in parts]
            errors = layout.errors(shapes, deviations, expected.total)
            views = tuple(map(View, sets, shapes, parts))
            yield ViewPlan(domain, privacy, views, *errors, single_bits, pair_bits)


def _sizes(sets: Sequence[Names], stated: Stated) -> Iterator[tuple[int, int, int]]:
    """(bits alone, bits in a pair, share of those alone), 0 for what there is none of. Nothing is
    finer in a pair than alone."""
    alone = any(len(names) == 1 for names in sets)
    joint = any(len(names) > 1 for names in sets)
    shares = (100,) if not joint else (0,) if not alone else _choices(stated.single_share, SHARES)
    for pair_bits in _choices(stated.pair_bits, PAIR_BITS) if joint else (0,):
        for single_bits in _choices(stated.single_bits, SINGLE_BITS) if alone else (0,):
            if not alone or single_bits >= pair_bits or stated.single_bits is not None:
                yield from ((single_bits, pair_bits, share) for share in shares)


def _choices(stated: int | None, choices: Sequence[int]) -> Sequence[int]:
    return choices if stated is None else (stated,)


def _cells(shapes: Sequence[tuple[int, ...]]) -> int:
    return sum(1 << sum(bits) for bits in shapes)


def _attribute_sets(domain: Domain, wanted: Sequence[Names] | None) -> Iterator[list[Names]]:
    """The wanted sets; or every attribute alone with more and more of the pairs, neighbours in the
    domain's order first."""
    if wanted is not None:
        for names in wanted:
            for name in names:
                domain.index(name)
        yield [tuple(names) for names in wanted]
        return
    names = varying(domain)
    singles: list[Names] = [(name,) for name in names]
    count = len(names)
    for reach in range(count // 2, -1, -1):
        pairs = [
            (names[i], names[j])
            for i, j in combinations(range(count), 2)
            if min(j - i, count - j + i) <= reach
        ]
        if len(singles) + len(pairs) <= MOST_VIEWS:
            yield [*singles, *pairs]


def _bits(domain: Domain, names: Names, single_bits: int, pair_bits: int) -> tuple[int, ...]:
    """As fine as asked for: three attributes or more share the bits of a pair."""
    each = single_bits if len(names) == 1 else max(1, 2 * pair_bits // len(names))
    return tuple(min(each, domain.attributes[domain.index(name)].most_bits) for name in names)


def _parts(sets: Sequence[Names], micro: int, share: int) -> list[int]:
    """Parts of epsilon: `share` per cent for the single attributes together, equal among them."""
    alone = sum(len(names) == 1 for names in sets)
    single = micro * share // (100 * alone) if alone else 0
    joint = (micro - single * alone) // max(1, len(sets) - alone)
    parts = [single if len(names) == 1 else joint for names in sets]
    parts[-1] += micro - sum(parts)
    return parts


def _nothing_fits(
    domain: Domain,
    privacy: Privacy,
    memory_bytes: int,
    wanted: Sequence[Names] | None,
    stated: Stated,
) -> str:
    *_, sets = _attribute_sets(domain, wanted)  # The fewest.
    micro = Guarantee.of_linear_counters(privacy).reading_micro
    if len(sets) > micro:
        return f"epsilon has parts for {micro} views at most, not {len(sets)}"
    least = min(
        CELL_BYTES * _cells([_bits(domain, names, single, pair) for names in sets])
        for single, pair, _ in _sizes(sets, stated)
    )
    if least <= memory_bytes:
        return f"epsilon is too small to be shared among {len(sets)} views"
    return f"{len(sets)} views need {least} bytes at least, and there are {memory_bytes}"
