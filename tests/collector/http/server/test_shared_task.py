"""Shared work: done once, finished once begun, and cancelled without callers."""

import asyncio
import threading
from contextlib import closing, contextmanager

import pytest

from pansketch_collector.http.server.executors import CachedCount, Executors
from tests.waiting import SECONDS


@pytest.fixture
def executors(tmp_path):
    with closing(Executors(tmp_path / "none.sqlite")) as found:
        yield found


class Work:
    """Does nothing until it may end; knows how often it was begun."""

    def __init__(self):
        self.times, self.begun, self.may_end = 0, threading.Event(), threading.Event()

    def __call__(self):
        self.times += 1
        self.begun.set()
        assert self.may_end.wait(SECONDS)
        return self.times

    async def has_begun(self):
        assert await asyncio.to_thread(self.begun.wait, SECONDS)


@contextmanager
def occupied(pool):
    """No thread of it is free for anything else."""
    free = threading.Event()
    for _ in range(2):
        pool.submit(free.wait, SECONDS)
    try:
        yield
    finally:
        free.set()


async def leave(*waiting):
    for each in waiting:
        each.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)


async def settle():
    for _ in range(5):
        await asyncio.sleep(0)


def test_work_that_has_not_begun_is_dropped_with_the_last_who_waits(executors):
    forgotten, work = [], Work()
    work.may_end.set()

    async def go():
        with occupied(executors.fits):
            shared = executors.share(executors.fits, work, lambda: forgotten.append(True))
            first, second = (asyncio.create_task(shared.wait()) for _ in range(2))
            await settle()
            await leave(first)
            assert not forgotten
            await leave(second)
            assert forgotten
        await executors.run(executors.fits, lambda: None)
        await executors.run(executors.fits, lambda: None)

    asyncio.run(go())
    assert work.times == 0


def test_work_that_has_begun_is_finished_for_the_next_who_asks(executors):
    forgotten, work = [], Work()

    async def go():
        shared = executors.share(executors.fits, work, lambda: forgotten.append(True))
        first = asyncio.create_task(shared.wait())
        await work.has_begun()
        await leave(first)
        work.may_end.set()
        return await shared.wait(), await shared.wait()

    assert asyncio.run(go()) == (1, 1)
    assert not forgotten


def test_the_lock_is_held_until_the_work_is_done_without_callers_too(executors):
    """Work that computes the same results waits, and is cancelled meanwhile."""
    first, second = Work(), Work()
    second.may_end.set()

    async def go():
        turn = asyncio.Lock()
        one, two = (
            executors.share(executors.fits, each, lambda: None, turn) for each in (first, second)
        )
        asked = [asyncio.create_task(each.wait()) for each in (one, two)]
        await first.has_begun()
        await leave(*asked)
        assert turn.locked()
        first.may_end.set()
        await one.wait()
        await settle()
        assert not turn.locked()

    asyncio.run(go())
    assert (first.times, second.times) == (1, 0)


def test_a_failure_reaches_all_callers_and_is_forgotten(executors):
    forgotten = []

    def fail():
        raise ValueError("no")

    async def go():
        shared = executors.share(executors.fits, fail, lambda: forgotten.append(True))
        return await asyncio.gather(*(shared.wait() for _ in range(3)), return_exceptions=True)

    assert [type(found) for found in asyncio.run(go())] == [ValueError] * 3
    assert forgotten == [True]


def test_a_count_of_the_fleet_is_made_once_though_each_who_asks_leaves(executors, monkeypatch):
    """A client cannot start several counts of a large database by asking and disconnecting."""
    work = Work()
    monkeypatch.setattr(Executors, "read_blocking", lambda self, read: read(None))

    async def go():
        counts = CachedCount(executors, lambda reader: work())
        for _ in range(5):
            asked = asyncio.create_task(counts.count())
            await work.has_begun()
            await leave(asked)
        work.may_end.set()
        return (await counts.count()).found

    assert asyncio.run(go()) == 1


def test_a_count_that_never_began_is_made_for_the_next_who_asks(executors, monkeypatch):
    work = Work()
    work.may_end.set()
    monkeypatch.setattr(Executors, "read_blocking", lambda self, read: read(None))

    async def go():
        counts = CachedCount(executors, lambda reader: work())
        free = threading.Event()
        for _ in range(4):
            executors.reads.submit(free.wait, SECONDS)
        asked = asyncio.create_task(counts.count())
        await settle()
        await leave(asked)
        free.set()
        return (await counts.count()).found

    assert asyncio.run(go()) == 1
