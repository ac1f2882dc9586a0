"""How far a sample is from readings that are not stored: predicted from the releases alone.

Independent errors make up the distance, so their squares add up:

* Noise: a likely truth gets other noise of the same kind, and a second fit of views
  (pairwise/fit.py) is compared with it. A hierarchy grows again with more noise.
* Cells: the part that they hide, of the most that they can, is that of cells twice as wide
  (tables.py, boxes.py).
* Values with mass of their own: such a value makes its cell stand out from those beside it, and
  records are on either side of it (`Grid.piled`).
* Sampling: of so many records.

What no view tells cannot be predicted: a pair of attributes that no view holds is left out. Inside
cells that hold many bins readings may do what no halving shows. An upper figure beside the
prediction is of all that cells can hide. Where noise hides a long tail, the attribute's deviation
is found too small. Figures in deviations, and those of its correlations, are then too large.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import combinations, repeat
from math import hypot, inf, nan, sqrt
from operator import add
from typing import NamedTuple

import numpy as np

from pansketch.domain.domain import Domain, FloatArray
from pansketch.generators.fidelity import boxes, tables
from pansketch.generators.fidelity.portrait import (
    Grid,
    Grids,
    Pair,
    Portrait,
    correlation_error,
    marginal_distances,
    pair_distances,
    sampled_marginals,
    sampled_pairs,
    with_wider_cells,
)
from pansketch.generators.hierarchy.privhp import privhp
from pansketch.generators.pairwise.contingency_tables import domain_of, tables_of
from pansketch.generators.pairwise.denoising import LIKELY
from pansketch.generators.pairwise.fit import ViewFit, fit_views, noisy_fits
from pansketch.generators.pairwise.marginals import noise_of
from pansketch.generators.pairwise.particles import particle_count
from pansketch.sketches.hierarchy import HierarchySpec
from pansketch.sketches.release_model import Release

REPLICATES = 16

# What halvings show lies apart, so squares add up. Of a cumulative, which is right at the ends of
# cells, a halving shows a quarter of what the one before showed if densities are smooth, half if
# values lie on points of their own: from 1/15 to 1/3 of the square.
HIDDEN = 0.4
# Of the square of what cells can hide at most: a prediction has no less of it. A cell that stands
# out holds one value, or a crowd, and no release tells which. Narrower cells hide a smaller part.
LEAST_PART = 0.1

Names = tuple[str, str]


@dataclass(frozen=True)
class Fidelity:
    """Predicted distances of a sample from the readings.

    Attributes:
        marginals: by attribute, W1 in standard deviations of the attribute. For a cyclic one, W1
            around the circle, in those of an even spread. For categories, total variation.
        pairs: total variation of two attributes on 16 x 16 bins of their quantiles, at most 1.
        upper: of all pairs, also those that no view holds, what it is if cells hide all they can.
        correlation: the largest error of a correlation of two numbers, at most 2; 0 without any,
            and at least 1 where no view holds two of them.
        unknown: pairs that no view holds.
    """

    marginals: Mapping[str, float]
    pairs: Mapping[Names, float]
    upper: Mapping[Names, float]
    correlation: float
    unknown: tuple[Names, ...]

    @property
    def pair(self) -> float:
        """Mean over the pairs that views hold; 0 without any pair, NaN where none is held."""
        if not self.pairs:
            return nan if self.unknown else 0.0
        return float(np.mean(list(self.pairs.values())))


class _Seen(NamedTuple):
    """What releases tell. `found`: the nearest model. `likely`: one as rough as the readings, and
    `noisy` models with other noise around it; `around`, around the nearest one. Of each pair, total
    variation: `hidden` in cells, as expected and at `most`, and of sampling; `shown`: the part of a
    correlation."""

    grids: Grids
    found: Portrait
    likely: Portrait
    noisy: Sequence[Portrait]
    around: Sequence[Portrait]
    hidden: FloatArray
    most: FloatArray
    sampled: FloatArray
    shown: FloatArray


def fidelity(releases: Sequence[Release], rows: float = inf) -> Fidelity:
    """Predicted distances of synthetic records from the readings, from the releases alone.

    Args:
        releases: merged releases of views, or of hierarchies that `privhp` reads, over one domain,
            one for each spec.
        rows: number of records drawn from their generator; infinity leaves sampling out.

    Returns:
        The distances, with an upper figure for each pair.

    Raises:
        ValueError: there are no releases, they are of another family or of two, or their domains
            differ.
        TooFewReadings: the noise of all of them together outweighs the readings.
    """
    if not releases:
        raise ValueError("there is no fidelity without a release")
    of_hierarchies = isinstance(releases[0].spec, HierarchySpec)
    domain, seen = (_of_hierarchies if of_hierarchies else _of_views)(releases, rows)
    grids, found = seen.grids, seen.found
    # Of both attributes the same readings may be of such a value, or others.
    piled = _piled(found, grids)
    hidden, most = np.hypot(seen.hidden, np.hypot(*piled)), seen.most + sum(piled)
    marginals = _root(
        np.mean([marginal_distances(seen.likely, each, grids) for each in seen.noisy], axis=0),
        HIDDEN * marginal_distances(found, with_wider_cells(found, grids), grids),
        sampled_marginals(found, grids, rows),
    )
    shaken = np.mean([pair_distances(seen.likely, each) for each in seen.noisy], axis=0)
    pairs = _root(shaken, hidden, seen.sampled)
    upper = dict(zip(found.bins, shaken + most + seen.sampled, strict=True))
    names = domain.names
    known = [(names[a], names[b]) for a, b in found.bins]
    unknown = [pair for pair in combinations(range(len(names)), 2) if pair not in found.bins]
    upper |= {pair: tables.ceiling_without_view(found, grids, pair) for pair in unknown}
    return Fidelity(
        {
            names[axis]: min(each, _most(grids[axis]))
            for axis, each in zip(grids, marginals.tolist(), strict=True)
        },
        {pair: min(each, 1.0) for pair, each in zip(known, pairs.tolist(), strict=True)},
        {(names[a], names[b]): min(float(each), 1.0) for (a, b), each in sorted(upper.items())},
        max(
            correlation_error(found, seen.shown, seen.around, grids, rows),
            float(any(_are_numbers(domain, pair) for pair in unknown)),
        ),
        tuple((names[a], names[b]) for a, b in unknown),
    )


def _of_views(releases: Sequence[Release], rows: float) -> tuple[Domain, _Seen]:
    domain, releases, fits = _fitted(releases)
    rough = [fit_views(domain, tables_of(release), LIKELY) for release in releases]
    shared = set.intersection(*({*fit.margins} for fit in fits))
    grids = {
        axis: Grid.of(domain.attributes[axis], [fit.margins[axis] for fit in fits])
        for axis in sorted(shared)
    }
    found, likely = (_together(map(tables.portrait, each, repeat(grids))) for each in (fits, rough))
    noisy = _replicates(domain, releases, rough)
    hidden, most = [], []
    alone_at_most = tables.ceilings_alone(found, grids)
    for place, (release, fit) in enumerate(zip(releases, rough, strict=True)):
        generator = np.random.default_rng(_seed(release, 3))
        particles = particle_count(tables_of(release))
        inside = tables.hidden(fit, grids, particles, generator)
        misfits = tables.misfits(fits[place], grids, generator)
        alone = tables.hidden_alone(fit.margins, [each[place].margins for each in noisy], grids)
        ceilings = tables.ceilings(fits[place], grids)
        for a, b in found.bins:
            expected = hypot(inside[a, b], misfits[a, b], alone[a], alone[b])
            hidden.append(max(expected, LEAST_PART * ceilings[a, b] ** 2))
            most.append(ceilings[a, b] + alone_at_most[a] + alone_at_most[b])
    return domain, _Seen(
        grids,
        found,
        likely,
        [_together(map(tables.portrait, each, repeat(grids))) for each in noisy],
        [
            _together(map(tables.portrait, each, repeat(grids)))
            for each in _replicates(domain, releases, fits)
        ],
        np.mean(np.reshape(hidden, (len(fits), -1)), axis=0),
        np.mean(np.reshape(most, (len(fits), -1)), axis=0),
        sampled_pairs(found, rows),
        _mean([tables.attenuations(fit, grids) for fit in fits], found),
    )


def _of_hierarchies(releases: Sequence[Release], rows: float) -> tuple[Domain, _Seen]:
    models = [privhp(release) for release in releases]
    domain = models[0].domain
    if any(model.domain != domain for model in models):
        raise ValueError("releases over different domains have no fidelity together")
    noise = reduce(add, (each.noise for each in models if each.noise is not None))
    noise.check(sum(each.total for each in models), noise.below)
    models = [each for each in models if each.total > 0]
    grids = boxes.grids_of_boxes(models)
    found = _together(map(boxes.portrait_of_boxes, models, repeat(grids)))
    noisy = [
        _together(map(boxes.portrait_of_boxes, each, repeat(grids)))
        for each in zip(*(model.replicates for model in models), strict=True)
        if all(model.total > 0 for model in each)
    ]
    most = _mean([boxes.ceilings_of_boxes(each, grids) for each in models], found)
    hidden = _mean([boxes.hidden_by_boxes(each, grids) for each in models], found)
    return domain, _Seen(
        grids,
        found,
        found,
        noisy,
        noisy,
        hidden,
        most,
        _mean([boxes.sampled_boxes(each, grids, rows) for each in models], found),
        _mean([boxes.attenuations_of_boxes(each, grids) for each in models], found),
    )


def _fitted(releases: Sequence[Release]) -> tuple[Domain, list[Release], list[ViewFit]]:
    """The releases that hold anything, and their fits."""
    domain = domain_of(releases[0])
    if any(domain_of(release) != domain for release in releases):
        raise ValueError("releases over different domains have no fidelity together")
    fits = [fit_views(domain, tables_of(release)) for release in releases]
    noise = reduce(add, (noise_of(tables_of(each), each.count) for each in releases))
    noise.check(sum(fit.total for fit in fits), noise.below)
    held = [place for place, fit in enumerate(fits) if fit.total > 0]
    return domain, [releases[place] for place in held], [fits[place] for place in held]


def _replicates(
    domain: Domain, releases: Sequence[Release], fits: Sequence[ViewFit]
) -> list[tuple[ViewFit, ...]]:
    """Fits with other noise, of all groups at a time; none of what holds nothing."""
    others = [
        noisy_fits(
            domain,
            tables_of(release),
            fit,
            np.random.default_rng(_seed(release, 2)),
            REPLICATES,
        )
        for release, fit in zip(releases, fits, strict=True)
    ]
    every = zip(*others, strict=True)
    return [each for each in every if all(fit.total > 0 for fit in each)]


def _seed(release: Release, use: int) -> list[int]:
    """Public post-processing: seeded by the release, so that an answer repeats itself."""
    return [*np.abs(release.counters[:4]).tolist(), use]


def _together(portraits: Iterable[Portrait]) -> Portrait:
    return reduce(add, portraits)


def _mean(of_groups: Sequence[Mapping[Pair, float]], like: Portrait) -> FloatArray:
    """Of what each group tells of the portrait's pairs: float64[pairs]."""
    return np.array([np.mean([found[pair] for found in of_groups]) for pair in like.bins])


def _piled(found: Portrait, grids: Grids) -> FloatArray:
    """Total variation because a value with mass of its own is spread in its cell, of each pair's
    first attribute and of its second: float64[2, pairs]."""
    cells = {axis: found.cells[axis] / found.cells[axis].sum() for axis in grids}
    of = {axis: grid.piled(cells[axis]) for axis, grid in grids.items()}
    return np.array([(of[a], of[b]) for a, b in found.bins]).reshape(-1, 2).T


def _are_numbers(domain: Domain, pair: Pair) -> bool:
    """Whether they have a correlation."""
    return {domain.names[axis] for axis in pair} <= {*domain.numbers}


def _most(grid: Grid) -> float:
    """What the distance of an attribute is never above, in its measure: that of all readings at one
    end of its bounds from all at the other."""
    if grid.attribute.categories is not None:
        return 1.0
    return sqrt(3) if grid.attribute.cyclic else inf


def _root(*errors: FloatArray) -> FloatArray:
    return np.asarray(np.sqrt(sum(error**2 for error in errors)))
