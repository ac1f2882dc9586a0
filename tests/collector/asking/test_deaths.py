"""A collector that dies at any statement of the database goes on where it was."""

import random

from pansketch_collector.asking.asker import Asker
from pansketch_fleet.backoff import Backoff
from tests.collector.asking.blinded_fleet import Collector, lost
from tests.collector.asking.test_asking import (
    TWO_LEVELS,
    all_of,
    check_one_list_each,
    check_sums,
    take,
)

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
            mortal = Mortal(collector.store.epochs.db, chance.randint(1, 60))
            backoff = Backoff(1.0, 1.0, 0.0)
            try:
                collector.asker = Asker(
                    collector.config, mortal, collector.rules, fleet.outlet, backoff
                )
                collector.turns(24, count=1)
            except Died:
                deaths += 1
        if chance.random() < 0.3:
            fleet.outlet.waiting.clear()  # Replies that nobody heard.
    with Collector(fleet) as collector:
        collector.turns(24, count=40)
    check_sums(
        fleet,
        {("1h", hour): all_of([hour]) for hour in range(8)}
        | {("4h", hour): all_of(range(hour, hour + 4)) for hour in (0, 4)},
    )
    check_one_list_each(fleet)
    assert lost(fleet) == []
