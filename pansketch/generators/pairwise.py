"""Many small views, made one: records whose attributes, pairs and larger views agree with them.

Like PrivSyn (Zhang et al., USENIX Security 2021) it starts from noisy tables of a few attributes,
makes them consistent, and ends with records. Unlike PrivSyn it does not update random records
step by step until they fit: it draws particles along the strongest dependences and then finds the
weights under which they agree with all tables at once, the nearest such distribution.

1. The margin of every attribute, from all views that contain it (margins.py).
2. Tables less their noise (shrinkage.py), that agree with the margins (consistent.py).
3. Particles along the strongest dependences (chain.py), weighted to follow all tables (raking.py).
4. A particle is a box: one finest cell of every attribute.

Everything here reads released integers only, so it is post-processing and costs no privacy.
"""

from dataclasses import replace

import numpy as np

from pansketch.generators.dependence import Dependence
from pansketch.generators.joint import joint_of
from pansketch.generators.partition import Partition
from pansketch.generators.tables import domain_of, tables_of
from pansketch.generators.view_fit import fit_views, noisy_fits
from pansketch.sketch import Release

LEAST_PARTICLES, MOST_PARTICLES = 1 << 17, 1 << 19
PARTICLES_A_CELL = 128  # of the largest table: cells of tails must not be without any
FEWER_PARTICLES = 1 << 14  # of a replicate
REPLICATES = 24


def pairwise(release: Release, *, particles: int | None = None) -> Partition:
    """The generator of a release of views, merged or not: a partition of weighted boxes, one for
    each of the particles; by default as many as suit the tables.

    Attributes that no view joins are independent, and one that is in no view is spread over its
    bounds. Raises ValueError for a release of another family, and for less than one particle.
    """
    if particles is not None and particles < 1:
        raise ValueError(f"there must be at least one particle, not {particles}")
    tables, domain = tables_of(release), domain_of(release)
    if particles is None:
        wanted = PARTICLES_A_CELL * max(table.counts.size for table in tables)
        particles = min(max(wanted, LEAST_PARTICLES), MOST_PARTICLES)
    fit = fit_views(domain, tables)
    # Public post-processing: seeded by the release, so that an answer repeats itself.
    seed = np.abs(release.counters[:4])
    joint = joint_of(fit, particles, np.random.default_rng(seed))

    def replicate() -> list[Partition]:
        generator = np.random.default_rng([*seed, 1])
        few = min(particles, FEWER_PARTICLES)
        noisy = noisy_fits(domain, tables, fit, generator, REPLICATES)
        return [joint_of(each, few, generator).partition(domain) for each in noisy]

    made = joint.partition(domain)
    unresolved = Dependence(made.low, made.mass, fit.tables).doubt
    return replace(made, replicate=replicate, unresolved=unresolved)
