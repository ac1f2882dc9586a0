"""Plans of blinded streams: noise comes once for each answer and keeper."""

from fractions import Fraction

import numpy as np
import pytest

from pansketch import Attribute, Domain, Guarantee, Privacy, WindowId, merge
from pansketch.blinding import (
    PrivateKey,
    answer,
    combine_levels,
    question_about,
    start,
    unblind,
)
from pansketch.planning import Answering, Expected, plan_hierarchy, plan_views
from pansketch.planning.selection import Shape, cases_of
from tests.seeded_noise import noise_of_test

SIX = Domain([Attribute(name, low=0, high=1) for name in "abcdef"])
PAIR = Domain([Attribute("a", low=0, high=1), Attribute("b", low=0, high=1)])
LOCAL, BLINDED = Privacy(1.0), Privacy(1.0, aggregation="blinded")
ENTROPY = noise_of_test()
WINDOW = Answering(2, ((1, Fraction(1)),))
LEVELS = Answering(2, ((1, Fraction(1, 2)), (3, Fraction(1, 2))))


def draws(answering, privacy=BLINDED, devices=10, windows=6, earlier=()):
    expected = Expected(100, devices, windows, earlier, answering)
    guarantee = Guarantee.of_linear_counters(privacy)
    return [case.draws for case in cases_of(expected, (Shape(),), guarantee)]


def test_draws_of_an_answer_do_not_grow_with_devices():
    assert draws(WINDOW) == draws(WINDOW, devices=1000) == [12.0]
    assert draws(None, LOCAL) == [120]
    assert draws(Answering(3, WINDOW.levels)) == [18.0]


def test_the_devices_draws_are_added():
    local = Privacy(1.0, aggregation="blinded", local_epsilon=8.0)
    assert draws(WINDOW, local) == [12 + 2 * 60 / 64]


def test_a_level_counts_once_its_period_is_over():
    assert draws(LEVELS, windows=1) == [8.0]
    # 6 answers of 1/4 precision in 12 draws, and 2 in 4: precision 1/48 + 1/16.
    assert draws(LEVELS, windows=6) == [pytest.approx(12.0)]
    late = Answering(2, ((30, Fraction(1)),))
    assert draws(late, windows=60, earlier=(1,)) == [4.0, 2.0]


def test_the_planned_draws_are_the_noise_of_unblinded_releases():
    """Two levels of real answers, combined: `Release.noise` counts what was planned, and the
    rounding of the mean, below a draw."""
    spec = plan_hierarchy(PAIR, BLINDED, 1 << 10, Expected(10)).spec
    keepers = [PrivateKey.draw(ENTROPY) for _ in range(2)]
    releases = []
    for number in range(3):
        sketch = start(
            spec,
            ENTROPY,
            "fleet",
            WindowId("d", "s", number, number, number + 1),
            tuple(key.public for key in keepers),
        )
        sketch.update_many(np.zeros((4, 2)))
        releases.append(sketch.release(ENTROPY))

    def asked(some, level):
        question = question_about("fleet", some, level, Fraction(1, 2))
        answers = [answer(question, spec, key, ENTROPY) for key in keepers]
        return unblind(question, some, answers, 10)

    every = merge(asked([each], "1") for each in releases)
    combined = combine_levels([every, asked(releases, "3")])
    assert combined.noise == pytest.approx(float(LEVELS.draws(3)), rel=0.05)
    assert every.noise == pytest.approx(24, rel=0.05), "which one level alone has"


@pytest.mark.parametrize("devices", [100, 1000])
def test_the_plan_of_a_blinded_stream_is_finer_where_that_helps(devices):
    local, answered = Expected(60, devices, 30), Expected(60, devices, 30, (), WINDOW)
    coarse, fine = (
        plan_views(SIX, privacy, 1 << 17, expected)
        for privacy, expected in ((LOCAL, local), (BLINDED, answered))
    )
    assert fine.spec.nbytes > coarse.spec.nbytes
    assert fine.spec.nbytes <= 1 << 17
    assert fine.errors.score < coarse.errors.score
    coarse, fine = (
        plan_hierarchy(PAIR, privacy, 1 << 16, expected)
        for privacy, expected in ((LOCAL, local), (BLINDED, answered))
    )
    assert fine.spec.depth > coarse.spec.depth
    assert fine.spec.nbytes <= 1 << 16


def test_as_much_noise_makes_the_same_plan():
    """The control: an answer for each release of one device, of two keepers, is the local noise."""
    local = plan_views(SIX, LOCAL, 1 << 17, Expected(60, 1, 30))
    answered = plan_views(SIX, BLINDED, 1 << 17, Expected(60, 1, 30, (), WINDOW))
    assert answered.shapes == local.shapes


@pytest.mark.parametrize(
    ("keepers", "levels"),
    [(0, WINDOW.levels), (2, ()), (2, ((0, Fraction(1)),)), (2, ((1, Fraction(3, 2)),))],
)
def test_a_wrong_question_is_refused(keepers, levels):
    with pytest.raises(ValueError, match="levels"):
        Answering(keepers, levels)
