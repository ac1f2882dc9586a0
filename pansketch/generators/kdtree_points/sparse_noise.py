"""Draw which of very many empty cells pass a threshold by noise alone, without visiting them all.

Kreačić, Nouri, Potluru, Balch, Veloso, "Differentially private synthetic data using KD-trees"
(arXiv 2306.13211). Algorithm 4 draws noise for every empty cell. Algorithm 5 draws only those that
pass, and is equal to it in distribution. A cell passes with one known probability p. So the gaps
between cells that pass are geometric, and so are the excesses over the threshold.

Both are exact here. Candidates come with gaps of ratio exp(-1 / c), with c rational. It is chosen
so that a cell is a candidate with a probability p' just above p. Each candidate is kept with
probability p / p', compared by its binary expansion.
"""

from collections.abc import Callable
from fractions import Fraction
from functools import partial
from math import exp, log, log1p

import numpy as np
import numpy.typing as npt

from pansketch.randomness.exact_noise import Entropy, Ratio
from pansketch.randomness.exp_bounds import Interval, complement_bounds, exp_bounds, settled

MAX_EXPLICIT = 1 << 22
MAX_EXPECTED = 1 << 17
MAX_GAP = 1 << 48
STEPS = 1 << 12  # c is a multiple of its inverse: its fraction stays small, and p' near p.
WORD_BITS = 64
DRAWS_AT_ONCE = 4096

Integers = npt.NDArray[np.int64]
Passing = tuple[Integers, Integers]
"""Which of the empty cells passed, rising, and their noisy counts: int64[m], int64[m]."""


def chance_above(scale: Fraction, threshold: int) -> float:
    """P(Z > threshold) of discrete Laplace noise Z, for threshold >= 0. A float: for planning."""
    return exp(-(threshold + 1) / float(scale)) / (1 + exp(-1 / float(scale)))


def min_threshold(scale: Fraction, chance: float) -> int:
    """The least threshold >= 0 that noise of this scale passes with at most this probability."""
    guess = int(-float(scale) * log(chance * (1 + exp(-1 / float(scale))))) - 2
    threshold = max(0, guess)
    while chance_above(scale, threshold) > chance:
        threshold += 1
    return threshold


def check_passing(cells: int, scale: Fraction, threshold: int, explicit: bool) -> None:
    """Raises ValueError where so many cells are too many to visit, or would too many pass.

    Asked of all cells, which are public: how many of them are empty is not.
    """
    if explicit and cells > MAX_EXPLICIT:
        raise ValueError(f"{cells} cells are too many to visit: sample the empty ones implicitly")
    expected = cells * chance_above(scale, threshold)
    if not explicit and expected > MAX_EXPECTED:
        raise ValueError(
            f"{expected:.2g} empty cells would pass {threshold}: raise it, or lower the height"
        )


def explicit_passing(cells: int, scale: Fraction, threshold: int, rng: Entropy) -> Passing:
    """Algorithm 4: noise for each of `cells` empty cells."""
    noise = np.zeros(cells, np.int64)
    rng.add_discrete_laplace(scale, noise)
    passed = np.flatnonzero(noise > threshold)
    return passed.astype(np.int64, copy=False), noise[passed]


def implicit_passing(cells: int, scale: Fraction, threshold: int, rng: Entropy) -> Passing:
    """Algorithm 5: as `explicit_passing` in distribution, in time of the number that pass.

    For threshold >= 0. The number of draws depends on `cells`, so only the result may be shown.
    """
    gap = _gap_scale(chance_above(scale, threshold))
    candidates = _candidates(cells, gap, rng)
    passed = candidates[_kept(len(candidates), partial(_kept_bits, scale, threshold, gap), rng)]
    # Noise that passes, passes by a geometric amount: it has no memory.
    return passed, _geometric(scale, len(passed), rng) + (threshold + 1)


def _gap_scale(chance: float) -> Fraction:
    """c, with 1 - exp(-1 / c) a little above `chance`."""
    largest = -1 / log1p(-chance) if chance > 2.0**-52 else 1 / chance
    return min(Fraction(int(largest * (1 - 2.0**-30) * STEPS), STEPS), Fraction(MAX_GAP))


def _candidates(cells: int, gap: Fraction, rng: Entropy) -> Integers:
    """Each of `cells` indices independently with probability 1 - exp(-1 / gap), rising."""
    found, last = [np.zeros(0, np.int64)], -1
    while last < cells:
        gaps = _geometric(gap, min(DRAWS_AT_ONCE, 16 + int(2 * (cells - last) / gap)), rng)
        # A gap beyond the last cell ends the search anyway, and must not overflow the sum.
        indices = last + np.cumsum(np.minimum(gaps, cells) + 1)
        last = int(indices[-1])
        found.append(indices[indices < cells])
    return np.concatenate(found)


def _geometric(scale: Fraction, count: int, rng: Entropy) -> Integers:
    """Draws with P(g) proportional to exp(-g / scale), g >= 0: discrete Laplace ones that are not
    negative."""
    parts, missing = [np.zeros(0, np.int64)], count
    while missing > 0:
        drawn = np.zeros(2 * missing + 8, np.int64)
        rng.add_discrete_laplace(scale, drawn)
        parts.append(drawn[drawn >= 0][:missing])
        missing -= len(parts[-1])
    return np.concatenate(parts)


def _kept(count: int, first_bits: Callable[[int], int], rng: Entropy) -> npt.NDArray[np.bool_]:
    """Independent draws of the irrational probability whose first bits these are."""
    limit = np.uint64(first_bits(WORD_BITS))
    words = _uniform_words(count, rng)
    kept = words < limit
    for index in np.flatnonzero(words == limit):
        uniform, bits = int(limit), WORD_BITS
        while uniform == first_bits(bits):
            uniform = uniform << WORD_BITS | int(_uniform_words(1, rng)[0])
            bits += WORD_BITS
        kept[index] = uniform < first_bits(bits)
    return kept


def _uniform_words(count: int, rng: Entropy) -> npt.NDArray[np.uint64]:
    coins = np.zeros(count * WORD_BITS, np.uint8)
    rng.fill_bernoulli(Ratio(Fraction(1, 2)), coins)
    return np.packbits(coins).view(np.uint64)


def _kept_bits(scale: Fraction, threshold: int, gap: Fraction, bits: int) -> int:
    """floor(2**bits P(Z > threshold) / (1 - exp(-1 / gap)))."""
    return settled(partial(_kept_bounds, scale, threshold, gap, bits))


def _kept_bounds(scale: Fraction, threshold: int, gap: Fraction, bits: int, guard: int) -> Interval:
    # Guard bits beyond those that a small probability begins with.
    precision = bits + guard + 2 * int((threshold + 1) / scale)
    one = 1 << precision
    above, step = exp_bounds((threshold + 1) / scale, precision), exp_bounds(1 / scale, precision)
    candidate = complement_bounds(1 / gap, precision)
    low = (above[0] << (bits + precision)) // ((one + step[1]) * candidate[1])
    high = (above[1] << (bits + precision)) // ((one + step[0]) * candidate[0])
    return low, high
