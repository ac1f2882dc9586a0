"""The benchmarks' published algorithms and their fast simulation are what they claim to be."""

from fractions import Fraction
from importlib import import_module
from math import log, sqrt
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from pansketch.planning.distinct_sample_size import (
    ESTIMATORS,
    Budget,
    Estimator,
    mean_squared_error,
)
from pansketch_audit.planted_bugs.published_distinct import PublishedPpds

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def benchmark():
    """Imports a module of the benchmarks, which are not installed."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(ROOT)
        yield lambda name: import_module(f"benchmarks.distinct.{name}")


class Drawn:
    """An `Entropy` for figures: a seeded generator."""

    def __init__(self, generator):
        self._generator = generator

    def fill_bernoulli(self, chance, bits):
        bits[:] = self._generator.random(len(bits)) < chance.probability


def simulated(levels, keys, size, generator):
    spec = PublishedPpds(levels, size, Fraction(1))
    sketch = spec.start(Drawn(generator))
    sketch.update_many(keys)
    level = sketch.sample.level
    return len(sketch.sample.ids), sum(each >= level for each in levels)


def test_the_fast_simulation_ends_as_the_algorithm_does(benchmark):
    """Two-sample chi-square of (ids held, keys tracked) at 1e-6, and with a smaller sample, which
    must differ. The fast one passes over the lowest level here."""
    universe, size, runs = 400, 15, 2500
    generator = np.random.default_rng(5)
    keys = generator.integers(universe, size=60)
    chances = Estimator("ppds", True).chances(1.0)
    slow = []
    for _ in range(runs):
        levels = generator.geometric(0.5, universe) - 1
        slow.append(simulated(tuple(levels.tolist()), keys, size, generator))

    def p_value(other_size):
        fast = [
            benchmark("simulation").published_ppds_end(
                keys, universe, other_size, *chances, generator
            )
            for _ in range(runs)
        ]
        outcomes = sorted({*slow, *fast})
        table = np.array([[found.count(each) for each in outcomes] for found in (slow, fast)])
        common = table.sum(axis=0) >= 20
        table = np.column_stack([table[:, common], table[:, ~common].sum(axis=1)])
        return stats.chi2_contingency(table).pvalue

    assert p_value(size) > 1e-6
    assert p_value(size - 2) < 1e-6


@pytest.mark.parametrize("variant", ["dwork", "optbern"])
def test_a_static_sample_errs_as_its_theory_says(variant, benchmark):
    """Seven standard errors of 4,000 squared errors: below 1e-6, their distribution being
    skewed."""
    estimator, generator = Estimator(variant, True), np.random.default_rng(8)
    published = benchmark("published").StaticSample
    keys = generator.integers(150, size=200)
    density, squares = len(np.unique(keys)) / 300, []
    for _ in range(4000):
        sample = published(estimator, 1.0, 40, 300, generator)
        sample.update_many(keys.tolist())
        squares.append((sample.density() - density) ** 2)
    expected = mean_squared_error(estimator, Budget(1, 1), 40, density, 300)
    doubt = np.std(squares) / sqrt(len(squares))
    assert abs(np.mean(squares) - expected) < 7 * doubt
    assert abs(np.mean(squares) - 1.4 * expected) > 7 * doubt  # Negative control.


@pytest.mark.parametrize("epsilon", [0.1, 0.5, 1.0, 1.5])
def test_what_is_repaired_spends_no_more_than_epsilon(epsilon, benchmark):
    losses = benchmark("published")
    for estimator in ESTIMATORS:
        assert losses.state_loss(estimator, epsilon) <= epsilon * (1 + 1e-12)
        assert (losses.output_loss(estimator, epsilon) > epsilon) == estimator.as_published


def test_dwork_spends_half_of_its_budget_and_optbern_all(benchmark):
    state_loss = benchmark("published").state_loss
    assert state_loss(Estimator("dwork", True), 0.1) == pytest.approx(log(1 / 0.95))
    assert state_loss(Estimator("optbern", True), 0.1) == pytest.approx(0.1)


def test_the_published_outputs_spend_three_and_seven_times_epsilon(benchmark):
    output_loss = benchmark("published").output_loss
    assert output_loss(Estimator("ppds", True), 0.5) == pytest.approx(log(5.17), abs=1e-3)
    assert output_loss(Estimator("dwork", True), 0.5) == pytest.approx(
        log(0.625 * np.exp(4) + 0.375)
    )


def test_the_theory_of_the_figures_can_be_computed(benchmark):
    """Every record of figures 1 to 3; the bound of figure 4 falls with epsilon."""
    theory, curves = benchmark("published"), benchmark("curves")
    planned = list(theory.planned())
    assert len(planned) == 6 * len(theory.EPSILONS)
    assert all(record["bytes"] > 0 for record in planned)
    assert len(list(theory.spent())) == (2 + len(theory.APPEARANCES) + 4) * len(theory.EPSILONS)
    bounds = [theory.bounded(curves.BY_BYTES, epsilon, 1000) for epsilon in (0.1, 0.2, 0.4)]
    assert 1 > bounds[0] > bounds[1] > bounds[2] > 0
