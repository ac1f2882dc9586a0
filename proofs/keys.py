"""Distinct keys: one bit, its snapshot and its release, then windows and devices."""

import z3

from proofs.lemma import Lemma


def key_lemmas() -> list[Lemma]:
    """Of pansketch/sketches/distinct and fleet's privacy_cost."""
    # E = e**state, F = e**output. A bit is 1 with chance 1/(1+E) first, E/(1+E) once it appeared.
    state, output = z3.Reals("E F")
    odds = z3.And(state >= 1, output >= 1)
    absent, present = 1 / (1 + state), state / (1 + state)

    def of_bit(one: z3.ArithRef, bit: z3.BoolRef) -> z3.ArithRef:
        return z3.If(bit, one, 1 - one)

    bit = z3.Bool("bit")
    with_key, without = of_bit(present, bit), of_bit(absent, bit)
    snapshot = z3.Implies(odds, z3.And(with_key <= state * without, without <= state * with_key))
    lower = z3.And(state > 1, odds)
    snapshot_wrong = z3.Implies(lower, with_key * with_key <= state * without * without)

    # An output law r1, r0 of a released value, given the final bit; F bounds its ratio. The value
    # is a count plus a Laplace draw, or the bit after a flip.
    r1, r0 = z3.Reals("r1 r0")
    law = z3.And(r1 > 0, r0 > 0, r1 <= output * r0, r0 <= output * r1)
    given = z3.If(bit, r1, r0)
    redrawn = present * r1 + (1 - present) * r0
    before, after = z3.Bools("before after")
    joint = z3.If(before, with_key, without) * z3.If(after, redrawn, given)
    never = without * given
    ratio = z3.And(joint <= state * output * never, never <= state * output * joint)
    spends_both = z3.Implies(z3.And(odds, law), ratio)
    spends_larger = z3.Implies(
        z3.And(odds, law, state == output, state > 1), joint <= state * never
    )

    # A redrawn bit has one law, however it was before: p is any chance of 1 of the old bit.
    old = z3.Real("p")
    again = old * present + (1 - old) * present
    forgets = z3.Implies(z3.And(odds, old >= 0, old <= 1), again == present)
    kept = old + (1 - old) * present
    accumulates = z3.Implies(z3.And(odds, old >= 0, old <= 1), kept == present)

    # Windows and devices, in logarithms: each spends epsilon, and conditional losses add up.
    loss, term, epsilon = z3.Reals("loss term epsilon")
    windows, devices, visits = z3.Ints("windows devices visits")
    so_far = z3.And(loss <= visits * epsilon, term <= epsilon, epsilon >= 0, visits >= 0)
    composed = z3.Implies(so_far, loss + term <= (visits + 1) * epsilon)
    free = z3.Implies(so_far, loss + term <= visits * epsilon)
    counted = z3.And(windows >= 0, devices >= 0, epsilon >= 0, visits >= 0)
    product = z3.Implies(
        z3.And(counted, visits == windows * devices),
        visits * epsilon + windows * epsilon == windows * (devices + 1) * epsilon,
    )
    product_wrong = z3.Implies(
        z3.And(counted, visits == windows * devices),
        visits * epsilon + epsilon == windows * (devices + 1) * epsilon,
    )
    return [
        Lemma(
            "key-state",
            "the snapshot of a bit loses the state's epsilon, for every epsilon",
            snapshot,
            snapshot_wrong,
            "half of it",
        ),
        Lemma(
            "key-redraw",
            "a bit drawn again has one law, however it was before and how often it was drawn",
            forgets,
            accumulates,
            "a bit that stays 1",
        ),
        Lemma(
            "key-joint",
            "snapshot and release of a key lose the sum of both, before, after or both",
            spends_both,
            spends_larger,
            "the larger of both",
        ),
        Lemma(
            "key-composition-step",
            "one more window or device costs a key epsilon more",
            composed,
            free,
            "one more for nothing",
        ),
        Lemma(
            "key-devices-step",
            "w windows on d + 1 devices cost w epsilon more than on d",
            product,
            product_wrong,
            "one window alone",
        ),
    ]
