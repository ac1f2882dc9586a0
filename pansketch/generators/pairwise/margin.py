"""The model of one attribute of a release of views: what `pairwise` tells of it, without records.

Questions of one attribute, asked of hundreds of windows, need no particles. The boxes are the
margin's cells, which the particles of `pairwise` are weighted to follow.

Everything here reads released integers only, so it is post-processing and costs no privacy.
"""

from dataclasses import replace

import numpy as np

from pansketch.domain.domain import Attribute, Domain
from pansketch.generators.pairwise.contingency_tables import domain_of, tables_of
from pansketch.generators.pairwise.marginals import Margin, margin_of, resolutions_of
from pansketch.generators.pairwise.multiresolution import Resolution, nested_fit
from pansketch.generators.pairwise.sloped_cells import ends_of, shares_inside
from pansketch.generators.partition.partition import Partition
from pansketch.generators.significance import noise_of_sums
from pansketch.sketches.release_model import Release

REPLICATES = 24


def margin(release: Release, name: str) -> Partition:
    """The model of one attribute, from a release of views, merged or not.

    Args:
        release: of views.
        name: of the attribute.

    Returns:
        A partition of a domain of this attribute alone, with its error bars. It answers what the
        model of `pairwise` does, at a hundredth of the cost.

    Raises:
        ValueError: the release is of another family, or the attribute is unknown or in no view.
    """
    domain, tables = domain_of(release), tables_of(release)
    position = domain.index(name)
    if not any(position in table.axes for table in tables):
        raise ValueError(f"{name} is in no view, and nothing is known of it")
    attribute = domain.attributes[position]
    resolutions = resolutions_of(tables, position)
    # Public post-processing: seeded by the release, so that an answer repeats itself.
    seed = [*np.abs(release.counters[:4]), position]

    fitted = margin_of(attribute, resolutions)

    def replicate() -> list[Partition]:
        # As `likely_fits` does with whole tables: noise once more around what was released.
        generator = np.random.default_rng(seed)
        found = []
        for number in range(REPLICATES):
            noisy = [_noisier(each, generator) for each in resolutions]
            fit = margin_of(attribute, noisy, rough=number % 2 == 0, like=fitted)
            found.append(_partition(attribute, resolutions[-1].bits, fit))
        return found

    made = _partition(attribute, resolutions[-1].bits, fitted)
    variances = {0: nested_fit(resolutions).variances}
    return replace(made, replicate=replicate, noise=noise_of_sums(release.count, variances))


def _noisier(released: Resolution, generator: np.random.Generator) -> Resolution:
    """What was released with as much noise again."""
    known = released.precision > 0
    deviation = np.sqrt(1 / np.where(known, released.precision, np.inf))
    counts = released.counts + generator.normal(0, 1, len(deviation)) * deviation
    return replace(released, counts=counts, precision=released.precision / 2)


def _partition(attribute: Attribute, bits: int, fit: Margin | None) -> Partition:
    """A box for each cell, or each part of one with a slope; no readings where there is no fit."""
    domain = Domain([attribute])
    if fit is None:
        return Partition(domain, np.zeros((1, 1)), np.ones((1, 1)), np.zeros(1))
    shares = shares_inside(attribute, bits, fit.counts)
    counts = fit.counts[:, None] * shares
    cells, parts = np.nonzero(counts > 0)
    low, high = (each / (1 << bits) for each in ends_of(shares, cells, parts))
    if attribute.categories is not None:
        np.minimum(high, attribute.codes / attribute.extent, out=high)
    return Partition(domain, low[:, None], high[:, None], counts[cells, parts])
