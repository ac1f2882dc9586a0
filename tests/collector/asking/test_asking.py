"""Asking keepers: from masked releases to their sum, with late, offline and restored
participants."""

import shutil
from dataclasses import replace

import numpy as np

from pansketch.blinding import PrivateKey
from pansketch.wire import decode_question
from pansketch_fleet.protocol.keeper_messages import Ask
from tests.collector.asking.blinded_fleet import (
    BEGIN,
    HOUR,
    Collector,
    lost,
    states,
    sums,
)
from tests.collector.small_fleet import rows
from tests.seeded_noise import noise_of_test

THREE = ("one", "two", "three")
TWO_LEVELS = "[{every: 1h, share: 1/2}, {every: 4h, share: 1/2}]"


def all_of(hours, devices=THREE):
    return [(device, hour) for hour in hours for device in devices]


def take(collector, windows, at=BEGIN):
    fleet = collector.fleet
    outcomes = collector.take(*(fleet.release(*each) for each in windows), at=at)
    assert {type(each).__name__ for each in outcomes} == {"Accepted"}


def check_sums(fleet, wanted):
    """`wanted`: by level and period, the windows that its sum holds."""
    found = sums(fleet)
    assert [each[:2] for each in found] == sorted(wanted)
    for level, hour, windows, _, counters in found:
        held = wanted[level, hour]
        assert windows == len(held)
        assert np.array_equal(counters, fleet.counted(*held)), (level, hour)


def check_one_list_each(fleet):
    """No keeper answered a window in two lists of a level, and all keepers had the same lists."""
    tower, well = (set(keeper.listed()) for keeper in fleet.keepers.values())
    answered = set(fleet.keepers["tower"].ledger._answers)
    answered &= set(fleet.keepers["well"].ledger._answers)
    assert answered <= tower & well
    for keeper in fleet.keepers.values():
        seen = [
            (question.level, *each.key)
            for digest, question in keeper.listed().items()
            if digest in keeper.ledger._answers
            for each in question.windows
        ]
        assert len(seen) == len(set(seen))


def test_each_period_is_asked_once_and_its_answer_is_the_sum_of_its_readings(make_fleet):
    fleet = make_fleet()
    with Collector(fleet) as collector:
        take(collector, all_of(range(4)))
        collector.turns(1.1)  # Over, and its lateness has not passed.
        assert states(fleet) == []
        collector.turns(24)
    check_sums(fleet, {("1h", hour): all_of([hour]) for hour in range(4)})
    assert set(states(fleet)) == {("answered", "")}
    assert [len(keeper.listed()) for keeper in fleet.keepers.values()] == [4, 4]


def test_keepers_are_asked_to_answer_only_what_both_have_prepared(make_fleet):
    fleet = make_fleet()
    with Collector(fleet) as collector:
        take(collector, all_of([0]))
        collector.turns(2, count=1)
        kinds = [kind for keeper in fleet.keepers.values() for kind, _ in keeper.asked]
        assert kinds == ["prepare", "prepare"]
        fleet.outlet.offline.add("well")
        collector.turns(2)
    assert [kind for kind, _ in fleet.keepers["well"].asked] == ["prepare"]


def test_a_keeper_that_is_offline_costs_nothing_but_time(make_fleet):
    fleet = make_fleet()
    fleet.outlet.offline.add("well")
    with Collector(fleet) as collector:
        take(collector, all_of(range(3)))
        collector.turns(24 * 7)
        assert sums(fleet) == []
        fleet.outlet.offline.clear()
        collector.turns(24 * 7)
    check_sums(fleet, {("1h", hour): all_of([hour]) for hour in range(3)})


def test_an_offline_keeper_is_not_asked_until_it_is_online(make_fleet):
    fleet = make_fleet()
    with Collector(fleet) as collector:
        collector.presence("well", "offline")
        take(collector, all_of([0]))
        collector.turns(24)
        assert fleet.keepers["well"].asked == []
        collector.presence("well", "online", "again")
        collector.presence("well", "offline", "s")  # The last will of the earlier session.
        collector.turns(24)
    check_sums(fleet, {("1h", 0): all_of([0])})


def test_late_releases_are_in_the_next_answer_of_their_level(make_fleet):
    fleet = make_fleet()
    with Collector(fleet) as collector:
        take(collector, [("one", 0), ("two", 0)])
        collector.turns(2)
        take(collector, [("three", 0)], at=BEGIN + 2 * HOUR)
        collector.turns(2)
        assert len(sums(fleet)) == 1
        take(collector, all_of([1]), at=BEGIN + 2 * HOUR)
        collector.turns(24)
    check_sums(
        fleet,
        {("1h", 0): [("one", 0), ("two", 0)], ("1h", 1): [("three", 0), *all_of([1])]},
    )


def test_devices_under_new_keys_wait_for_no_period_of_those_under_the_old_ones(make_fleet):
    """Devices take a keeper's new key one after the other."""
    fleet = make_fleet()
    fleet.outlet.offline |= {"tower", "well"}
    well = fleet.keepers["well"].key.public
    old = PrivateKey.draw(noise_of_test()).public
    text = fleet.path.read_text()
    keys = "tower: {key: " + fleet.keepers["tower"].key.public.hex()
    fleet.path.write_text(text.replace(keys, f"{keys}, previous: [{old.hex()}]"))
    with Collector(fleet) as collector:
        messages = [fleet.release(device, 0, keys=(old, well)) for device in ("one", "two")]
        collector.take(*messages, fleet.release("three", 0), at=BEGIN)
        collector.turns(3)
        collector.take(fleet.release("four", 0), at=BEGIN + 2 * HOUR)
        collector.turns(4)
    asked = rows(fleet.database, "SELECT period_start, windows FROM questions ORDER BY windows")
    assert sorted(asked[:2]) == [(BEGIN, 1), (BEGIN + HOUR, 1)], "one that is late, and three"
    assert asked[2:] == [(BEGIN, 2)]


def test_every_level_has_each_window_once_and_the_noise_of_its_share(make_fleet):
    fleet = make_fleet(answers=TWO_LEVELS)
    with Collector(fleet) as collector:
        take(collector, all_of(range(4)))
        collector.turns(24)
    wanted = {("1h", hour): all_of([hour]) for hour in range(4)}
    check_sums(fleet, {**wanted, ("4h", 0): all_of(range(4))})
    half = [noise for _, _, _, noise, _ in sums(fleet)]
    assert min(half) > 2 * 4 * 0.99  # Two draws of twice the scale: over four times the variance.
    for keeper in fleet.keepers.values():
        assert {question.share for question in keeper.listed().values()} == {1 / 2}


def test_a_restored_database_asks_the_same_question_and_loses_what_it_no_longer_can(make_fleet):
    fleet = make_fleet()
    copy = fleet.path.parent / "copy.sqlite"
    with Collector(fleet) as collector:
        take(collector, [("one", 0), ("two", 0), ("one", 1)])
        collector.store.connection.execute("VACUUM INTO ?", (str(copy),))
        take(collector, [("two", 1)])
        collector.turns(24)
    before = sums(fleet)
    for rest in ("", "-wal", "-shm"):
        fleet.database.with_name(fleet.database.name + rest).unlink(missing_ok=True)
    shutil.copy(copy, fleet.database)
    with Collector(fleet) as collector:
        collector.turns(24)
    again = sums(fleet)
    assert [each[:3] for each in again] == [("1h", 0, 2)]
    assert np.array_equal(again[0][4], before[0][4])
    # The answer about hour 1 had a window that is not there: no keeper answers about the other.
    assert [each[:3] for each in lost(fleet)] == [("one", 2, "1h")]
    assert "has answered about it in another question" in lost(fleet)[0][3]
    check_one_list_each(fleet)


def test_windows_that_one_keeper_refuses_are_in_no_list_of_any(make_fleet):
    fleet = make_fleet()
    fleet.outlet.offline |= {"tower", "well"}
    with Collector(fleet) as collector:
        take(collector, all_of([0]))
        collector.turns(2)
    asked = decode_question(rows(fleet.database, "SELECT payload FROM questions")[0][0])
    only = replace(asked, windows=asked.windows[:1])
    payload = Ask("answer", only, fleet.spec, fleet.keepers["tower"].id).encode()
    fleet.keepers["tower"].reply(payload)  # As if another collector had asked.
    fleet.outlet.offline.clear()
    with Collector(fleet) as collector:
        collector.turns(24)
    held = [(each.key[0], 0) for each in asked.windows[1:]]
    check_sums(fleet, {("1h", 0): held})
    assert [each[0] for each in lost(fleet)] == [asked.windows[0].key[0]]
    kept = fleet.keepers["well"].listed().values()
    assert [len(question.windows) for question in kept] == [2]


def test_an_answer_whose_masks_do_not_cancel_is_rejected_with_the_reason(make_fleet, ask):
    fleet = make_fleet()
    fleet.keepers["well"].broken = True
    with Collector(fleet) as collector:
        take(collector, all_of([0]))
        collector.turns(24)
    assert sums(fleet) == []
    ((state, problem),) = states(fleet)
    assert state == "failed"
    assert "outside of what readings and noise can make" in problem
    code, _, said = ask(fleet, "query", "--stream", "air", "mean", "temp")
    assert code == 1
    assert "3: in an answer that was rejected" in said


def test_more_readings_than_were_allowed_are_unblinded_once_the_configuration_allows_them(
    make_fleet,
):
    fleet = make_fleet(max_readings=1)
    with Collector(fleet) as collector:
        collector.take(*(fleet.release(device, 0, 400) for device in THREE))
        collector.turns(24)
    assert [state for state, _ in states(fleet)] == ["failed"]
    fleet.write(max_readings=1000)
    with Collector(fleet) as collector:
        collector.turns(24)
    check_sums(fleet, {("1h", 0): all_of([0])})
