"""Budgets: exact shares, refusals, and the fields of a guarantee."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pansketch import Privacy, Span
from pansketch.privacy import Guarantee, split_budget


@given(
    st.integers(1, 10**8),
    st.lists(
        st.fractions(min_value=Fraction(1, 1 << 30), max_value=1 << 20), min_size=1, max_size=40
    ),
)
def test_shares_sum_to_the_budget_exactly(micro, weights):
    try:
        shares = split_budget(micro, weights)
    except ValueError:
        # Refused, and rightly: the least weight would get less than a pico-epsilon.
        assert (
            micro * 10**6 * float(min(weights)) ** 0.5 / sum(float(w) ** 0.5 for w in weights) < 2
        )
        return
    assert sum(shares) == Fraction(micro, 10**6)
    assert min(shares) > 0


def test_shares_follow_the_square_roots_of_the_weights():
    shares = split_budget(1_000_000, [Fraction(1), Fraction(4), Fraction(9)])
    assert [round(float(share), 9) for share in shares] == [round(x / 6, 9) for x in (1, 2, 3)]


def test_a_vanishing_share_is_refused():
    with pytest.raises(ValueError, match="too small"):
        split_budget(1, [Fraction(1), Fraction(1, 1 << 60)])


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        ({"epsilon": 0}, "between"),
        ({"epsilon": -1}, "between"),
        ({"epsilon": float("nan")}, "between"),
        ({"epsilon": 101}, "between"),
        ({"epsilon": True}, "number"),
        ({"epsilon": "1"}, "number"),
        ({"epsilon": 1, "unit": "person"}, "unit"),
        ({"epsilon": 1, "intrusion": "loud"}, "intrusion"),
    ],
)
def test_nonsense_is_refused(wrong, text):
    with pytest.raises(ValueError, match=text):
        Privacy(**wrong)


def test_epsilon_is_never_rounded_up():
    assert Privacy(epsilon=0.1).epsilon_micro == 100_000
    assert Privacy(epsilon=0.1234567).epsilon_micro == 123_456


def test_joint_loss_of_linear_counters_is_the_maximum_not_the_sum():
    silent = Guarantee.of_linear_counters(Privacy(epsilon=0.5))
    announced = Guarantee.of_linear_counters(Privacy(epsilon=0.5, intrusion="announced"))
    assert (silent.epsilon, silent.state_micro, silent.release_micro) == (0.5, 500_000, 500_000)
    assert (announced.epsilon, announced.release_micro) == (0.5, 0)


def test_a_span_spends_epsilon_for_each_of_its_readings():
    promise = Guarantee.of_linear_counters(Privacy(epsilon=1.0, unit=Span(600, 60)))
    assert promise.reading_micro == 1_000_000 // 60
    assert promise.epsilon_micro == 60 * promise.reading_micro <= 1_000_000
    assert "span of 600 s with at most 60 readings (0.016666 each)" in str(promise)


@pytest.mark.parametrize("wrong", [(0, 1), (1, 0), (-1, 1), (1.5, 1), (True, 1), ("1", 1)])
def test_a_span_needs_a_length_and_a_limit(wrong):
    with pytest.raises(ValueError, match="whole number of 1 or more"):
        Span(*wrong)


def test_a_guarantee_that_counters_of_readings_lack_is_refused():
    with pytest.raises(ValueError, match="not keys"):
        Guarantee.of_linear_counters(Privacy(epsilon=1.0, unit="key"))
    with pytest.raises(ValueError, match="too small"):
        Guarantee.of_linear_counters(Privacy(epsilon=0.0001, unit=Span(60, 1000)))


def test_a_guarantee_reads_as_one_line_with_every_term():
    text = str(Guarantee.of_linear_counters(Privacy(epsilon=0.5)))
    for term in ("epsilon 0.5", "per reading", "add or remove", "delta 0", "silent"):
        assert term in text
    assert "\n" not in text


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        ({"aggregation": "masked"}, "aggregation must be one of local, blinded"),
        ({"local_epsilon": 8}, "for aggregation blinded"),
        ({"aggregation": "blinded", "unit": "key"}, "not keys"),
        ({"aggregation": "blinded", "intrusion": "announced"}, "use intrusion silent"),
        ({"aggregation": "blinded", "local_epsilon": 1}, "larger than epsilon"),
        ({"aggregation": "blinded", "local_epsilon": 0.5}, "larger than epsilon"),
        ({"aggregation": "blinded", "local_epsilon": 101}, "local_epsilon must lie between"),
        ({"aggregation": "blinded", "local_epsilon": "8"}, "local_epsilon must be a number"),
    ],
)
def test_blinded_settings_that_contradict_each_other_are_refused(wrong, text):
    with pytest.raises(ValueError, match=text):
        Privacy(epsilon=1.0, **wrong)


def test_a_blinded_guarantee_spends_epsilon_on_answers():
    """Neither a snapshot nor a release shows anything, so neither costs anything."""
    found = Guarantee.of_linear_counters(Privacy(1.0, aggregation="blinded"))
    assert (found.state_micro, found.release_micro, found.answer_micro) == (0, 0, 10**6)
    assert (found.epsilon, found.reading_micro, found.draws) == (1.0, 10**6, 2)
    assert found.local_factor == 0
    assert "all keepers together read every counter" in str(found)
    assert "breaks neither X25519" in str(found)


def test_a_blinded_span_shares_both_epsilons():
    privacy = Privacy(1.0, Span(60, 3), aggregation="blinded", local_epsilon=8.0)
    found = Guarantee.of_linear_counters(privacy)
    assert (found.answer_micro, found.local_micro) == (999_999, 7_999_998)
    assert found.reading_micro == 333_333
    assert found.local_factor == Fraction(1, 8) * Fraction(999_999 * 8, 7_999_998)
    assert "epsilon 8 to all keepers together" in str(found)
