"""Tables of `pansketch plan`: memory for a wanted error, and the error of a given memory.

One line for each epsilon and estimator of pansketch/planning/distinct_sample_size.py, as published
and repaired. One more is for the repaired PPDS with the best split between state and output. Keys
without numbers, hashed to slots, have lines of their own, because no paper has such an estimator.
Any number of keys, on levels, has lines too.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from math import inf, sqrt
from statistics import NormalDist
from typing import Any

from pansketch.planning.distinct_sample_size import (
    ESTIMATORS,
    Budget,
    Estimator,
    best_split,
    error_bound,
    mean_squared_error,
    sample_size,
)
from pansketch.privacy import MAX_EPSILON, Privacy
from pansketch.sketches.distinct.spec import MAX_BYTES, MAX_KEYS, DistinctSpec
from pansketch.sketches.slot_occupancy import NoEstimate

BEST = Estimator("ppds", as_published=False)
WORST_DENSITY = 0.5
LEVEL_KEYS = tuple(10**power for power in range(2, 10))
EQUAL = Fraction(1, 2)
MIN_EPSILON = 1e-4  # A share of 1/64 of it is still more than a micro-epsilon.


@dataclass(frozen=True)
class DistinctWanted:
    """A question about distinct counters. Without universe and expected keys: any universe.

    Args:
        alpha: error of the density, or relative error with expected keys, in (0, 1).
        beta: probability of a larger error, in (0, 1).
        epsilons: one plan or more for each: the state's epsilon and, equally split, the output's.
        memory: given bytes of the state.
        universe: number of possible keys.
        expected_keys: distinct keys in a window, hashed to slots.
        any_number: texts, of which the number is unknown.
    """

    alpha: float
    beta: float
    epsilons: tuple[float, ...]
    memory: int
    universe: int | None = None
    expected_keys: int | None = None
    any_number: bool = False


@dataclass(frozen=True)
class DistinctPlan:
    """The answer for one epsilon and estimator. Values are None if there is no answer, and
    `problem` gives the reason.

    Args:
        epsilon: as asked for.
        together: epsilon of a key in the state and the output together.
        estimator: its name, as published or repaired.
        output_share: the output's share of `together`, a fraction.
        keys_three_parts: tracked keys for alpha and beta, with the paper's three errors.
        keys: tracked keys for alpha and beta, with sample and bits as one error.
        memory_bytes: bytes of the state for `keys`.
        tracked: keys that the given memory tracks.
        within: error that the given memory exceeds with probability at most beta.
        standard_error: that the given memory reaches; of a density at its worst, 1/2, or relative
            with expected keys or any number of them. With any number there are no needs.
        of_keys: with any number of keys, the number that a line's errors are relative to.
        problem: one line, or empty.
    """

    epsilon: float
    together: float
    estimator: str
    output_share: str
    keys_three_parts: int | None = None
    keys: int | None = None
    memory_bytes: int | None = None
    tracked: int | None = None
    within: float | None = None
    standard_error: float | None = None
    problem: str = ""
    of_keys: int | None = None


def distinct_plans(wanted: DistinctWanted) -> list[DistinctPlan]:
    """Return the answer of `pansketch plan` for distinct counters.

    Args:
        wanted: the question.

    Returns:
        For each epsilon one plan for each estimator, and one for the best split.

    Raises:
        ValueError: a number of the question is out of range; one line.

    Reference:
        arXiv 2111.08784, section 3.2; `sample_size` and `error_bound`.
    """
    for name in ("memory", "universe"):
        value = getattr(wanted, name)
        if value is not None and not 1 <= value <= MAX_KEYS:
            raise ValueError(f"{name} must lie between 1 and {MAX_KEYS}, not {value}")
    for name in ("alpha", "beta"):
        if not 0 < getattr(wanted, name) < 1:
            raise ValueError(f"{name} must lie between 0 and 1, not {getattr(wanted, name):g}")
    for epsilon in wanted.epsilons:
        if not MIN_EPSILON <= epsilon <= MAX_EPSILON / 2:
            raise ValueError(
                f"epsilon must lie between {MIN_EPSILON:g} and {MAX_EPSILON // 2}, because "
                f"a key spends twice that, not {epsilon:g}"
            )
    each = _numbered
    if wanted.any_number:
        each = _levelled
    elif wanted.expected_keys is not None:
        each = _hashed
    return [line for epsilon in wanted.epsilons for line in each(wanted, epsilon)]


def _numbered(wanted: DistinctWanted, epsilon: float) -> Iterator[DistinctPlan]:
    equal = Budget(epsilon, epsilon)
    for estimator in ESTIMATORS:
        yield _line(wanted, epsilon, estimator, str(estimator), EQUAL, equal)
    share, best = best_split(
        equal.together,
        lambda b: error_bound(BEST, b, _fitting(wanted, BEST, b), wanted.beta, wanted.universe),
    )
    yield _line(wanted, epsilon, BEST, "ppds, repaired, best split", share, best)


def _line(
    wanted: DistinctWanted,
    epsilon: float,
    estimator: Estimator,
    name: str,
    share: Fraction,
    budget: Budget,
) -> DistinctPlan:
    line = DistinctPlan(epsilon, 2 * epsilon, name, str(share))
    for answer in (_reached, _needed):
        try:
            line = replace(line, **answer(wanted, estimator, budget))
        except ValueError as error:
            line = replace(line, problem=str(error))
    return line


def _needed(wanted: DistinctWanted, estimator: Estimator, budget: Budget) -> dict[str, Any]:
    three, keys = (
        sample_size(estimator, budget, wanted.alpha, wanted.beta, wanted.universe, joint)
        for joint in (False, True)
    )
    memory = estimator.memory(keys, budget.state)
    return {"keys_three_parts": three, "keys": keys, "memory_bytes": memory}


def _reached(wanted: DistinctWanted, estimator: Estimator, budget: Budget) -> dict[str, Any]:
    tracked = _fitting(wanted, estimator, budget)
    if not tracked:
        return {"tracked": 0}
    within = error_bound(estimator, budget, tracked, wanted.beta, wanted.universe)
    squared = mean_squared_error(estimator, budget, tracked, WORST_DENSITY, wanted.universe)
    return {"tracked": tracked, "within": within, "standard_error": sqrt(squared)}


def _fitting(wanted: DistinctWanted, estimator: Estimator, budget: Budget) -> int:
    tracked = estimator.tracked(wanted.memory, budget.state)
    return tracked if wanted.universe is None else min(tracked, wanted.universe)


def _hashed(wanted: DistinctWanted, epsilon: float) -> Iterator[DistinctPlan]:
    for share, name in ((EQUAL, "ppds, repaired"), (None, "ppds, repaired, best split")):
        yield _hashed_line(wanted, epsilon, share, name)


def _hashed_line(
    wanted: DistinctWanted, epsilon: float, share: Fraction | None, name: str
) -> DistinctPlan:
    keys = wanted.expected_keys or 0
    sides = NormalDist().inv_cdf(1 - wanted.beta / 2)

    def spec(memory: int) -> DistinctSpec:
        privacy = Privacy(2 * epsilon, unit="key")
        return DistinctSpec(privacy, expected_keys=keys, memory=memory, output_share=share)

    def error(memory: int) -> float:
        try:
            return spec(memory).planned_error(keys) / keys
        except NoEstimate:
            return inf

    given = spec(wanted.memory)
    output = Fraction(given.guarantee.release_micro, given.guarantee.epsilon_micro)
    line = DistinctPlan(epsilon, 2 * epsilon, name, str(output), tracked=given.tracked)
    if (reached := error(wanted.memory)) < inf:
        line = replace(line, within=sides * reached, standard_error=reached)
    memory = _least(lambda memory: sides * error(memory) <= wanted.alpha, _most_useful(keys))
    if memory is None:
        return replace(line, problem="no memory is enough at this epsilon")
    return replace(line, keys=spec(memory).tracked, memory_bytes=memory)


def _levelled(wanted: DistinctWanted, epsilon: float) -> Iterator[DistinctPlan]:
    """Errors of one memory for rising numbers of keys, without a guess of their number."""
    spec = DistinctSpec(Privacy(2 * epsilon, unit="key"), memory=wanted.memory)
    output = Fraction(spec.guarantee.release_micro, spec.guarantee.epsilon_micro)
    line = DistinctPlan(epsilon, 2 * epsilon, "levels", str(output), tracked=spec.tracked)
    sides = NormalDist().inv_cdf(1 - wanted.beta / 2)
    for keys in LEVEL_KEYS:
        of = replace(line, of_keys=keys)
        try:
            reached = spec.planned_error(keys) / keys
        except NoEstimate as error:
            yield replace(of, problem=str(error))
        else:
            yield replace(of, within=sides * reached, standard_error=reached)


def _most_useful(keys: int) -> int:
    """Bytes beyond which a spec tracks no more slots: it has two for each key."""
    return min(-(-2 * keys // 8), MAX_BYTES)


def _least(enough: Callable[[int], bool], most: int) -> int | None:
    """The least memory, up to `most` bytes, that is enough; more than enough stays enough."""
    if not enough(most):
        return None
    low, high = 0, most
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high
