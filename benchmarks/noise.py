"""Exact discrete Laplace draws beside OpenDP's vector sampler, at the same scale in one run."""

from fractions import Fraction
from functools import partial

import numpy as np
import opendp.prelude as dp

from benchmarks.row import Row, at_least
from benchmarks.timing import fastest
from pansketch import os_entropy

SCALES = (1, 20, 150)
BAR = 10
OURS, THEIRS = 200_000, 10_000  # draws a call: enough of each to hide the cost of the call


def run(quick: bool) -> list[Row]:
    dp.enable_features("contrib")
    return [_at(scale, 3 if quick else 10) for scale in SCALES]


def _at(scale: int, repeats: int) -> Row:
    vectors = dp.vector_domain(dp.atom_domain(T="i32")), dp.l1_distance(T="i32")
    sampler = dp.m.make_laplace(*vectors, scale=float(scale))
    rng, counters = os_entropy(), np.zeros(OURS, np.int32)
    zeros = np.zeros(THEIRS, np.int32)
    ours, theirs = fastest(
        [
            partial(rng.add_discrete_laplace, Fraction(scale), counters),
            partial(sampler, zeros),
        ],
        repeats,
    )
    rate, their_rate = OURS / ours / 1e6, THEIRS / theirs / 1e6
    note = f"{rate:.1f} M/s, OpenDP {dp.__version__} {their_rate:.2f} M/s"
    name = f"discrete Laplace, scale {scale}"
    return at_least(name, rate / their_rate, "x OpenDP", BAR, note)
