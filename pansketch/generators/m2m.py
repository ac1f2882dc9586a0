"""M2M, moment to moment: a merged release of feature sums becomes a model of its readings.

Houssiau, Schellekens, Chatalic, Annamraju, de Montjoye (arXiv 2211.14062): a function of a reading
is approximated by features, and its mean by the same combination of the noisy mean features. Two
changes, each post-processing, each measured in benchmarks/m2m.py against the paper's own choice
(`as_published=True`): the ridge follows the release (generators/fit.py), and the marginals of HIST
are read off directly (generators/marginal.py).
"""

from math import sinh, sqrt

import numpy as np

from pansketch.domain import FloatArray
from pansketch.estimate import Estimate
from pansketch.generators.fit import Sums
from pansketch.generators.moment_model import M2MModel
from pansketch.generators.training import Sampler, Training, uniform
from pansketch.moments import MomentsSpec
from pansketch.sketch import Release

POINTS = 100_000


def m2m(
    release: Release,
    training: Training | Sampler | FloatArray | None = None,
    *,
    points: int = POINTS,
    generator: np.random.Generator | None = None,
    as_published: bool = False,
) -> M2MModel:
    """The model of a release of family moments, merged or not.

    `training`: where functions are compared with features: points spread evenly over the domain
    unless told; rows float64[n, d] in real units; or whatever has `sample`, such as the fleet's own
    private generator, whose readings lie where the fleet's do. `points` of them are drawn, by
    `generator` or one that the spec's fingerprint seeds, so that answers repeat. A `Training` that
    is already there serves every release of its features, whatever the epsilon. `as_published`: the
    paper's ridge, without an intercept. Raises ValueError for another family, and for training
    that does not fit.
    """
    spec = release.spec
    if not isinstance(spec, MomentsSpec):
        raise ValueError(f"M2M reads feature sums, not a release of family {spec.family}")
    if not isinstance(training, Training):
        generator = generator or np.random.default_rng(int.from_bytes(spec.fingerprint))
        training = Training(spec, _rows(spec, training, points, generator), not as_published)
    if _described(training.spec) != _described(spec) or training.intercept == as_published:
        raise ValueError("the training belongs to other features, or is of the other method")
    return M2MModel(spec, training, _sums(spec, release), as_published)


def _described(spec: MomentsSpec) -> tuple[object, ...]:
    return spec.features, spec.map.canonical, spec.domain


def _rows(
    spec: MomentsSpec,
    training: Sampler | FloatArray | None,
    points: int,
    generator: np.random.Generator,
) -> FloatArray:
    if training is None:
        return uniform(spec.domain, points, generator)
    if isinstance(training, np.ndarray):
        return training
    return training.sample(points, generator)


def _sums(spec: MomentsSpec, release: Release) -> Sums:
    number, features = (block.astype(np.float64) for block in release.split())
    count, feature = (release.draws * _variance(float(scale)) for scale in spec.scales)
    readings = Estimate(float(number[0]), sqrt(count))
    return Sums(features / spec.map.one, feature / spec.map.one**2, readings)


def _variance(scale: float) -> float:
    """Variance of one discrete Laplace draw."""
    return 1 / (2 * sinh(1 / (2 * scale)) ** 2)
