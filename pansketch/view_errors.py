"""What error views will have, predicted before any reading (expected_errors.py)."""

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import combinations
from math import sqrt
from typing import NamedTuple, TypeVar

from pansketch.domain import Domain
from pansketch.expected_errors import (
    OCCUPIED,
    Errors,
    bins_of,
    correlation_error,
    hidden_in,
    marginal_error,
    pair_error,
)
from pansketch.view import MOST_VIEW_BITS

UNSEEN = 1.0  # W1 of an attribute in no view, in standard deviations
RELATED = 0.35  # error of a correlation that is taken to be 0
APART = 0.21  # total variation of a pair in no view, besides that of its margins

Shape = tuple[int, ...]
Kind = tuple[int, bool]  # most bits of an attribute in a view, and whether it has categories
Holder = tuple[int, int]  # a view and the place in it
Group = TypeVar("Group", "_Attribute", "_Pair")


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

    def errors(self, shapes: Sequence[Shape], deviations: Sequence[float], total: int) -> Errors:
        """`shapes`: bits of each view's attributes. `deviations`: of the noise on each of its
        cells, all releases together. `total`: readings in them. Views over attributes of the same
        kinds have the same of both."""
        alone = {each: _marginal(each, shapes, deviations, total) for each in self._attributes}
        pairs = {each: _pair(each, alone, shapes, deviations, total) for each in self._pairs}
        numbers = {each: n for each, n in self._pairs.items() if _of_numbers(each)}
        related = {each: _correlation(each, shapes, deviations, total) for each in numbers}
        return Errors(
            _mean(self._pairs, pairs), _mean(self._attributes, alone), _mean(numbers, related)
        )


def varying(domain: Domain) -> tuple[str, ...]:
    """The attributes that have cells at all: a constant has none."""
    return tuple(attribute.name for attribute in domain.attributes if attribute.most_bits)


def _kind(domain: Domain, name: str) -> Kind:
    attribute = domain.attributes[domain.index(name)]
    return min(MOST_VIEW_BITS, attribute.most_bits), attribute.categories is not None


def _first_of_a_kind(kinds: Sequence[tuple[Kind, ...]]) -> list[int]:
    """For each view the first one over attributes of the same kinds."""
    first: dict[tuple[Kind, ...], int] = {}
    return [first.setdefault(kind, view) for view, kind in enumerate(kinds)]


def _whole(kind: Kind, bits: int) -> bool:
    most, categories = kind
    return categories and bits == most


def _of_numbers(pair: _Pair) -> bool:
    return not (pair.first.kind[1] or pair.second.kind[1])


def _marginal(
    attribute: _Attribute, shapes: Sequence[Shape], deviations: Sequence[float], total: int
) -> float:
    """All views of an attribute together, weighted by their precision, then what is inside the
    cells that its pairs know, and inside its finest cells."""
    precision, variance, finest, known = 0.0, 0.0, 1, 1
    for view, place in attribute.held:
        size, cells = 1 << sum(shapes[view]), 1 << shapes[view][place]
        squared = deviations[view] * deviations[view]
        # A running sum of the view's marginal adds up noise of this many of its cells.
        precision += 1 / (squared * size)
        if cells > finest:
            finest, variance = cells, squared * size / cells
        if len(shapes[view]) > 1:
            known = max(known, cells)
    if not precision:
        return UNSEEN
    inside = variance * finest / known if 1 < known < finest else 0.0
    whole = _whole(attribute.kind, finest.bit_length() - 1)
    return marginal_error(sqrt(1 / precision + inside) / total, finest, whole)


def _pair(
    pair: _Pair,
    alone: dict[_Attribute, float],
    shapes: Sequence[Shape],
    deviations: Sequence[float],
    total: int,
) -> float:
    """Of the best view that holds both, or taken to be independent."""
    margins = (alone[pair.first] + alone[pair.second]) / 2
    found = pair_error(0.0, 1, APART, margins)
    for view, *places in pair.held:
        bits = [shapes[view][place] for place in places]
        hidden = sum(
            hidden_in(1 << own, _whole(each.kind, own))
            for each, own in zip((pair.first, pair.second), bits, strict=True)
        )
        # The view's other attributes are summed over, and several cells fall into one bin.
        cells, others = 1 << sum(bits), 1 << sum(shapes[view]) - sum(bits)
        in_a_bin = sqrt(others * max(1.0, OCCUPIED * cells / bins_of(cells)))
        noise = deviations[view] * in_a_bin / total
        found = min(found, pair_error(noise, cells, hidden, margins))
    return found


def _correlation(
    pair: _Pair, shapes: Sequence[Shape], deviations: Sequence[float], total: int
) -> float:
    found = RELATED
    for view, *places in pair.held:
        left, right = (shapes[view][place] for place in places)
        noise = deviations[view] * sqrt(1 << sum(shapes[view]) - left - right) / total
        found = min(found, correlation_error(noise, 1 << left, 1 << right))
    return found


def _mean(numbers: Mapping[Group, int], errors: Mapping[Group, float]) -> float:
    whole = sum(numbers.values())
    return sum(n * errors[group] for group, n in numbers.items()) / whole if whole else 0.0
