"""The benchmark of levels throws keys at slots itself: as the product's hash and sketch do."""

import numpy as np
import pytest
from scipy import stats

from benchmarks.distinct import levels
from pansketch import DistinctSpec
from tests.seeded_noise import noise_of_test

ALPHA = 1e-6
RUNS = 60
KEYS = 3000


def sketched(spec, keys, run):
    sketch = spec.for_window(run).start(noise_of_test())
    sketch.update_many(np.arange(keys))
    return sketch.release(noise_of_test()).counters


@pytest.mark.parametrize("privacy", [levels.ONE_DRAW, levels.SILENT])
@pytest.mark.parametrize("guess", [None, 2000, 20_000])
def test_thrown_keys_leave_the_counts_of_the_product(privacy, guess):
    """Welch's test of every level's count, at ALPHA over all; twice as many keys must fail."""
    spec = DistinctSpec(privacy, expected_keys=guess, memory=levels.MEMORY_BYTES)
    thrown = np.array(
        [levels._counters(spec, KEYS, np.random.default_rng(run)) for run in range(RUNS)]
    )
    for keys, same in ((KEYS, True), (2 * KEYS, False)):
        product = np.array([sketched(spec, keys, run) for run in range(RUNS)])
        least = min(stats.ttest_ind(thrown, product, equal_var=False).pvalue) * thrown.shape[1]
        assert (least > ALPHA) == same
