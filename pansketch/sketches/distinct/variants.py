"""Probabilities of a key's bit, and the division of epsilon between the state and the output.

There are three variants of one mechanism. A bit begins with one probability of being 1, and every
appearance of its key draws it again with a higher one. So an intruder cannot distinguish one
appearance from many.

* `dwork`: 1/2 and 1/2 + epsilon/4 (Dwork, Naor, Pitassi, Rothblum and Yekhanin, "Pan-private
  streaming algorithms", ICS 2010).
* `optbern` and `ppds`: 1/(1 + e^epsilon) and e^epsilon/(1 + e^epsilon). No pair differs more at
  this loss (Digalakis, Karystinos and Garofalakis, "Improved pan-private stream density
  estimation"). The paper's two algorithms differ in how keys are sampled. With a public sample of
  an enumerated universe they are one.
"""

from fractions import Fraction
from functools import lru_cache
from typing import Literal

from pansketch.privacy import MICRO, Guarantee, Privacy
from pansketch.randomness.exact_noise import Chance, LogOdds, Ratio
from pansketch.randomness.exp_bounds import exp_bounds

Variant = Literal["ppds", "optbern", "dwork"]
Form = Literal["count", "bitmap"]

HALF = Fraction(1, 2)
SHARES = tuple(Fraction(1, 1 << power) for power in range(1, 7))
PRECISION_BITS = 256


def chances(variant: Variant, state_micro: int) -> tuple[Chance, Chance]:
    """The probability that a bit is 1: at first, and after an appearance of its key."""
    epsilon = Fraction(state_micro, MICRO)
    if variant == "dwork":
        return Ratio(HALF), Ratio(HALF + epsilon / 4)
    return LogOdds(-epsilon), LogOdds(epsilon)


def keeps_within(variant: Variant, state_micro: int) -> bool:
    """Return whether the state's loss is at most its epsilon.

    With `dwork` a 0 is 1/(1 - epsilon/2) times likelier without the key. The logarithm of that is
    at most epsilon iff 1 - epsilon/2 >= e^-epsilon, which holds up to 1.5936.
    """
    if variant != "dwork":
        return True
    epsilon = Fraction(state_micro, MICRO)
    _, above = exp_bounds(epsilon, PRECISION_BITS)
    return (1 - epsilon / 2) * (1 << PRECISION_BITS) >= above


@lru_cache(maxsize=64, typed=True)  # All windows of a stream have one.
def key_guarantee(
    privacy: Privacy,
    variant: Variant,
    form: Form,
    sizes: tuple[int, ...],
    share: Fraction | None,
) -> Guarantee:
    """The guarantee with a given share of epsilon for the output, or with the best one, for levels
    of these `sizes`. A key moves one count of one level, so each count has the noise of one.

    Best for a bitmap is a half: it maximises tanh(state/2) tanh(output/2), by which a slot's truth
    shows in its bit. For a count it is the one of 1/2, 1/4, ..., 1/64 with the least variance.
    Raises ValueError for a share that is none, that is not needed, or that leaves the state a loss
    above its epsilon.
    """
    if share is not None:
        _check_share(privacy, share)
    shares = [share] if share is not None else _candidates(privacy, form)
    offers = [Guarantee.of_keys(privacy, each) for each in shares if _leaves_both(privacy, each)]
    sound = [offer for offer in offers if keeps_within(variant, offer.state_micro)]
    if not offers:
        raise ValueError("epsilon is too small to be shared between state and output")
    if not sound:
        raise ValueError(
            f"dwork cannot keep the state's loss within epsilon {offers[0].state_micro / MICRO:g}, "
            "only up to 1.59: use ppds or optbern, or a smaller epsilon"
        )
    return min(sound, key=lambda offer: _variance(variant, offer, sizes))


def _check_share(privacy: Privacy, share: Fraction) -> None:
    if privacy.intrusion != "silent":
        raise ValueError("output_share is for silent intrusion: announced gives all to the state")
    if not isinstance(share, Fraction) or not 0 < share < 1:
        raise ValueError("output_share must be a Fraction between 0 and 1")


def _candidates(privacy: Privacy, form: Form) -> tuple[Fraction, ...]:
    return SHARES if privacy.intrusion == "silent" and form == "count" else (HALF,)


def _leaves_both(privacy: Privacy, share: Fraction) -> bool:
    fresh = int(privacy.epsilon_micro * share)
    return privacy.intrusion != "silent" or 0 < fresh < privacy.epsilon_micro


def _variance(variant: Variant, offer: Guarantee, sizes: tuple[int, ...]) -> Fraction:
    """Variance that noise adds to a count of full slots, half of them full. It is rational, so that
    every machine finds the same minimum. Only `dwork` depends on how many are full."""
    tracked, noise = sum(sizes), len(sizes) * output_variance(offer.release_micro)
    if variant == "dwork":
        gain = Fraction(offer.state_micro, MICRO) / 4
        bit = (HALF - gain**2) / 2
    else:
        decay = _decay(offer.state_micro)
        gain = (1 - decay) / (1 + decay)
        bit = decay / (1 + decay) ** 2
    return (tracked * bit + noise) / gain**2


@lru_cache(maxsize=512)
def output_variance(release_micro: int) -> Fraction:
    """Variance of the discrete Laplace noise of a released count; 0 where none is added."""
    if not release_micro:
        return Fraction(0)
    decay = _decay(release_micro)
    return 2 * decay / (1 - decay) ** 2


def _decay(micro: int) -> Fraction:
    """e^-epsilon to `PRECISION_BITS` bits, the same on every machine."""
    below, _ = exp_bounds(Fraction(micro, MICRO), PRECISION_BITS)
    return Fraction(below, 1 << PRECISION_BITS)
