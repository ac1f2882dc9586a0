"""Lists of windows that keepers are asked about: their limits, exclusions and strange replies."""

from dataclasses import replace

import numpy as np

from pansketch.wire import decode_blinded, encode_blinded
from pansketch_fleet.protocol import topics
from pansketch_fleet.protocol.keeper_messages import Reply
from tests.collector.asking.blinded_fleet import (
    BEGIN,
    FLEET,
    HOUR,
    Collector,
    lost,
    sums,
)
from tests.collector.asking.test_asking import all_of, check_sums, take
from tests.collector.small_fleet import rows


def test_a_question_is_split_where_its_sums_could_wrap_or_no_message_holds_it(make_fleet):
    fleet = make_fleet(max_readings=10**9)
    with Collector(fleet) as collector:
        take(collector, all_of([0], ("a", "b", "c", "d", "e")))
        collector.turns(24)
    assert [each[2] for each in sums(fleet)] == [2, 2, 1]
    parts = sum(each[4] for each in sums(fleet))
    assert np.array_equal(parts, fleet.counted(*all_of([0], ("a", "b", "c", "d", "e"))))


def test_what_a_broker_takes_bounds_a_question(make_fleet):
    fleet = make_fleet()
    fleet.outlet.most = 5_800
    with Collector(fleet) as collector:
        take(collector, all_of([0], [f"dev-{n}" for n in range(9)]))
        collector.turns(24)
    found = sums(fleet)
    assert len(found) > 1
    assert sum(each[2] for each in found) == 9


def test_a_device_with_many_epochs_does_not_split_the_answer_of_a_fleet(make_fleet):
    """Each part of an answer has noise of its own."""
    fleet = make_fleet()
    fleet.outlet.offline |= {"tower", "well"}
    fleet.outlet.most = 200_000
    topic, payload = fleet.release("hostile", 0)
    made = decode_blinded(payload, fleet.spec)
    many = encode_blinded(replace(made, epochs=made.epochs[:1] * 4096))
    with Collector(fleet) as collector:
        take(collector, all_of([0], [f"dev-{n}" for n in range(9)]))
        collector.take((topic, many))
        collector.turns(2)
    assert rows(fleet.database, "SELECT windows FROM questions") == [(10,)]


def test_excluded_devices_wait_and_are_in_no_question(make_fleet):
    fleet = make_fleet()
    with Collector(fleet) as collector:
        take(collector, all_of([0]))
        collector.store.connection.execute("INSERT INTO excluded VALUES ('two', 0, 1 << 40, 0)")
        collector.turns(24)
        held = [("one", 0), ("three", 0)]
        check_sums(fleet, {("1h", 0): held})
        collector.store.connection.execute("DELETE FROM excluded")
        take(collector, all_of([1]), at=BEGIN + 2 * HOUR)
        collector.turns(24)
    check_sums(fleet, {("1h", 0): held, ("1h", 1): [("two", 0), *all_of([1])]})


def test_who_is_excluded_after_the_preparation_is_taken_out_before_the_list_is_fixed(make_fleet):
    fleet = make_fleet()
    with Collector(fleet) as collector:
        take(collector, all_of([0]))
        collector.turns(2, count=1)
        collector.store.connection.execute("INSERT INTO excluded VALUES ('two', 0, 1 << 40, 0)")
        collector.turns(24)
    check_sums(fleet, {("1h", 0): [("one", 0), ("three", 0)]})


def test_replies_to_no_question_of_a_stranger_or_twice_change_nothing(make_fleet):
    fleet = make_fleet()
    with Collector(fleet) as collector:
        take(collector, all_of([0]))
        collector.turns(2, count=1)
        (question,) = rows(fleet.database, "SELECT digest FROM questions")[0]
        tower, well = fleet.keepers["tower"].id, fleet.keepers["well"].id
        for keeper, reply in [
            ("tower", Reply("prepared", bytes(32), tower)),
            ("tower", Reply("prepared", question, well)),  # The key of the other one.
            ("tower", Reply("answered", question, tower, (), "", b"x")),  # It was not asked.
            ("tower", Reply("refused", question, tower, (("x", "air", b"", 1),), "never")),
        ]:
            collector.receive(keeper, reply.encode(), BEGIN)
        topic = topics.keeper_answer(FLEET, "stranger")
        (outcome,) = collector.take((topic, Reply("prepared", question, tower).encode()))
        assert outcome.reason == "topic"
        collector.turns(24)
    check_sums(fleet, {("1h", 0): all_of([0])})


def test_an_answer_that_cannot_be_read_is_asked_for_again(make_fleet):
    fleet = make_fleet()
    with Collector(fleet) as collector:
        take(collector, all_of([0]))
        collector.turns(2, count=2)
        (question,) = rows(fleet.database, "SELECT digest FROM questions")[0]
        key = fleet.keepers["tower"].id
        reply = Reply("answered", question, key, (), "", b"not an answer").encode()
        collector.receive("tower", reply, BEGIN)
        collector.turns(24)
    check_sums(fleet, {("1h", 0): all_of([0])})


def test_two_windows_of_one_number_are_never_in_one_question(make_fleet):
    """A ledger that was restored from a copy gives a number twice; a keeper answers it once."""
    fleet = make_fleet()
    with Collector(fleet) as collector:
        collector.take(fleet.release("one", 0, sequence=7), fleet.release("one", 1, sequence=7))
        take(collector, [("two", 0), ("two", 1)])
        collector.turns(24)
    check_sums(fleet, {("1h", 0): [("one", 0), ("two", 0)], ("1h", 1): [("two", 1)]})
    assert [each[:3] for each in lost(fleet)] == [("one", 7, "1h")]
