"""How far a sample is from readings that are not stored: predicted from the releases alone.

Three independent errors make up the distance, so their squares add up:

* Noise: a likely truth gets other noise of the same kind. A second fit (pairwise/fit.py) is
  compared with it.
* Cells: what they hide is predicted from what cells twice as wide would hide. The spread of an
  attribute inside its cells tells of it too (portrait.py).
* Sampling: of so many records.

What no view tells cannot be predicted: a pair of attributes that no view holds is left out. Inside
cells that hold many bins readings may do what no halving shows. So the prediction is kept between
two parts of what cells can hide. An upper figure beside it is all of that. A value with mass of its
own makes its cell stand out from those beside it. Both figures hold an estimate of what records
have on the other side of it (`Grid.piled`). Where noise hides a long tail, the attribute's
deviation is found too small. Figures in deviations, and those of its correlations, are then too
large.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import combinations, pairwise
from math import inf, nan, sqrt
from operator import add

import numpy as np

from pansketch.domain.domain import Domain, FloatArray
from pansketch.generators.fidelity.distances import (
    correlations,
    dependences,
    marginal_distances,
    pair_distances,
    sampled_marginals,
    sampled_pairs,
)
from pansketch.generators.fidelity.grid import Grid
from pansketch.generators.fidelity.portrait import (
    Grids,
    Pair,
    Portrait,
    attenuations,
    blurs,
    ceiling_without_view,
    ceilings,
    halvings,
    portrait,
    wider,
    with_wider_cells,
)
from pansketch.generators.pairwise.contingency_tables import domain_of, tables_of
from pansketch.generators.pairwise.denoising import LIKELY
from pansketch.generators.pairwise.fit import ViewFit, fit_views, noisy_fits
from pansketch.generators.pairwise.marginals import noise_of
from pansketch.sketches.release_model import Release

REPLICATES = 16

# What halvings show lies apart, so squares add up. Of a cumulative, which is right at the ends of
# cells, a halving shows a quarter of what the one before showed if densities are smooth, half if
# values lie on points of their own: from 1/15 to 1/3 of the square.
HIDDEN = 0.4
# Of what cells can hide at most, the part that they are taken to hide. Set on the streams of
# `benchmarks --only streams`, which prints predicted over measured; spikes hide more.
LEAST_PART, MOST_PART = 0.1, 0.3
# Between smooth densities and what one room does in two weeks (benchmarks/views/stations.py).
FADING = 0.7

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


def fidelity(releases: Sequence[Release], rows: float = inf) -> Fidelity:
    """Predicted distances of synthetic records from the readings, from the releases alone.

    Args:
        releases: merged releases of views over one domain, one for each spec.
        rows: number of records drawn from their generator; infinity leaves sampling out.

    Returns:
        The distances, with an upper figure for each pair.

    Raises:
        ValueError: there are no releases, they are of another family, or their domains differ.
        TooFewReadings: the noise of all of them together outweighs the readings.
    """
    domain, releases, fits = _fitted(releases)
    rough = [fit_views(domain, tables_of(release), LIKELY) for release in releases]
    grids = _grids(domain, fits)
    found = _together([portrait(fit, grids) for fit in fits])
    likely = _together([portrait(fit, grids) for fit in rough])
    most = _mean(ceilings, fits, grids, found)
    hidden = np.maximum(
        _hidden(rough, grids), dependences(found) * _mean(blurs, fits, grids, found)
    )
    hidden = np.clip(hidden, LEAST_PART * most, MOST_PART * most)
    # Of both attributes the same readings may be of such a value, or others.
    piled = _piled(found, grids)
    hidden, most = np.hypot(hidden, np.hypot(*piled)), most + sum(piled)
    noisy = [_together(each) for each in _replicates(domain, releases, rough, grids)]
    marginals = _root(
        np.mean([marginal_distances(likely, each, grids) for each in noisy], axis=0),
        HIDDEN * marginal_distances(found, with_wider_cells(found, grids), grids),
        sampled_marginals(found, grids, rows),
    )
    shaken = np.mean([pair_distances(likely, each) for each in noisy], axis=0)
    pairs = _root(shaken, hidden, sampled_pairs(found, rows))
    upper = dict(zip(found.bins, shaken + most + sampled_pairs(found, rows), strict=True))
    names = domain.names
    known = [(names[a], names[b]) for a, b in found.bins]
    unknown = [pair for pair in combinations(range(len(names)), 2) if pair not in found.bins]
    upper |= {pair: ceiling_without_view(found, grids, pair) for pair in unknown}
    return Fidelity(
        {
            names[axis]: min(each, _most(grids[axis]))
            for axis, each in zip(grids, marginals.tolist(), strict=True)
        },
        {pair: min(each, 1.0) for pair, each in zip(known, pairs.tolist(), strict=True)},
        {(names[a], names[b]): min(float(each), 1.0) for (a, b), each in sorted(upper.items())},
        max(
            _correlation_error(
                found,
                _mean(attenuations, fits, grids, found),
                [_together(each) for each in _replicates(domain, releases, fits, grids)],
                grids,
                rows,
            ),
            float(any(_are_numbers(domain, pair) for pair in unknown)),
        ),
        tuple((names[a], names[b]) for a, b in unknown),
    )


def _fitted(releases: Sequence[Release]) -> tuple[Domain, list[Release], list[ViewFit]]:
    """The releases that hold anything, and their fits."""
    if not releases:
        raise ValueError("there is no fidelity without a release")
    domain = domain_of(releases[0])
    if any(domain_of(release) != domain for release in releases):
        raise ValueError("releases over different domains have no fidelity together")
    fits = [fit_views(domain, tables_of(release)) for release in releases]
    noise = reduce(add, (noise_of(tables_of(each), each.count) for each in releases))
    noise.check(sum(fit.total for fit in fits), noise.below)
    held = [place for place, fit in enumerate(fits) if fit.total > 0]
    return domain, [releases[place] for place in held], [fits[place] for place in held]


def _grids(domain: Domain, fits: Sequence[ViewFit]) -> Grids:
    """Of the attributes that are in a view of every fit."""
    shared = set.intersection(*({*fit.margins} for fit in fits))
    return {
        axis: Grid.of(domain.attributes[axis], [fit.margins[axis] for fit in fits])
        for axis in sorted(shared)
    }


def _replicates(
    domain: Domain, releases: Sequence[Release], fits: Sequence[ViewFit], grids: Grids
) -> Iterator[list[Portrait]]:
    """Portraits of fits with other noise, of all groups at a time; none of what holds nothing."""
    # Public post-processing: seeded by the releases, so that an answer repeats itself.
    others = [
        noisy_fits(
            domain,
            tables_of(release),
            fit,
            np.random.default_rng([*np.abs(release.counters[:4]), 2]),
            REPLICATES,
        )
        for release, fit in zip(releases, fits, strict=True)
    ]
    for each in zip(*others, strict=True):
        if all(fit.total > 0 for fit in each):
            yield [portrait(fit, grids) for fit in each]


def _together(portraits: Sequence[Portrait]) -> Portrait:
    return reduce(add, portraits)


def _hidden(likely: Sequence[ViewFit], grids: Grids) -> FloatArray:
    """Total variation of each pair inside its cells, from what the last halvings showed.

    While cells are wider than bins, every further halving shows FADING times as much of the one
    before as the last one did; then half as much. What halvings show lies apart, so squares add up.
    """
    wide = [wider(fit, grids) for fit in likely]
    widest = [wider(fit, grids) for fit in wide]
    looks = [_together([portrait(fit, grids) for fit in each]) for each in (likely, wide, widest)]
    last, before = (pair_distances(*two) for two in pairwise(looks))
    ratio = np.clip(FADING * last / np.maximum(before, last / 2), 0.5, 1.0) ** 2
    left = _mean(halvings, likely, grids, looks[0])
    ratio = np.minimum(ratio, 1 - 1e-9)
    further = ratio * (1 - ratio**left) / (1 - ratio) + ratio**left / 3
    return np.asarray(last * np.sqrt(further))


def _piled(found: Portrait, grids: Grids) -> FloatArray:
    """Total variation because a value with mass of its own is spread in its cell, of each pair's
    first attribute and of its second: float64[2, pairs]."""
    cells = {axis: found.cells[axis] / found.cells[axis].sum() for axis in grids}
    of = {axis: grid.piled(cells[axis]) for axis, grid in grids.items()}
    return np.array([(of[a], of[b]) for a, b in found.bins]).reshape(-1, 2).T


def _mean(
    of_pairs: Callable[[ViewFit, Grids], Mapping[Pair, float]],
    fits: Sequence[ViewFit],
    grids: Grids,
    like: Portrait,
) -> FloatArray:
    """Of what each fit tells of the portrait's pairs: float64[pairs]."""
    each = [of_pairs(fit, grids) for fit in fits]
    return np.array([np.mean([found[pair] for found in each]) for pair in like.bins])


def _correlation_error(
    found: Portrait, shown: FloatArray, noisy: Sequence[Portrait], grids: Grids, rows: float
) -> float:
    """The largest of all pairs, as it is expected, if cells show this part of each.

    Noise and cells both make correlations smaller, so their errors are taken together. The noise is
    drawn around the nearest fit, not around a likely one: a correlation adds cells up, so roughness
    is nothing to it, and what a likely fit has of it is noise that shifts the correlation.
    """
    if not found.bins:
        return 0.0
    here = correlations(found, grids)
    whole = np.clip(np.divide(here, shown, out=here.copy(), where=shown > 0), -1.0, 1.0)
    told = float(np.mean([np.abs(correlations(each, grids) - whole).max() for each in noisy]))
    sampling = float(np.max(1 - here**2) / np.sqrt(rows))
    return min(sqrt(told**2 + sampling**2), 2.0)


def _are_numbers(domain: Domain, pair: Pair) -> bool:
    """Whether they have a correlation."""
    attributes = (domain.attributes[axis] for axis in pair)
    return all(each.categories is None and not each.cyclic for each in attributes)


def _most(grid: Grid) -> float:
    """What the distance of an attribute is never above, in its measure: that of all readings at one
    end of its bounds from all at the other."""
    if grid.attribute.categories is not None:
        return 1.0
    return sqrt(3) if grid.attribute.cyclic else inf


def _root(*errors: FloatArray) -> FloatArray:
    return np.asarray(np.sqrt(sum(error**2 for error in errors)))
