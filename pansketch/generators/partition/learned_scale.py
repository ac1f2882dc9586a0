"""Scales that follow the readings: knots learned from an earlier private release of a stream.

Cells of equal width hide the positions of dense readings. The knots cut an attribute into parts of
about equally many readings, so that cells are fine where readings are. A release is private
already, so learning from it costs no epsilon. A scale does not change the amount that a reading
adds to a sketch, so a wrong scale costs accuracy alone.

A part must not be wide where it holds few readings: noise in it would lie far from all of them. So
learning minimises the squared shares of the parts, and their shares times their widths. A value
with mass of its own gets a part of its own, not all the parts. A scale is learned only where a
release separates its parts from noise, because knots that follow noise are worse than equal widths.
A share of the parts follows the configured scale, and no part is wider than a quarter of it. So
later readings in an empty range still find cells there.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from pansketch.domain.attribute import MAX_BITS, MAX_KNOT_BITS, Attribute
from pansketch.domain.domain import Domain, FloatArray
from pansketch.erasable_arrays import Indices
from pansketch.generators.model import Boxes, FittedModel
from pansketch.generators.partition.present import values_alone

MAX_PARTS = 128
MIN_PARTS = 16
MIN_VALUES = 64  # Cells tell fewer of them apart on any scale.
CLEAR = 1.5  # standard errors of the readings below a cut, that a part must hold on average
WIDE = 0.5  # how much a part's width counts beside its readings
RESERVED = 1 / 32  # of the parts: spread as the configured scale is
WIDEST = 1 / 4  # of the configured scale: no part is wider, but for a part of one piece
MAX_COST_RATIO = 3 / 4  # of the present scale's cost, that a new one has at most
PIECES = 4  # how much finer than the model's cells the new ones may be
MARGIN = 1 / 1024  # of a step: a knot lies so far below a point, for readings are rounded
SEARCHES, ROUNDS = 30, 5
QUARTERS = (0.25, 0.5, 0.75)
TAILS = 1 / 500  # of the readings: spread as a Cauchy distribution, for a release hides its tails


def learned_domain(
    model: FittedModel,
    parts: int = MAX_PARTS,
    configured: Domain | None = None,
    present: Domain | None = None,
) -> Domain:
    """The model's domain with a learned scale for each attribute that can have one.

    Categories, constants and cyclic attributes stay as they are. So do attributes with fewer than
    64 values, and those of which the model does not tell 16 parts apart.

    Args:
        model: made of earlier releases of the stream.
        parts: the most of a scale, a power of two from 16 to 1024.
        configured: the same attributes on the scales that some parts follow; None: the model's.
        present: the same attributes on the scales in use. One of them stays where the new one
            does not cost a quarter less; None: nothing stays for that reason.

    Returns:
        The domain of the next windows, with the same bounds.

    Raises:
        ValueError: the model holds no readings or has no boxes, or `parts` is out of range.
    """
    if model.readings.value <= 0:
        raise ValueError("nothing to learn from: the model holds no readings")
    if not MIN_PARTS <= parts <= 1 << MAX_KNOT_BITS or parts & (parts - 1):
        raise ValueError(f"parts must be a power of two from {MIN_PARTS} to {1 << MAX_KNOT_BITS}")
    follow = (configured or model.domain).attributes
    keep = (present or model.domain).attributes
    return Domain(
        [
            _learned(model, place, parts, own, now, hold=present is not None)
            for place, (own, now) in enumerate(zip(follow, keep, strict=True))
        ]
    )


def _learned(
    model: FittedModel,
    place: int,
    parts: int,
    configured: Attribute,
    present: Attribute,
    hold: bool,
) -> Attribute:
    """`hold`: the present scale stays where the new one is not better."""
    whole = model.domain.attributes[place]
    if whole.categories is not None or not whole.varies or whole.cyclic:
        return present
    # The values between atoms have the scale.
    attribute, configured = replace(whole, atoms=()), replace(configured, atoms=())
    if attribute.lattice is not None:
        points = attribute.lattice.last - attribute.lattice.first + 1
        if points < MIN_VALUES:
            return present
        parts = min(parts, 1 << points.bit_length() - 1)
    boxes = model.alone(place)
    if boxes is None:
        raise ValueError("nothing to learn from: the model has no boxes")
    pieces = _Pieces.of(boxes, parts, attribute, configured)
    if pieces is None:
        return present
    # Of a step that is far smaller than the bounds few values are far enough apart for knots.
    parts = min(parts, 1 << (len(pieces.values) - 1).bit_length() - 1)
    while parts >= MIN_PARTS:
        cuts = pieces.cuts(parts)
        if CLEAR * pieces.error(cuts) * parts <= 1:
            values = pieces.values[cuts]
            if hold and pieces.cost(values) > MAX_COST_RATIO * pieces.cost(_parts(present, parts)):
                return present
            knots = tuple(values.tolist())
            return replace(whole, scale="learned", resolution=1.0, knots=knots)
        parts //= 2
    return present


def _parts(attribute: Attribute, parts: int) -> FloatArray:
    """The ends of the parts of a scale: of so many that are equally long, if it has no knots."""
    if attribute.knots:
        return np.array(attribute.knots)
    return replace(attribute, atoms=()).scaling.values(np.linspace(0.0, 1.0, parts + 1))


@dataclass(frozen=True, eq=False)
class _Pieces:
    """Possible knots. `values`: from low to high, float64[n]. `below`: the share of the readings
    below each. `others`: the same in the model's replicates, float64[r, n]. `widths`: distances
    from low, in spreads of the readings. `held`: `below` with heavier tails. `mixed`: that, mixed
    with the share for the configured scale. `positions`: positions on that scale."""

    values: FloatArray
    below: FloatArray
    others: FloatArray
    widths: FloatArray
    held: FloatArray
    mixed: FloatArray
    positions: FloatArray

    @classmethod
    def of(
        cls, boxes: Boxes, parts: int, attribute: Attribute, configured: Attribute
    ) -> "_Pieces | None":
        """None where no reading has a value but an atom."""
        curve = values_alone(boxes)
        if curve is None:
            return None
        edges, _ = curve
        values = _candidates(attribute, edges, parts)
        positions = np.clip(attribute.scaling.positions(values), 0.0, 1.0)
        positions[-1] = 1.0
        below = np.interp(positions, *curve, 0.0, 1.0)
        others = [
            np.interp(positions, *alone, 0.0, 1.0)
            for each in boxes.replicates
            if each.total > 0 and (alone := values_alone(each)) is not None
        ]
        first, middle, last = np.interp(QUARTERS, below, values)
        spread = max(last - first, np.diff(values).min())
        tails = np.arctan((values - middle) / spread)
        tails = (tails - tails[0]) / (tails[-1] - tails[0])
        held = (1 - TAILS) * below + TAILS * tails
        widths = (values - values[0]) / spread
        reserved = np.clip(configured.scaling.positions(values), 0.0, 1.0)
        return cls(
            values,
            below,
            np.array(others).reshape(-1, len(values)),
            widths,
            held,
            (1 - RESERVED) * held + RESERVED * reserved,
            reserved,
        )

    def cost(self, knots: FloatArray) -> float:
        """Of the parts between these values, from low to high."""
        held, mixed, widths = (
            np.diff(np.interp(knots, self.values, each))
            for each in (self.held, self.mixed, self.widths)
        )
        return float(np.sum(mixed**2 + WIDE**2 * np.maximum(held, 0.0) * widths))

    def error(self, cuts: Indices) -> float:
        """Standard error of the share of the readings below a cut, root mean square over them."""
        apart = self.others[:, cuts] - self.below[cuts]
        return float(np.sqrt(np.mean(apart**2))) if apart.size else 0.0

    def cuts(self, parts: int) -> Indices:
        """The indices of knots among the values, intp[parts + 1]. First the weight of the heaviest
        part is minimised. Then every cut moves to where the two parts beside it cost least
        together."""
        cuts = self._even(parts)
        for _ in range(ROUNDS):
            for place in range(1, parts):
                start, end = cuts[place - 1], cuts[place + 1]
                inner = np.arange(start + 1, end)
                costs = self._cost(start, inner) + self._cost(inner, end)
                cuts[place] = inner[np.argmin(costs)]
        return cuts

    def _cost(self, start: Indices, end: Indices) -> FloatArray:
        mixed = self.mixed[end] - self.mixed[start]
        share = np.maximum(self.held[end] - self.held[start], 0.0)
        wide = (self.positions[end] - self.positions[start] > WIDEST) & (end - start > 1)
        cost = mixed**2 + WIDE**2 * share * (self.widths[end] - self.widths[start])
        return np.where(wide, np.inf, cost)

    def _even(self, parts: int) -> Indices:
        """A part is filled until the next piece would make it heavier than allowed; the least
        allowed weight is found by bisection. A single piece that is heavier is a part."""
        light, heavy = 0.0, 1.0
        for _ in range(SEARCHES):
            allowed = (light + heavy) / 2
            if len(self._filled(allowed, parts + 1)) <= parts:
                heavy = allowed
            else:
                light = allowed
        cuts = [0, *self._filled(heavy, parts + 1)]
        while len(cuts) <= parts:
            several = np.diff(cuts) > 1
            heaviest = int(np.argmax(np.where(several, np.diff(self.mixed[cuts]), -1.0)))
            cuts.insert(heaviest + 1, (cuts[heaviest] + cuts[heaviest + 1]) // 2)
        return np.array(cuts, np.intp)

    def _filled(self, allowed: float, most: int) -> list[int]:
        """The ends of parts of at most that weight, or of one piece each; stops after `most`."""
        ends: list[int] = []
        start, last = 0, len(self.mixed) - 1
        limits = self.positions + WIDEST
        while start < last and len(ends) < most:
            ends_of = (self.mixed, self.mixed[start] + allowed), (self.positions, limits[start])
            end = min(int(np.searchsorted(*each, side="right")) - 1 for each in ends_of)
            start = min(max(start + 1, end), last)
            ends.append(start)
        return ends


def _graded(edges: FloatArray) -> Iterator[FloatArray]:
    """Positions inside wide cells beside narrow ones, at distances that double. Readings of a wide
    cell are often at the end where the narrow ones begin."""
    widths = np.diff(edges)
    for doubled in range(MAX_BITS):
        from_left = edges[1:-1] + widths[:-1] * 2.0**doubled
        from_right = edges[1:-1] - widths[1:] * 2.0**doubled
        inside = from_left[from_left < edges[2:]], from_right[from_right > edges[:-2]]
        if not any(len(each) for each in inside):
            return
        yield from inside


def _candidates(attribute: Attribute, edges: FloatArray, parts: int) -> FloatArray:
    """Values where a knot may be, from low to high; more than there will be parts."""
    edges = np.unique(np.concatenate([[0.0], edges[(edges > 0) & (edges < 1)], [1.0]]))
    edges = np.unique(np.concatenate([edges, *_graded(edges)]))
    pieces = max(PIECES, -(-parts // (len(edges) - 1)))
    shares = np.arange(pieces) / pieces
    fine = np.append((edges[:-1, None] + np.diff(edges)[:, None] * shares).ravel(), 1.0)
    values = attribute.scaling.values(fine)
    lattice = attribute.lattice
    if lattice is not None:
        step = float(lattice.step)
        numbers = np.unique(
            np.concatenate(
                [
                    np.clip(np.rint(values / step), lattice.first + 1, lattice.last),
                    lattice.first
                    + np.arange(1, min(parts * PIECES, lattice.last - lattice.first) + 1.0),
                ]
            )
        )
        values = lattice.points(numbers) - MARGIN * step
    low, high = attribute.origin, attribute.highest
    narrowest = 2 * (high - low) * 2.0**-MAX_BITS
    found, place = [low], int(np.searchsorted(values, low + narrowest, "right"))
    while place < len(values) and values[place] < high - narrowest:
        found.append(float(values[place]))
        place = int(np.searchsorted(values, found[-1] + narrowest, "right"))
    return np.array([*found, high])
