"""Dwork's estimator and OptBern as published; PPDS is in the audit, which catches it.

Both draw a sample of m ids before the stream and keep a noisy bit for each. They add Laplace noise
of parameter 1 / (epsilon m) to the density. Dwork's draws bits with 1/2 and 1/2 + epsilon/4,
OptBern with (1 -+ tanh(epsilon/2)) / 2. The code is for figures only: floats, user-space
randomness, and too little noise in the output. The module also computes sizes, losses and bounds
from theory alone.

Dwork, Naor, Pitassi, Rothblum and Yekhanin, "Pan-Private Streaming Algorithms" (ICS 2010).
Digalakis, Karystinos and Garofalakis, arXiv 2111.08784.
"""

from collections.abc import Iterable, Iterator
from math import exp, log

import numpy as np

from benchmarks.distinct.curves import FAR, Contender
from benchmarks.distinct.simulation import UNIVERSE
from pansketch.planning import Budget, Estimator, best_split, error_bound, sample_size
from pansketch_audit.planted_bugs.published_distinct import PublishedPpds, scale_on_bits

__all__ = ["PublishedPpds", "StaticSample", "output_loss", "state_loss"]


class StaticSample:
    """The state: sampled ids and their bits. Keys are the integers below `universe`."""

    def __init__(
        self,
        estimator: Estimator,
        epsilon: float,
        sample_size: int,
        universe: int,
        generator: np.random.Generator,
    ) -> None:
        self._estimator, self._budget = estimator, Budget(epsilon, epsilon)
        self._initial, self._updated = estimator.chances(epsilon)
        self._generator = generator
        ids = generator.choice(universe, sample_size, replace=False)
        self.bits = {int(key): bool(generator.random() < self._initial) for key in ids}

    def update_many(self, keys: Iterable[int]) -> None:
        """Every appearance of a sampled key redraws its bit."""
        for key in keys:
            if key in self.bits:
                self.bits[key] = bool(self._generator.random() < self._updated)

    def density(self) -> float:
        """The published estimate: the share of the universe that appeared, with noise."""
        size = len(self.bits)
        estimate = (sum(self.bits.values()) / size - self._initial) / (
            self._updated - self._initial
        )
        return estimate + self._generator.laplace(
            0, self._estimator.noise_scale(self._budget, size)
        )


def state_loss(estimator: Estimator, epsilon: float) -> float:
    """The loss of one bit, redrawn or not: the epsilon that the state really spends."""
    initial, updated = estimator.chances(epsilon)
    return max(log(updated / initial), log((1 - initial) / (1 - updated)))


def output_loss(estimator: Estimator, epsilon: float) -> float:
    """The loss by the release alone for a key that first appears after a snapshot.

    The intruder knows the other bits, and that this one was 0 at the snapshot. The loss is the
    maximum density ratio of (sum of a new bit and noise) to (noise alone). The stated loss is
    epsilon.
    """
    _, updated = estimator.chances(epsilon)
    step = epsilon  # Log-ratio of the noise at values one count apart.
    if estimator.as_published and estimator.variant == "dwork":
        step = 4.0
    elif estimator.as_published:
        step = 1 / scale_on_bits(epsilon)
    return log(updated * exp(step) + 1 - updated)


Record = dict[str, float | str]

ALPHA = BETA = 0.05
EPSILONS = tuple(float(epsilon) for epsilon in np.geomspace(0.1, 1.5, 29))
APPEARANCES = (1, 2, 5)
PPDS = Estimator("ppds", False)


def planned() -> Iterator[Record]:
    """Figure 1: the sample that ALPHA and BETA need, in a universe of any size.

    The bound in three parts comes first; the last is the bound in two, with the best split of
    epsilon.
    """
    for estimator, name in (
        (Estimator("dwork", True), "Dwork, as published"),
        (Estimator("optbern", True), "OptBern, as published"),
        (Estimator("ppds", True), "PPDS, as published"),
        (Estimator("dwork", False), "Dwork, repaired"),
        (PPDS, "PPDS = OptBern, repaired"),
    ):
        for epsilon in EPSILONS:
            yield _plan(estimator, name, epsilon, Budget(epsilon, epsilon), joint=False)
    for epsilon in EPSILONS:
        _, budget = best_split(2 * epsilon, lambda b: sample_size(PPDS, b, ALPHA, BETA))
        yield _plan(PPDS, "PPDS, repaired, best split and bound", epsilon, budget, joint=True)


def _plan(estimator: Estimator, name: str, epsilon: float, budget: Budget, joint: bool) -> Record:
    keys = sample_size(estimator, budget, ALPHA, BETA, joint=joint)
    memory = estimator.memory(keys, budget.state)
    return {"estimator": name, "epsilon": epsilon, "keys": keys, "bytes": memory}


def spent() -> Iterator[Record]:
    """Figures 2 and 3: the privacy that the state and the output really spend, over epsilon.

    PPDS as published: the loss of its level with the universe of
    audit/pansketch_audit/planted_bugs/published_distinct.py.
    """
    for epsilon in EPSILONS:
        for name, estimator in (
            ("Dwork, as published and repaired", Estimator("dwork", False)),
            ("OptBern; PPDS, repaired", PPDS),
        ):
            yield _loss("state", name, epsilon, state_loss(estimator, epsilon))
        for times in APPEARANCES:
            level = times * log(1 + exp(epsilon))
            yield _loss("state", f"PPDS, as published, key seen {times} x", epsilon, level)
        for name, estimator in (
            ("Dwork, as published", Estimator("dwork", True)),
            ("OptBern and PPDS, as published", Estimator("optbern", True)),
            ("Dwork, repaired", Estimator("dwork", False)),
            ("PPDS = OptBern, repaired", PPDS),
        ):
            yield _loss("output", name, epsilon, output_loss(estimator, epsilon))


def _loss(part: str, name: str, epsilon: float, loss: float) -> Record:
    return {
        "part": part,
        "estimator": name,
        "epsilon": epsilon,
        "loss over epsilon": loss / epsilon,
    }


def bounded(contender: Contender, epsilon: float, size: int) -> float:
    """The least probability that the bound allows an error above FAR; 1 if it allows any."""
    budget, tracked = Budget(epsilon, epsilon), contender.tracked(size)

    def alpha(beta: float) -> float:
        joint = not contender.estimator.as_published
        return error_bound(contender.estimator, budget, tracked, beta, UNIVERSE, joint)

    low, high = 1e-12, 1 - 1e-12
    for _ in range(60):
        middle = (low * high) ** 0.5
        low, high = (low, middle) if alpha(middle) <= FAR else (middle, high)
    return high
