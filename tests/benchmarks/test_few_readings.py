"""Answers about young streams: valid error bars, or a refusal with the number of missing windows.

Of each release one answer counts, so that misses are independent. Bars that hold in 93 % of all
cases or more are missed at most MOST times in as many answers with probability above 1 - 1e-6.
"""

from dataclasses import replace
from math import ceil

import numpy as np
import pytest
from scipy.stats import binom

from benchmarks.error_bars.few_readings import asked, in_range
from benchmarks.error_bars.short_streams import FAMILIES, MEMORY, PARTICLES, SHAPES, exact, noisy
from pansketch import Privacy
from pansketch.generators import EmptyModel, TooFewReadings, fidelity, pairwise
from pansketch.generators.pairwise.contingency_tables import domain_of, tables_of
from pansketch.generators.pairwise.fit import fit_views, noisy_fits
from pansketch.generators.pairwise.particles import joint_of
from pansketch.generators.significance import WANTED, Noise
from pansketch.planning import Expected, plan_views

MISSED = 0.07
FALSE_ALARM = 1e-6
RUNS = 12


def around_the_fit(release):
    """Error bars from the fit itself with redrawn noise, and no refusal."""
    domain, tables = domain_of(release), tables_of(release)
    fit = fit_views(domain, tables)

    def replicate():
        generator = np.random.default_rng(1)
        noise = noisy_fits(domain, tables, fit, generator, 12)
        return [joint_of(each, PARTICLES, generator).partition(domain) for each in noise]

    boxes = pairwise(release, particles=PARTICLES).boxes
    return replace(boxes, noise=None, hidden=None, replicate=replicate)


# Views of a stream without questions while it is young: noise outweighs its first answers.
LATE = replace(
    FAMILIES["pairwise"],
    spec=lambda domain: plan_views(domain, Privacy(1.0), MEMORY, Expected(60, 10, 43_200)).spec,
)


def means(windows, fit=None, family=FAMILIES["pairwise"]):
    """True for each truth within two standard errors, of means of three shapes."""
    found = []
    for shape in ("crowded", "loose bounds", "near-duplicates"):
        found += asked(family, shape, windows, RUNS, fit, "mean")["mean", "0"]
    return [held for held in found if held is not None]


def most(answers):
    return binom.isf(FALSE_ALARM, len(answers), MISSED)


def test_means_of_young_views_lie_within_their_bars_or_are_refused():
    held = means(14) + means(60)
    assert len(held) > 10
    assert len(held) < 6 * RUNS  # Some are refused.
    assert held.count(False) <= most(held)


def test_bars_made_of_the_fit_alone_are_noticed():
    held = means(14, around_the_fit, LATE)
    assert len(held) > 2 * RUNS
    assert held.count(False) > most(held)


@pytest.mark.parametrize("name", FAMILIES)
def test_nothing_is_answered_of_a_stream_without_readings(name):
    """Noise alone passes four deviations with probability below 1e-3 in each release: five of 20
    do so with probability below 1e-10."""
    family, rng = FAMILIES[name], np.random.default_rng(7)
    domain, rows = SHAPES["uniform"](family.attributes, 0, rng)
    told, refused = exact(family.spec(domain), rows), 0
    for _ in range(20):
        model = family.fit(noisy(told, 30, rng))
        try:
            model.mean(domain.names[0])
        except TooFewReadings:
            refused += 1
    assert refused > 15


def test_figures_of_a_report_stay_in_their_range():
    family, given = FAMILIES["pairwise"], 0
    for shape in SHAPES:
        rng = np.random.default_rng(3)
        domain, rows = SHAPES[shape](family.attributes, 60 * 60, rng)
        told = exact(family.spec(domain), rows)
        for windows in (14, 60):
            try:
                found = fidelity([noisy(told, windows, rng)], 1000)
            except TooFewReadings:
                continue
            given += 1
            assert in_range(found), found
    assert given


@pytest.mark.parametrize(("readings", "releases"), [(300.0, 10), (399.0, 10), (250.0, 7)])
def test_the_windows_that_are_wanted_suffice(readings, releases):
    """Readings grow as the releases, noise as their root."""
    with pytest.raises(TooFewReadings) as refused:
        Noise(releases, 50.0, {0: 100.0}).check(readings, [0])
    assert isinstance(refused.value, EmptyModel)
    times = (releases + refused.value.more) / releases
    Noise(0, 0.0, {0: 100 * times**0.5}).check(readings * times, [0])
    fewer = (releases + refused.value.more - 1) / releases
    assert fewer * readings < WANTED * 100 * fewer**0.5 or refused.value.more == 1


def test_what_cannot_be_told_from_nothing_has_no_number_of_windows():
    refused = TooFewReadings(150.0, 100.0, 10)
    assert refused.more is None
    assert "is not known yet" in str(refused)
    # One release has noise of 100 / sqrt(10), and 60 readings.
    assert refused.wanted(60) == ceil((WANTED * 100 / 10**0.5 / 60) ** 2)
