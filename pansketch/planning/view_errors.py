"""What error views will have, predicted before any reading (expected_errors.py)."""

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import combinations
from math import sqrt
from typing import NamedTuple, TypeVar

from pansketch.domain.domain import Domain
from pansketch.planning.expected_errors import (
    OCCUPIED,
    Errors,
    bins_of,
    correlation_error,
    hidden_alone,
    hidden_in,
    marginal_error,
    pair_error,
)
from pansketch.planning.selection import Shape
from pansketch.sketches.views import MAX_VIEW_BITS

UNSEEN = 1.0  # W1 of an attribute in no view, in standard deviations
RELATED = 0.35  # error of a correlation that is taken to be 0
APART = 0.21  # total variation of a pair in no view, besides that of its margins

SAME, EQUAL = 0.75, 0.95  # the same two of near-duplicates
CHAINED, LOOSE = 0.3, 0.3  # the same, where they are linked by views of other pairs

Bits = tuple[int, ...]
Holder = tuple[int, int]  # a view and the place in it
Group = TypeVar("Group", "_Attribute", "_Pair")


class Kind(NamedTuple):
    """Most bits of an attribute in a view, and whether it has categories or a learned scale: both
    spread the readings over all cells. `values`: the part of the cells that is not kept for
    atoms."""

    bits: int
    categories: bool
    learned: bool
    values: float = 1.0


class _Attribute(NamedTuple):
    """Attributes that no plan tells apart: one of them stands for all."""

    kind: Kind
    held: tuple[Holder, ...]


class _Pair(NamedTuple):
    """Pairs that no plan tells apart: their attributes, and (view, place, place) of the views that
    hold both."""

    first: _Attribute
    second: _Attribute
    held: tuple[tuple[int, int, int], ...]


class Views(NamedTuple):
    """See `Layout.errors`."""

    shapes: Sequence[Bits]
    deviations: Sequence[float]
    total: int
    readings: Shape

    @property
    def apart(self) -> tuple[float, float]:
        """Errors of a pair in no view: its total variation besides that of its margins, and that of
        its correlation. Views of other pairs lead from one near-duplicate to the next."""
        if not self.readings.alike:
            return APART, RELATED
        return (CHAINED, LOOSE) if any(len(each) > 1 for each in self.shapes) else (SAME, EQUAL)

    def within(self, kind: Kind, cells: int) -> float:
        """Cells of an attribute in the range of its readings."""
        if kind.learned:
            # All of them, where a third is assumed of a pair of others.
            return kind.values * cells / sqrt(OCCUPIED)
        if kind.categories:
            return float(cells)
        return kind.values * cells / (1 << self.readings.narrow)


class Layout:
    """Which attributes are in which views.

    Attributes of one kind in views of one kind have one error, so each such group is looked at
    once, however many attributes there are.
    """

    def __init__(self, domain: Domain, sets: Sequence[tuple[str, ...]]) -> None:
        kinds = {name: _kind(domain, name) for name in varying(domain)}
        self._stands_for = _first_of_a_kind([tuple(kinds[n] for n in names) for names in sets])
        places = {
            name: [(view, names.index(name)) for view, names in enumerate(sets) if name in names]
            for name in kinds
        }
        alike = {name: _Attribute(kinds[name], self._alike(places[name])) for name in kinds}
        self._attributes = Counter(alike.values())
        self._pairs = Counter(
            _Pair(alike[a], alike[b], self._both(places[a], places[b]))
            for a, b in combinations(kinds, 2)
        )

    def _alike(self, held: list[Holder]) -> tuple[Holder, ...]:
        return tuple(sorted((self._stands_for[view], place) for view, place in held))

    def _both(self, first: list[Holder], second: list[Holder]) -> tuple[tuple[int, int, int], ...]:
        others = dict(second)
        held = {(self._stands_for[v], p, others[v]) for v, p in first if v in others}
        return tuple(sorted(held))

    def errors(
        self,
        shapes: Sequence[Bits],
        deviations: Sequence[float],
        total: int,
        readings: Shape = Shape(),  # noqa: B008
    ) -> Errors:
        """`shapes`: bits of each view's attributes. `deviations`: of the noise on each of its
        cells, all releases together. `total`: readings in them. Views over attributes of the same
        kinds have the same of both."""
        views = Views(shapes, deviations, total, readings)
        alone = {each: _marginal(each, views) for each in self._attributes}
        pairs = {each: _pair(each, alone, views) for each in self._pairs}
        numbers = {each: n for each, n in self._pairs.items() if _of_numbers(each)}
        related = {each: _correlation(each, views) for each in numbers}
        return Errors(
            _mean(self._pairs, pairs), _mean(self._attributes, alone), _mean(numbers, related)
        )


def varying(domain: Domain) -> tuple[str, ...]:
    """The attributes that have cells at all: a constant has none."""
    return tuple(attribute.name for attribute in domain.attributes if attribute.max_bits)


def _kind(domain: Domain, name: str) -> Kind:
    attribute = domain.attributes[domain.index(name)]
    bits = min(MAX_VIEW_BITS, attribute.max_bits)
    values = 1.0 if attribute.placed is None else attribute.placed.values_share
    return Kind(bits, attribute.categories is not None, bool(attribute.knots), values)


def _first_of_a_kind(kinds: Sequence[tuple[Kind, ...]]) -> list[int]:
    """For each view the first one over attributes of the same kinds."""
    first: dict[tuple[Kind, ...], int] = {}
    return [first.setdefault(kind, view) for view, kind in enumerate(kinds)]


def _whole(kind: Kind, bits: int) -> bool:
    return kind.categories and bits == kind.bits


def _of_numbers(pair: _Pair) -> bool:
    return not (pair.first.kind.categories or pair.second.kind.categories)


def _marginal(attribute: _Attribute, views: Views) -> float:
    """All views of an attribute together, weighted by their precision, then what is inside the
    cells that its pairs know, and inside its finest cells."""
    precision, variance, finest, known = 0.0, 0.0, 1, 1
    for view, place in attribute.held:
        shape, deviation = views.shapes[view], views.deviations[view]
        size, cells = 1 << sum(shape), 1 << shape[place]
        squared = deviation * deviation
        # A running sum of the view's marginal adds up noise of this many of its cells.
        precision += 1 / (squared * size)
        if cells > finest:
            finest, variance = cells, squared * size / cells
        if len(shape) > 1:
            known = max(known, cells)
    if not precision:
        return UNSEEN
    inside = variance * finest / known if 1 < known < finest else 0.0
    whole = _whole(attribute.kind, finest.bit_length() - 1)
    noise = sqrt(1 / precision + inside) / views.total
    return marginal_error(noise, hidden_alone(views.within(attribute.kind, finest), whole))


def _pair(pair: _Pair, alone: dict[_Attribute, float], views: Views) -> float:
    """Of the best view that holds both, or taken to be independent."""
    margins = (alone[pair.first] + alone[pair.second]) / 2
    found = pair_error(0.0, 1, views.apart[0], margins)
    both = (pair.first, pair.second)
    for view, *places in pair.held:
        shape = views.shapes[view]
        bits = [shape[place] for place in places]
        within = [views.within(e.kind, 1 << own) for e, own in zip(both, bits, strict=True)]
        hidden = sum(
            hidden_in(cells, _whole(each.kind, own))
            for each, own, cells in zip(both, bits, within, strict=True)
        )
        # The view's other attributes are summed over, and several cells fall into one bin.
        cells, others = max(1.0, within[0]) * max(1.0, within[1]), 1 << sum(shape) - sum(bits)
        bins = bins_of(cells)
        in_a_bin = sqrt(others * max(1.0, OCCUPIED * cells / bins))
        noise = views.deviations[view] * in_a_bin / views.total
        found = min(found, pair_error(noise, bins, hidden, margins))
    return found


def _correlation(pair: _Pair, views: Views) -> float:
    found = views.apart[1]
    for view, *places in pair.held:
        shape = views.shapes[view]
        left, right = (shape[place] for place in places)
        noise = views.deviations[view] * sqrt(1 << sum(shape) - left - right) / views.total
        both = zip((pair.first, pair.second), (left, right), strict=True)
        told = min(views.within(each.kind, 1 << own) for each, own in both)
        found = min(found, correlation_error(noise, 1 << left, 1 << right, told))
    return found


def _mean(numbers: Mapping[Group, int], errors: Mapping[Group, float]) -> float:
    whole = sum(numbers.values())
    return sum(n * errors[group] for group, n in numbers.items()) / whole if whole else 0.0
