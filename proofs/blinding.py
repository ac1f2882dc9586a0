"""Blinded counters: ideal masks of one honest keeper of K hide every count, for every modulus."""

import z3

from proofs.lemma import Lemma, absolute


def blinding_lemmas() -> list[Lemma]:
    """Of pansketch/blinding and the keeper."""
    # Masks m and n of 0 .. M - 1, each shifted by d modulo M; i and j are the multiples taken away.
    m, n, d, modulus, i, j, r = z3.Ints("m n d M i j r")
    residues = z3.And(m >= 0, m < modulus, n >= 0, n < modulus, r >= 0, r < modulus)
    shifted = z3.And(m - d == i * modulus + r, n - d == j * modulus + r)
    # (i - j) M lies strictly between -M and M; its cases are spelled out, as a hint.
    apart = i - j
    hint = z3.And(
        z3.Implies(apart >= 1, apart * modulus >= modulus),
        z3.Implies(apart <= -1, apart * modulus <= -modulus),
    )
    bijective = z3.Implies(z3.And(modulus > 0, residues, shifted, hint), m == n)
    too_wide = z3.And(m >= 0, m <= modulus, n >= 0, n <= modulus, r >= 0, r < modulus)
    two_masks = z3.Implies(z3.And(modulus > 0, too_wide, shifted), m == n)

    # The hint itself: a multiple of M that is not 0 is M away from 0 at least.
    times = z3.Int("times")
    multiple = z3.Implies(z3.And(modulus > 0, times >= 1), times * modulus >= modulus)
    multiple_wrong = z3.Implies(z3.And(modulus > 0, times >= 1), times * modulus > modulus)

    # Epochs: `masks` is the honest keeper's sum before an epoch, `others` all other keepers' sums,
    # however many there are. The run with the reading shifts the mask of epoch `at` by -d.
    counts, masks, others, mask, epoch, at = z3.Ints("counts masks others mask epoch at")

    def started(when: z3.ArithRef) -> z3.ArithRef:
        return z3.If(when >= at, d, 0)

    shifted_so_far = z3.Int("shifted")
    so_far = shifted_so_far == masks - started(epoch - 1)
    next_sum = shifted_so_far + mask - z3.If(epoch == at, d, 0)
    sums = z3.Implies(so_far, next_sum == masks + mask - started(epoch))
    sums_wrong = z3.Implies(so_far, next_sum == masks + mask)

    # A snapshot that follows the shifted mask sees the reading, one before it does not.
    view = counts + others + masks
    view_with = counts + z3.If(epoch >= at, d, 0) + others + masks - started(epoch)
    arrived = z3.Bool("arrived")
    straddling = counts + z3.If(arrived, d, 0) + others + masks - started(epoch)

    # The honest answer: its masks and a draw z. The shifted one has masks - d and a draw z + d.
    z, answers = z3.Ints("z answers")
    scale = z3.Real("r")
    answer = masks + z == (masks - d) + (z + d)
    unmoved = masks + z == (masks - d) + z
    loss = scale * z3.ToReal(absolute(z + d) - absolute(z))
    claimed = scale * z3.ToReal(absolute(d))
    one = z3.Implies(scale > 0, absolute(loss) <= claimed)
    twice = z3.Implies(z3.And(scale > 0, answers == 2), absolute(answers * loss) <= claimed)

    # Levels share epsilon: answers of shares that add up to 1 lose epsilon.
    spent, share, epsilon, left = z3.Reals("spent share epsilon left")
    levels = z3.And(spent <= (1 - left) * epsilon, share <= left, share >= 0, epsilon >= 0)
    shared = z3.Implies(levels, spent + share * epsilon <= (1 - (left - share)) * epsilon)
    whole = z3.Implies(levels, spent + epsilon <= (1 - (left - share)) * epsilon)
    return [
        Lemma(
            "multiple",
            "a positive multiple of the modulus is not below it",
            multiple,
            multiple_wrong,
            "above it",
        ),
        Lemma(
            "mask-bijection",
            "adding d modulo M maps masks one to one, so a uniform mask stays uniform",
            bijective,
            two_masks,
            "one mask more than M",
        ),
        Lemma(
            "mask-sum-step",
            "of any number of epochs, sums from the shifted mask on differ by d alone",
            sums,
            sums_wrong,
            "no difference",
        ),
        Lemma(
            "snapshots",
            "snapshots and the release are the same in both runs, for all masks of others",
            view_with == view,
            straddling == view,
            "two snapshots of one epoch around the reading",
        ),
        Lemma(
            "answer",
            "the honest keeper's answer is the same if its draw is shifted by d",
            answer,
            unmoved,
            "no draw",
        ),
        Lemma(
            "answer-loss",
            "that shift loses |d|/scale at most",
            one,
            twice,
            "two answers for one window",
        ),
        Lemma(
            "levels-step",
            "levels whose shares add up to 1 lose epsilon together",
            shared,
            whole,
            "each level with the whole epsilon",
        ),
    ]
