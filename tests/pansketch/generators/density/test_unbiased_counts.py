"""Fitting counts to a table, unbiased measures, and the terms of a density's error."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import optimize

from pansketch import Attribute, CellsSpec, Domain, Estimate, Privacy
from pansketch.generators import imse_terms
from pansketch.generators.density.cell_counts import ReleasedTable
from pansketch.generators.density.unbiased_counts import Image, at_most, fit_counts, signed_measure
from pansketch.sketches.count_sketch import laplace_variance
from tests.seeded_noise import noise_of_test

UNIT = Domain([Attribute("x", low=0, high=1)])
SPEC = CellsSpec(UNIT, Privacy(epsilon=1.0), depth=6, width=16, rows=3)
CELLS = np.arange(64, dtype=np.uint64)
COUNTS = hnp.arrays(np.float64, 8, elements=st.floats(-1e4, 1e4))


def matrix(paths, sketch):
    """The map from counts to a table, written out."""
    slots = sketch.hash.table(paths)
    whole = np.zeros((sketch.rows, sketch.width, len(paths)))
    for row in range(sketch.rows):
        whole[row, slots[row] // 2, np.arange(len(paths))] = 1 - 2 * (slots[row] % 2)
    return whole.reshape(-1, len(paths))


def released_table(spec, rows, entropy):
    sketch = spec.start(entropy)
    sketch.update_many(rows)
    release = sketch.release(entropy)
    block = release.counters[1:].reshape(spec.rows, spec.width).astype(float)
    return ReleasedTable(spec.tables[0], block, release.draws)


def test_the_image_is_the_matrix_and_its_transpose():
    sketch, written = SPEC.tables[0], matrix(CELLS, SPEC.tables[0])
    image = Image(sketch.hash.table(CELLS), sketch.width)
    generator = np.random.default_rng(0)
    counts, table = generator.normal(size=64), generator.normal(size=(3, 16))
    assert image.of(counts).ravel() == pytest.approx(written @ counts)
    assert image.back(table) == pytest.approx(written.T @ table.ravel())
    largest = np.linalg.eigvalsh(written.T @ written).max()
    assert largest <= image.norm() <= 3 * largest


@given(COUNTS, st.floats(0, 1e4))
def test_at_most_is_the_nearest_point_of_its_set(counts, most):
    found = at_most(counts, most)
    assert (found >= 0).all()
    assert found.sum() <= most + 1e-6
    # No step towards another point of the set comes nearer: the set is convex.
    corners = np.vstack([np.zeros(8), most * np.eye(8)])
    assert ((corners - found) @ (counts - found) <= 1e-3).all()


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 1000))
def test_the_fit_is_the_nearest_table_of_non_negative_counts(seed):
    """Against a general solver, where the sum's limit does not bind."""
    generator = np.random.default_rng(seed)
    paths = np.sort(generator.choice(CELLS, 20, replace=False))
    written = matrix(paths, SPEC.tables[0])
    noisy = written @ generator.exponential(100, 20) + generator.normal(0, 20, 48)
    table = ReleasedTable(SPEC.tables[0], noisy.reshape(3, 16), 2)
    fitted = fit_counts(table, paths, np.zeros(20), 1e9)
    _, residual = optimize.nnls(written, noisy)
    assert (fitted >= 0).all()
    assert np.linalg.norm(written @ fitted - noisy) <= 1.02 * residual
    assert fit_counts(table, paths, np.zeros(20), 50.0).sum() <= 50 + 1e-6


def test_a_fit_without_noise_is_exact(no_noise):
    """28 heavy cells in 48 counters, known by place: their counts come out to the reading."""
    cells = np.arange(10, 38, dtype=np.uint64)
    counts = np.arange(28) * 7 + 5
    rows = (np.repeat(cells, counts)[:, None] + 0.5) / 64
    spec = replace(SPEC, hash_key=4)
    table = released_table(spec, rows, no_noise)
    assert np.linalg.matrix_rank(matrix(cells, spec.tables[0])) == 28
    alone = table.counts(cells, "median")
    fitted = fit_counts(table, cells, alone, float(counts.sum()))
    assert np.abs(fitted - counts).max() < 0.1 * np.abs(alone - counts).max()


def test_signed_measures_are_unbiased_in_sums():
    """200 releases with independent hash keys: means of two counts within 6 standard errors of the
    truth, 4e-9 by the normal law. The control: a guess fitted to all rows, whose counts are too
    low."""
    counts = np.round(np.exp(-((np.arange(64) - 20) ** 2) / 80) * 100).astype(int)
    rows = (np.repeat(np.arange(64), counts)[:, None] + 0.5) / 64
    total = Estimate(float(counts.sum()), 0.0)
    heavy, light = slice(16, 25), slice(40, 64)
    off, fitted_off = [], []
    for run in range(200):
        spec = replace(SPEC, privacy=Privacy(epsilon=0.3), hash_key=run)
        table = released_table(spec, rows, noise_of_test())
        measure = signed_measure(table, UNIT, total)
        found = measure.guess + measure.beyond.counts(CELLS, "mean")
        off.append([(found - counts)[part].sum() for part in (heavy, light)])
        fitted = fit_counts(table, CELLS, table.counts(CELLS, "mean"), total.value)
        fitted_off.append([(fitted - counts)[part].sum() for part in (heavy, light)])
    for sample, limit in ((np.array(off), 0), (np.array(fitted_off), 1)):
        errors = sample.std(axis=0, ddof=1) / len(sample) ** 0.5
        beyond = np.abs(sample.mean(axis=0)) / errors > 6
        assert beyond.any() == bool(limit)


def test_the_terms_of_a_known_density():
    """By hand: f = 2x on the unit interval, 16 cells, 1,000 readings, 8 columns, 2 rows."""
    spec = CellsSpec(UNIT, Privacy(epsilon=1.0), depth=4, width=8, rows=2)
    terms = imse_terms(spec, 1000, 0, roughness=4 / 3, slopes=[4.0])
    exact_bias = 4 / 12 / 16**2  # A slope of 2 within cells of side 1/16.
    assert terms.bias == pytest.approx(exact_bias * 12 / np.pi**2)
    assert terms.variance == pytest.approx(16 / 1000)
    assert terms.collisions == pytest.approx(16 * (4 / 3 + 16 / 1000) / (8 * 2))
    assert (terms.noise, terms.count) == (0, 0)
    assert terms.total == pytest.approx(terms.bias + terms.variance + terms.collisions)
    noisy = imse_terms(spec, 1000, 2, roughness=4 / 3)
    assert noisy.bias == 0
    assert noisy.noise == pytest.approx(16**2 * 2 * spec.tables[0].noise_variance / (1000**2 * 2))
    relative = 2 * laplace_variance(spec.count_scale) / 1000**2
    others = noisy.variance + noisy.collisions + noisy.noise
    assert noisy.count == pytest.approx(relative * (4 / 3 + 3 * others))
    assert noisy.total == pytest.approx(others + noisy.count)


def test_terms_that_cannot_be_are_refused():
    for readings, slopes, line in ((0, (), "positive number"), (5, (1.0, 2.0), "slopes must be 1")):
        with pytest.raises(ValueError, match=line):
            imse_terms(SPEC, readings, 2, 1.0, slopes)
