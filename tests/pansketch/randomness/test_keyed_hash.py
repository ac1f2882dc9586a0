"""The hash of count-min tables: pairs are independent, and siblings do not collide in step."""

import numpy as np
import pytest

from pansketch.randomness.keyed_hash import RowHash, fold

BITS, WIDTH, CHILDREN = 20, 16, 8
HASHES = 2000


def linear(hashed, keys):
    """The same hash without its fold, as the control."""
    ((multiplier, addend),) = hashed.words
    return keys * np.uint64(multiplier) + np.uint64(addend) >> np.uint64(64 - 4)


def folded(hashed, keys):
    return hashed.table(keys)[0]


def in_step(columns_of):
    """Of pairs of cells whose first children share a column, the share whose second ones do."""
    drawn = np.random.default_rng(0)
    both = first = 0
    for key in range(HASHES):
        hashed = RowHash.derive(key, "test", BITS, 1, WIDTH)
        parents = drawn.choice(1 << BITS - 3, 2, replace=False).astype(np.uint64)
        keys = parents[:, None] * np.uint64(CHILDREN) + np.arange(2, dtype=np.uint64)
        one, other = columns_of(hashed, keys.ravel()).reshape(2, 2)
        first += one[0] == other[0]
        both += (one == other).all()
    return both / first


def test_siblings_of_two_cells_do_not_collide_in_step():
    """Deterministic. A sixteenth is chance; the control, which is linear, collides in step."""
    assert in_step(folded) < 3 / WIDTH
    assert in_step(linear) > 0.5


def test_pairs_of_neighbours_are_independent():
    """Deterministic: over 2,000 hashes the columns of two neighbours fill a table of 16 x 16
    evenly. The limit is six deviations of chi-square. The control pairs a key with itself."""
    keys = np.array([5, 6, 5], np.uint64)
    found = np.array(
        [RowHash.derive(key, "test", BITS, 1, WIDTH).table(keys)[0] for key in range(HASHES)]
    )

    def uneven(one, other):
        cells = np.bincount(one * WIDTH + other, minlength=WIDTH**2)
        mean = HASHES / WIDTH**2
        chi_square = ((cells - mean) ** 2 / mean).sum()
        return (chi_square - WIDTH**2) / np.sqrt(2 * WIDTH**2)

    assert abs(uneven(found[:, 0], found[:, 1])) < 6
    assert uneven(found[:, 0], found[:, 2]) > 6


@pytest.mark.parametrize("multiplier", [0, 0x9E3779B97F4A7C15])
def test_keys_are_folded_into_as_many_numbers(multiplier):
    """No two of 2**16 keys become one; where the multiplier is 0, nothing is added to a key."""
    keys = np.arange(1 << 16, dtype=np.uint64)
    found, spare = np.empty_like(keys), np.empty_like(keys)
    fold(keys, np.uint64(multiplier), found, spare)
    assert len(np.unique(found)) == (1 << 16 if multiplier else 1)
    assert keys.tolist() == list(range(1 << 16))
