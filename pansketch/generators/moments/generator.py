"""M2M, moment to moment: a merged release of feature sums becomes a model of its readings.

Houssiau, Schellekens, Chatalic, Annamraju, de Montjoye (arXiv 2211.14062) approximate a function of
a reading by features. Its mean is the same combination of the noisy mean features. There are two
changes. Each is post-processing, and benchmarks/moments/m2m.py compares each with the paper's own
choice (`as_published=True`). The ridge follows the release (moments/ridge.py). The marginals of
HIST are read off directly (moments/marginal.py).
"""

from math import sinh, sqrt
from typing import get_args

import numpy as np

from pansketch.domain.domain import FloatArray
from pansketch.estimate import Estimate
from pansketch.generators.model import Sampler
from pansketch.generators.moments.model import M2MModel
from pansketch.generators.moments.ridge import PublishedRidge, Sums
from pansketch.generators.moments.training_points import Training, uniform
from pansketch.sketches.moments.sketch import MomentsSpec
from pansketch.sketches.release_model import Release

POINTS = 100_000


def m2m(
    release: Release,
    training: Training | Sampler | FloatArray | None = None,
    *,
    points: int = POINTS,
    generator: np.random.Generator | None = None,
    as_published: bool = False,
    ridge: PublishedRidge | None = None,
) -> M2MModel:
    """The model of a release of family moments, merged or not.

    Args:
        release: of a moment sketch.
        training: where functions are compared with features. None: points spread evenly over the
            domain. An array: rows float64[n, d] in real units. A `Sampler`: a generator of the same
            fleet, whose records lie near its readings. A `Training` serves every release of its
            features, at any epsilon.
        points: number of training points that are drawn.
        generator: draws the points; None: one that the spec's fingerprint seeds, so that answers
            repeat.
        as_published: the paper's ridge, without an intercept, and no marginals read off directly.
        ridge: the published one: "theorem1" with lambda = sigma^2 / n^2, or "eq5" with lambda =
            sigma^2 / n, of Equation 5 and Algorithm 1. `as_published` has "theorem1" by default.

    Returns:
        The model, with its error bars.

    Raises:
        ValueError: the release is of another family, the training does not fit, or `ridge` is
            unknown or comes without `as_published`.

    Reference:
        Houssiau, Schellekens, Chatalic, Annamraju, de Montjoye (M2M, arXiv 2211.14062),
        Algorithm 1.
    """
    spec = release.spec
    if not isinstance(spec, MomentsSpec):
        raise ValueError(f"M2M reads feature sums, not a release of family {spec.family}")
    published = _published(ridge, as_published)
    if not isinstance(training, Training):
        generator = generator or np.random.default_rng(int.from_bytes(spec.fingerprint))
        training = Training(spec, _rows(spec, training, points, generator), not as_published)
    if _described(training.spec) != _described(spec) or training.intercept == as_published:
        raise ValueError("the training belongs to other features, or is of the other method")
    return M2MModel(spec, training, _sums(spec, release), published)


def _published(ridge: PublishedRidge | None, as_published: bool) -> PublishedRidge | None:
    if ridge is None:
        return "theorem1" if as_published else None
    if ridge not in get_args(PublishedRidge):
        raise ValueError(f"ridge must be one of theorem1, eq5, not {ridge!r}")
    if not as_published:
        raise ValueError(f"ridge {ridge} is a published one: give as_published=True too")
    return ridge


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
    count, feature = (release.noise * _variance(float(scale)) for scale in spec.scales)
    readings = Estimate(float(number[0]), sqrt(count))
    one = spec.map.one
    return Sums(features / one, feature / one**2, readings, release.count)


def _variance(scale: float) -> float:
    """Variance of one discrete Laplace draw."""
    return 1 / (2 * sinh(1 / (2 * scale)) ** 2)
