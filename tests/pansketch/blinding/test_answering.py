"""A keeper answers a window once per level, never beyond its epsilon, and repeats itself."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from pansketch import Privacy, os_entropy
from pansketch.blinding import (
    AlreadyAnswered,
    AnswersInMemory,
    KeeperQuestion,
    MaskedWindow,
    PrivateKey,
    SodiumMasks,
    answer,
    answer_once,
    check_answerable,
    question_about,
)
from pansketch.randomness.geometric import MAX_SCALE
from tests.pansketch.blinding import oracle
from tests.pansketch.blinding.fleet import (
    BLINDED,
    FLEET,
    SMALL,
    SPECS,
    QuietKeys,
    fleet_of,
    keepers,
    label,
    masked,
    opened,
)
from tests.pansketch.sketches.families import FAMILIES, uniform


@pytest.fixture
def found():
    return keepers()


@pytest.fixture
def releases(found):
    return fleet_of(SMALL, found)[0]


def about(releases, level="window", share=Fraction(1)):
    return question_about(FLEET, releases, level, share)


@pytest.mark.parametrize("share", [Fraction(1), Fraction(1, 3)])
@pytest.mark.parametrize("spec", SPECS.values(), ids=SPECS)
def test_every_counter_has_one_draw_of_the_levels_scale(known_noise, spec, share):
    found = keepers()
    releases, _ = fleet_of(spec, found, devices=2)
    question, noise = about(releases, share=share), known_noise(3)
    noisy = answer(question, spec, found[0].key, noise)
    assert [scale for scale, _ in noise.draws] == [scale / share for scale in spec.scales]
    drawn = np.concatenate([values for _, values in noise.draws])
    bare = answer(question, spec, found[0].key, QuietKeys())
    assert (noisy.counters == bare.counters + drawn).all()
    assert len(drawn) == sum(spec.blocks)


def test_the_same_question_has_the_same_answer(found, releases):
    rng = os_entropy()
    first = found[0].answer(about(releases), SMALL, rng)
    again = found[0].answer(about(releases[::-1]), SMALL, rng)
    assert (first.counters == again.counters).all()
    fresh = answer(about(releases), SMALL, found[0].key, rng)
    assert (fresh.counters != first.counters).any(), "the control: fresh noise differs"


def test_a_window_is_answered_once_a_level(found, releases):
    found[0].answer(about(releases[:2], share=Fraction(1, 4)), SMALL)
    with pytest.raises(AlreadyAnswered, match=r"^1 windows were answered before") as caught:
        found[0].answer(about(releases[1:], share=Fraction(1, 4)), SMALL)
    assert caught.value.windows == (("dev-1", "air", b"12345678", 1),)
    # All or none: what was refused with it can still be asked for.
    found[0].answer(about(releases[2:], share=Fraction(1, 4)), SMALL)


@pytest.mark.parametrize(
    "change",
    [{"start": 0}, {"end": 1000}, {"clock_synchronised": True}, {"device": "dev-0", "start": 7}],
    ids=str,
)
def test_a_window_under_another_label_of_its_number_is_the_same_window(found, releases, change):
    question = about(releases[:1])
    found[0].answer(question, SMALL)
    (listed,) = question.windows
    relabelled = replace(listed, window=replace(listed.window, **change))
    with pytest.raises(AlreadyAnswered):
        found[0].answer(replace(question, windows=(relabelled,), level="other"), SMALL)


def test_levels_share_epsilon(found, releases):
    for level, share in (("1h", Fraction(1, 2)), ("1d", Fraction(1, 3)), ("7d", Fraction(1, 6))):
        found[0].answer(about(releases, level, share), SMALL)
    with pytest.raises(AlreadyAnswered):
        found[0].answer(about(releases, "30d", Fraction(1, 10**9)), SMALL)


def test_a_window_under_another_number_gives_another_sum(found, releases):
    """A lying collector gets uniform numbers, not a second look at the same masks."""
    question = about(releases[:1])
    (listed,) = question.windows
    forged = replace(listed, window=replace(listed.window, sequence=99))
    true, false = (
        found[0].answer(replace(question, windows=(each,)), SMALL) for each in (listed, forged)
    )
    assert (true.counters != false.counters).mean() > 0.9


def test_a_spec_of_larger_epsilon_gives_another_sum(found, releases):
    """The noise follows the spec that the collector shows, but then so do the masks."""
    loose = replace(
        SMALL,
        privacy=replace(BLINDED, epsilon=4.0),
        views=tuple(replace(view, micro=4 * view.micro) for view in SMALL.views),
    )
    question = about(releases)
    with pytest.raises(ValueError, match="another spec"):
        found[0].answer(question, loose)
    true = found[0].answer(question, SMALL)
    false = found[1].answer(replace(question, spec=loose.digest), loose)
    assert (true.counters != false.counters).mean() > 0.9


def test_a_window_is_in_a_question_once(releases):
    (listed,) = about(releases[:1]).windows
    for windows in ((listed, listed), (listed, replace(listed, epochs=listed.epochs[:1]))):
        with pytest.raises(ValueError, match="none is in it twice"):
            KeeperQuestion(FLEET, SMALL.digest, "window", Fraction(1), windows)
    with pytest.raises(ValueError, match="in it twice"):
        about([releases[0], releases[0]])


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"share": Fraction(0)}, "share"),
        ({"share": Fraction(3, 2)}, "share"),
        ({"share": Fraction(-1)}, "share"),
        ({"windows": ()}, "at least one"),
        ({"spec": b"short"}, "32 bytes"),
        ({"level": ""}, "name"),
        ({"level": "x" * 65}, "name"),
        ({"fleet": "x" * 257}, "name"),
    ],
    ids=str,
)
def test_questions_that_make_no_sense_are_refused(releases, change, text):
    with pytest.raises(ValueError, match=text):
        replace(about(releases), **change)


@pytest.mark.parametrize("epochs", [(), (b"short",)])
def test_epochs_have_keys(epochs):
    with pytest.raises(ValueError, match="epoch"):
        MaskedWindow(label(), epochs)


def test_a_digest_names_one_question(releases):
    question = about(releases)
    others = [
        replace(question, fleet="wood"),
        replace(question, level="1d"),
        replace(question, share=Fraction(1, 2)),
        replace(question, spec=bytes(32)),
        replace(question, windows=question.windows[:2]),
        replace(question, windows=(*question.windows[:2], MaskedWindow(label("z"), (bytes(32),)))),
    ]
    assert len({each.digest for each in (question, *others)}) == 7
    assert about(releases[::-1]).digest == question.digest


def test_a_bad_key_of_an_epoch_costs_no_keeper_an_answer(found, releases):
    question = about(releases)
    spoilt = (*question.windows, MaskedWindow(label("z"), (bytes(32),)))
    with pytest.raises(ValueError, match="low order"):
        found[0].answer(replace(question, windows=spoilt), SMALL)
    found[0].answer(question, SMALL)


def test_what_was_reserved_and_never_answered_is_answered(found, releases):
    """A keeper that stops after the reservation has shown nothing."""
    question, ledger, rng = about(releases), AnswersInMemory(), os_entropy()
    ledger.reserve(question)
    ledger.reserve(question)
    with pytest.raises(AlreadyAnswered):
        ledger.reserve(about(releases[:1]))
    first = answer_once(question, SMALL, found[0].key, rng, ledger)
    again = answer_once(question, SMALL, found[0].key, rng, ledger)
    assert (first.counters == again.counters).all()


def test_a_keeper_reserves_before_it_computes_and_stores_before_it_answers(found, releases):
    steps = []

    class Watched(AnswersInMemory):
        def reserve(self, question):
            steps.append("reserve")
            super().reserve(question)

        def keep(self, answer):
            steps.append("keep")
            super().keep(answer)

    class Drawing(QuietKeys):
        def add_discrete_laplace(self, scale, counters):
            steps.append("draw")

    answer_once(about(releases), SMALL, found[0].key, Drawing(), Watched())
    assert [each for n, each in enumerate(steps) if each not in steps[:n]] == [
        "reserve",
        "draw",
        "keep",
    ]


@pytest.mark.parametrize("by_ledger", [True, False])
def test_an_answer_uses_the_masks_that_it_is_given_and_ends_them(found, releases, by_ledger):
    """The end overwrites what libsodium left on the stack: the keeper's secrets of every epoch."""
    calls, question = [], about(releases)

    class Watched(SodiumMasks):
        def add(self, private, epoch_key, context, counters):
            calls.append(epoch_key)
            super().add(private, epoch_key, context, counters)

        def finish(self):
            calls.append("finish")
            super().finish()

    given = question, SMALL, found[0].key, QuietKeys()
    if by_ledger:
        answer_once(*given, AnswersInMemory(), Watched())
    else:
        answer(*given, Watched())
    epochs = [epoch for window in question.windows for epoch in window.epochs]
    assert calls == [*epochs, "finish"]


def test_the_largest_noise_that_is_answered_is_the_largest_that_is_drawn(found, releases):
    least = max(SMALL.scales) / MAX_SCALE
    check_answerable(about(releases, share=least), SMALL)
    os_entropy().add_discrete_laplace(max(SMALL.scales) / least, np.zeros(1, np.int64))
    for ask in (check_answerable, lambda *given: found[0].answer(*given, os_entropy())):
        with pytest.raises(ValueError, match="share is too small"):
            ask(about(releases, share=least * Fraction(999_999, 10**6)), SMALL)


def test_only_the_spec_of_the_question_is_answered_and_only_a_blinded_one(found, releases):
    question = about(releases)
    local = replace(SMALL, privacy=Privacy(epsilon=1.0))

    def direct(question, spec):
        answer(question, spec, found[0].key, QuietKeys())

    for ask in (check_answerable, direct, found[0].answer):
        for spec in (local, FAMILIES["distinct-hashed-count-silent"].spec):
            with pytest.raises(ValueError, match="not blinded"):
                ask(question, spec)
        with pytest.raises(ValueError, match="another spec"):
            ask(replace(question, spec=bytes(32)), SMALL)


def test_another_keepers_answer_differs(found, releases):
    stranger = PrivateKey.draw(os_entropy())
    sums = [
        answer(about(releases), SMALL, key, QuietKeys()).counters
        for key in (found[0].key, found[1].key, stranger)
    ]
    assert (sums[0] != sums[1]).any()
    assert (sums[1] != sums[2]).any()


def test_many_windows_of_a_device(found):
    releases = [masked(SMALL, found, uniform(5, n), label(sequence=n)) for n in range(1, 8)]
    assert len(opened(SMALL, found, releases).windows) == 7


def test_the_words_of_an_answers_noise_are_those_of_the_oracle():
    secret, question = bytes(range(32)), bytes(32)
    private, words = PrivateKey(np.frombuffer(secret, np.uint8).copy()), np.zeros(37, np.uint64)
    seed = oracle.noise_seed(secret, question)
    with private.noise(question) as rng:
        for call in range(2):
            rng.fill_words(words)
            stream = oracle.chacha20(seed, call.to_bytes(12, "little"), words.nbytes)
            assert words.tobytes() == stream
