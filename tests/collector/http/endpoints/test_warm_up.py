"""After a start the first questions of both views are answered before any visitor."""

import asyncio
import os
import socket
from contextlib import closing
from types import SimpleNamespace

from fastapi import FastAPI

from pansketch_collector.errors import CommandError
from pansketch_collector.http import __main__ as program
from pansketch_collector.http.app import application
from pansketch_collector.http.endpoints import caches
from pansketch_collector.http.endpoints import warm_up as module
from pansketch_collector.http.endpoints.warm_up import first_questions, warm_up
from pansketch_collector.http.server.access_control import ResponseLimits
from pansketch_collector.http.server.executors import CachedCount, Executors
from pansketch_collector.http.supervisor import BrokerState
from pansketch_collector.storage.reader import reading
from pansketch_collector.storage.tables.holdings import by_stream
from pansketch_fleet.settings.settings import ReadingStream
from tests.waiting import SECONDS

WITH_RELEASES = ["air", "pairs", "sums"]


def warmed(site, executors, ask, busy=lambda: False):
    async def go():
        stored = CachedCount(executors, lambda reader: by_stream(reader.connection))
        await warm_up(site.config, stored, ask, busy)

    asyncio.run(go())


def test_each_stream_of_readings_with_releases_is_asked_once(site, executors):
    asked = []

    async def ask(stream, question):
        asked.append((stream, question.question))

    warmed(site, executors, ask)
    assert list(dict.fromkeys(stream for stream, _ in asked)) == WITH_RELEASES
    figures = ["histogram", "mean", *["quantile"] * 5, "mean"]
    changes = ["change", "drift", "mean", "range", "range", "range"]
    names = [name for stream, name in asked if stream == "air"]
    assert names == [*figures, *changes, "density"]


def test_a_visitor_gets_what_was_computed_after_the_start(site, executors, monkeypatch):
    """And exactly what the server answers without a warm-up, which is the control."""
    limits, broker = ResponseLimits(), BrokerState(os.memfd_create("broker-state"))
    with reading(site.config.collector.database) as reader:
        counts = by_stream(reader.connection)
    questions = [
        (each.name, asked)
        for each in site.config.streams
        if isinstance(each, ReadingStream) and each.name in counts
        for asked in first_questions(each, counts[each.name])
    ]
    computed = []

    def noting(begin):
        def noted(*given):
            computed.append(given)
            return begin(*given)

        return noted

    for name in ("_begin", "_begin_answer"):
        monkeypatch.setattr(caches.Models, name, noting(getattr(caches.Models, name)))
    monkeypatch.setattr(module, "MAX_SECONDS", SECONDS)

    async def answers(warm):
        app = application(site.config, executors, limits, broker)
        if warm:
            await app.state.warm_up()
            assert computed
            computed.clear()
        found = []
        for stream, asked in questions:
            try:
                found.append(await app.state.warm_up.args[2](stream, asked))
            except CommandError as error:
                found.append(repr(error))
        return found

    after = asyncio.run(answers(warm=True))
    refused = [each for each in after if isinstance(each, str)]
    assert len(computed) <= len(refused) < len(after)  # Refusals alone are computed again.
    assert after == asyncio.run(answers(warm=False))
    assert len(computed) >= len(after) - len(refused)


def test_it_waits_while_the_server_answers(site, executors):
    """One question is asked at a time, and none beside a visitor's."""
    asked, beside = [], []

    def busy():
        beside.append(len(asked))
        return len(beside) % 3 != 0

    async def ask(stream, question):
        asked.append(question)

    warmed(site, executors, ask, busy)
    assert beside == [n for n in range(len(asked)) for _ in range(3)]


def test_it_ends_after_a_while(site, executors, monkeypatch):
    """Also on a server that is never idle."""
    now, asked = [0.0], []

    async def ask(stream, question):
        asked.append(question)
        now[0] += module.MAX_SECONDS / 2

    def pause(seconds):
        now[0] += seconds
        return asyncio.sleep(0)

    monkeypatch.setattr(module, "clock", SimpleNamespace(uptime=lambda: now[0]))
    monkeypatch.setattr(module, "asyncio", SimpleNamespace(sleep=pause))
    warmed(site, executors, ask)
    assert len(asked) == 2
    warmed(site, executors, ask, busy=lambda: True)
    assert len(asked) == 2


def test_without_a_database_nothing_is_asked(make_site):
    site = make_site()

    async def ask(stream, question):
        raise AssertionError("nothing is stored")

    with closing(Executors(site.config.collector.database)) as executors:
        warmed(site, executors, ask)


def test_the_server_starts_it_and_ends_with_it_unfinished(site, monkeypatch):
    app, states = FastAPI(), []

    async def endless():
        states.append("started")
        try:
            await asyncio.Event().wait()
        finally:
            states.append("ended")

    app.state.warm_up = endless
    monkeypatch.setattr(program, "application", lambda *given: app)
    monkeypatch.setattr(program.os, "read", lambda *given: b"")  # The parent has ended.
    broker = BrokerState(os.memfd_create("broker-state"))
    with socket.create_server(("127.0.0.1", 0)) as listening:
        program._serve(site.config, site.config.collector.http, listening, broker)
    assert states == ["started", "ended"]
