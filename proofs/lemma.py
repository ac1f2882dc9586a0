"""Lemmas: how z3 proves one for all its variables, and how it refutes a weaker one.

A lemma is a formula whose free variables are quantified universally. It is proved when z3 finds
that its negation has no model. Sums over any number of counters, windows or appearances are proved
by induction: a lemma `...-step` is the step. The base is the empty sum. z3 does not check the rule
of induction.
"""

from dataclasses import dataclass
from time import process_time

import z3

SECONDS = 60  # for one lemma: a bound, many times what one takes


class Unproved(Exception):
    """z3 found a counterexample, or none and no proof."""


@dataclass(frozen=True)
class Lemma:
    """One statement and the weaker one that must be wrong.

    Args:
        name: its name in pages and tests.
        statement: the claim in words.
        claim: the formula, true for all its variables.
        weakened: the formula with a constant changed; it must have a counterexample.
        control: which constant.
    """

    name: str
    statement: str
    claim: z3.BoolRef
    weakened: z3.BoolRef
    control: str


@dataclass(frozen=True)
class Proved:
    """A lemma that holds, the counterexample of its control, and the processor's seconds."""

    lemma: Lemma
    counterexample: str
    seconds: float


def counterexample(formula: z3.BoolRef) -> z3.ModelRef | None:
    """Values for which a formula is false; None if z3 proves that there are none.

    Raises:
        Unproved: z3 finds neither.
    """
    solver = z3.Solver()
    solver.set("timeout", SECONDS * 1000)
    solver.add(z3.Not(formula))
    found = solver.check()
    if found == z3.unknown:
        raise Unproved(f"z3 does not know: {solver.reason_unknown()}")
    return solver.model() if found == z3.sat else None


def check(lemma: Lemma) -> Proved:
    """Proves a lemma, and refutes its control.

    Raises:
        Unproved: the lemma is wrong, or its control is true.
    """
    began = process_time()
    wrong = counterexample(lemma.claim)
    if wrong is not None:
        raise Unproved(f"{lemma.name} is wrong: {_shown(wrong)}")
    found = counterexample(lemma.weakened)
    if found is None:
        raise Unproved(f"the control of {lemma.name} holds too: {lemma.control}")
    if not z3.is_false(found.eval(lemma.weakened, model_completion=True)):
        raise Unproved(f"the counterexample to {lemma.control} is none")
    return Proved(lemma, _shown(found), process_time() - began)


def _shown(model: z3.ModelRef) -> str:
    values = sorted(f"{each.name()} = {model[each]}" for each in model.decls() if each.arity() == 0)
    return ", ".join(values)


def absolute(value: z3.ArithRef) -> z3.ArithRef:
    """|value|."""
    return z3.If(value >= 0, value, -value)
