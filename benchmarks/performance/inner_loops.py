"""The two inner loops, each beside another in one run: readings absorbed, and exact draws.

Counter increments stand beside a bare histogram; discrete Laplace beside OpenDP's vector sampler;
Bernoulli beside numpy's generator and beside the kernel's bare words.
"""

from collections.abc import Callable
from fractions import Fraction
from functools import partial

import numpy as np
import numpy.typing as npt
import opendp.prelude as dp

from benchmarks.datasets.stations import FloatArray, default_spec
from benchmarks.harness.result import Row, at_least, at_most, fastest
from pansketch import Sketch, os_entropy
from pansketch.randomness import LogOdds, OsWords, geometric

SCALES = (1, 20, 150)
LARGE_SCALES = (2 * 10**7, 2 * 10**9)  # Sums of fixed-point features.
BAR = 10
OURS, THEIRS = 200_000, 10_000  # draws a call: enough of each to hide the cost of the call
BITS = 1_000_000
BITS_BAR = 0.5
WORDS = np.empty(4096, np.uint64)
MAX_TABLES = Fraction(2**48)
TABLES_BAR = 0.3


def run_noise(quick: bool) -> list[Row]:
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
    """The cost of the first draw at a new scale, before it starts."""
    (seconds,) = fastest([partial(geometric.__wrapped__, MAX_TABLES)], repeats)
    rows = [len(digit.table) for _, digit in geometric(MAX_TABLES)]
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


IntArray = npt.NDArray[np.int64]

READINGS = 65_536
BINS = 1024
DEFAULT_FANOUT = 4
RATIO, SINGLE_RATE = 0.6, 10_000
SINGLES = 2_000


def run_update(quick: bool) -> list[Row]:
    generator = np.random.default_rng(1)
    columns = generator.integers(0, BINS, READINGS)
    readings = generator.random((READINGS, 2)) * [100.0, 1000.0] - [40.0, 0.0]
    repeats = 15 if quick else 60
    many = [_many(fanout, columns, readings, repeats) for fanout in (2, 4, 8)]
    return [*many, _single(readings, 3 if quick else 10)]


def _many(fanout: int, columns: IntArray, readings: FloatArray, repeats: int) -> Row:
    """Only increments of counters that exist count: one exact one, and `rows` a sketched level."""
    spec = default_spec(fanout)
    sketch = spec.start(os_entropy())
    increments = 1 + spec.rows * len(spec.sketched_levels)
    bare, ours = fastest(
        [
            partial(np.bincount, columns, minlength=BINS),
            partial(sketch.update_many, readings),
        ],
        repeats,
    )
    ratio = bare * increments / ours
    note = f"{increments} increments a reading, {READINGS * increments / ours / 1e6:.0f} M/s"
    name = f"update_many, fanout {fanout}"
    if fanout != DEFAULT_FANOUT:
        return Row(name, ratio, "x bincount", note=note)
    return at_least(name, ratio, "x bincount", RATIO, note)


def _single(readings: FloatArray, repeats: int) -> Row:
    sketch = default_spec().start(os_entropy())
    (best,) = fastest([partial(_one_by_one, sketch, readings)], repeats)
    return at_least("one reading at a time", SINGLES / best, "readings/s", SINGLE_RATE)


def _one_by_one(sketch: Sketch, readings: FloatArray) -> None:
    for place in range(SINGLES):
        sketch.update_many(readings[place : place + 1])
