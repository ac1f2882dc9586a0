"""Streams that have all counters of another one: what no release tells.

An even twin has the readings of one attribute spread over their finest cells. An error that holds
for a stream whose readings crowd inside them is too wide for it.

Cells of several attributes are wider. Readings that share such a cell may exchange their values of
an attribute, whatever else they hold. In a loose twin chance exchanges them, and all values stand
where their finest cells begin. In a tied twin every cell has its readings in one order, the same
for all attributes, and values are anywhere in their finest cells.

Records of the release are near one twin and far from the other. A prediction of that distance is
made from the release, so it is the same for both. For one of them it errs by the root of their
ratio at least.
"""

from collections.abc import Iterator
from math import sqrt

import numpy as np
import numpy.typing as npt

from benchmarks.datasets.small_streams import FloatArray
from benchmarks.error_bars.short_streams import exact
from benchmarks.harness.result import Row
from benchmarks.streams.streams import off
from benchmarks.views.plans import RECORDS, sampled
from pansketch import Attribute, Release, ViewsSpec
from pansketch.generators import FittedModel, TooFewReadings, fidelity

ASKED = np.arange(0.02, 1.0, 0.02)  # shares of the readings: up to there a `cdf` is compared
ANY = "any prediction of TV errs by"
TINY = np.finfo(float).tiny


def rows_of(
    title: str,
    release: Release,
    held: FloatArray,
    model: FittedModel,
    rng: np.random.Generator,
) -> Iterator[Row]:
    """A row of the even twins, and one of the loose and the tied one; none of twins whose counters
    differ. `release`: of views, of the readings `held`, float64[n, d]; `model`: its own."""
    spec = release.spec
    if not isinstance(spec, ViewsSpec):
        return
    yield from even_rows(title, spec, held, model, rng)
    shown, counters = {"the stream": held}, exact(spec, held).counters
    for name, twin in (
        ("a loose twin", loose(spec, held, rng)),
        ("a tied one", tied(spec, held, rng)),
    ):
        if (exact(spec, twin).counters == counters).all():
            shown[name] = twin
    if len(shown) == 1:
        return
    try:
        records, predicted = sampled(model), fidelity([release], RECORDS).pair
    except TooFewReadings:
        return
    apart = {name: off(spec.domain, each, records)["pair"] for name, each in shown.items()}
    told = ", ".join(f"{distance:.3f} from {name}" for name, distance in apart.items())
    yield Row(
        f"{title}: {ANY}",
        sqrt(max(apart.values()) / min(apart.values())),
        "x",
        note=f"records are {told}; predicted {predicted:.3f}",
    )


def even_rows(
    title: str, spec: ViewsSpec, held: FloatArray, model: FittedModel, rng: np.random.Generator
) -> Iterator[Row]:
    """Where an even twin is most of our standard errors from the stream, if it has its counters."""
    found, counters = [], exact(spec, held).counters
    for place, attribute in enumerate(spec.domain.attributes):
        if not _moves(attribute):
            continue
        stream, twin = held.copy(), held.copy()
        stream[:, place] = column = _counted(attribute, held[:, place])
        twin[:, place] = inside(attribute, column, finest(spec, place), rng.random(len(column)))
        if (exact(spec, twin).counters != counters).any():
            continue
        column, even = np.sort(stream[:, place]), np.sort(twin[:, place])
        limits = np.unique(column[(ASKED * len(column)).astype(np.intp)])
        apart = [np.searchsorted(each, limits, "right") / len(column) for each in (column, even)]
        for limit, share in zip(limits.tolist(), np.abs(apart[0] - apart[1]), strict=True):
            try:
                error = model.cdf(attribute.name, limit).standard_error
            except TooFewReadings:
                break
            found.append((float(share) / max(error, TINY), float(share), attribute.name, limit))
    if found:
        times, share, name, limit = max(found)
        note = f"{share:.3f}, up to {limit:g} of {name}; no counter differs"
        yield Row(f"{title}: cdf of an even twin, in our s.e.", times, "x", note=note)


def loose(spec: ViewsSpec, held: FloatArray, rng: np.random.Generator) -> FloatArray:
    """Readings that exchange their values at random, float64[n, d], each value where its finest
    cell begins."""
    return _exchanged(spec, held, rng.random(held.shape), np.zeros(held.shape))


def tied(spec: ViewsSpec, held: FloatArray, rng: np.random.Generator) -> FloatArray:
    """Readings in one order in every cell, float64[n, d], each value anywhere in its finest."""
    order = np.broadcast_to(rng.random((len(held), 1)), held.shape)
    return _exchanged(spec, held, order, rng.random(held.shape))


def _exchanged(
    spec: ViewsSpec, held: FloatArray, order: FloatArray, shares: FloatArray
) -> FloatArray:
    """`order`: of the readings, by attribute, in each cell of several attributes. `shares`: how far
    each value is in its finest cell."""
    found = held.copy()
    for place, attribute in enumerate(spec.domain.attributes):
        if not _moves(attribute):
            continue
        column = _counted(attribute, held[:, place])
        values = inside(attribute, column, finest(spec, place), shares[:, place])
        cells = _cells(attribute, values, finest(spec, place, several=True))
        found[np.lexsort((order[:, place], cells)), place] = values[np.lexsort((values, cells))]
    return found


def _moves(attribute: Attribute) -> bool:
    return attribute.categories is None and not attribute.cyclic and not attribute.atoms


def _counted(attribute: Attribute, column: FloatArray) -> FloatArray:
    """Readings where an agent counts them: at the nearest multiples of a step."""
    lattice = attribute.lattice
    return column if lattice is None else lattice.points(lattice.nearest(column))


def finest(spec: ViewsSpec, place: int, *, several: bool = False) -> int:
    """Bits of an attribute's finest cells; `several`: in views of other attributes too."""
    name = spec.domain.names[place]
    return max(
        (
            view.bits[view.names.index(name)]
            for view in spec.views
            if name in view.names and (len(view.names) > 1 or not several)
        ),
        default=0,
    )


def inside(attribute: Attribute, column: FloatArray, bits: int, shares: FloatArray) -> FloatArray:
    """Readings of an attribute, float64[n], each so far in its cell of so many bits."""
    ends = np.arange((1 << bits) + 1) / (1 << bits)
    return attribute.inside(ends[:-1], ends[1:], _cells(attribute, column, bits), shares)


def _cells(attribute: Attribute, column: FloatArray, bits: int) -> npt.NDArray[np.intp]:
    many = 1 << bits
    return np.minimum((attribute.scaling.positions(column) * many).astype(np.intp), many - 1)
