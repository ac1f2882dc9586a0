"""Gradual update fits tables, so that it is fair to compare with it; and what it leaves alone."""

from dataclasses import replace
from importlib import import_module
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pansketch import Attribute, Domain
from pansketch.generators.pairwise.contingency_tables import Table
from pansketch.generators.pairwise.fit import fit_views

ROOT = Path(__file__).parents[2]
BITS, RECORDS = 3, 20_000
CELLS = 1 << BITS
DOMAIN = Domain([Attribute(name, low=0, high=1) for name in "xyz"])
COUNTS = st.just(0.0) | st.floats(1e-3, 1e6)
FITS = 0.02  # of the records, that may lie elsewhere than the tables want them


@pytest.fixture(scope="module")
def gum():
    """A module of the benchmarks, which are not installed."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(ROOT)
        return import_module("benchmarks.views.gradual_update")


def tables():
    """All pairs of three attributes along a curve, without noise, and each attribute alone."""
    generator = np.random.default_rng(1)
    x = generator.beta(2, 3, 50_000)
    y = np.clip(0.5 + 0.4 * np.sin(6 * x) + 0.05 * generator.normal(size=len(x)), 0, 1)
    z = np.clip(x * y + 0.1 * generator.normal(size=len(x)), 0, 1)
    cells = np.minimum((np.stack([x, y, z]) * CELLS).astype(int), CELLS - 1)
    sets = [(0,), (1,), (2,), *combinations(range(3), 2)]
    return [_counted(cells, axes) for axes in sets]


def _counted(cells, axes):
    places = np.ravel_multi_index([cells[axis] for axis in axes], (CELLS,) * len(axes))
    counts = np.bincount(places, minlength=CELLS ** len(axes)).astype(float)
    shape = (CELLS,) * len(axes)
    return Table(axes, (BITS,) * len(axes), counts.reshape(shape), 1e-9)


@pytest.fixture(scope="module")
def fit():
    return fit_views(DOMAIN, tables())


def fitted(gum, fit, rounds, generator=7):
    return gum.updated(fit, RECORDS, np.random.default_rng(generator), rounds)


def misfit(joint, tables):
    """Mean total variation of the records from the tables, in the tables' own cells."""
    shares = []
    for table in tables:
        target = joint.in_table(table)
        apart = target.held(joint.weights) / joint.weights.sum() - target.counts / table.total
        shares.append(np.abs(apart).sum() / 2)
    return np.mean(shares)


def test_records_come_to_fit_all_tables(gum, fit):
    """Seeded; independent records of the same margins, the control, do not fit."""
    assert misfit(fitted(gum, fit, gum.ROUNDS), fit.tables) < FITS
    assert misfit(fitted(gum, fit, 0), fit.tables) > 10 * FITS


def test_records_that_follow_other_tables_do_not_fit(gum, fit):
    """A control of the measure: a table turned over is not what the records were led to."""
    joint = fitted(gum, fit, gum.ROUNDS)
    turned = [replace(table, counts=table.counts[::-1]) for table in fit.tables]
    assert misfit(joint, turned) > 10 * FITS


def test_every_round_keeps_the_number_of_records_and_the_margins(gum, fit):
    joint = fitted(gum, fit, gum.ROUNDS)
    for axis, margin in fit.margins.items():
        held = np.bincount(joint.cells[axis], minlength=CELLS)
        assert held.sum() == RECORDS
        wanted = margin.counts * (RECORDS / margin.counts.sum())
        assert np.abs(held - wanted).sum() / 2 < FITS * RECORDS


def test_without_rounds_attributes_are_independent_and_margins_exact(gum, fit):
    joint = fitted(gum, fit, 0)
    for axis, margin in fit.margins.items():
        held = np.bincount(joint.cells[axis], minlength=CELLS)
        assert np.abs(held - margin.counts * (RECORDS / margin.counts.sum())).max() <= 1


def test_a_step_leaves_records_that_fit_where_they_are(gum, fit):
    joint = fitted(gum, fit, 3)
    table = fit.tables[0]
    there = joint.in_table(table)
    held = np.bincount(there.cells, minlength=CELLS**2).astype(float)
    before = {axis: cells.copy() for axis, cells in joint.cells.items()}
    gum.update(
        joint, replace(table, counts=held.reshape(CELLS, CELLS)), 1.0, np.random.default_rng(3)
    )
    assert all((joint.cells[axis] == cells).all() for axis, cells in before.items())


def test_a_share_of_zero_moves_nothing(gum, fit):
    joint = fitted(gum, fit, 0)
    before = {axis: cells.copy() for axis, cells in joint.cells.items()}
    wanted = gum.in_records(fit.tables[0], RECORDS, np.random.default_rng(0))
    gum.update(joint, wanted, 0.0, np.random.default_rng(3))
    assert all((joint.cells[axis] == cells).all() for axis, cells in before.items())
    gum.update(joint, wanted, 0.1, np.random.default_rng(3))
    assert any((joint.cells[axis] != cells).any() for axis, cells in before.items())


@settings(max_examples=50, deadline=None)
@given(st.lists(COUNTS, min_size=1, max_size=40).filter(any), st.integers(1, 5000))
def test_whole_tables_are_within_one_record_of_their_shares(gum, counts, records):
    table = Table((0,), (6,), np.array(counts), 0.0)
    whole = gum.in_records(table, records, np.random.default_rng(1)).counts
    assert whole.sum() == records
    assert (whole == np.floor(whole)).all()
    assert np.abs(whole - table.counts * (records / table.total)).max() < 1 + 1e-6
