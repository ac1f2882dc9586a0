"""Sampler and noise: digits, ties, and the joint bound of two draws for integer vectors."""

import z3

from proofs.lemma import Lemma, absolute


def noise_lemmas() -> list[Lemma]:
    """Of pansketch/randomness and of every linear sketch."""
    return [*_sampler(), *_two_draws()]


def _sampler() -> list[Lemma]:
    # x = 2**w F and u = 2**w U for any word size w; their floors are table row and word.
    x, u = z3.Reals("x u")
    row, word = z3.ToInt(x), z3.ToInt(u)
    decided = z3.And(z3.Implies(word > row, u > x), z3.Implies(word < row, u < x))
    tie_too = z3.And(z3.Implies(word >= row, u > x), z3.Implies(word < row, u < x))

    # Powers as axioms of what is used: low = q**l, high = Q**h, Q = q**w, whole = q**(w h + l).
    q, width, low, high = z3.Reals("q Q low high")
    product = (1 - width) * high * ((1 - q) / (1 - width)) * low
    ranges = z3.And(q > 0, q < 1, width > 0, width < 1, low > 0, high > 0)
    split = z3.Implies(ranges, product == (1 - q) * (high * low))
    unnormalised = z3.Implies(ranges, (1 - width) * high * (1 - q) * low == (1 - q) * (high * low))

    # The law of powers that the split needs, by induction over the second exponent.
    power = z3.Function("power", z3.IntSort(), z3.RealSort())
    a, b = z3.Ints("a b")
    steps = [power(n + 1) == power(n) * q for n in (b, a + b)]
    known = z3.And(power(a + b) == power(a) * power(b), *steps)
    law = z3.Implies(known, power(a + b + 1) == power(a) * power(b + 1))
    law_wrong = z3.Implies(known, power(a + b + 1) == power(a) * power(b))

    # (1 - q**2) * sum of q**(2k), k < n, is 1 - q**(2n): the difference of two geometric draws.
    total, square, last = z3.Reals("total square last")
    so_far = (1 - square) * total == 1 - last
    difference = z3.Implies(so_far, (1 - square) * (total + last) == 1 - last * square)
    inside = z3.And(so_far, square > 0, square < 1, last > 0, last < 1)
    difference_wrong = z3.Implies(inside, (1 - square) * (total + last) == 1 - last)
    return [
        Lemma(
            "tie",
            "a word above its row means U > F, one below it U < F: only a tie reads on",
            decided,
            tie_too,
            "a tie decided like a larger word",
        ),
        Lemma(
            "power-step",
            "q^(a+b) = q^a q^b holds for b + 1 if it holds for b",
            law,
            law_wrong,
            "one factor less",
        ),
        Lemma(
            "digits",
            "P(G = w h + l) is P(high digit = h) P(low digit = l): the digits are independent",
            split,
            unnormalised,
            "a low digit that is not normalised",
        ),
        Lemma(
            "difference-step",
            "the sum of q^2k to n makes the difference of two geometric draws discrete Laplace",
            difference,
            difference_wrong,
            "one term less",
        ),
    ]


def _two_draws() -> list[Lemma]:
    # One counter: z the noise that explains an outcome, d what the unit adds, r = 1/scale.
    z, d = z3.Ints("z d")
    r = z3.Real("r")
    shift = z3.ToReal(absolute(z - d) - absolute(z))
    bound = z3.ToReal(absolute(d))
    counter = z3.Implies(r >= 0, z3.And(r * shift <= r * bound, r * shift >= -r * bound))
    counter_wrong = z3.Implies(r >= 0, r * shift * 2 <= r * bound)

    # Sums over counters, then over draws: `joint` is the log-ratio so far, `spent` its bound.
    joint, spent, term, more = z3.Reals("joint spent term more")
    so_far = z3.And(absolute(joint) <= spent, absolute(term) <= more)
    step = z3.Implies(so_far, absolute(joint + term) <= spent + more)
    step_wrong = z3.Implies(so_far, absolute(joint + term) <= spent)

    # Two draws, a unit before the snapshot (d) or after it (e): the larger bound, not the sum.
    # `before` and `after` are the sums of |d|/scale and |e|/scale over all counters.
    before, after, epsilon = z3.Reals("before after epsilon")
    sums = z3.And(absolute(joint) <= before + after, before <= epsilon, after <= epsilon)
    either = z3.Or(before == 0, after == 0)
    both = z3.Implies(z3.And(sums, either), absolute(joint) <= epsilon)
    both_wrong = z3.Implies(z3.And(sums, before >= 0, after >= 0), absolute(joint) <= epsilon)

    # From outcomes to events: p <= E q for every outcome, so for every finite sum of them.
    p, p_more, other, other_more, factor = z3.Reals("p p_more q q_more E")
    outcomes = z3.And(p <= factor * other, p_more <= factor * other_more)
    event = z3.Implies(outcomes, p + p_more <= factor * (other + other_more))
    chances = z3.And(outcomes, p >= 0, p_more >= 0, other >= 0, other_more >= 0, factor >= 1)
    event_wrong = z3.Implies(chances, p + p_more <= factor * other)
    return [
        Lemma(
            "counter",
            "the log-ratio of one draw is |d|/scale at most, for all integers and every scale",
            counter,
            counter_wrong,
            "half of |d|/scale",
        ),
        Lemma(
            "joint-step",
            "log-ratios and bounds add up over counters, sketches and draws",
            step,
            step_wrong,
            "the bound without the counter's own part",
        ),
        Lemma(
            "two-draws",
            "snapshot and release together lose epsilon for a unit that is before or after it",
            both,
            both_wrong,
            "a unit before and after the snapshot",
        ),
        Lemma(
            "events-step",
            "a factor of every outcome is a factor of every event",
            event,
            event_wrong,
            "an outcome left out",
        ),
    ]
