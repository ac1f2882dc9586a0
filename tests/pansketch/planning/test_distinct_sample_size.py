"""Sample sizes reach the wanted error, and no other split of the error does with fewer keys."""

from itertools import product
from math import exp, log, sqrt

import numpy as np
import pytest
from scipy import stats

from pansketch.planning.distinct_sample_size import (
    ESTIMATORS,
    Budget,
    Estimator,
    Unreachable,
    best_split,
    error_bound,
    mean_squared_error,
    sample_size,
)

FALSE_ALARM = 1e-8
PPDS, DWORK = Estimator("ppds", False), Estimator("dwork", False)
UNIVERSE = 1_000_000
BUDGETS = (Budget(0.5, 0.5), Budget(1.4, 0.2))
every_estimator = pytest.mark.parametrize("estimator", ESTIMATORS, ids=str)


def errors(estimator, budget, tracked, density, runs, universe=UNIVERSE, seed=1):
    """Errors of simulated estimates: a sample of the universe, its bits, the output's noise."""
    generator = np.random.default_rng(seed)
    seen = round(universe * density)
    present = generator.hypergeometric(seen, universe - seen, tracked, runs)
    initial, updated = estimator.chances(budget.state)
    ones = generator.binomial(present, updated) + generator.binomial(tracked - present, initial)
    noise = generator.laplace(0, 1 / (budget.output * tracked), runs)
    if not estimator.as_published:
        drawn = generator.geometric(1 - exp(-budget.output), (2, runs))
        noise = (drawn[0] - drawn[1]) / (tracked * (updated - initial))
    return (ones / tracked - initial) / (updated - initial) + noise - seen / universe


def beyond(alpha, beta, *simulated, runs=20_000):
    """Return whether more errors exceed alpha than probability beta explains: one side, at
    FALSE_ALARM."""
    found = int((abs(errors(*simulated, runs)) > alpha).sum())
    return found > stats.binom.ppf(1 - FALSE_ALARM, runs, beta)


@every_estimator
@pytest.mark.parametrize("budget", BUDGETS, ids=str)
@pytest.mark.parametrize("joint", [True, False])
def test_the_planned_sample_reaches_alpha_and_beta(estimator, budget, joint):
    """False-alarm probability: six checks of 1e-8 if the bound were tight, and it is not."""
    for density, alpha, beta in product((0.0, 0.5, 0.9), (0.05,), (0.05, 0.001)):
        tracked = sample_size(estimator, budget, alpha, beta, joint=joint)
        assert not beyond(alpha, beta, estimator, budget, min(tracked, UNIVERSE), density)


@every_estimator
def test_a_sixth_of_the_planned_sample_is_not_enough(estimator):
    """Negative control: the simulation notices a sample that is too small."""
    tracked = sample_size(estimator, BUDGETS[0], 0.05, 0.05)
    assert beyond(0.05, 0.05, estimator, BUDGETS[0], tracked // 6, 0.5)


def test_the_bound_covers_the_exact_error_of_a_small_sample():
    """No simulation: the sum of bits and noise, all keys tracked, by convolution."""
    for tracked, present, budget in product((20, 60), (0, 7, 20), BUDGETS):
        initial, updated = PPDS.chances(budget.state)
        ones = np.convolve(
            stats.binom.pmf(np.arange(present + 1), present, updated),
            stats.binom.pmf(np.arange(tracked - present + 1), tracked - present, initial),
        )
        values = np.arange(-400, 401)
        noise = stats.dlaplace.pmf(values, budget.output)
        sums = np.arange(-400, 401 + tracked)
        estimates = (sums / tracked - initial) / (updated - initial)
        found = np.convolve(noise, ones)
        for beta in (0.3, 0.05, 0.001):
            alpha = error_bound(PPDS, budget, tracked, beta, tracked)
            assert found[abs(estimates - present / tracked) > alpha].sum() <= beta


@every_estimator
@pytest.mark.parametrize("joint", [True, False])
def test_no_split_of_a_grid_beats_the_bound(estimator, joint):
    """Every split of beta into hundredths: none gives a smaller alpha, and the best of them is
    near."""
    budget, tracked, beta = Budget(0.8, 0.3), 5000, 0.02
    scale = 1 / sqrt(2 * tracked)
    bells = [scale / estimator.gain(budget.state), *([] if joint else [scale])]
    surplus = 1 if estimator.as_published else 2 / (1 + exp(-budget.output))
    laplace = estimator.noise_scale(budget, tracked)

    def alpha(shares):
        *tails, last = (beta * share for share in shares)
        return sum(s * sqrt(log(2 / t)) for s, t in zip(bells, tails, strict=True)) + laplace * log(
            surplus / last
        )

    steps = [step / 100 for step in range(1, 100)]
    splits = (
        (*some, 1 - sum(some)) for some in product(steps, repeat=len(bells)) if sum(some) < 0.995
    )
    best = min(map(alpha, splits))
    found = error_bound(estimator, budget, tracked, beta, joint=joint)
    assert found <= best * (1 + 1e-12)
    assert found >= best * 0.999


@every_estimator
def test_no_split_of_a_grid_needs_fewer_keys(estimator):
    """Every split of alpha into hundredths: the tails beyond its shares sum to more than beta with
    one key less than planned."""
    budget, alpha, beta = Budget(0.8, 0.3), 0.05, 0.02
    tracked = sample_size(estimator, budget, alpha, beta, joint=False)
    surplus = 1 if estimator.as_published else 2 / (1 + exp(-budget.output))

    def tails(keys, first, second, third):
        gain = estimator.gain(budget.state)
        sampling = 2 * exp(-2 * keys * (alpha * first) ** 2)
        bits = 2 * exp(-2 * keys * (alpha * second * gain) ** 2)
        return sampling + bits + surplus * exp(-alpha * third / estimator.noise_scale(budget, keys))

    grid = [step / 100 for step in range(1, 99)]
    splits = [(a, b, 1 - a - b) for a, b in product(grid, repeat=2) if a + b < 0.995]
    assert min(tails(tracked - 1, *split) for split in splits) > beta
    assert min(tails(round(1.02 * tracked), *split) for split in splits) <= beta


@every_estimator
def test_the_sample_size_is_the_smallest(estimator):
    for alpha, beta, universe in ((0.1, 0.05, None), (0.3, 0.5, None), (0.1, 0.01, 50_000)):
        tracked = sample_size(estimator, BUDGETS[0], alpha, beta, universe)
        assert error_bound(estimator, BUDGETS[0], tracked, beta, universe) <= alpha
        assert error_bound(estimator, BUDGETS[0], tracked - 1, beta, universe) > alpha


@every_estimator
@pytest.mark.parametrize("budget", BUDGETS, ids=str)
def test_the_mean_squared_error_is_the_simulated_one(estimator, budget):
    """Six standard errors of 40,000 squared errors, whose kurtosis is moderate: below 1e-6."""
    for tracked, density in product((300, 20_000), (0.0, 0.3, 1.0)):
        squares = errors(estimator, budget, tracked, density, 40_000, 25_000) ** 2
        expected = mean_squared_error(estimator, budget, tracked, density, 25_000)
        doubt = squares.std() / sqrt(len(squares))
        assert abs(squares.mean() - expected) < 6 * doubt
        assert abs(squares.mean() - 1.15 * expected) > 6 * doubt  # Negative control.


def test_a_universe_tracked_whole_has_no_sampling_error():
    budget = Budget(50, 50)
    assert mean_squared_error(PPDS, budget, 1000, 0.5, 1000) < 1e-18
    assert mean_squared_error(PPDS, budget, 999, 0.5, 1000) > 1e-7
    three = [error_bound(PPDS, BUDGETS[0], 1000, 0.1, universe, False) for universe in (1000, 1001)]
    assert three[0] == error_bound(PPDS, BUDGETS[0], 1000, 0.1, 1000) < three[1]


def test_the_best_split_is_the_best_of_all_shares():
    def cost(budget):
        return sample_size(PPDS, budget, 0.05, 0.05)

    share, budget = best_split(1.0, cost)
    assert budget == Budget(1 - float(share), float(share))
    assert cost(budget) == min(cost(Budget(1 - 2**-p, 2**-p)) for p in range(1, 7))
    assert cost(budget) < cost(Budget(0.5, 0.5))


@every_estimator
def test_memory_and_tracked_keys_are_each_others_reverse(estimator):
    for keys in (1, 7, 8, 9, 1000, 12_345):
        memory = estimator.memory(keys, 0.5)
        assert estimator.tracked(memory, 0.5) >= keys > estimator.tracked(memory - 1, 0.5)


def test_bits_take_a_thirty_second_of_the_bytes_of_ids():
    assert Estimator("optbern", True).memory(3200, 0.5) == 32 * PPDS.memory(3200, 0.5)


@pytest.mark.parametrize(
    ("question", "problem"),
    [
        (lambda: Budget(0, 1), "epsilon of the state must be a positive number, not 0"),
        (lambda: Budget(1, float("nan")), "epsilon of the output must be a positive number"),
        (lambda: error_bound(PPDS, BUDGETS[0], 0, 0.1), "at least 1"),
        (lambda: error_bound(PPDS, BUDGETS[0], 11, 0.1, 10), "no more than all"),
        (lambda: error_bound(PPDS, BUDGETS[0], 10, 1.0), "beta must lie between 0 and 1"),
        (lambda: sample_size(PPDS, BUDGETS[0], 0.0, 0.1), "alpha must lie between 0 and 1"),
        (lambda: DWORK.chances(1.6), "only up to 1.59: use ppds or optbern"),
    ],
)
def test_wrong_questions_are_refused_in_one_line(question, problem):
    with pytest.raises(ValueError, match=problem) as refused:
        question()
    assert "\n" not in str(refused.value)


def test_a_universe_that_is_too_small_is_refused():
    with pytest.raises(Unreachable, match="tracking all 100 keys reaches"):
        sample_size(PPDS, BUDGETS[0], 0.05, 0.05, 100)
