"""PPDS as it was published: what it does, and what it leaks."""

from fractions import Fraction
from itertools import product
from math import exp, inf, log

import numpy as np
import pytest
from scipy import stats

from pansketch_audit.planted_bugs.published_distinct import PublishedPpds, Sample, scale_on_bits

LEVELS = (0, 1, 0, 2)
HALF = Fraction(1, 2)


class Given:
    """An `Entropy` whose bits are given; `probability` is theirs."""

    def __init__(self, bits):
        self._bits = list(bits)
        self.probability = 1.0

    def fill_bernoulli(self, chance, bits):
        for place in range(len(bits)):
            bits[place] = self._bits.pop(0)
            one = chance.probability
            self.probability *= one if bits[place] else 1 - one


def begun(spec):
    """The exact distribution of the sample before the first key."""
    found = {}
    for bits in product((0, 1), repeat=len(spec.levels)):
        rng = Given(bits)
        sample = spec.begin(rng)
        found[sample] = found.get(sample, 0) + rng.probability
    return found


def after(spec, samples, key):
    """The exact distribution after one more appearance."""
    found = {}
    for sample, share in samples.items():
        draws = 1 if spec.levels[key] >= sample.level else 0
        for bits in product((0, 1), repeat=draws):
            rng = Given(bits)
            reached = spec.appear(sample, key, rng)
            found[reached] = found.get(reached, 0) + share * rng.probability
    return found


def losses(sample_size, key, times):
    """The largest log-ratio of the state, after each of so many appearances."""
    spec = PublishedPpds(LEVELS, sample_size, HALF)
    empty = seen = begun(spec)
    found = []
    for _ in range(times):
        seen = after(spec, seen, key)
        assert sum(seen.values()) == pytest.approx(1)
        ratios = [abs(log(seen[each] / empty[each])) for each in empty if each in seen]
        found.append(inf if seen.keys() ^ empty.keys() else max(ratios))
    return found


def test_the_level_of_published_ppds_leaks_without_bound():
    found = losses(3, 0, 100)
    at = [found[times - 1] for times in (1, 2, 5, 20, 100)]
    assert [f"{loss:.3g}" for loss in at] == ["0.974", "1.95", "4.87", "19.5", "97.4"]
    assert at == pytest.approx([times * log(1 + exp(0.5)) for times in (1, 2, 5, 20, 100)])


def test_a_key_of_a_higher_level_shows_with_certainty():
    assert losses(3, 1, 1) == [inf]


@pytest.mark.parametrize("key", range(4))
def test_a_sample_that_never_fills_keeps_the_guarantee(key):
    """Negative control: it is the level that leaks, not the bits."""
    assert losses(4, key, 100) == pytest.approx([0.5] * 100)


def test_ids_leave_when_the_sample_overflows():
    spec = PublishedPpds(LEVELS, 3, HALF)
    full = Sample(0, (1, 2, 3))
    assert spec.begin(Given([0, 1, 1, 1])) == full
    assert spec.appear(full, 0, Given([0])) == full
    assert spec.appear(full, 0, Given([1])) == Sample(1, (1, 3))
    assert spec.appear(Sample(1, (1, 3)), 0, Given([])) == Sample(1, (1, 3))
    assert spec.appear(Sample(1, (1, 3)), 3, Given([0])) == Sample(1, (1,))
    assert PublishedPpds((1, 1, 1, 3), 2, HALF).begin(Given([1, 1, 1, 1])) == Sample(2, (3,))


def test_the_sketch_goes_through_the_same_samples():
    spec = PublishedPpds(LEVELS, 3, HALF)
    sketch = spec.start(Given([0, 1, 1, 1, 0, 1, 0]))
    sketch.update_many(np.array([0, 0]))
    assert sketch.sample == Sample(1, (1, 3))
    sketch.update_many([2, 3])
    assert sketch.sample == Sample(1, (1,))
    initial, updated = (1 / (1 + exp(0.5)), 1 / (1 + exp(-0.5)))
    assert spec.density(sketch.sample) == pytest.approx((0.5 - initial) / (updated - initial))


def test_the_published_output_noise_is_too_small():
    """ln 5.17 at epsilon 0.5, from the densities themselves: a grid of outputs beyond which the
    ratio is constant."""
    scale, outputs = scale_on_bits(0.5), np.linspace(-30, 30, 6001)
    updated = 1 / (1 + exp(-0.5))
    noise = stats.laplace(scale=scale).pdf
    anew = updated * noise(outputs - 1) + (1 - updated) * noise(outputs)
    loss = np.max(abs(np.log(anew / noise(outputs))))
    assert loss == pytest.approx(log(5.17), abs=1e-3)
    assert loss > 3 * 0.5
