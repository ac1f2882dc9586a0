"""Number of tracked keys for a density whose error exceeds alpha with probability at most beta.

The density is the share of a universe's keys that appeared. Every variant tracks m keys with one
randomised bit each and estimates (sum of bits / m - p_init) / (p_upd - p_init), plus output noise.
So three errors add up: the sample of tracked keys, their random bits, and the noise of the output.

Sources: Dwork, Naor, Pitassi, Rothblum and Yekhanin, "Pan-Private Streaming Algorithms" (ICS 2010)
for `dwork`. For `optbern` and `ppds`: Digalakis, Karystinos and Garofalakis, "Improved Pan-Private
Stream Density Estimation" (arXiv 2111.08784). The parameterised bound of its section 3.2 gives each
of the errors a share of alpha and of beta. Here the shares are optimal, and the tails are
Hoeffding's and the Laplace distribution's. Constants may differ from the paper's.

`state` and `output` are the epsilons that the state and the output's noise are calibrated to. In
the papers both are epsilon. A key that appears before a snapshot and after it spends their sum.
"""

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from math import ceil, exp, inf, isfinite, log, sqrt

from pansketch.privacy import MICRO
from pansketch.sketches.distinct.variants import SHARES, Variant, chances, keeps_within

ID_BYTES = 4
MAX_KEYS = 1 << 62


class Unreachable(ValueError):
    """No number of tracked keys is enough."""


@dataclass(frozen=True)
class Budget:
    """A key's epsilon, split.

    Args:
        state: epsilon that the state's bits are calibrated to.
        output: epsilon that the release's fresh noise is calibrated to.

    Raises:
        ValueError: one of them is not positive and finite.
    """

    state: float
    output: float

    def __post_init__(self) -> None:
        for name in ("state", "output"):
            value = getattr(self, name)
            if not (isfinite(value) and value > 0):
                raise ValueError(f"epsilon of the {name} must be a positive number, not {value:g}")

    @property
    def together(self) -> float:
        """Privacy loss of a key that appears before a snapshot and after it."""
        return self.state + self.output


@dataclass(frozen=True)
class Estimator:
    """A variant as published, which stores ids, or repaired, which stores one bit a key.

    The published output noise, Laplace(1 / (output m)), is too small by the factor `gain`.

    Args:
        variant: "dwork", "optbern" or "ppds".
        as_published: with the paper's noise and ids of 4 bytes.
    """

    variant: Variant
    as_published: bool

    def __str__(self) -> str:
        return f"{self.variant}, {'as published' if self.as_published else 'repaired'}"

    def chances(self, state: float) -> tuple[float, float]:
        """(p_init, p_upd) of a bit, by the epsilon of the state.

        Raises:
            ValueError: the variant would not keep that epsilon.
        """
        micro = round(state * MICRO)
        if not keeps_within(self.variant, micro):
            raise ValueError(
                f"{self.variant} cannot keep an epsilon of the state of {state:g}, only up to 1.59:"
                " use ppds or optbern"
            )
        initial, updated = chances(self.variant, micro)
        return initial.probability, updated.probability

    def gain(self, state: float) -> float:
        """p_upd - p_init: epsilon / 4 (dwork) or tanh(epsilon / 2). See `Estimator.chances`."""
        initial, updated = self.chances(state)
        return updated - initial

    def noise_scale(self, budget: Budget, tracked: int) -> float:
        """Parameter of the (discrete) Laplace noise on the density. See `Estimator.chances`."""
        published = 1 / (budget.output * tracked)
        return published if self.as_published else published / self.gain(budget.state)

    def noise_variance(self, budget: Budget, tracked: int) -> float:
        """Variance of the output's noise on the density. See `Estimator.chances`."""
        if self.as_published:
            return 2 * self.noise_scale(budget, tracked) ** 2
        ratio = exp(-budget.output)
        scale = 1 / (tracked * self.gain(budget.state))
        return 2 * ratio / (1 - ratio) ** 2 * scale**2

    def memory(self, tracked: int, state: float) -> int:
        """Bytes that tracking so many keys needs. See `Estimator.chances`.

        A published sample holds ids of 4 bytes. That of PPDS holds those whose bit is 1. It needs
        space for up to twice as many, because its level halves the tracked keys when it is full.
        """
        if not self.as_published:
            return -(-tracked // 8)
        return ID_BYTES * ceil(tracked * self._ids_a_key(state))

    def tracked(self, memory: int, state: float) -> int:
        """Number of keys in `memory` bytes: the inverse of `memory`. See `Estimator.chances`."""
        if not self.as_published:
            return 8 * memory
        return int(memory // ID_BYTES / self._ids_a_key(state))

    def _ids_a_key(self, state: float) -> float:
        return 2 * self.chances(state)[1] if self.variant == "ppds" else 1.0


VARIANTS: tuple[Variant, ...] = ("dwork", "optbern", "ppds")
ESTIMATORS = tuple(Estimator(name, published) for published in (True, False) for name in VARIANTS)


def mean_squared_error(
    estimator: Estimator, budget: Budget, tracked: int, density: float, universe: int | None = None
) -> float:
    """Return the mean squared error of the estimated density, which is unbiased.

    The sum of three variances: of the sample, of the bits, and of the output's noise.

    Args:
        estimator: variant, as published or repaired.
        budget: epsilon of the state and of the output.
        tracked: number of tracked keys.
        density: the share of possible keys that appear, in [0, 1].
        universe: number of possible keys; None: any number.

    Raises:
        ValueError: the variant cannot keep the state's epsilon.
    """
    initial, updated = estimator.chances(budget.state)
    left = 1.0 if universe is None else (universe - tracked) / max(1, universe - 1)
    sample = density * (1 - density) * left
    bits = density * updated * (1 - updated) + (1 - density) * initial * (1 - initial)
    noise = estimator.noise_variance(budget, tracked)
    return (sample + bits / (updated - initial) ** 2) / tracked + noise


def error_bound(
    estimator: Estimator,
    budget: Budget,
    tracked: int,
    beta: float,
    universe: int | None = None,
    joint: bool = True,
) -> float:
    """Return the alpha that the error of the density exceeds with probability at most `beta`.

    Args:
        estimator: variant, as published or repaired.
        budget: epsilon of the state and of the output.
        tracked: number of tracked keys.
        beta: probability of a larger error, in (0, 1).
        universe: number of possible keys; None: any number.
        joint: sample and bits are one error. Otherwise they are two, as in the paper.

    Raises:
        ValueError: beta is outside (0, 1), `tracked` is 0 or more than the universe, or the variant
            cannot keep the state's epsilon.

    Reference:
        arXiv 2111.08784, section 3.2. Hoeffding (JASA 1963), theorem 4: sampling without
        replacement is no worse than with it, so one inequality holds for sample and bits.
    """
    if not 0 < beta < 1:
        raise ValueError(f"beta must lie between 0 and 1, not {beta:g}")
    if tracked < 1 or (universe is not None and tracked > universe):
        raise ValueError(f"tracked keys must be at least 1 and no more than all, not {tracked}")
    deviation = 1 / sqrt(2 * tracked)
    gaussian = [deviation / estimator.gain(budget.state)]
    if not joint:
        gaussian.append(deviation * sqrt(_not_drawn(tracked, universe)))
    # P(|noise| > a) <= surplus exp(-a / scale): equality for Laplace, an envelope if discrete.
    surplus = 1.0 if estimator.as_published else 2 / (1 + exp(-budget.output))
    return _min_sum(
        [scale for scale in gaussian if scale],
        estimator.noise_scale(budget, tracked),
        surplus,
        beta,
    )


def sample_size(
    estimator: Estimator,
    budget: Budget,
    alpha: float,
    beta: float,
    universe: int | None = None,
    joint: bool = True,
) -> int:
    """Return the fewest tracked keys whose `error_bound` is at most `alpha`.

    Args:
        estimator: variant, as published or repaired.
        budget: epsilon of the state and of the output.
        alpha: error of the density, in (0, 1).
        beta: probability of a larger error, in (0, 1).
        universe: number of possible keys; None: any number.
        joint: as in `error_bound`.

    Raises:
        Unreachable: a ValueError; all keys of the universe are not enough.
        ValueError: alpha or beta is outside (0, 1), or the variant cannot keep the state's epsilon.
    """
    if not 0 < alpha < 1:
        raise ValueError(f"alpha must lie between 0 and 1, not {alpha:g}")

    def enough(tracked: int) -> bool:
        return error_bound(estimator, budget, tracked, beta, universe, joint) <= alpha

    most = universe or MAX_KEYS
    high = 1
    while high < most and not enough(high):
        high = min(2 * high, most)
    if not enough(high):
        reached = error_bound(estimator, budget, most, beta, universe, joint)
        raise Unreachable(f"tracking all {most:,} keys reaches {reached:.3g} only")
    low = high // 2  # Not enough, or 0.
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


def best_split(together: float, cost: Callable[[Budget], float]) -> tuple[Fraction, Budget]:
    """The split of a key's epsilon between state and output that costs least.

    Args:
        together: epsilon of a key in the state and the output together.
        cost: of a budget, such as its `sample_size` or `error_bound`.

    Returns:
        The output's share, 1/2 to 1/64, and the budget.
    """
    splits = [(s, Budget(together * float(1 - s), together * float(s))) for s in SHARES]
    return min(splits, key=lambda split: cost(split[1]))


def _not_drawn(tracked: int, universe: int | None) -> float:
    """Factor of a sample's variance for drawing without replacement (Serfling, Annals 1974)."""
    if universe is None:
        return 1.0
    return 0.0 if tracked == universe else 1 - (tracked - 1) / universe


def _min_sum(gaussian: list[float], laplace: float, surplus: float, beta: float) -> float:
    """The least alpha that can be split so that the tails beyond the shares sum to `beta`.

    Tails: 2 exp(-(a / s)**2) for every scale s, surplus exp(-a / laplace). Each share of alpha is a
    convex function of its share of beta. So the sum is least where their slopes agree, at one
    common -slope, which bisection finds. Near it the sum is flat: the rest of the search's interval
    counts by its square.
    """
    even = beta / (len(gaussian) + 1)
    bell = max(gaussian, default=0.0) / (2 * even * sqrt(log(2 / even)))
    low, high = laplace, max(laplace / even, bell)
    while high > low * (1 + 1e-7):
        slope = sqrt(low * high)
        tails = [*(_gaussian_tail(scale, slope) for scale in gaussian), laplace / slope]
        low, high = (slope, high) if sum(tails) > beta else (low, slope)
    tails = [*(_gaussian_tail(scale, high) for scale in gaussian), laplace / high]
    *bells, last = (tail * beta / sum(tails) for tail in tails)
    shares = [s * sqrt(log(2 / tail)) for s, tail in zip(gaussian, bells, strict=True)]
    return sum(shares) + laplace * max(0.0, log(surplus / last))


def _gaussian_tail(scale: float, slope: float) -> float:
    """The tail t at which the share scale sqrt(ln(2 / t)) falls with `slope`; at most 1.

    With x = ln(2 / t), x - ln(x) / 2 = ln(4 slope / scale). It is convex and rising for t < 1, so
    Newton's steps descend to it from the right.
    """
    target = log(4 * slope / scale)
    if target <= log(2) - log(log(2)) / 2:
        return 1.0
    x, step = target + sqrt(target) + 1, inf
    while step > 1e-12 * x:
        step = (x - log(x) / 2 - target) / (1 - 1 / (2 * x))
        x -= step
    return 2 * exp(-x)
