"""Inputs and results of a planner of views."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

from pansketch.domain.domain import Domain
from pansketch.planning.expected_errors import Errors
from pansketch.planning.selection import NoPlan
from pansketch.planning.view_errors import Bits, varying
from pansketch.privacy import Guarantee, Privacy
from pansketch.sketches.views import MAX_VIEW_BITS, View, ViewsSpec

CELL_BYTES = 4
# Of a view for a mean over few windows. Few cells have little noise together, and the finer views
# locate readings inside them. Measured: benchmarks/streams/asked_means.py.
MEAN_BITS = 3
MEANS_PERCENT = 20  # of epsilon, for all means that are asked

ViewNames = tuple[str, ...]


@dataclass(frozen=True)
class StatedViews:
    """Sizes of views that are fixed already. None: the planner chooses.

    Args:
        single_bits: of an attribute in a view of its own.
        pair_bits: of an attribute in a pair.
        single_share: of epsilon, in whole per cent, for all views of one attribute together.

    Raises:
        ValueError: a size is out of range; the line begins with its name.
    """

    single_bits: int | None = None
    pair_bits: int | None = None
    single_share: int | None = None

    def __post_init__(self) -> None:
        for name in ("single_bits", "pair_bits"):
            value = getattr(self, name)
            if value is not None and not 1 <= value <= MAX_VIEW_BITS:
                raise ValueError(f"{name} must lie between 1 and {MAX_VIEW_BITS}, not {value}")
        if self.single_share is not None and not 1 <= self.single_share <= 99:
            raise ValueError(f"single_share must lie between 1 and 99, not {self.single_share}")


NOTHING_STATED = StatedViews()


@dataclass(frozen=True)
class ViewPlan:
    """A choice of views.

    Args:
        domain: the attributes of a reading.
        privacy: epsilon, unit and intrusion.
        sets: the attributes of each view.
        shapes: bits of each attribute of each view.
        parts: what each view costs a reading, in micro-epsilon.
        errors: predicted for the expected windows and a range of readings as assumed.
        score: its regret, in thousandths.
        single_bits: the finest resolution of an attribute alone; 0: there is no such view.
        pair_bits: the finest resolution of an attribute in a pair; 0: there is no such view.
        means: further views, of attributes whose means are asked of few windows.
    """

    domain: Domain
    privacy: Privacy
    sets: tuple[ViewNames, ...]
    shapes: tuple[Bits, ...]
    parts: tuple[int, ...]
    errors: Errors
    score: int
    single_bits: int
    pair_bits: int
    means: tuple[View, ...] = ()

    @property
    def spec(self) -> ViewsSpec:
        views = *map(View, self.sets, self.shapes, self.parts), *self.means
        return ViewsSpec(self.domain, self.privacy, views)

    @property
    def single_percent(self) -> float:
        """Of epsilon without `means`: the part of all views of one attribute together."""
        alone = sum(p for names, p in zip(self.sets, self.parts, strict=True) if len(names) == 1)
        return 100 * alone / sum(self.parts)

    @property
    def nbytes(self) -> int:
        return state_nbytes([*self.shapes, *(view.bits for view in self.means)])


def varying_only(domain: Domain, wanted: Sequence[ViewNames]) -> list[ViewNames]:
    """The wanted sets without constants, which have no cells. Raises NoPlan for a set of them."""
    for names in wanted:
        for name in names:
            domain.index(name)
    known = set(varying(domain))
    sets = [tuple(name for name in names if name in known) for names in wanted]
    if not all(sets):
        raise NoPlan(f"view {', '.join(wanted[sets.index(())])} has constants only")
    return list(dict.fromkeys(sets))


def growing(domain: Domain, most: int) -> Iterator[list[ViewNames]]:
    """Every attribute alone, with all pairs, and with fewer and fewer of them. Neighbours in the
    domain's order stay longest; its first and last are neighbours too. `most`: views."""
    names = varying(domain)
    count = len(names)
    for reach in range(count // 2, -1, -1):
        pairs = [
            (names[i], names[j])
            for i, j in combinations(range(count), 2)
            if min(j - i, count - j + i) <= reach
        ]
        if count + len(pairs) <= most:
            yield [*((name,) for name in names), *pairs]


def shapes_of(
    domain: Domain, sets: Sequence[ViewNames], single_bits: int, pair_bits: int, learned: bool
) -> tuple[Bits, ...]:
    """Bits of each attribute of each view: as fine as asked for, and as atoms need. Three
    attributes or more share the bits of a pair. `learned`: an attribute alone has cells for each
    part of a learned scale. Parts have about as many readings, but for wide ones that are kept for
    later readings. A cell of both would spread its readings over the wide ones."""
    ends = {a.name: (a.least_bits, a.max_bits) for a in domain.attributes}
    parts = {a.name: a.scaling.parts_bits if learned else 0 for a in domain.attributes}
    each = [single_bits if len(n) == 1 else max(1, 2 * pair_bits // len(n)) for n in sets]
    found = []
    for names, bits in zip(sets, each, strict=True):
        if len(names) == 1:
            bits = max(bits, min(parts[names[0]], MAX_VIEW_BITS))
        found.append(tuple(min(max(bits, ends[name][0]), ends[name][1]) for name in names))
    return tuple(found)


def mean_views(domain: Domain, privacy: Privacy, names: Sequence[str]) -> tuple[View, ...]:
    """Views for means that are asked of few windows, with equal parts of epsilon. Raises NoPlan
    where an attribute has no mean, or a view no epsilon."""
    whole = Guarantee.of_linear_counters(privacy).reading_micro
    part = whole * MEANS_PERCENT // (100 * max(1, len(names)))
    if names and not part:
        raise NoPlan(f"epsilon is too small to be shared among {len(names)} means")
    found = []
    for name in names:
        attribute = domain.attributes[domain.index(name)]
        if attribute.categories is not None or not attribute.max_bits:
            raise NoPlan(f"{name} has no mean: it is not a number that varies")
        bits = min(max(MEAN_BITS, attribute.least_bits), attribute.max_bits)
        found.append(View((name,), (bits,), part))
    return tuple(found)


def state_nbytes(shapes: Sequence[Bits]) -> int:
    """Of the cells of views with so many bits of each attribute."""
    return CELL_BYTES * sum(1 << sum(bits) for bits in shapes)
