"""From answers to a release that every generator reads, or a refusal."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from pansketch import MergeError, Privacy, Release, WireError, decode, encode, merge, os_entropy
from pansketch.blinding import MasksLeft, combine_levels, question_about, unblind
from pansketch.generators import density, kdtree, m2m, pairwise, privhp
from pansketch.sketches.count_sketch import laplace_variance
from tests.pansketch.blinding.fleet import (
    BLINDED,
    FLEET,
    SMALL,
    SPECS,
    QuietKeys,
    counted,
    fleet_of,
    keepers,
    label,
    masked,
    opened,
)
from tests.pansketch.sketches.families import uniform

SIX_SIGMA = 6.0


@pytest.fixture
def found():
    return keepers()


def asked(found, listed, **changes):
    """A question, its answers, and how they are unblinded with changes."""
    question = question_about(FLEET, listed)
    answers = [each.answer(question, listed[0].spec) for each in found]
    given = {"question": question, "releases": listed, "answers": answers, "max_readings": 1000}
    return unblind(**(given | changes))


def test_a_missing_or_foreign_answer_is_refused(found):
    releases, rows = fleet_of(SMALL, found)
    question = question_about(FLEET, releases)
    answers = [each.answer(question, SMALL) for each in found]
    for wrong in (answers[:1], [*answers, answers[0]], [answers[0], answers[0]], []):
        with pytest.raises(ValueError, match="one answer of every keeper"):
            asked(found, releases, answers=wrong)
    other = question_about(FLEET, releases[:1], "other")
    foreign = [*answers[:1], replace(answers[1], question=other.digest)]
    with pytest.raises(ValueError, match="another question"):
        asked(found, releases, answers=foreign)
    short = [answers[0], replace(answers[1], counters=answers[1].counters[:-1])]
    with pytest.raises(ValueError, match="other counters"):
        asked(found, releases, answers=short)
    assert (asked(found, releases).counters == counted(SMALL, rows)).all()


def test_releases_that_were_not_asked_about_are_refused(found):
    releases, _ = fleet_of(SMALL, found)
    for wrong in (releases[:2], [*releases, masked(SMALL, found, uniform(3), label("dev-9"))]):
        with pytest.raises(ValueError, match="not the releases"):
            asked(found, releases, releases=wrong)
    strangers = masked(SMALL, keepers(), uniform(3), label("dev-9"))
    with pytest.raises(ValueError, match="the same keepers"):
        asked(found, releases, releases=[*releases, strangers])
    with pytest.raises(ValueError, match="the same keepers"):
        question_about(FLEET, [])


@pytest.mark.parametrize("damage", ["counter", "epoch", "answer"])
def test_masks_that_do_not_cancel_are_refused(found, damage):
    """A sum of uniform counters passes for one of readings with a chance below 2**-300."""
    releases, _ = fleet_of(SMALL, found)
    if damage == "counter":
        spoilt = releases[0].counters + np.random.default_rng().integers(
            -(1 << 31), 1 << 31, len(releases[0].counters), np.int32
        )
        releases[0] = replace(releases[0], counters=spoilt)
    if damage == "epoch":
        releases[0] = replace(releases[0], epochs=releases[0].epochs[::-1])
    question = question_about(FLEET, releases)
    answers = [each.answer(question, SMALL) for each in found]
    if damage == "answer":
        answers[0] = replace(answers[0], counters=-answers[0].counters)
    with pytest.raises(MasksLeft):
        unblind(question, releases, answers, 1000)


def test_more_readings_than_were_allowed_are_refused(found):
    releases, _ = fleet_of(SMALL, found, readings=2000)
    assert asked(found, releases, max_readings=2000)
    with pytest.raises(MasksLeft):
        asked(found, releases, max_readings=1000)


def test_sums_that_may_wrap_are_refused(found):
    releases, _ = fleet_of(SMALL, found, devices=2)
    with pytest.raises(ValueError, match="may exceed counters of 32 bits"):
        asked(found, releases, max_readings=1 << 30)
    assert asked(found, releases, max_readings=(1 << 30) - 1000)
    wide = SPECS["moments-hist"]
    releases, _ = fleet_of(wide, others := keepers(), devices=2)
    assert asked(others, releases, max_readings=1 << 40)


def test_noise_is_one_draw_of_each_keeper():
    """The variance over 7,200 differences is within six deviations of K draws' (2e-9)."""
    found = keepers(3)
    releases, rows = fleet_of(SMALL, found, devices=2)
    question, rng = question_about(FLEET, releases), os_entropy()
    truth, ratios = counted(SMALL, rows), []
    scales = np.repeat([laplace_variance(s) for s in SMALL.scales], SMALL.blocks)
    for _ in range(150):
        answers = [each.answer(question, SMALL, rng) for each in found]
        for each in found:
            each.ledger.__init__()
        unblinded = unblind(question, releases, answers, 1000)
        assert (unblinded.draws, unblinded.noise) == (3, 3)
        ratios.append((unblinded.counters - truth) ** 2 / scales)
    squares = np.concatenate(ratios)
    deviation = squares.std() / np.sqrt(len(squares))
    assert abs(squares.mean() - 3) < SIX_SIGMA * deviation
    assert abs(squares.mean() - 2) > SIX_SIGMA * deviation, "the control: two draws"


def test_a_smaller_share_has_the_noise_of_its_scales(found):
    releases, _ = fleet_of(SMALL, found)
    unblinded = opened(SMALL, found, releases, share=Fraction(1, 3))
    exact = [laplace_variance(3 * s) / laplace_variance(s) for s in SMALL.scales]
    assert unblinded.noise == pytest.approx(2 * max(exact))
    assert unblinded.noise >= 2 * 9
    assert unblinded.draws == 2


def test_noise_of_devices_is_no_less_than_it_is(found):
    weak = replace(SMALL, privacy=replace(BLINDED, local_epsilon=3.0))
    releases, _ = fleet_of(weak, found)
    unblinded = opened(weak, found, releases)
    for scale in weak.scales:
        declared, own = laplace_variance(scale), laplace_variance(scale / 3)
        assert unblinded.noise * declared >= 2 * declared + 6 * own
    assert unblinded.noise == pytest.approx(2 + 6 / 9)


def test_unblinded_releases_merge(found):
    releases, rows = fleet_of(SMALL, found)
    parts = [opened(SMALL, found, releases[:1]), opened(SMALL, found, releases[1:])]
    whole = merge(parts)
    assert (whole.counters == counted(SMALL, rows)).all()
    assert (whole.draws, whole.noise, len(whole.windows)) == (4, 4, 3)
    with pytest.raises(MergeError, match="twice"):
        merge([whole, parts[0]])


def level_of(found, releases, name, share, values, noise):
    unblinded = opened(SMALL, found, releases, name, share)
    return replace(unblinded, counters=np.full_like(unblinded.counters, values), noise=noise)


def test_levels_are_weighted_by_inverse_variance(found):
    releases, _ = fleet_of(SMALL, found)
    fine = level_of(found, releases, "1h", Fraction(1, 2), 100, 24.0)
    coarse = level_of(found, releases, "1d", Fraction(1, 2), 200, 8.0)
    both = combine_levels([fine, coarse])
    assert set(both.counters.tolist()) == {175}
    rounding = 1 / 12 / min(map(laplace_variance, SMALL.scales))
    assert both.noise == pytest.approx(6.0 + rounding)
    assert both.windows == fine.windows
    assert both.draws == 4
    assert combine_levels([fine]) is fine


def test_levels_of_other_windows_are_not_combined(found):
    releases, _ = fleet_of(SMALL, found)
    one = opened(SMALL, found, releases, "1h", Fraction(1, 2))
    other = opened(SMALL, found, releases[:2], "1d", Fraction(1, 2))
    with pytest.raises(MergeError, match="the same windows"):
        combine_levels([one, other])
    with pytest.raises(MergeError, match="nothing"):
        combine_levels([])


def test_the_devices_noise_is_in_every_level(found):
    """No weighting lessens it."""
    weak = replace(SMALL, privacy=replace(BLINDED, local_epsilon=2.0))
    releases, _ = fleet_of(weak, found)
    levels = [
        opened(weak, found, releases, name, Fraction(1, 2), os_entropy()) for name in ("1h", "1d")
    ]
    local = 2 * 3 / 4
    rounding = 1 / 12 / min(map(laplace_variance, weak.scales))
    expected = (levels[0].noise - local) / 2 + local + rounding
    assert combine_levels(levels).noise == pytest.approx(expected)


@pytest.mark.parametrize(
    ("family", "generator"),
    [
        ("views", pairwise),
        ("hierarchy", privhp),
        ("hierarchy", kdtree),
        ("cells-depth-6", density),
        ("moments-hist", m2m),
    ],
)
def test_generators_read_an_unblinded_release_as_any_other(found, family, generator):
    """The same counters and noise give the same answer under any masks."""
    spec = SPECS[family]
    releases, rows = fleet_of(spec, found, readings=2000)
    unblinded = opened(spec, found, releases, rng=os_entropy(), max_readings=2000)
    local = replace(spec, privacy=Privacy(epsilon=1.0))
    same = Release(local, unblinded.windows, 2, unblinded.counters.copy())
    models = generator(unblinded), generator(same)
    one, other = (getattr(each, "partition", each).mean("x") for each in models)
    if generator is not m2m:  # Its points are seeded by the fingerprint.
        assert one == other
    assert abs(one.value - rows[:, 0].mean()) < 0.2


def test_answers_of_a_smaller_share_are_less_sure(found):
    spec = SPECS["views"]
    releases, _ = fleet_of(spec, found, readings=2000)
    errors = [
        pairwise(opened(spec, found, releases, str(share), share, QuietKeys(), 2000))
        .count("x < 0.5")
        .standard_error
        for share in (Fraction(1, 2), Fraction(1, 4))
    ]
    assert errors[1] > 1.5 * errors[0]


def test_an_unblinded_release_is_not_sent(found):
    releases, _ = fleet_of(SMALL, found)
    with pytest.raises(ValueError, match="no wire format"):
        encode(opened(SMALL, found, releases))
    with pytest.raises(WireError):
        decode(b"PANB" + bytes(20), SMALL)
