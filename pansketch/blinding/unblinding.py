"""From masked counters and answers to a release: counts, and one draw of noise for each keeper.

The masks of the counters and those in the answers cancel modulo 2**32 or 2**64. The result is an
ordinary release of all windows together, for every generator. Two errors would falsify it without a
trace, so both are refused. Sums may exceed half the modulus. Masks may not cancel, which leaves
uniform numbers far outside of the bounds of an honest sum.
"""

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction

import numpy as np

from pansketch.blinding.blinded_sketch import BlindedRelease
from pansketch.blinding.questions import KeeperAnswer, KeeperQuestion, question_about
from pansketch.sketches.count_sketch import laplace_variance
from pansketch.sketches.counter_bounds import CounterBounds, linear_bounds
from pansketch.sketches.linear_counters import LinearSpec
from pansketch.sketches.release_model import MergeError, Release

LOCAL_DRAWS = 2  # of a device with `local_epsilon`, in every counter of a window


class MasksLeft(ValueError):
    """The masks do not cancel: a device, a keeper or a key is wrong, or more readings came than
    were allowed."""


def unblind(
    question: KeeperQuestion,
    releases: Sequence[BlindedRelease],
    answers: Sequence[KeeperAnswer],
    max_readings: int,
) -> Release:
    """The sum of masked releases, with the keepers' noise.

    Args:
        question: that was answered.
        releases: all that it lists, in any order.
        answers: one of every keeper.
        max_readings: maximum number of readings in one window of one device.

    Returns:
        A release of all windows with as many draws as keepers. Its `noise` is larger for a level of
        a smaller share, and with `local_epsilon`.

    Raises:
        ValueError: releases or answers are not those of the question, or so many readings could
            exceed the counters' range; ask about fewer windows then.
        MasksLeft: a ValueError; the sum cannot be one of readings.
    """
    asked = question_about(question.fleet, releases, question.level, question.share)
    if asked != question:
        raise ValueError("these are not the releases that the question lists")
    spec, keepers = releases[0].spec, len(releases[0].keepers)
    _check_answers(question, releases[0], answers)
    bounds = sum_bounds(spec, question.share, len(releases), keepers, max_readings)
    total = np.zeros(sum(spec.blocks), spec.counter)
    for released in releases:
        total += released.counters
    for answer in answers:
        total -= answer.counters
    counters = total.astype(np.int64)
    if not bounds.examine(counters[None])[0].all():
        raise MasksLeft(
            "the sum is outside of what readings and noise can make: a release, an answer or a "
            "key is wrong, or a window had more readings than max_readings"
        )
    windows = tuple(sorted(each.window for each in releases))
    noise = keepers * _variance_ratio(spec, question.share) + _local_noise(spec, len(releases))
    return Release(spec, windows, keepers, counters, noise)


def _check_answers(
    question: KeeperQuestion, released: BlindedRelease, answers: Sequence[KeeperAnswer]
) -> None:
    if any(each.question != question.digest for each in answers):
        raise ValueError("an answer is to another question")
    if sorted(each.keeper for each in answers) != sorted(released.keepers):
        raise ValueError("unblinding needs one answer of every keeper, and no other")
    if any(each.counters.shape != released.counters.shape for each in answers) or any(
        each.counters.dtype != released.counters.dtype for each in answers
    ):
        raise ValueError("an answer has other counters than the spec")


def sum_bounds(
    spec: LinearSpec, share: Fraction, windows: int, keepers: int, max_readings: int
) -> CounterBounds:
    """Return the bounds of an honest unblinded sum.

    Args:
        spec: of the windows.
        share: the part of epsilon that the answer costs.
        windows: their number.
        keepers: their number.
        max_readings: maximum number of readings in one window of one device.

    Returns:
        The bounds.

    Raises:
        ValueError: the sum of so many windows could exceed the range of a counter; ask about fewer.
    """
    rows = [replace(row, scale=row.scale / share) for row in spec.counter_rows()]
    draws = keepers + (LOCAL_DRAWS * windows if spec.guarantee.local_micro else 0)
    bits = 8 * spec.counter.itemsize
    bounds = linear_bounds(rows, bits, max_readings * windows, draws)
    if bounds.high.max() >= 1 << bits - 1:
        raise ValueError(
            f"{windows} windows of {max_readings} readings may exceed counters of {bits} bits: ask "
            "about fewer windows and merge the answers"
        )
    return bounds


def most_windows(
    spec: LinearSpec, share: Fraction, keepers: int, max_readings: int, wanted: int
) -> int:
    """Return how many windows one question can list, so that their sum exceeds no counter's range.

    Args:
        spec: of the windows.
        share: the part of epsilon that the answer costs.
        keepers: their number.
        max_readings: maximum number of readings in one window of one device.
        wanted: how many there are, at least one.

    Returns:
        At most `wanted`; 0 where the sum of a single one may exceed it.
    """
    least, most = 0, wanted
    while least < most:
        middle = most if most == wanted else (least + most + 1) // 2
        try:
            sum_bounds(spec, share, middle, keepers, max_readings)
        except ValueError:
            most = middle - 1
        else:
            least = middle
    return least


def _variance_ratio(spec: LinearSpec, share: Fraction) -> float:
    """The variance of a draw for this share of epsilon, over that of a draw for all of it. Of the
    block where this ratio is largest."""
    return max(laplace_variance(scale / share) / laplace_variance(scale) for scale in spec.scales)


def _local_noise(spec: LinearSpec, windows: int) -> float:
    """The same of the devices' own draws together. A smaller scale has at most the square of its
    ratio of the variance, so this is no less than it is."""
    return LOCAL_DRAWS * windows * float(spec.guarantee.local_factor) ** 2


def combine_levels(levels: Sequence[Release]) -> Release:
    """Combine answers of several levels about the same windows, weighted by inverse variance.

    Args:
        levels: one for each level: the sum of its answers. All of them hold the same windows.

    Returns:
        A release whose counters are the weighted means, to the nearest integer; `noise` includes
        that rounding. `draws` counts the draws of all levels.

    Raises:
        MergeError: there is no level, or they hold other windows or specs.
    """
    if not levels:
        raise MergeError("nothing to combine: no level was given")
    spec, windows = levels[0].spec, levels[0].windows
    if not isinstance(spec, LinearSpec) or any(
        (each.spec.fingerprint, each.windows) != (spec.fingerprint, windows) for each in levels
    ):
        raise MergeError("levels are combined where they hold the same windows of one spec")
    if len(levels) == 1:
        return levels[0]
    # The devices' draws are in every level, so no weighting lessens them.
    local = _local_noise(spec, len(windows))
    precisions = np.array([1 / (each.noise - local) for each in levels])
    weights = precisions / precisions.sum()
    mean = sum(
        w * each.counters.astype(np.float64) for w, each in zip(weights, levels, strict=True)
    )
    rounding = 1 / 12 / min(map(laplace_variance, spec.scales))
    return Release(
        spec,
        windows,
        sum(each.draws for each in levels),
        np.rint(mean).astype(np.int64),
        float(1 / precisions.sum()) + local + rounding,
    )
