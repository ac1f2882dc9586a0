"""Exact draws: discrete Laplace beside OpenDP's vector sampler, Bernoulli beside numpy's generator
and beside the kernel's bare words; each pair in one run."""

from collections.abc import Callable
from fractions import Fraction
from functools import partial

import numpy as np
import numpy.typing as npt
import opendp.prelude as dp

from benchmarks.row import Row, at_least, at_most
from benchmarks.timing import fastest
from pansketch import os_entropy
from pansketch.geometric import geometric
from pansketch.noise import LogOdds
from pansketch.words import OsWords

SCALES = (1, 20, 150)
LARGE_SCALES = (2 * 10**7, 2 * 10**9)  # Sums of fixed-point features.
BAR = 10
OURS, THEIRS = 200_000, 10_000  # draws a call: enough of each to hide the cost of the call
BITS = 1_000_000
BITS_BAR = 0.5
WORDS = np.empty(4096, np.uint64)
LARGEST_TABLES = Fraction(2**48)
TABLES_BAR = 0.3


def run(quick: bool) -> list[Row]:
    dp.enable_features("contrib")
    repeats = 3 if quick else 10
    return [
        *(_laplace(scale, np.int32, "i32", repeats) for scale in SCALES),
        *(_laplace(scale, np.int64, "i64", repeats) for scale in LARGE_SCALES),
        _tables(repeats),
        *_bernoulli(repeats),
    ]


def _laplace(scale: int, counter: npt.DTypeLike, kind: str, repeats: int) -> Row:
    vectors = dp.vector_domain(dp.atom_domain(T=kind)), dp.l1_distance(T=kind)
    sampler = dp.m.make_laplace(*vectors, scale=float(scale))
    rng, counters = os_entropy(), np.zeros(OURS, counter)
    zeros = np.zeros(THEIRS, counter)
    ours, theirs = fastest(
        [
            partial(rng.add_discrete_laplace, Fraction(scale), counters),
            partial(sampler, zeros),
        ],
        repeats,
    )
    rate, their_rate = OURS / ours / 1e6, THEIRS / theirs / 1e6
    note = f"{rate:.1f} M/s, OpenDP {dp.__version__} {their_rate:.2f} M/s"
    name = f"discrete Laplace, scale {scale:,}"
    return at_least(name, rate / their_rate, "x OpenDP", BAR, note)


def _tables(repeats: int) -> Row:
    """What the first draw at a new scale costs before it starts."""
    (seconds,) = fastest([partial(geometric.__wrapped__, LARGEST_TABLES)], repeats)
    rows = [len(digit.table) for _, digit in geometric(LARGEST_TABLES)]
    note = f"{len(rows)} digits, {sum(rows):,} rows, once per scale"
    return at_most("tables of the largest scale, 2**48", seconds, "s", TABLES_BAR, note)


def _filled(words: OsWords) -> None:
    for _ in range(BITS // len(WORDS)):
        words.fill(WORDS)


def _bernoulli(repeats: int) -> list[Row]:
    rng, words, bits = os_entropy(), OsWords(), np.empty(BITS, np.uint8)
    chance, generator = LogOdds(Fraction(1)), np.random.default_rng(1)
    runs: list[Callable[[], object]] = [
        partial(rng.fill_bernoulli, chance, bits),
        lambda: generator.random(BITS) < chance.probability,
        lambda: _filled(words),
    ]
    ours, theirs, bare = (BITS / seconds / 1e6 for seconds in fastest(runs, repeats))
    return [
        Row(
            "Bernoulli, log odds 1",
            ours / theirs,
            "x numpy",
            note=f"random(n) < p, not secret {theirs:.0f} M/s",
        ),
        at_least(
            "Bernoulli, log odds 1",
            ours / bare,
            "x kernel words",
            BITS_BAR,
            f"{ours:.1f} M/s, bare {bare:.1f}",
        ),
    ]
