"""Predict the errors of views before any reading (expected_errors.py).

One computation covers views of several sizes, with several parts of epsilon, in several cases. An
array has an axis for each of the three.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import combinations
from math import sqrt
from typing import NamedTuple, TypeVar

import numpy as np

from pansketch.domain.domain import Domain, FloatArray
from pansketch.planning.expected_errors import (
    HIDDEN_PAIR,
    OCCUPIED,
    SHRUNK,
    UNRELATED,
    Amount,
    Truth,
    bins_of,
    correlation_error,
    flattened,
    hidden_alone,
    marginal_error,
    noise_alone,
    pair_error,
)
from pansketch.planning.selection import Case
from pansketch.sketches.views import MAX_VIEW_BITS

UNSEEN = 1.0  # W1 of an attribute in no view, in standard deviations
RELATED = 0.35  # error of a correlation that is taken to be 0
UNVIEWED = 0.21  # total variation of a pair in no view, besides that of its margins

SAME, EQUAL = 0.75, 0.95  # the same two of near-duplicates
CHAINED, LOOSE = 0.3, 0.5  # the same, where they are linked by views of other pairs
MISSED, PARTED = 0.6, 0.9  # the same, of what noise adds at most where one view holds both
COPULA_CELLS = 2.5  # cells more, whose dependence a copula tells
CROWD, ENOUGH = 32.0, 512.0  # times as narrow as assumed; cells between the bounds
CARRIED = 1.3  # total variation of a pair that W1 of a margin makes by its noise

Bits = tuple[int, ...]
Holder = tuple[int, int]  # a view and the place in it
Group = TypeVar("Group", "_Attribute", "_Pair")


class Kind(NamedTuple):
    """Most bits of an attribute in a view, and whether it has categories. `learned`: bits of the
    parts of a learned scale, 0 without. Both spread the readings over all cells. `values`: the part
    of the cells that is not kept for atoms."""

    bits: int
    categories: bool
    learned: int
    values: float = 1.0


class _Attribute(NamedTuple):
    """Attributes that every plan treats alike: one of them represents all. The numbers of views of
    each sort that hold them."""

    kind: Kind
    held: tuple[tuple[Holder, int], ...]


class _Pair(NamedTuple):
    """Pairs that no plan tells apart: their attributes, and (view, place, place) of the views that
    hold both."""

    first: _Attribute
    second: _Attribute
    held: frozenset[tuple[int, int, int]]


class ViewSizes(NamedTuple):
    """Cells of each attribute of each view, and the deviation of the noise on one of them, all
    releases together. Views over attributes of the same kinds have the same of both."""

    cells: Sequence[Sequence[Amount]]
    deviations: Sequence[FloatArray]


class Predicted(NamedTuple):
    """See `Errors`; one figure for each case and choice."""

    pair: Amount
    marginal: Amount
    correlation: Amount


class _Views:
    """Sizes, and the cases in which they are looked at, along the last axis."""

    def __init__(self, sizes: ViewSizes, cases: Sequence[Case]) -> None:
        self.cells, self.deviations = sizes
        self.total = np.array([float(case.total) for case in cases])
        self._narrow = np.array([float(1 << case.shape.narrow) for case in cases])
        self.spread = np.array([float(1 << case.shape.tail) for case in cases])
        self._alike = np.array([case.shape.alike for case in cases])
        self._joined = any(len(each) > 1 for each in self.cells)

    def size(self, view: int) -> Amount:
        """Cells of a view."""
        found: Amount = 1.0
        for cells in self.cells[view]:
            found = found * cells
        return found

    @property
    def unviewed(self) -> tuple[FloatArray, FloatArray]:
        """Errors of a pair in no view: its total variation besides that of its margins, and that of
        its correlation. Views of other pairs lead from one near-duplicate to the next."""
        alike = (CHAINED, LOOSE) if self._joined else (SAME, EQUAL)
        return np.where(self._alike, alike[0], UNVIEWED), np.where(self._alike, alike[1], RELATED)

    def unheld(self, error: Amount) -> Amount:
        """The error of a pair in no view, which bounds that of a pair in one: what noise hides is
        taken to be independent. Near-duplicates are worse off then than without a view."""
        return np.asarray(np.where(self._alike, np.inf, error))

    def chained(self, numbers: Mapping[_Pair, int], errors: Mapping[_Pair, Amount]) -> Amount:
        """Mean over all pairs. Near-duplicates in no view are no better known than those in one,
        through which they are linked."""
        held = {pair: number for pair, number in numbers.items() if pair.held}
        linked = np.where(self._alike, _mean(held, errors), 0.0)
        found = {
            pair: error if pair.held else np.maximum(error, linked)
            for pair, error in errors.items()
        }
        return _mean(numbers, found)

    @property
    def missed(self) -> tuple[FloatArray, FloatArray]:
        """Maximum that noise adds to the same two of a pair in a view."""
        return np.where(self._alike, MISSED, SHRUNK), np.where(self._alike, PARTED, UNRELATED)

    def within(self, kind: Kind, cells: Amount) -> Amount:
        """Cells of an attribute in the range of its readings."""
        if kind.learned:
            # All of them, where a third is assumed of a pair of others.
            return kind.values * cells / sqrt(OCCUPIED)
        if kind.categories:
            return cells + 0 * self._narrow
        # Narrower cells than these tell little of a crowd, and their noise adds to every tail.
        told = np.where(self._narrow > CROWD, np.minimum(cells, ENOUGH), cells)
        return np.asarray(kind.values * told / self._narrow)


class Layout:
    """Which attributes are in which views.

    Attributes of one kind in views of one kind have one error, so each such group is looked at
    once, however many attributes there are.
    """

    def __init__(self, domain: Domain, sets: Sequence[tuple[str, ...]]) -> None:
        kinds = {name: _kind(domain, name) for name in varying(domain)}
        held: dict[str, list[Holder]] = {name: [] for name in kinds}
        both: dict[frozenset[str], set[tuple[int, int, int]]] = {}
        first: dict[tuple[Kind, ...], int] = {}
        for view, names in enumerate(sets):
            # In one order, for a view over two kinds is of the same sort either way.
            ordered = sorted(names, key=kinds.__getitem__)
            alike = tuple(kinds[name] for name in ordered)
            sort = first.setdefault(alike, view)
            known = [kinds[name] for name in sets[sort]]
            for name in names:
                held[name].append((sort, known.index(kinds[name])))
            for a, b in combinations(ordered, 2):
                indices = known.index(kinds[a]), known.index(kinds[b])
                both.setdefault(frozenset((a, b)), set()).add((sort, *indices))
        alone = {
            name: _Attribute(kinds[name], tuple(sorted(Counter(held[name]).items())))
            for name in kinds
        }
        self._attributes = Counter(alone.values())
        self._pairs = Counter(
            _Pair(alone[a], alone[b], frozenset(both.get(frozenset((a, b)), ())))
            for a, b in combinations(sorted(kinds, key=kinds.__getitem__), 2)
        )

    def errors(self, sizes: ViewSizes, cases: Sequence[Case]) -> Predicted:
        """Of views of these sizes."""
        views = _Views(sizes, cases)
        found = {each: _marginal(each, views) for each in self._attributes}
        alone = {each: w1 for each, (w1, _) in found.items()}
        carried = {each: tv for each, (_, tv) in found.items()}
        pairs = {each: _pair(each, carried, views) for each in self._pairs}
        numbers = {each: n for each, n in self._pairs.items() if _of_numbers(each)}
        related = {each: _correlation(each, views) for each in numbers}
        return Predicted(
            views.chained(self._pairs, pairs),
            _mean(self._attributes, alone),
            views.chained(numbers, related),
        )


def varying(domain: Domain) -> tuple[str, ...]:
    """The attributes that have cells at all: a constant has none."""
    return tuple(attribute.name for attribute in domain.attributes if attribute.max_bits)


def _kind(domain: Domain, name: str) -> Kind:
    attribute = domain.attributes[domain.index(name)]
    bits = min(MAX_VIEW_BITS, attribute.max_bits)
    values = 1.0 if attribute.placed is None else attribute.placed.values_share
    return Kind(bits, attribute.categories is not None, attribute.scaling.parts_bits, values)


def _whole(kind: Kind, cells: Amount) -> Truth:
    return np.equal(cells, 1 << kind.bits) & kind.categories


def _of_numbers(pair: _Pair) -> bool:
    return not (pair.first.kind.categories or pair.second.kind.categories)


def _marginal(attribute: _Attribute, views: _Views) -> tuple[Amount, Amount]:
    """W1 and total variation. All views of an attribute together, weighted by their precision, then
    what is inside the cells that its pairs know, and inside its finest cells."""
    if not attribute.held:
        return UNSEEN, 1.0
    precision: Amount = 0.0
    variance: Amount = 0.0
    finest: Amount = 1.0
    known: Amount = 1.0
    for (view, index), number in attribute.held:
        cells, deviation = views.cells[view][index], views.deviations[view]
        # A running sum of the view's marginal adds up noise of this many of its cells.
        running = deviation * deviation * views.size(view)
        precision = precision + number / running
        variance = np.where(cells > finest, running / cells, variance)
        finest = np.maximum(finest, cells)
        if len(views.cells[view]) > 1:
            known = np.maximum(known, cells)
    inside = np.where((known > 1) & (known < finest), variance * finest / known, 0.0)
    whole = _whole(attribute.kind, finest)
    noise = np.sqrt(1 / precision + inside) / views.total
    within = views.within(attribute.kind, finest)
    flat = flattened(within, whole)
    carried = CARRIED * noise_alone(noise)
    w1 = marginal_error(noise, hidden_alone(within, whole) / views.spread)
    return w1, np.sqrt(flat * flat + carried * carried)


def _pair(pair: _Pair, carried: Mapping[_Attribute, Amount], views: _Views) -> Amount:
    """Of the best view that holds both, or taken to be independent."""
    margins = (carried[pair.first] + carried[pair.second]) / 2
    found = pair_error(0.0, 1.0, views.unviewed[0], margins)
    if pair.held:
        found = views.unheld(found)
    for view, *indices in sorted(pair.held):
        cells = [views.cells[view][index] for index in indices]
        kinds = (pair.first.kind, pair.second.kind)
        one, other = (views.within(k, c) for k, c in zip(kinds, cells, strict=True))
        hidden = _hidden(one, _whole(kinds[0], cells[0]))
        hidden = hidden + _hidden(other, _whole(kinds[1], cells[1]))
        # The view's other attributes are summed over, and several cells fall into one bin.
        occupied, others = (
            np.maximum(1.0, one) * np.maximum(1.0, other),
            views.size(view) / (cells[0] * cells[1]),
        )
        bins = bins_of(occupied)
        in_a_bin = np.sqrt(others * np.maximum(1.0, OCCUPIED * occupied / bins))
        noise = views.deviations[view] * in_a_bin / views.total
        missed = views.missed[0]
        found = np.minimum(found, pair_error(noise, bins, hidden, margins, limit=missed))
    return found


def _hidden(cells: Amount, whole: Truth) -> Amount:
    """Total variation of a pair that one attribute adds, from what is inside its cells. `cells`:
    those in the range of the readings."""
    return np.where(whole, 0.0, HIDDEN_PAIR / (cells + COPULA_CELLS))


def _correlation(pair: _Pair, views: _Views) -> Amount:
    found: Amount = views.unheld(views.unviewed[1]) if pair.held else views.unviewed[1]
    for view, *indices in sorted(pair.held):
        left, right = (views.cells[view][index] for index in indices)
        others = np.sqrt(views.size(view) / (left * right))
        noise = views.deviations[view] * others / views.total
        one, other = views.within(pair.first.kind, left), views.within(pair.second.kind, right)
        resolved = np.minimum(one, other)
        found = np.minimum(found, correlation_error(noise, left, right, resolved, views.missed[1]))
    return found


def _mean(numbers: Mapping[Group, int], errors: Mapping[Group, Amount]) -> Amount:
    whole = sum(numbers.values())
    found: Amount = 0.0
    for group, number in numbers.items():
        found = found + number * errors[group]
    return found / whole if whole else found
