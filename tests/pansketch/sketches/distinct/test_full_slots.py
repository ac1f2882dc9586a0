"""Slots that are full, or that noise makes look so: no confident number of keys."""

import numpy as np
import pytest

from pansketch import DistinctSpec, Estimate, NoEstimate, Privacy, Release
from pansketch.sketches import level_occupancy
from tests.seeded_noise import seeded_noise

RUNS = 200


def spec_of(epsilon, release="count", **sizes):
    return DistinctSpec(Privacy(epsilon, unit="key"), memory=512, release=release, **sizes)


# Keys fill most slots of the first, and noise hides the levels of the others.
CASES = {
    "one level": (spec_of(2.0, expected_keys=2000), 60_000),
    "one level, bitmap": (spec_of(4.0, "bitmap", expected_keys=2000), 60_000),
    "levels": (spec_of(0.5), 8000),
    "levels, bitmap": (spec_of(1.0, "bitmap"), 8000),
}


def of_the_place(release):
    """The error is that of the estimate's place, and one such error above 0 is enough."""
    estimator = release.spec.estimator
    if release.spec.levels:
        return release.distinct()
    found = estimator.occupancy(release.counters, 1)
    empty, error = 1 - found.share, np.sqrt(found.noise)
    if empty <= error:
        raise NoEstimate
    return Estimate(-estimator.slots * np.log(empty), estimator.slots * error / empty)


def far_off(spec, keys, ask):
    """The answers that are more than four standard errors away, of RUNS releases."""
    noise, wrong = seeded_noise(21), 0
    words = np.arange(keys)
    for window in range(RUNS):
        sketch = spec.for_window(window).start(noise)
        sketch.update_many(words)
        try:
            found = ask(sketch.release(noise))
        except NoEstimate:
            continue
        wrong += abs(found.value - keys) > 4 * found.standard_error
    return wrong


@pytest.mark.parametrize(("spec", "keys"), CASES.values(), ids=CASES)
def test_what_may_be_any_number_of_keys_is_refused(spec, keys, monkeypatch):
    """The noise is seeded. The control states errors of the estimate's place alone."""
    assert far_off(spec, keys, Release.distinct) == 0
    monkeypatch.setattr(level_occupancy, "FULL_ERRORS", 0.0)
    monkeypatch.setattr(level_occupancy, "LIKELY_ERRORS", ())
    assert far_off(spec, keys, of_the_place) > 2
