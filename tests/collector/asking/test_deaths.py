"""A collector that dies at any statement goes on where it was; a keeper that changes its mind."""

import random
from dataclasses import replace

import pytest

from pansketch.wire import decode_question
from pansketch_collector.asking.asker import Asker
from pansketch_fleet.backoff import Backoff
from pansketch_fleet.protocol.keeper_messages import Ask
from tests.collector.asking.blinded_fleet import Collector, lost
from tests.collector.asking.test_asking import (
    TWO_LEVELS,
    all_of,
    check_one_list_each,
    check_sums,
    take,
)
from tests.collector.small_fleet import rows

DEATHS = 60


class Died(BaseException):
    """The process ends here."""


class Mortal:
    """A connection whose process dies before or after one of its next statements."""

    def __init__(self, connection, statements):
        self._connection, self._left = connection, statements

    def execute(self, *words):
        return self._run(self._connection.execute, words)

    def executemany(self, *words):
        return self._run(self._connection.executemany, words)

    def _run(self, statement, words):
        self._left -= 1
        if self._left < 0:
            raise Died
        found = statement(*words)
        if self._left == 0:
            self._left = -1
            raise Died
        return found

    def __getattr__(self, name):
        return getattr(self._connection, name)


def test_deaths_at_any_statement_lose_nothing_and_ask_nothing_twice(make_fleet):
    fleet, chance, deaths = make_fleet(answers=TWO_LEVELS), random.Random(3), 0
    with Collector(fleet) as collector:
        take(collector, all_of(range(8)))
    while deaths < DEATHS:
        with Collector(fleet) as collector:
            mortal = Mortal(collector.store.connection, chance.randint(1, 60))
            backoff = Backoff(1.0, 1.0, 0.0)
            try:
                collector.asker = Asker(
                    collector.config, mortal, collector.rules, fleet.outlet, backoff
                )
                collector.turns(24, count=1)
            except Died:
                deaths += 1
        if chance.random() < 0.3:
            fleet.outlet.waiting.clear()  # Lost replies.
    with Collector(fleet) as collector:
        collector.turns(24, count=40)
    check_sums(
        fleet,
        {("1h", hour): all_of([hour]) for hour in range(8)}
        | {("4h", hour): all_of(range(hour, hour + 4)) for hour in (0, 4)},
    )
    check_one_list_each(fleet)
    assert lost(fleet) == []


@pytest.mark.parametrize("late", [True, False])
def test_windows_that_a_keeper_refuses_of_a_fixed_list_cost_no_others(make_fleet, late):
    """Unless the other keeper was asked already: then its answer is of no use, nor is another."""
    fleet = make_fleet()
    tower, well = fleet.keepers.values()
    with Collector(fleet) as collector:
        take(collector, all_of([0]))
        collector.turns(24, count=1)
        asked = decode_question(rows(fleet.database, "SELECT payload FROM questions")[0][0])
        only = replace(asked, windows=asked.windows[:1])
        tower.reply(Ask("answer", only, fleet.spec, tower.id).encode())
        fleet.outlet.offline |= {"well"} if late else set()
        collector.turns(24, count=1)
        fleet.outlet.offline.clear()
        collector.turns(24)
    held = [(each.key[0], 0) for each in asked.windows[1:]]
    check_sums(fleet, {("1h", 0): held} if late else {})
    assert len(lost(fleet)) == (1 if late else 3)
    assert all("has answered about it in another" in each[3] for each in lost(fleet))
    assert [len(each.windows) for each in well.listed().values()] == [2 if late else 3]
