"""What error views will have, predicted before any reading from their cells, noise and number.

It assumes what is common among sensors: that the readings occupy about a third of the public
bounds. Two errors act against each other. Cells hide what is inside them: halving them halves that
error. Noise is the same on every cell, so more cells carry more of it. Everything is computed with
sums, products, quotients and square roots, which are the same on every machine.
"""

from collections.abc import Sequence
from itertools import combinations
from math import sqrt

from pansketch.domain import Domain

BINS = 16  # of an attribute: its quantiles, on which errors of pairs are stated
OCCUPIED = 1 / 3  # of the cells between the public bounds, for one attribute or two
SPREAD = 6.9  # the bounds' distance in standard deviations, for readings that fill a third of it
DISCRETISATION = 0.275  # of a pair's total variation, for each attribute in 1 / cells along it
INDEPENDENT = 0.24  # total variation of a pair that is taken to be independent
ABSOLUTE = 0.8  # mean absolute value of normal noise, in standard deviations
BRIDGE = 0.31  # mean absolute error of a noisy cumulative of one cell's noise and one cell

Shape = tuple[int, ...]


def varying(domain: Domain) -> tuple[str, ...]:
    """The attributes that have cells at all: a constant has none."""
    return tuple(attribute.name for attribute in domain.attributes if attribute.most_bits)


class Layout:
    """Which attributes are in which views: for each attribute and pair, (view, place in it)."""

    def __init__(self, domain: Domain, sets: Sequence[tuple[str, ...]]) -> None:
        names = varying(domain)
        self._own = [sets.index((name,)) if (name,) in sets else None for name in names]
        self._of = [
            [(view, held.index(name)) for view, held in enumerate(sets) if name in held]
            for name in names
        ]
        self._of_pair = [
            (
                a,
                b,
                [
                    (view, dict(self._of[a])[view], place)
                    for view, place in self._of[b]
                    if view in dict(self._of[a])
                ],
            )
            for a, b in combinations(range(len(names)), 2)
        ]
        attributes = [domain.attributes[domain.index(name)] for name in names]
        self._whole = [a.most_bits if a.categories is not None else 0 for a in attributes]

    def errors(
        self, shapes: Sequence[Shape], deviations: Sequence[float], total: int
    ) -> tuple[float, float]:
        """(mean total variation over all pairs of attributes, mean W1 in standard deviations).

        `shapes`: bits of each view's attributes. `deviations`: of the noise on each of its cells,
        all releases together. `total`: readings in them.
        """
        inside = [self._inside(own, shapes, deviations, total) for own in self._own]
        pairs = [
            self._pair(a, b, inside, holders, shapes, deviations, total)
            for a, b, holders in self._of_pair
        ]
        alone = [self._marginal(holders, shapes, deviations, total) for holders in self._of]
        return sum(pairs) / max(1, len(pairs)), sum(alone) / max(1, len(alone))

    def _pair(
        self,
        a: int,
        b: int,
        inside: Sequence[float],
        holders: Sequence[tuple[int, int, int]],
        shapes: Sequence[Shape],
        deviations: Sequence[float],
        total: int,
    ) -> float:
        """Of the best view that holds both; no worse than taking them to be independent."""
        found = INDEPENDENT
        for view, *places in holders:
            bits = [shapes[view][place] for place in places]
            occupied = OCCUPIED * (1 << sum(bits))
            bins = min(float(BINS * BINS), occupied)
            # The view's other attributes are summed over, and several cells fall into one bin.
            others = 1 << sum(shapes[view]) - sum(bits)
            in_a_bin = deviations[view] * sqrt(others * occupied / bins)
            noise = ABSOLUTE / 2 * bins * in_a_bin / total
            squares, hidden = noise * noise, 0.0
            for attribute, own_bits in zip((a, b), bits, strict=True):
                known = min(1.0, OCCUPIED * (1 << own_bits) / BINS)
                squares += inside[attribute] * inside[attribute] * (1 - known)
                whole = self._whole[attribute] == own_bits
                hidden += 0.0 if whole else DISCRETISATION / (1 << own_bits)
            found = min(found, sqrt(squares + hidden * hidden))
        return found

    def _inside(
        self,
        own: int | None,
        shapes: Sequence[Shape],
        deviations: Sequence[float],
        total: int,
    ) -> float:
        """What the noise of an attribute's own view adds where bins share a cell of a pair."""
        if own is None:
            return 0.0
        in_a_bin = deviations[own] * sqrt(OCCUPIED * (1 << sum(shapes[own])) / BINS)
        return ABSOLUTE / 2 * BINS * in_a_bin / total

    def _marginal(
        self,
        holders: Sequence[tuple[int, int]],
        shapes: Sequence[Shape],
        deviations: Sequence[float],
        total: int,
    ) -> float:
        """All views of an attribute together, weighted by their precision, then what is inside the
        cells that its pairs know, and inside its finest cells."""
        precision, variance, finest, known = 0.0, 0.0, 1, 1
        for view, place in holders:
            size, cells = 1 << sum(shapes[view]), 1 << shapes[view][place]
            squared = deviations[view] * deviations[view]
            # A cumulative of the view's marginal adds up noise of this many of its cells.
            precision += 1 / (squared * size)
            if cells > finest:
                finest, variance = cells, squared * size / cells
            if len(shapes[view]) > 1:
                known = max(known, cells)
        if not precision:
            return SPREAD / 4
        inside = variance * finest / known if 1 < known < finest else 0.0
        return SPREAD * (BRIDGE * sqrt(1 / precision + inside) / total + 1 / (4 * finest))
