"""Guarantees and derived fields of a distinct counter, and refused arguments."""

from dataclasses import replace
from fractions import Fraction
from math import exp, log, tanh

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pansketch import DistinctSpec, Privacy, Span
from pansketch.privacy import Guarantee
from pansketch.sketches.distinct.variants import SHARES, keeps_within

KEY = Privacy(epsilon=2.0, unit="key")
KNOWN = Privacy(epsilon=2.0, unit="key", intrusion="announced")


def spec(privacy=KEY, **changes):
    return DistinctSpec(privacy, **{"expected_keys": 20_000} | changes)


def sampling(privacy=KEY, **changes):
    return DistinctSpec(privacy, **{"universe": 100_000} | changes)


@pytest.mark.parametrize(
    ("sizes", "tracked", "level"),
    [
        ({"expected_keys": 20_000, "memory": 4096}, 32_768, 0),
        ({"expected_keys": 32_768, "memory": 4096}, 32_768, 0),
        ({"expected_keys": 32_769, "memory": 4096}, 32_768, 1),
        ({"expected_keys": 5000, "memory": 4096}, 10_000, 0),
        ({"expected_keys": 1 << 40, "memory": 1}, 8, 37),
        ({"expected_keys": 1, "memory": 1}, 2, 0),
        ({"universe": 100_000, "memory": 4096}, 32_768, 0),
        ({"universe": 1000, "memory": 4096}, 1000, 0),
        ({"universe": 1, "memory": 1}, 1, 0),
    ],
)
def test_what_is_tracked_follows_from_public_sizes(sizes, tracked, level):
    made = DistinctSpec(KEY, **sizes)
    assert (made.tracked, made.level) == (tracked, level)
    assert made.slots == (sizes.get("universe") or tracked << level)
    assert made.nbytes == -(-tracked // 8) <= sizes["memory"]
    assert made.blocks == (1,)
    assert replace(made, release="bitmap").blocks == (tracked,)


def test_a_key_spends_epsilon_for_state_and_output_together():
    halves = spec(output_share=Fraction(1, 2)).guarantee
    assert (halves.state_micro, halves.release_micro) == (1_000_000, 1_000_000)
    assert (halves.epsilon, halves.draws, halves.reading_micro) == (2.0, 2, 1_000_000)
    known = spec(KNOWN).guarantee
    assert (known.state_micro, known.release_micro, known.epsilon, known.draws) == (
        2_000_000,
        0,
        2.0,
        1,
    )


@given(
    st.integers(2, 10**8), st.fractions(min_value=Fraction(1, 999), max_value=Fraction(998, 999))
)
def test_the_two_shares_are_the_whole_of_epsilon(micro, share):
    privacy = Privacy(epsilon=micro / 10**6, unit="key")
    try:
        promise = Guarantee.of_keys(privacy, share)
    except ValueError:
        assert privacy.epsilon_micro * min(share, 1 - share) <= 1
        return
    assert promise.state_micro + promise.release_micro == privacy.epsilon_micro
    assert promise.epsilon_micro == privacy.epsilon_micro
    assert min(promise.state_micro, promise.release_micro) > 0


def test_a_guarantee_of_keys_reads_as_one_line_with_every_term():
    text = str(spec(output_share=Fraction(1, 16)).guarantee)
    assert text == (
        "epsilon 2 per key per window per device (state 1.875 + output 0.125; add or remove all "
        "its appearances), in w windows on d devices w x d times, delta 0, intrusion silent: the "
        "release and one unnoticed snapshot of the device, jointly"
    )
    assert "(state 2 + output 0; " in str(spec(KNOWN).guarantee)


def test_a_bits_chances_are_epsilon_apart():
    """The state's loss: the log-ratio of a one, and by symmetry of a zero."""
    first, later = sampling(output_share=Fraction(1, 4)).chances
    assert (first.value, later.value) == (Fraction(-3, 2), Fraction(3, 2))
    assert later.probability - first.probability == pytest.approx(tanh(0.75), rel=1e-12)


def test_dworks_chances():
    first, later = sampling(variant="dwork", output_share=Fraction(1, 2)).chances
    assert (first.value, later.value) == (Fraction(1, 2), Fraction(3, 4))


@pytest.mark.parametrize("epsilon", [0.01, 0.5, 1.0, 1.5, 1.59362, 1.5937, 1.9, 2.0, 3.0, 50.0])
def test_dworks_loss_is_within_epsilon_or_refused(epsilon):
    least = 0.5 - epsilon / 4
    assert keeps_within("dwork", round(epsilon * 10**6)) == (
        least > 0 and log(0.5 / least) <= epsilon
    )
    assert keeps_within("ppds", round(epsilon * 10**6))


def predicted_variance(made, share):
    """Of the number of full slots by one count, with half of them full, in floating point."""
    promise = Guarantee.of_keys(made.privacy, share)
    state, output = promise.state_micro / 10**6, promise.release_micro / 10**6
    gain = tanh(state / 2)
    chances = (0.5 - gain / 2, 0.5 + gain / 2)
    if made.variant == "dwork":
        gain = state / 4
        chances = (0.5, 0.5 + gain)
    noise = 2 * exp(-output) / (1 - exp(-output)) ** 2
    bits = sum(chance * (1 - chance) for chance in chances) / 2
    return (made.tracked * bits + noise) / gain**2


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 2.0, 8.0])
@pytest.mark.parametrize("memory", [1, 30, 4096])
@pytest.mark.parametrize("variant", ["ppds", "dwork"])
def test_a_counts_share_is_the_best_one(epsilon, memory, variant):
    if variant == "dwork":
        epsilon = min(epsilon, 1.5)
    made = sampling(Privacy(epsilon=epsilon, unit="key"), memory=memory, variant=variant)
    best = min(SHARES, key=lambda share: predicted_variance(made, share))
    assert made.guarantee == Guarantee.of_keys(made.privacy, best)


def test_dworks_share_leaves_out_what_would_lose_too_much():
    """At epsilon 2 the state may get 1 or 1.5, not 1.75."""
    assert sampling(variant="dwork", memory=1 << 13).guarantee.state_micro == 1_500_000


def test_a_bitmaps_share_is_a_half():
    assert spec(release="bitmap").guarantee.release_micro == 1_000_000


def test_windows_have_their_own_fingerprints_and_nothing_else_of_their_own():
    base = spec()
    windows = [base.for_window(index) for index in (-1, 0, 1, 2, 1 << 40)]
    assert len({each.fingerprint for each in [base, *windows]}) == 6
    assert {replace(each, hash_key=0) for each in windows} == {base}


def test_a_fingerprint_covers_what_decides_what_counters_mean():
    base = sampling(memory=100)
    others = [
        replace(base, universe=99_999),
        replace(base, memory=99),
        replace(base, variant="optbern"),
        replace(base, release="bitmap"),
        replace(base, turnstile=True),
        replace(base, output_share=Fraction(1, 3)),
        replace(base, hash_key=1),
        replace(base, privacy=KNOWN),
        replace(base, privacy=Privacy(epsilon=2.1, unit="key")),
        spec(memory=100, expected_keys=800),
        spec(memory=100, expected_keys=801),
    ]
    assert len({each.fingerprint for each in [base, *others]}) == len(others) + 1
    # The number of tracked keys counts, not the expected one.
    assert spec(expected_keys=17_000).fingerprint == spec(expected_keys=20_000).fingerprint


def test_without_a_guess_slots_lie_on_levels():
    made = spec(expected_keys=None, memory=1000)
    assert (made.tracked, made.level, made.slots, made.nbytes) == (8000, 0, 8000, 1000)
    assert made.levels == (740, *15 * (484,))
    assert made.blocks == (16,)
    assert replace(made, release="bitmap").blocks == (8000,)
    assert not made.additive
    assert not spec().levels
    # As many counts as levels, and each has noise: the output gets a larger share.
    assert made.guarantee.release_micro > spec(memory=1000).guarantee.release_micro


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        ({"universe": 5}, "not both"),
        ({"expected_keys": 0}, "expected_keys must lie between 1"),
        ({"expected_keys": 1.5}, "expected_keys must be a whole number, not float"),
        ({"expected_keys": True}, "whole number, not bool"),
        ({"expected_keys": None, "universe": 0}, "universe must lie between 1"),
        ({"expected_keys": None, "universe": (1 << 40) + 1}, "universe must lie between 1"),
        ({"memory": 0}, "memory must lie between 1"),
        ({"memory": "4KiB"}, "memory must be a whole number, not str"),
        ({"memory": (1 << 19) + 1, "release": "bitmap"}, "between 1 and 524288"),
        ({"hash_key": -1}, "hash_key must lie between 0"),
        ({"hash_key": 1 << 64}, "hash_key must lie between 0"),
        ({"variant": "hyperloglog"}, "variant must be one of ppds, optbern, dwork"),
        ({"release": "keys"}, "release must be one of count, bitmap"),
        ({"variant": "optbern"}, "optbern samples an enumerated universe"),
        ({"variant": "dwork"}, "dwork samples an enumerated universe"),
        ({"turnstile": True}, "would erase other keys"),
        ({"output_share": Fraction(0)}, "between 0 and 1"),
        ({"output_share": Fraction(1)}, "between 0 and 1"),
        ({"output_share": 0.5}, "a Fraction"),
        ({"output_share": Fraction(1, 2), "privacy": KNOWN}, "announced gives all to the state"),
        ({"privacy": Privacy(epsilon=1.0)}, "use unit key"),
        ({"privacy": Privacy(epsilon=1.0, unit=Span(60, 2))}, "use unit key"),
        ({"privacy": Privacy(epsilon=0.000001, unit="key")}, "too small to be shared"),
        (
            {"universe": 9, "expected_keys": None, "variant": "dwork", "privacy": KNOWN},
            "dwork cannot keep the state's loss within epsilon 2, only up to 1.59",
        ),
    ],
)
def test_nonsense_is_refused_in_one_line(wrong, text):
    with pytest.raises(ValueError, match=text) as caught:
        spec(**wrong)
    assert "\n" not in str(caught.value)
