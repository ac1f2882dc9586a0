"""The replies of a keeper: each window once for each level, and a refusal of everything else."""

from dataclasses import replace
from fractions import Fraction

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pansketch.blinding import MaskedWindow
from pansketch_fleet.protocol.keeper_messages import Ask, Reply
from pansketch_keeper import state
from pansketch_keeper.ledger import StateError
from tests.keeper.site import answerer, ask_of, released


@pytest.fixture
def held(places):
    with state.opened(places[0].state) as found:
        yield found


def asked(held, ask):
    return answerer(held).reply(ask.encode())


def test_the_same_question_has_the_same_bytes(held, places):
    ask = ask_of(places[0], released(places, range(1, 4)))
    first = asked(held, ask)
    assert first.kind == "answered"
    assert asked(held, ask).encode() == first.encode()
    assert asked(held, replace(ask, kind="prepare")).refused == ()


def test_prepare_reserves_nothing(held, places):
    tower = places[0]
    releases = released(places, range(1, 4))
    for _ in range(2):
        assert asked(held, ask_of(tower, releases, kind="prepare")).refused == ()
    assert held.ledger.summary() == []
    assert asked(held, ask_of(tower, releases[:1])).kind == "answered"
    reply = asked(held, ask_of(tower, releases, kind="prepare"))
    assert reply == Reply("prepared", reply.question, tower.id, (("dev-1", "air", b"12345678", 1),))


def test_a_window_is_answered_once_for_each_level_and_within_epsilon(held, places):
    tower, releases = places[0], released(places, range(1, 4))
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


def test_a_refusal_costs_the_other_windows_nothing(held, places):
    tower, releases = places[0], released(places, range(1, 4))
    asked(held, ask_of(tower, releases[:1]))
    assert asked(held, ask_of(tower, releases)).kind == "refused"
    assert asked(held, ask_of(tower, releases[1:])).kind == "answered"


def test_a_key_of_low_order_is_refused_before_anything_is_reserved(held, places):
    ask = ask_of(places[0], released(places, range(1, 3)))
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
            lambda ask: replace(ask, question=replace(ask.question, share=Fraction(1, 10**7))),
            "share: ",
        ),
    ],
)
def test_a_question_that_is_not_for_this_keeper_costs_nothing(held, places, change, reason):
    ask = ask_of(places[0], released(places, [1]))
    reply = asked(held, change(ask))
    assert reply.kind == "refused"
    assert reply.reason.startswith(reason)
    assert held.ledger.summary() == []
    assert asked(held, ask).kind == "answered", "the control"


def test_a_reserved_question_is_answered_after_a_restart(places):
    """The keeper ended between the ledger's entry and the answer, which it never published."""
    tower, releases = places[0], released(places, range(1, 3))
    ask = ask_of(tower, releases)
    with state.opened(tower.state) as held:
        held.ledger.reserve(ask.question)
        assert [each.open for each in held.ledger.summary()] == [2]
    with state.opened(tower.state) as held:
        assert asked(held, ask_of(tower, releases[:1])).kind == "refused"
        assert asked(held, ask).kind == "answered"
        assert [each.open for each in held.ledger.summary()] == [0]


@pytest.mark.parametrize("reserved", [False, True])
def test_an_old_copy_of_the_ledger_is_refused(places, reserved):
    """Also one whose only difference is an answer.

    With an old mark the keeper would answer again: the control of every test of repeated bytes.
    """
    tower = places[0]
    ask = ask_of(tower, released(places, [1]))
    path, mark = tower.state / "ledger.sqlite", tower.state / "ledger-mark"
    with state.opened(tower.state) as held:
        if reserved:
            held.ledger.reserve(ask.question)
    copy, old = path.read_bytes(), mark.read_bytes()
    with state.opened(tower.state) as held:
        first = asked(held, ask)
    path.write_bytes(copy)
    with pytest.raises(StateError, match="old copy"), state.opened(tower.state):
        pass
    mark.write_bytes(old)
    with state.opened(tower.state) as held:
        assert asked(held, ask).answer != first.answer


def test_a_ledger_that_is_replaced_meanwhile_answers_nothing_new(places):
    tower = places[0]
    asks = [ask_of(tower, released(places, [n])) for n in (1, 2)]
    with state.opened(tower.state) as held:
        asked(held, asks[0])
        held.ledger._connection.execute("UPDATE changes SET number = number - 1")
        reply = asked(held, asks[1])
        assert (reply.kind, reply.reason.split(":")[0]) == ("refused", "ledger")


def test_nothing_is_sent_before_the_mark_is_written(places):
    """A disk that takes the ledger's change and not the mark's."""
    tower = places[0]
    ask, folder = ask_of(tower, released(places, [1])), tower.state
    with state.opened(folder) as held:
        (folder / "ledger-mark").unlink()
        (folder / "ledger-mark").mkdir()
        assert [asked(held, ask).kind for _ in range(3)] == ["refused"] * 3
        (folder / "ledger-mark").rmdir()
        assert asked(held, ask).kind == "answered"
        assert int((folder / "ledger-mark").read_bytes()) == held.ledger._number()


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.data())
def test_no_bytes_end_a_keeper(held, places, data):
    whole = ask_of(places[0], released(places, [1])).encode()
    place = data.draw(st.integers(0, len(whole)))
    damaged = whole[:place] + data.draw(st.binary(min_size=1, max_size=9)) + whole[place + 3 :]
    reply = answerer(held).reply(damaged)
    assert Reply.decode(reply.encode()) == reply
    if reply.kind == "answered":
        assert Ask.decode(damaged)
