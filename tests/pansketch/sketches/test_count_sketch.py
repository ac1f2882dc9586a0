"""Count-sketches: hashing that is as independent as their error's formula needs, and recovery."""

from dataclasses import replace
from fractions import Fraction
from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from pansketch import Attribute, CellsSpec, Domain, Privacy, erasable_arrays, os_entropy
from pansketch.generators.density.cell_counts import ReleasedTable, _median
from pansketch.randomness.keyed_hash import RowHash, SignedHash
from pansketch.sketches import count_sketch
from pansketch.sketches.count_sketch import CountSketch, SignCounter, laplace_variance

UNIT = Domain([Attribute("x", low=0, high=1)])

RUNS = 1500
NOISY = CellsSpec(UNIT, Privacy(epsilon=0.02), depth=6, width=16, rows=3)
HISTOGRAM = np.round(np.exp(-((np.arange(64) - 30) ** 2) / 200) * 300).astype(int)


@pytest.fixture(scope="module")
def recovery_errors():
    """Errors of every cell's mean over rows, float64[runs, cells]: hashing and noise are
    independent in each run, and the readings are the same."""
    rows = (np.repeat(np.arange(64), HISTOGRAM)[:, None] + 0.5) / 64
    cells = np.arange(64, dtype=np.uint64)
    found = []
    for run in range(RUNS):
        spec = replace(NOISY, hash_key=run)
        sketch = spec.start(os_entropy())
        sketch.update_many(rows)
        release = sketch.release(os_entropy())
        block = release.counters[1:].reshape(spec.rows, spec.width).astype(float)
        table = ReleasedTable(spec.tables[0], block, release.draws)
        found.append(table.counts(cells, "mean") - HISTOGRAM)
    return np.array(found)


def formula(rows, noise_scale):
    """Variance of the mean over rows of every cell's count."""
    second_moment = (HISTOGRAM.astype(float) ** 2).sum()
    table = replace(NOISY.tables[0], scale=NOISY.tables[0].scale * noise_scale)
    collisions = (second_moment - HISTOGRAM.astype(float) ** 2) / NOISY.width
    return (collisions + 2 * table.noise_variance) / rows


def deviations(sample, expected):
    """Distances of a sample's means from the expected ones, in standard errors."""
    return (sample.mean(axis=0) - expected) / (sample.std(axis=0, ddof=1) / len(sample) ** 0.5)


def test_recovered_counts_are_unbiased(recovery_errors):
    """64 cells, each within 6 standard errors of 1,500 runs: 1.3e-7 by the normal law.

    The control: the error is seen where 100 readings are added to a cell's truth.
    """
    assert np.abs(deviations(recovery_errors, 0.0)).max() < 6
    assert np.abs(deviations(recovery_errors, 100.0)).min() > 6


def test_recovered_counts_have_the_stated_variance(recovery_errors):
    """The mean square of all cells' errors within 6 standard errors of the formula: 2e-9 by the
    normal law. The controls: other rows, no noise, noise of another scale, no collisions."""
    squares = (recovery_errors**2).mean(axis=1)
    assert abs(deviations(squares, formula(3, 1).mean())) < 6
    for wrong in (formula(2, 1), formula(4, 1), formula(3, Fraction(1, 2)), formula(3, 2)):
        assert abs(deviations(squares, wrong.mean())) > 6
    no_collisions = 2 * NOISY.tables[0].noise_variance / 3
    assert abs(deviations(squares, no_collisions)) > 6


def test_collisions_of_neighbouring_cells_come_one_by_one():
    """Deterministic: on a smooth histogram no hash of 400 has ten times the stated error. Some
    multiply-add-shift ones have (the control), because they are only pairwise independent."""
    cells = np.arange(256, dtype=np.uint64)
    ours = [SignedHash.derive(key, "test", 8, 1, 32).table(cells)[0] for key in range(400)]
    assert max(map(collision_error, ours)) < 10
    words = (RowHash.derive(key, "test", 8, 1, 64).words[0] for key in range(400))
    linear = [cells * np.uint64(each) + np.uint64(more) >> np.uint64(58) for each, more in words]
    assert max(collision_error(slots.astype(np.intp)) for slots in linear) > 10


def collision_error(slots):
    """Mean square error of a smooth histogram's counts in 32 columns, over the formula."""
    counts = np.round(300 * np.exp(-((np.arange(256) - 128.0) ** 2) / 5000))
    signs = 1 - 2 * (slots & 1)
    table = np.bincount(slots >> 1, weights=signs * counts, minlength=32)
    errors = table[slots >> 1] * signs - counts
    return (errors**2).sum() / ((counts**2).sum() - counts**2).sum() * 32


def test_rows_have_bits_of_their_own():
    """Deterministic: of 2**16 cells each row's slots are even to within six deviations. So are the
    pairs of slots of two rows, also where a second word begins."""
    keys = np.arange(1 << 16, dtype=np.uint64) * np.uint64(3) + np.uint64(1 << 33)
    slots = SignedHash.derive(5, "test", 40, 16, 16).table(keys)
    assert len(SignedHash.derive(5, "test", 40, 16, 16).tables) == 2
    for row in slots:
        assert spread(np.bincount(row, minlength=32)) < 6
    for one, other in pairwise(slots):
        assert spread(np.bincount(32 * one + other, minlength=1024)) < 6
    assert spread(np.bincount(slots[0] // 2 * 2, minlength=32)) > 6  # The control: no signs.


def spread(histogram):
    """Chi-square against evenness, in deviations from its mean."""
    expected = histogram.sum() / len(histogram)
    freedom = len(histogram) - 1
    return (np.sum((histogram - expected) ** 2) / expected - freedom) / np.sqrt(2 * freedom)


def test_a_slot_is_a_column_and_a_sign():
    """A table of one reading reads 1 at its own cell in every row, and its opposite at the cell's
    other slot."""
    spread_by = SignedHash.derive(3, "test", 12, 4, 8)
    cell = np.array([77], np.uint64)
    table = np.zeros((4, 8))
    for row, slot in enumerate(spread_by.table(cell)[:, 0]):
        table[row, slot // 2] = -1 if slot % 2 else 1
    sketch = replace(NOISY.tables[0], bits=12, rows=4, width=8, hash=spread_by)
    assert (ReleasedTable(sketch, table, 0).row_counts(cell) == 1).all()


@given(
    hnp.arrays(
        np.float64, st.tuples(st.integers(1, 9), st.integers(1, 6)), elements=st.floats(-1e9, 1e9)
    )
)
def test_the_network_finds_the_median(rows):
    assert np.allclose(_median(rows), np.median(rows, axis=0), rtol=1e-12, atol=0)


@pytest.mark.parametrize(("epsilon", "expected"), [(10.0, "median"), (0.001, "mean")])
def test_recovery_follows_the_noise(no_noise, epsilon, expected):
    """By the noise that a release declares, here without drawing any."""
    spec = replace(NOISY, privacy=Privacy(epsilon=epsilon))
    sketch = spec.start(no_noise)
    sketch.update_many(np.full((5000, 1), 0.4))
    release = sketch.release(no_noise)
    block = release.counters[1:].reshape(3, 16).astype(float)
    table = ReleasedTable(spec.tables[0], block, release.draws)
    assert table.choose("auto") == expected
    assert table.choose("mean") == "mean"
    cells = np.arange(64, dtype=np.uint64)
    assert (table.counts(cells) == table.counts(cells, expected)).all()


def test_the_second_moment_is_read_off_the_table():
    """F2 of 500 noisy tables within 6 standard errors: 2e-9. The control: the noise left in."""
    rows = (np.repeat(np.arange(64), HISTOGRAM)[:, None] + 0.5) / 64
    found, raw = [], []
    for run in range(500):
        spec = replace(NOISY, hash_key=run)
        sketch = spec.start(os_entropy())
        sketch.update_many(rows)
        release = sketch.release(os_entropy())
        block = release.counters[1:].reshape(3, 16).astype(float)
        found.append(ReleasedTable(spec.tables[0], block, release.draws).second_moment)
        raw.append((block**2).sum() / 3)
    truth = float((HISTOGRAM.astype(float) ** 2).sum())
    assert abs(deviations(np.array(found), truth)) < 6
    assert abs(deviations(np.array(raw), truth)) > 6


@pytest.fixture
def tables():
    """Of one width that decides the block, and a narrow one; the first has a second word."""
    wide = SignedHash.derive(3, "wide", 30, 9, 1 << 13)
    narrow = SignedHash.derive(4, "narrow", 16, 2, 2)
    return (
        CountSketch(30, 1, 9, 1 << 13, Fraction(1), wide),
        CountSketch(16, 1 + (9 << 13), 2, 2, Fraction(1), narrow),
    )


def counted(tables, paths):
    counters = np.zeros(5 + (9 << 13), np.int32)
    for table in tables:
        slots = table.hash.table(paths >> np.uint64(30 - table.bits))
        for row, places in zip(table.of(counters), slots, strict=True):
            np.add.at(row, places >> 1, 1 - 2 * (places & 1))
    return counters


@pytest.mark.parametrize("wide", sorted({erasable_arrays.WIDE, False}))
@pytest.mark.parametrize("count", [0, 1, 16, 17, 16384, 20_000])
def test_paths_of_any_number_are_counted_and_no_array_keeps_them(
    count, wide, tables, arrays_of, monkeypatch
):
    """Nor with pointers of 32 bits, where an index is a copy of its word."""
    monkeypatch.setattr(erasable_arrays, "WIDE", wide)
    paths = np.random.default_rng(count).integers(0, 1 << 30, count, np.uint64)
    expected = counted(tables, paths)
    made = arrays_of(count_sketch, erasable_arrays)
    counter = SignCounter(30, tables)
    counters = np.zeros_like(expected)
    counter.count(paths, counters)
    assert (counters == expected).all()
    assert len(made) > 4
    assert not any(array.any() for array in made)


def test_an_array_that_keeps_something_is_found(arrays_of):
    """Negative control: an array, and its copy."""
    module = SimpleNamespace(np=np)
    made = arrays_of(module)
    counts = module.np.bincount(np.array([1, 1]))
    counts.astype(np.int32)
    counts.fill(0)
    assert [bool(array.any()) for array in made] == [False, True]


@pytest.mark.parametrize("scale", [Fraction(1, 3), Fraction(1), Fraction(157, 10)])
def test_the_variance_of_noise_is_that_of_its_probabilities(scale):
    values = np.arange(-2000, 2001)
    chances = np.exp(-np.abs(values) / float(scale))
    expected = (values**2 * chances).sum() / chances.sum()
    assert laplace_variance(scale) == pytest.approx(expected, rel=1e-9)
