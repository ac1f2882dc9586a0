"""The replies of a keeper: each window once for each level, and a refusal of everything else."""

import logging
import shutil
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pansketch import Privacy
from pansketch.blinding import MaskedWindow, answer, question_about
from pansketch.wire import decode_answer
from pansketch_fleet.protocol.keeper_messages import Ask, Reply
from pansketch_keeper import state
from pansketch_keeper.ledger import StateError
from tests.keeper.site import answerer, ask_of, released
from tests.pansketch.blinding.fleet import FLEET, SMALL, SPECS
from tests.pansketch.conftest import NoNoise

WIDE = replace(SPECS["moments-rff"], privacy=Privacy(epsilon=0.0005, aggregation="blinded"))


@pytest.fixture
def held(sites):
    with state.opened(sites[0].state) as found:
        yield found


def asked(held, ask):
    return answerer(held).reply(ask.encode())


def test_the_same_question_has_the_same_bytes(held, sites):
    ask = ask_of(sites[0], released(sites, range(1, 4)))
    first = asked(held, ask)
    assert first.kind == "answered"
    assert asked(held, ask).encode() == first.encode()
    assert asked(held, replace(ask, kind="prepare")).refused == ()


def test_prepare_reserves_nothing(held, sites):
    tower = sites[0]
    releases = released(sites, range(1, 4))
    for _ in range(2):
        assert asked(held, ask_of(tower, releases, kind="prepare")).refused == ()
    assert held.ledger.summary() == []
    assert asked(held, ask_of(tower, releases[:1])).kind == "answered"
    reply = asked(held, ask_of(tower, releases, kind="prepare"))
    assert reply == Reply("prepared", reply.question, tower.id, (("dev-1", "air", b"12345678", 1),))


def test_a_window_is_answered_once_for_each_level_and_within_epsilon(held, sites):
    tower, releases = sites[0], released(sites, range(1, 4))
    half = Fraction(1, 2)
    assert asked(held, ask_of(tower, releases, "1d", half)).kind == "answered"
    assert asked(held, ask_of(tower, releases, "30d", half)).kind == "answered"
    for level, share, windows in (("1d", half, 2), ("1d", Fraction(1, 4), 3), ("7d", half, 3)):
        reply = asked(held, ask_of(tower, releases[:windows], level, share))
        assert reply.kind == "refused"
        assert len(reply.refused) == windows
        assert reply.reason.startswith("spent: ")
    assert [(each.level, each.windows, each.open) for each in held.ledger.summary()] == [
        ("1d", 3, 0),
        ("30d", 3, 0),
    ]


def test_a_refusal_costs_the_other_windows_nothing(held, sites):
    tower, releases = sites[0], released(sites, range(1, 4))
    asked(held, ask_of(tower, releases[:1]))
    assert asked(held, ask_of(tower, releases)).kind == "refused"
    assert asked(held, ask_of(tower, releases[1:])).kind == "answered"


def test_a_key_of_low_order_is_refused_before_anything_is_reserved(held, sites):
    ask = ask_of(sites[0], released(sites, range(1, 3)))
    first, second = ask.question.windows
    bad = MaskedWindow(first.window, (bytes(32), *first.epochs[1:]))
    planted = replace(ask, question=replace(ask.question, windows=(bad, second)))
    for kind, expected in (("prepare", "prepared"), ("answer", "refused")):
        reply = asked(held, replace(planted, kind=kind))
        assert (reply.kind, reply.refused) == (expected, (first.key,))
    assert held.ledger.summary() == []
    assert asked(held, ask).kind == "answered", "the control"


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda ask: replace(ask, key=b"no-such8"), "key: "),
        (lambda ask: replace(ask, question=replace(ask.question, fleet="desert")), "fleet: "),
        (
            lambda ask: replace(ask, question=replace(ask.question, share=Fraction(1, 10**6 + 1))),
            "share: its denominator exceeds ",
        ),
    ],
)
@pytest.mark.parametrize("kind", ["prepare", "answer"])
def test_a_question_that_is_not_for_this_keeper_costs_nothing(held, sites, change, reason, kind):
    """One digit more than a configuration may name is too many for a share, too."""
    ask = ask_of(sites[0], released(sites, [1]))
    reply = asked(held, replace(change(ask), kind=kind))
    assert reply.kind == "refused"
    assert reply.reason.startswith(reason)
    assert held.ledger.summary() == []
    assert asked(held, ask).kind == "answered", "the control"


def test_every_share_that_a_configuration_may_name_is_answered(held, sites):
    ask = ask_of(sites[0], released(sites, [1]), share=Fraction("0.000001"))
    assert asked(held, ask).kind == "answered"


def test_a_share_of_no_noise_that_can_be_drawn_costs_nothing(held, sites):
    """A sketch of large sums, whose noise for a small share is beyond what is drawn exactly."""
    releases = released(sites, [1], spec=WIDE)
    ask = ask_of(sites[0], releases, share=Fraction(1, 10**6), spec=WIDE)
    for kind in ("prepare", "answer"):
        reply = asked(held, replace(ask, kind=kind))
        assert (reply.kind, held.ledger.summary()) == ("refused", [])
        assert reply.reason.startswith("share: the share is too small")
    assert asked(held, ask_of(sites[0], releases, spec=WIDE)).kind == "answered", "the control"


def test_a_reserved_question_is_answered_after_a_restart(sites):
    """The keeper ended between the ledger's entry and the answer, which it never published."""
    tower, releases = sites[0], released(sites, range(1, 3))
    ask = ask_of(tower, releases)
    with state.opened(tower.state) as held:
        held.ledger.reserve(ask.question)
        assert [each.open for each in held.ledger.summary()] == [2]
    with state.opened(tower.state) as held:
        assert asked(held, ask_of(tower, releases[:1])).kind == "refused"
        assert asked(held, ask).kind == "answered"
        assert [each.open for each in held.ledger.summary()] == [0]


@pytest.mark.parametrize("reserved", [False, True])
def test_an_old_copy_of_the_ledger_is_refused(sites, reserved):
    """Also one whose only difference is an answer."""
    tower = sites[0]
    ask = ask_of(tower, released(sites, [1]))
    path = tower.state / "ledger.sqlite"
    with state.opened(tower.state) as held:
        if reserved:
            held.ledger.reserve(ask.question)
    copy = path.read_bytes()
    with state.opened(tower.state) as held:
        assert asked(held, ask).kind == "answered"
    path.write_bytes(copy)
    with pytest.raises(StateError, match="old copy"), state.opened(tower.state):
        pass


def test_a_copy_of_the_whole_folder_draws_no_other_noise_for_a_question(sites):
    """No keeper can tell such a copy from the original. Of two that run, both answer."""
    tower, releases = sites[0], released(sites, [1, 2])
    ask, copy = ask_of(tower, releases), tower.folder / "copy"
    shutil.copytree(tower.state, copy)
    with state.opened(tower.state) as held:
        first = asked(held, ask)
    with state.opened(copy) as held:
        assert asked(held, ask).encode() == first.encode()


def test_each_question_has_noise_of_its_own(sites):
    """The masks of two levels are the same, so what differs between answers is noise."""
    tower, well = sites
    releases, half = released(sites, [1]), Fraction(1, 2)
    answers = []
    for keeper in (tower, well):
        with state.opened(keeper.state) as held:
            masks = masks_of(held, releases)
            for level in ("1d", "30d"):
                ask = ask_of(keeper, releases, level, half)
                answers.append(decode_answer(asked(held, ask).answer, ask.spec).counters - masks)
    assert len({tuple(each) for each in answers}) == 4
    assert all(each.any() and np.abs(each).max() < 1000 for each in answers), "these are noise"


def masks_of(held, releases):
    """The sum of a keeper's masks: its answer without noise."""
    (private,) = held.keys.values()
    return answer(question_about(FLEET, releases), SMALL, private, NoNoise()).counters


def test_a_ledger_that_is_replaced_meanwhile_answers_nothing_new(sites):
    tower = sites[0]
    asks = [ask_of(tower, released(sites, [n])) for n in (1, 2)]
    with state.opened(tower.state) as held:
        asked(held, asks[0])
        held.ledger._connection.execute("UPDATE changes SET number = number - 1")
        reply = asked(held, asks[1])
        assert (reply.kind, reply.reason.split(":")[0]) == ("refused", "ledger")


def test_nothing_is_sent_before_the_mark_is_written(sites):
    """A disk that takes the ledger's change and not the mark's."""
    tower = sites[0]
    ask, folder = ask_of(tower, released(sites, [1])), tower.state
    with state.opened(folder) as held:
        (folder / "ledger-mark").unlink()
        (folder / "ledger-mark").mkdir()
        assert [asked(held, ask).kind for _ in range(3)] == ["refused"] * 3
        (folder / "ledger-mark").rmdir()
        assert asked(held, ask).kind == "answered"
        assert int((folder / "ledger-mark").read_bytes()) == held.ledger._number()


def test_an_answer_that_was_not_stored_is_not_sent(held, sites, monkeypatch):
    """It would have fresh noise for the same question after a restart."""
    ask = ask_of(sites[0], released(sites, [1]))
    monkeypatch.setattr(type(held.ledger), "keep", lambda self, answer: None)
    reply = asked(held, ask)
    assert (reply.kind, reply.answer) == ("refused", b"")
    assert reply.reason.startswith("ledger: ")
    monkeypatch.undo()
    assert asked(held, ask).kind == "answered"


def test_the_log_tells_how_each_question_ended(held, sites, caplog, monkeypatch):
    """With the level and numbers that the collector chose, and nothing of an unexpected error."""
    caplog.set_level(logging.INFO)
    tower, releases = sites[0], released(sites, [1, 2])

    def said(ask):
        caplog.clear()
        asked(held, ask)
        return [record.getMessage() for record in caplog.records]

    prepared, ask = ask_of(tower, releases, kind="prepare"), ask_of(tower, releases)
    assert said(prepared) == ["prepared: 2 windows at level window"]
    assert said(ask_of(tower, releases[:1])) == ["answered: 1 windows at level window"]
    assert said(prepared) == ["prepared: 2 windows at level window, 1 refused"]
    first, second = said(ask)
    assert first.startswith("refused: spent: ")
    assert second == "refused: 2 windows at level window, 1 refused"

    def broken(self, question):
        raise failure

    monkeypatch.setattr(type(held.ledger), "stored_bytes", broken)
    failure = StateError("ledger.sqlite: the disk fails")
    assert said(ask) == [
        "ledger.sqlite: the disk fails",
        "refused: ledger: cannot be read or written; see its log",
    ]
    failure = RuntimeError("2 readings")
    assert said(ask) == ["a question failed (RuntimeError)", "refused: failed: RuntimeError"]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.data())
def test_no_bytes_end_a_keeper(held, sites, data):
    whole = ask_of(sites[0], released(sites, [1])).encode()
    place = data.draw(st.integers(0, len(whole)))
    damaged = whole[:place] + data.draw(st.binary(min_size=1, max_size=9)) + whole[place + 3 :]
    reply = answerer(held).reply(damaged)
    assert Reply.decode(reply.encode()) == reply
    if reply.kind == "answered":
        assert Ask.decode(damaged)
