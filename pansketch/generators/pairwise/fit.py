"""Fits of released views that agree: margins of all attributes, and tables that have them.

Error bars and predicted errors are made of fits with other noise. The declared noise is drawn once
more around the fitted tables (a parametric bootstrap).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from math import prod

import numpy as np

from pansketch.domain.domain import Attribute, Domain, FloatArray
from pansketch.generators.pairwise.contingency_tables import Table
from pansketch.generators.pairwise.denoising import (
    NEAREST,
    TINY,
    UnknownDetail,
    consistent,
    covariation,
    shrunk,
    untold,
)
from pansketch.generators.pairwise.gaussian_copula import (
    Turned,
    dependent,
    has_copula,
    likeliest_angle,
    turned,
)
from pansketch.generators.pairwise.marginals import (
    ROUGH,
    Margin,
    has_atoms,
    independent,
    margins_of,
)
from pansketch.generators.pairwise.multiresolution import folded


@dataclass(frozen=True, eq=False)
class ViewFit:
    """Margins by the attribute's position, and the tables of several attributes, which have them.
    `angles`: of the copulas of tables of two numbers (gaussian_copula.py), by their axes; none of
    0. `turned`: what each angle would add to such a table, by its axes.

    There are none of any when the noisy number of readings is not positive.
    """

    margins: Mapping[int, Margin]
    tables: Sequence[Table]
    angles: Mapping[tuple[int, ...], float] = field(default_factory=dict)
    turned: Mapping[tuple[int, ...], Turned] = field(default_factory=dict)

    @property
    def total(self) -> float:
        """Estimated number of readings."""
        return next((float(each.counts.sum()) for each in self.margins.values()), 0.0)


def fit_views(
    domain: Domain,
    released: Sequence[Table],
    power: float = NEAREST,
    *,
    rough: bool = False,
    like: ViewFit | None = None,
) -> ViewFit:
    """Margins first, for all views tell of them; then every larger table alone.

    `power`: how much of a larger table's dependence is taken for noise (denoising.py). `rough`: see
    `margin_of`. `like`: a fit whose margins are as smooth as these are to be, and so near that what
    a copula adds to a table is the same.
    """
    margins = margins_of(domain, released, rough=rough, like=like.margins if like else {})
    several = [table for table in released if len(table.axes) > 1] if margins else []
    tables, angles = [], {}
    copulas = dict(like.turned) if like else {}
    for table in several:
        angle = 0.0
        numbers = len(table.axes) == 2 and all(has_copula(domain.attributes[a]) for a in table.axes)
        if numbers:
            if table.axes not in copulas:
                copulas[table.axes] = turned(table, margins)
            angle = likeliest_angle(table, margins, copulas[table.axes])
        expected = dependent(table, margins, angle)
        alone = independent(table, margins)
        less_noise, kept = shrunk(table, expected, alone, power), None
        if numbers:
            values = [
                _values(domain.attributes[axis], margins[axis], bits)
                for axis, bits in zip(table.axes, table.bits, strict=True)
            ]
            atoms = has_atoms(table, margins)
            kept = covariation(table, expected, alone, values, atoms)
        tables.append(consistent(less_noise, margins, kept))
        if angle:
            angles[table.axes] = angle
    return ViewFit(margins, tables, angles, copulas)


def _values(attribute: Attribute, margin: Margin, bits: int) -> FloatArray:
    """Mean values of the readings in each cell of so many bits, less the mean of all:
    float64[cells]; 0 where there are none. Atoms count in neither."""
    held = margin.values(margin.bits)
    ends, counts = (
        np.arange(len(margin.counts) + 1) / (1 << margin.bits),
        np.zeros(margin.counts.shape),
    )
    means = counts.copy()
    counts[held] = margin.counts[held]
    means[held] = attribute.cell_means(ends[:-1][held], ends[1:][held])
    beyond = counts * (means - means @ counts / max(counts.sum(), TINY))
    many, found = (folded(each, margin.bits - bits) for each in (counts, beyond))
    return np.divide(found, many, out=np.zeros_like(many), where=many > 0)


def hidden_of(released: Sequence[Table], fit: ViewFit) -> dict[tuple[int, int], UnknownDetail]:
    """By pair of attributes, what shrinking leaves unknown of the finest table that has both."""
    finest: dict[tuple[int, int], tuple[Table, Table]] = {}
    several = [table for table in released if len(table.axes) > 1] if fit.margins else []
    for table, kept in zip(several, fit.tables, strict=True):
        for pair in combinations(sorted(table.axes), 2):
            known = finest.get(pair)
            if known is None or _bits(known[0], pair) < _bits(table, pair):
                finest[pair] = table, kept
    found = {}
    for pair, (table, kept) in finest.items():
        counts = table.onto(pair)
        reach = tuple(map(table.reach_of, pair)) if table.reach else ()
        reached = prod(map(np.count_nonzero, reach)) if reach else counts.size
        alone = replace(
            table,
            axes=pair,
            bits=tuple(map(table.bits_of, pair)),
            counts=counts,
            variance=table.variance * table.size / reached,
            reach=reach,
        )
        found[pair] = untold(alone, independent(alone, fit.margins), kept.onto(pair))
    return found


def _bits(table: Table, pair: tuple[int, int]) -> int:
    return sum(map(table.bits_of, pair))


def noisy_fits(
    domain: Domain,
    released: Sequence[Table],
    fit: ViewFit,
    generator: np.random.Generator,
    count: int,
) -> Iterator[ViewFit]:
    """Fits of so many releases that a stream like the fitted one might have left."""
    noiseless = _noiseless(released, fit)
    for _ in range(count):
        yield fit_views(domain, [_with_noise(each, generator) for each in noiseless], like=fit)


def likely_fits(
    domain: Domain,
    released: Sequence[Table],
    fit: ViewFit,
    generator: np.random.Generator,
    count: int,
) -> Iterator[ViewFit]:
    """So many fits of what was released with as much noise again, which is declared: as smooth as
    the fitted one.

    A fit that noise has driven into a corner stays there with other noise around it; what was
    released does not, for its noise is still in it.
    """
    louder = [replace(table, variance=2 * table.variance) for table in released]
    for number in range(count):
        noisy = [_with_noise(table, generator) for table in released]
        together = [replace(e, counts=n.counts) for e, n in zip(louder, noisy, strict=True)]
        yield fit_views(domain, together, rough=number < ROUGH, like=fit)


def _noiseless(released: Sequence[Table], fit: ViewFit) -> list[Table]:
    """The tables that a stream like the fitted one would have left without noise."""
    if not fit.margins:
        return [replace(table, counts=np.zeros_like(table.counts)) for table in released]
    several = iter(fit.tables)
    return [
        next(several)
        if len(table.axes) > 1
        else replace(table, counts=fit.margins[table.axes[0]].at(table.bits[0]))
        for table in released
    ]


def _with_noise(table: Table, generator: np.random.Generator) -> Table:
    noise = generator.normal(0, np.sqrt(table.variance), table.counts.shape)
    counts = table.counts.copy()
    held = np.ix_(*table.reach) if table.reach else ...
    counts[held] += noise[held]
    return replace(table, counts=counts)
