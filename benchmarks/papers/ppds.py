"""PPDS: what its level and its output show of one key, and how random the level is.

The losses are those that the audit enumerates of its planted bugs; the claim is epsilon 0.5 for the
state and for the output each.
"""

from collections.abc import Iterator
from math import exp, log

import numpy as np

from benchmarks.distinct.published import state_loss
from benchmarks.distinct.simulation import UNIVERSE, published_ppds_errors, streams
from benchmarks.harness.result import Row, at_least, at_most
from pansketch.planning import Estimator
from pansketch_audit.exact.keys import KeyLosses
from pansketch_audit.mechanisms.mechanism import Mechanism, claim, publish, start, views_of
from pansketch_audit.mechanisms.subjects import key_subject
from pansketch_audit.planted_bugs.keys import APPEARANCES, PUBLISHED, level_losses, output_loss

SAMPLE, EPSILON = 830, 0.2  # About as many ids as one level has ones.
LEAST_LEVELS, FALSE_BY = 2, 1.5


def rows(quick: bool) -> Iterator[Row]:
    yield from _level()
    yield from _output()
    yield from own()
    yield _random_level(20 if quick else 200)


def _level() -> Iterator[Row]:
    """Theorem 5.1: the level rises when the sample is full, so each draw of a key may raise it."""
    promised = float(PUBLISHED.epsilon)
    for times, loss in zip(APPEARANCES, level_losses(), strict=True):
        theory = times * log(1 + exp(promised))
        note = f"T ln(1 + e^epsilon) is {theory:.3g}; false; pansketch audit --plant ppds-level"
        name = f"PPDS, Theorem 5.1: loss of the state over epsilon, key seen {times} x"
        yield at_least(name, loss / promised, "x", FALSE_BY, note)


def _output() -> Iterator[Row]:
    """Theorems 3.1, 4.1 and 5.1: noise of 1 / (epsilon m) on a density that one key changes by
    1 / (m tanh(epsilon / 2))."""
    loss, promised = output_loss()
    note = "false; pansketch audit --plant ppds-output-noise"
    name = "PPDS, Theorem 5.1: loss of the output over epsilon"
    yield at_least(name, loss / promised, "x", FALSE_BY, note)
    dwork, ours = (state_loss(Estimator(name, True), 0.5) / 0.5 for name in ("dwork", "optbern"))
    note = f"Figure 3: Dwork's bits use {dwork:.3g} x"
    yield at_most("PPDS, Theorem 4.1: loss of OptBern's state over epsilon", ours, "x", 1.001, note)


def own() -> Iterator[Row]:
    """The product's counter of an enumerated universe, by the same enumeration."""
    subject = key_subject("repaired", universe=2)
    losses = KeyLosses(Mechanism(start, publish), subject)
    for view in views_of(subject):
        loss, allowed = losses.largest(view, quick=True).value, float(claim(subject, view))
        note = f"{loss:.4g} of {allowed:.4g}; pansketch audit enumerates more"
        name = f"PPDS, repaired: enumerated loss over its claim, {view}"
        yield at_most(name, loss / allowed, "x", 1 + 1e-9, note)


def _random_level(runs: int) -> Row:
    """Theorem 5.2: it takes the level for a function of the stream."""
    stream = streams()[0]
    _, tracked = published_ppds_errors(EPSILON, SAMPLE, stream, runs, np.random.default_rng(15))
    levels, times = np.unique(np.rint(np.log2(UNIVERSE / tracked)), return_counts=True)
    shares = ", ".join(
        f"{share:.0%} at {level:.0f}" for level, share in zip(levels, times / runs, strict=True)
    )
    name = "PPDS, Theorem 5.2: levels that one stream ends at"
    note = f"{shares}; m {SAMPLE}; false: the level is random"
    return at_least(name, float(len(levels)), "levels", LEAST_LEVELS, note)
