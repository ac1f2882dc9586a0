"""A common factor: found where tables close a circle, absent in chains, and followed by records."""

from importlib import import_module
from itertools import combinations

import numpy as np
import pytest

from pansketch import Attribute, Domain
from pansketch.generators.pairwise.contingency_tables import Table
from pansketch.generators.pairwise.dependence_tree import Scores, loadings
from pansketch.generators.pairwise.fit import fit_views
from pansketch.generators.pairwise.particles import joint_of

DRAWING = import_module(joint_of.__module__.replace("particles", "dependence_tree"))
LOADS = np.array([0.95, 0.9, 0.85, 0.8, 0.75, 0.7, 0.8])
NUMBERS = len(LOADS)
RING = [(place, place + 1) for place in range(NUMBERS - 1)] + [(0, NUMBERS - 1)]
BITS, READINGS, DEVIATION = 4, 20_000, 60.0
DOMAIN = Domain([Attribute(f"x{place}", low=-4, high=4) for place in range(NUMBERS)])
FACTOR = np.outer(LOADS, LOADS) + np.diag(1 - LOADS**2)
CHAIN = 0.8 ** np.abs(np.subtract.outer(np.arange(NUMBERS), np.arange(NUMBERS)))


def around(correlations):
    """Of neighbours, and of the first and the last."""
    return {pair: float(correlations[pair]) for pair in RING}


@pytest.mark.parametrize("signs", [np.ones(NUMBERS), np.array([1, -1, -1, 1, -1, 1, -1])])
def test_loadings_are_found_on_a_circle(signs):
    told = loadings(around(np.outer(signs, signs) * FACTOR))
    found = np.array([told[place] for place in range(NUMBERS)])
    np.testing.assert_allclose(np.abs(found), LOADS, atol=0.05)
    for one, other in RING:
        assert found[one] * found[other] * signs[one] * signs[other] > 0


def test_a_chain_has_no_factor():
    assert loadings(around(CHAIN)) == {}
    assert loadings(around(FACTOR))  # the control


def test_nothing_is_guessed_where_tables_tell_of_all_pairs():
    pairs = {pair: float(FACTOR[pair]) for pair in combinations(range(NUMBERS), 2)}
    assert loadings(pairs) == {}
    pairs.pop((0, 3))  # the control
    assert loadings(pairs)


@pytest.mark.parametrize("pairs", [{}, {(0, 1): 0.9}, {(0, 1): 0.9, (2, 3): 0.8}])
def test_too_few_tables_tell_of_no_factor(pairs):
    assert loadings(pairs) == {}


def test_numbers_that_noise_hides_have_no_factor():
    assert loadings(dict.fromkeys(RING, 0.0)) == {}


def test_what_is_beyond_others_is_independent_of_them():
    """Correlations of 100,000 normal numbers deviate by 0.0032 each, and six of those have
    probability below 1e-8."""
    count = 100_000
    scores = Scores(dict(enumerate(LOADS.tolist())), count, np.random.default_rng(1))
    first, second = scores.beyond(0, ()), scores.beyond(1, ())
    third = scores.beyond(2, (0, 1))
    for each in (first, second):
        assert abs(np.corrcoef(third, each)[0, 1]) < 0.019
    # The control is not beyond them.
    assert not abs(np.corrcoef(first, second)[0, 1]) < 0.019


def released(correlations, generator):
    """Noisy tables of neighbours, and margins, of normal numbers with these correlations."""
    rows = generator.multivariate_normal(np.zeros(NUMBERS), correlations, READINGS).clip(-4, 3.99)
    ends = np.linspace(-4, 4, (1 << BITS) + 1)
    tables = [
        Table((place,), (BITS,), np.histogram(rows[:, place], ends)[0].astype(float), 1.0)
        for place in range(NUMBERS)
    ]
    for pair in RING:
        counts = np.histogram2d(*rows[:, pair].T, (ends, ends))[0]
        noise = generator.normal(0, DEVIATION, counts.shape)
        tables.append(Table(pair, (BITS, BITS), counts + noise, DEVIATION**2))
    return tables


def error(correlations, generator):
    """Root mean square of the errors of correlations of pairs that no table joins."""
    fit = fit_views(DOMAIN, released(correlations, generator))
    joint = joint_of(fit, 1 << 15, generator)
    rows = np.stack([joint.cells[place] for place in range(NUMBERS)], axis=1)
    found = np.cov(rows.T, aweights=joint.weights)
    found /= np.sqrt(np.outer(found.diagonal(), found.diagonal()))
    others = [pair for pair in combinations(range(NUMBERS), 2) if pair not in RING]
    return float(np.sqrt(np.mean([(found[pair] - correlations[pair]) ** 2 for pair in others])))


def test_records_follow_a_factor_and_a_chain(monkeypatch):
    """Four releases of each. Without factors, the control, those of a factor are far off.

    Of ten releases the means were 0.11, 0.12 and 0.33, the deviations of one 0.010, 0.015 and
    0.009. The mean of four deviates by at most 0.008: the limit is nine of those from each.
    """
    generator, found = np.random.default_rng(2), {}
    for name, correlations in (("factor", FACTOR), ("chain", CHAIN)):
        found[name] = [error(correlations, generator) for _ in range(4)]
    with monkeypatch.context() as patch:
        patch.setattr(DRAWING, "loadings", lambda correlations: {})
        found["control"] = [error(FACTOR, generator) for _ in range(4)]
    assert np.mean(found["factor"]) < 0.22
    assert np.mean(found["chain"]) < 0.22
    assert not np.mean(found["control"]) < 0.22
