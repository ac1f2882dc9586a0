"""Groups of devices, and the median of what each of them answers."""

from math import isnan, sqrt

import numpy as np
from scipy.stats import binom

from pansketch_collector.queries import robust_merge

FALSE_ALARM = 1e-6
MISSED = 0.0455  # beyond two standard errors, of a normal estimate


def max_misses(runs):
    return binom.isf(FALSE_ALARM, runs, MISSED)


def test_the_error_is_honest_for_groups_that_differ_and_for_any_number_of_them():
    rng, runs = np.random.default_rng(6), 4000
    for number in robust_merge.WIDTHS:
        value, error = robust_merge.median(
            rng.normal(0, 1, (number, runs)), np.zeros((number, runs))
        )
        assert (np.abs(value) > 2 * error).sum() <= max_misses(runs)
        # Negative control: without the width for few groups, the error is too small.
        narrow = error * 1.4826 / robust_merge.WIDTHS[number]
        assert (np.abs(value) > 2 * narrow).sum() > max_misses(runs)


def test_what_all_groups_have_in_common_is_not_divided_by_their_number():
    """An error that every group shares, as cells that share a counter cause, is in no spread."""
    rng, runs, number = np.random.default_rng(9), 40_000, 9
    # The shared error and that of a median of groups are equally large.
    shared = robust_merge.MEDIAN / sqrt(number)
    values = rng.normal(0, 1, (number, runs)) + rng.normal(0, shared, runs)
    value, error = robust_merge.median(values, np.full((number, runs), shared))
    assert (np.abs(value) > 2 * error).sum() <= max_misses(runs)
    # Negative controls: the larger part alone, and the shared part divided, are too small.
    spread = np.sqrt(np.maximum(error**2 - shared**2, 0))
    for small in (np.maximum(spread, shared), np.hypot(spread, shared / sqrt(number))):
        assert (np.abs(value) > 2 * small).sum() > max_misses(runs)


def test_as_many_hostile_groups_as_stated_leave_the_median_among_the_honest():
    rng = np.random.default_rng(7)
    for number in (5, 7, 9):
        values = rng.normal(20, 1, (number, 3))
        hostile = (number - 1) // 2
        for bad in (-1e9, 1e9, np.inf, np.nan):
            values[:hostile] = bad
            value, error = robust_merge.median(values, np.full((number, 3), 0.1))
            good = values[hostile:]
            assert np.all((good.min(axis=0) <= value) & (value <= good.max(axis=0)))
            assert np.all(np.isfinite(error))
        values[: hostile + 1] = np.nan
        assert all(isnan(x) for x in robust_merge.median(values, np.full((number, 3), 0.1))[0])


def test_groups_follow_from_the_names_and_keep_their_devices():
    names = [f"device-{n}" for n in range(200)]
    for number in (5, 6, 7, 9, 11, 200):
        found = robust_merge.grouped(names[:number])
        assert found == robust_merge.grouped(names[:number][::-1])
        assert len(found) == min(9, number - 1 + number % 2)
        assert frozenset.union(*found) == frozenset(names[:number])
        sizes = {len(group) for group in found}
        assert min(sizes) >= 1
        assert max(sizes) - min(sizes) <= 1
    place = [
        {
            device: n
            for n, group in enumerate(robust_merge.grouped(names[:number]))
            for device in group
        }
        for number in (199, 200)
    ]
    assert sum(place[0][name] != place[1][name] for name in names[:199]) < 199 / 3
