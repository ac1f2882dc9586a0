"""Many small views, made one: records whose attributes, pairs and larger views agree with them.

Like PrivSyn (Zhang et al., USENIX Security 2021) it starts from noisy tables of a few attributes,
makes them consistent, and ends with records. Unlike PrivSyn it does not update random records
step by step until they fit: it draws particles along the strongest dependences and then finds the
weights under which they agree with all tables at once, the nearest such distribution.

1. The margin of every attribute, from all views that contain it (marginals.py), along a smooth
   density (smooth_density.py).
2. Tables less their noise, that agree with the margins (denoising.py). Noise moves those of two
   numbers towards a Gaussian copula (gaussian_copula.py), others towards independence.
3. Particles along the strongest dependences (dependence_tree.py), inside cells along the copula,
   and along a factor that numbers have in common; weighted to follow all tables (particles.py).
4. A particle is a box: one finest cell of every attribute, or a part of it along the slope of the
   density (margin.py).

Everything here reads released integers only, so it is post-processing and costs no privacy.
"""

from dataclasses import replace

import numpy as np

from pansketch.generators.pairwise.contingency_tables import domain_of, tables_of
from pansketch.generators.pairwise.fit import fit_views, likely_fits
from pansketch.generators.pairwise.higher_order_error import Dependence, hidden_of
from pansketch.generators.pairwise.marginals import noise_of
from pansketch.generators.pairwise.particles import joint_of
from pansketch.generators.partition.partition import Partition
from pansketch.sketches.release_model import Release

MIN_PARTICLES, MAX_PARTICLES = 1 << 17, 1 << 19
PARTICLES_A_CELL = 128  # of the largest table: cells of tails must not be without any
FEWER_PARTICLES = 1 << 14  # of a replicate
REPLICATES = 24


def pairwise(release: Release, *, particles: int | None = None) -> Partition:
    """The model of a release of views, merged or not, by raking.

    Attributes that no view joins are independent. One that is in no view is spread over its bounds.

    Args:
        release: of views.
        particles: number of weighted boxes; None: as many as suit the tables.

    Returns:
        A partition of one weighted box for each particle, with its error bars.

    Raises:
        ValueError: the release is of another family, or `particles` is below 1.
    """
    if particles is not None and particles < 1:
        raise ValueError(f"there must be at least one particle, not {particles}")
    tables, domain = tables_of(release), domain_of(release)
    if particles is None:
        wanted = PARTICLES_A_CELL * max(table.counts.size for table in tables)
        particles = min(max(wanted, MIN_PARTICLES), MAX_PARTICLES)
    fit = fit_views(domain, tables)
    # Public post-processing: seeded by the release, so that an answer repeats itself.
    seed = np.abs(release.counters[:4])
    joint = joint_of(fit, particles, np.random.default_rng(seed))

    def replicate() -> list[Partition]:
        generator = np.random.default_rng([*seed, 1])
        few = min(particles, FEWER_PARTICLES)
        noisy = likely_fits(domain, tables, fit, generator, REPLICATES)
        return [joint_of(each, few, generator).partition(domain) for each in noisy]

    made = joint.partition(domain)
    dependence = Dependence(
        made.low, made.mass, fit.tables, hidden_of(tables, fit.tables, fit.margins)
    )
    return replace(
        made,
        replicate=replicate,
        unresolved=dependence.doubt,
        hidden=dependence.hidden,
        noise=noise_of(tables, release.count),
    )
