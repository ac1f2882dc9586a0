"""Questions to releases of distinct counters that are refused, and why."""

import numpy as np
import pytest

from pansketch import (
    MergeError,
    NoEstimate,
    distinct_keys,
)
from tests.pansketch.sketches.distinct.bitmaps import hashed, release_of, released, sampled


def test_releases_of_other_families_are_named(make_spec, no_noise):
    release = make_spec().start(no_noise).release(no_noise)
    for ask in (release.distinct, release.density, lambda: distinct_keys([release])):
        with pytest.raises(ValueError, match="family hierarchy counts readings"):
            ask()


def test_full_slots_are_refused_by_name():
    spec = hashed()
    with pytest.raises(NoEstimate, match="raise expected_keys, memory or epsilon"):
        release_of(spec, [4096]).distinct()
    with pytest.raises(NoEstimate):
        spec.planned_error(80_000)


def test_a_union_of_too_many_is_refused_with_how_many_and_how_uncertain():
    spec = hashed(1.0, release="bitmap")
    parts = [released(spec, np.arange(1000), f"d{i}") for i in range(12)]
    assert distinct_keys(parts[:1], "shared").standard_error < 4096
    with pytest.raises(NoEstimate, match="union of 12 bitmaps: the noise outweighs all 4096 slots"):
        distinct_keys(parts, "shared")
    spec = sampled(release="bitmap")
    parts = [released(spec, np.arange(1000), f"d{i}") for i in range(12)]
    with pytest.raises(NoEstimate, match=r"union of 12 bitmaps has a standard error of .* keys"):
        distinct_keys(parts, "shared")
    with pytest.raises(NoEstimate, match="9000 bitmaps"):
        release_of(spec, np.zeros(4096), 9000).distinct()


@pytest.mark.parametrize(("counter", "devices"), [(-1, 1), (2, 1), (4, 3)])
def test_what_is_no_sum_of_bitmaps_is_refused(counter, devices):
    spec = sampled(release="bitmap")
    counters = np.zeros(spec.tracked, np.int64)
    counters[7] = counter
    with pytest.raises(ValueError, match="no bitmaps"):
        release_of(spec, counters, devices).distinct()


def test_a_forged_sum_of_counts_of_hashed_keys_is_refused():
    with pytest.raises(ValueError, match="add their estimates"):
        release_of(hashed(), [5000], 2).distinct()


def test_a_union_needs_bitmaps_of_one_window():
    counts = [released(sampled(), [1], device) for device in "ab"]
    with pytest.raises(ValueError, match="counts do not tell which keys they share"):
        distinct_keys(counts, "shared")
    spec = hashed(release="bitmap")
    apart = [released(spec.for_window(index), [1], "a") for index in (1, 2)]
    with pytest.raises(MergeError, match="only the bitmaps of one window"):
        distinct_keys(apart, "shared")
    with pytest.raises(MergeError, match="twice"):
        distinct_keys([apart[0], apart[0]], "shared")


def test_wrong_questions_are_refused():
    with pytest.raises(ValueError, match="no release"):
        distinct_keys([])
    with pytest.raises(ValueError, match="disjoint or shared"):
        distinct_keys([released(hashed(), [1])], "both")
