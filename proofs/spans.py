"""Span slots and the limiter's step, for all spans, numbers of readings and times."""

import z3

from proofs.lemma import Lemma


def ticked(following: z3.ArithRef, now: z3.ArithRef, is_open: z3.BoolRef) -> z3.ArithRef:
    """The limiter's next slot after a tick in slot `now`: `SpanLimiter.tick`."""
    at_least = z3.If(is_open, now, now + 1)
    return z3.If(following > at_least, following, at_least)


def heard(following: z3.ArithRef, number: z3.ArithRef) -> z3.ArithRef:
    """The limiter's next slot after a reading in the open part of a slot: `SpanLimiter.limit`."""
    return z3.If(following > number + 1, following, number + 1)


def span_lemmas() -> list[Lemma]:
    """Of fleet/pansketch_fleet/sections/time_slots.py and the agent's rate_limiter."""
    return [*_slots(), *_limiter()]


def _slots() -> list[Lemma]:
    # Open parts k and m begin at k*length and last `opened`; both meet [t, t + span].
    k, m, length, opened, t, span, c = z3.Ints("k m length opened t span c")
    meet = z3.And(t < k * length + opened, m * length <= t + span, k <= m)
    positive = z3.And(length > 0, opened > 0, opened <= length, span > 0, c >= 2)
    # `length` is rounded up, so that (c - 1) of them are the stretch and an open part at least.
    enough = (c - 1) * length >= span + opened
    events = z3.Implies(z3.And(positive, enough, meet), m - k + 1 <= c - 1)
    short = z3.Implies(z3.And(positive, c * length >= span + opened, meet), m - k + 1 <= c - 1)
    # Polls in slots k < m = k + c, each anywhere in its slot: more than the span apart.
    first, last = z3.Ints("first last")
    inside = z3.And(
        first >= k * length, first < (k + 1) * length, last >= m * length, last < (m + 1) * length
    )
    polled = z3.And(positive, inside, m == k + c, (c - 1) * length > span)
    polls = z3.Implies(polled, last - first > span)
    fewer = z3.And(positive, inside, m == k + c - 1, (c - 1) * length > span)
    return [
        Lemma(
            "open-parts",
            "a closed stretch of a span meets c - 1 open parts at most, wherever it begins",
            events,
            short,
            "slots of (S + O)/c",
        ),
        Lemma(
            "polls",
            "of c + 1 polls, one a slot, the last is more than a span after the first",
            polls,
            z3.Implies(fewer, last - first > span),
            "c polls",
        ),
    ]


def _limiter() -> list[Lemma]:
    # Slots j < k. In each a reading outside the stretch steps in (y) where one of it is gone (x).
    j, k, length, t, span = z3.Ints("j k length t span")
    xj, yj, xk, yk = z3.Ints("xj yj xk yk")
    in_slot = z3.And(
        *(
            z3.And(slot * length <= at, at < (slot + 1) * length)
            for slot, at in ((j, xj), (j, yj), (k, xk), (k, yk))
        )
    )
    removed = z3.And(*(z3.And(t <= at, at <= t + span) for at in (xj, xk)))
    later = z3.And(yj > xj, yk > xk)
    kept = z3.And(*(z3.Or(at < t, at > t + span) for at in (yj, yk)))
    world = z3.And(length > 0, span > 0, j < k, in_slot, removed, later)
    one_step_in = z3.Implies(world, z3.Not(kept))
    parts = z3.Implies(world, z3.Not(z3.And(yj != xj, yk != xk)))

    # Changes: one out of each of `slots` slots at most, and one in. Each costs epsilon / c.
    slots, out, into, c = z3.Ints("slots out into c")
    counted = z3.And(c >= 2, out >= 0, into >= 0, out <= slots, slots <= c - 1)
    changes = z3.Implies(z3.And(counted, into <= 1), out + into <= c)
    each = z3.Implies(z3.And(counted, into <= slots), out + into <= c)

    # Two runs of the limiter, one of them with readings of slots up to the present one.
    now, one, other, number = z3.Ints("now one other number")
    is_open = z3.Bool("open")
    behind = z3.And(one <= now + 1, other <= now + 1)
    same = ticked(one, now, is_open) == ticked(other, now, is_open)

    # A reading is taken if its slot is not before the next one.
    after = heard(one, number)
    once = z3.And(after > number, after >= one, z3.Implies(number >= one, after == number + 1))
    reopened = z3.If(one > number, one, number)
    near = z3.And(one <= number + 1, other <= number + 1)
    joined = heard(one, number) == heard(other, number)
    return [
        Lemma(
            "step-in",
            "without a whole stretch, a later reading steps in in one slot at most",
            one_step_in,
            parts,
            "only some readings of the stretch removed",
        ),
        Lemma(
            "changes",
            "a whole stretch changes c readings at most, so it costs epsilon at most",
            changes,
            each,
            "a step-in in every slot",
        ),
        Lemma(
            "tick",
            "a tick after the open part leaves the same state with and without readings",
            z3.Implies(z3.And(behind, z3.Not(is_open)), same),
            z3.Implies(behind, same),
            "a tick within the open part",
        ),
        Lemma(
            "one-a-slot",
            "a reading that is taken uses its slot: the next one of it is dropped",
            once,
            z3.And(reopened > number, reopened >= one),
            "a slot that stays open after a reading",
        ),
        Lemma(
            "rejoin",
            "two runs have one state after a reading that both have in an open slot",
            z3.Implies(near, joined),
            joined,
            "a slot that was closed before in one run",
        ),
    ]
