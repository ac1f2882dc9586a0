"""Cached models: fitted once for all callers, and again as soon as releases differ."""

import asyncio
import gc
import os
import threading
import weakref
from functools import partial

import httpx
import pytest

from pansketch_collector.errors import CommandError
from pansketch_collector.http import app as app_module
from pansketch_collector.http.app import application
from pansketch_collector.http.endpoints import caches as module
from pansketch_collector.http.endpoints.caches import Models
from pansketch_collector.http.server.access_control import ResponseLimits
from pansketch_collector.http.supervisor import BrokerState
from pansketch_collector.queries.generator_registry import GeneratorChoice
from pansketch_collector.storage.tables.records import Selection
from pansketch_fleet.protocol import topics

AIR = Selection("air")
AUTO = GeneratorChoice()


def test_who_asks_at_once_gets_one_model(site, executors):
    async def go():
        models = Models(executors, site.config)
        asked = [models.model(AIR, GeneratorChoice(name)) for name in ("auto", "privhp") * 10]
        return await asyncio.gather(*asked, models.model(AIR, GeneratorChoice("kdtree")))

    *same, other = asyncio.run(go())
    assert len({id(model) for model in same}) == 1
    assert other is not same[0]


def test_a_new_release_makes_a_new_model_and_a_dispute_none(site, executors, arrive):
    async def go():
        models, config = Models(executors, site.config, lifetime_factor=0), []
        for message in (
            None,
            site.release("one", "air", 5),
            site.release("one", "air", 5, times=2),  # another one of its window is kept beside it
            site.release("two", "air", 5),
        ):
            if message is not None:
                device = "one" if len(config) < 3 else "two"
                site.commit([arrive(topics.release("testing", device, "air"), message)])
            config.append(await models.model(AIR, AUTO))
            assert await models.model(AIR, AUTO) is config[-1]
        return config

    found = asyncio.run(go())
    assert [model.windows for model in found] == [6, 7, 7, 8]
    assert len({id(model) for model in found}) == 3


def test_a_model_that_was_replaced_is_gone_at_once(site, executors, arrive):
    """It has some tens of megabytes with its answers; nothing waits for the collector of cycles."""

    async def go():
        models = Models(executors, site.config, lifetime_factor=0)
        _, model = await models.ask(AIR, AUTO, "count", lambda model: {"n": model.windows})
        old = weakref.ref(model)
        del model
        site.commit(
            [arrive(topics.release("testing", "one", "air"), site.release("one", "air", 5))]
        )
        await models.model(AIR, AUTO)
        return old()

    gc.disable()
    try:
        assert asyncio.run(go()) is None
    finally:
        gc.enable()


def test_only_the_models_asked_for_last_are_kept(site, executors):
    async def go():
        models = Models(executors, site.config, max_models=2)
        first = await models.model(AIR, AUTO)
        for device in ("one", "two"):
            await models.model(Selection("air", devices=frozenset([device])), AUTO)
        return first, await models.model(AIR, AUTO)

    first, again = asyncio.run(go())
    assert first is not again
    assert first.windows == again.windows


def test_derived_answers_displace_no_model_and_outlast_as_many(site, executors):
    """A page asks more series and comparisons of a stream than there are models in the cache."""
    derived, made = [f"question {number}" for number in range(12)], []

    def make(name):
        def answer(reader):
            made.append(name)
            return {"name": name}

        return answer

    async def go():
        models = Models(executors, site.config, max_models=2)
        model = await models.model(AIR, AUTO)
        for _ in range(2):
            for name in derived:
                assert (await models.derived(name, (AIR,), make(name)))["name"] == name
        return model, await models.model(AIR, AUTO)

    model, again = asyncio.run(go())
    assert again is model
    assert made == derived


def test_a_failure_reaches_all_waiting_callers_and_is_not_cached(site, executors):
    async def go():
        models = Models(executors, site.config)
        for _ in range(2):
            asked = [models.model(Selection("silent"), AUTO) for _ in range(5)]
            found = await asyncio.gather(*asked, return_exceptions=True)
            assert all(isinstance(each, CommandError) for each in found)
        return models

    assert not asyncio.run(go())._models


def test_who_goes_away_leaves_the_fit_to_the_others(site, executors):
    async def go():
        models = Models(executors, site.config)
        first = asyncio.create_task(models.model(AIR, AUTO))
        second = asyncio.create_task(models.model(AIR, AUTO))
        while not models._models:
            await asyncio.sleep(0)
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first
        return await second

    assert asyncio.run(go()).windows == 6


@pytest.fixture
def fits(monkeypatch):
    """The selections that were fitted."""
    found, build = [], module.build

    def noted(reader, config, selection, choice):
        found.append(selection)
        return build(reader, config, selection, choice)

    monkeypatch.setattr(module, "build", noted)
    return found


def test_a_fit_without_callers_is_cancelled_before_it_begins(site, executors, fits):
    """A page that asks again and again and never waits leaves one fit behind, not one a time."""

    async def go():
        models, free = Models(executors, site.config), threading.Event()
        for _ in range(2):
            executors.fits.submit(free.wait, 20)
        for _ in range(30):
            asked = [asyncio.create_task(models.model(AIR, AUTO)) for _ in range(3)]
            while not models._models:
                await asyncio.sleep(0)
            for each in asked:
                each.cancel()
            await asyncio.gather(*asked, return_exceptions=True)
            assert not models._models
        free.set()
        return await models.model(AIR, AUTO)

    assert asyncio.run(go()).windows == 6
    assert fits == [AIR]


def test_releases_that_keep_coming_do_not_keep_fits_going(site, executors, fits, arrive):
    """A model answers for a multiple of its fit time, with any new releases.

    During the fit all callers wait for the same model.
    """

    async def go(share, days):
        models, found = Models(executors, site.config, lifetime_factor=share), []
        for day in days:
            asked = [asyncio.create_task(models.model(AIR, AUTO)) for _ in range(3)]
            await asyncio.sleep(0)
            for device in ("one", "two"):
                topic = topics.release("testing", device, "air")
                site.commit([arrive(topic, site.release(device, "air", day))])
            found += await asyncio.gather(*asked, models.model(AIR, AUTO))
        return found

    many = asyncio.run(go(1e6, range(5, 9)))
    assert len({id(model) for model in many}) == len(fits) == 1
    fits.clear()
    # Negative control: without the rule there are about as many as there were moments.
    asyncio.run(go(0, range(9, 13)))
    assert len(fits) >= 3


def test_answers_are_kept_by_their_question_and_failures_are_not(site, executors):
    times = []

    def count(model):
        times.append(model.windows)
        return {"windows": model.windows}

    def fail(model):
        times.append(None)
        raise CommandError("no")

    async def go():
        models = Models(executors, site.config)
        asked = [models.ask(AIR, AUTO, "count", count) for _ in range(5)]
        found = [answer for answer, _ in await asyncio.gather(*asked)]
        for _ in range(2):
            with pytest.raises(CommandError):
                await models.ask(AIR, AUTO, "fail", fail)
        return found

    assert asyncio.run(go()) == [{"windows": 6}] * 5
    assert times == [6, None, None]


@pytest.mark.parametrize(
    ("asked", "status"),
    [
        ("question=mean&attribute=temp", 200),
        ("question=mean&attribute=temp&by=window", 200),
        ("question=drift&between=1970-01-01..1970-01-03&between=1970-01-03..1970-01-09", 200),
        ("question=covariance&attribute=temp&attribute=wind", 422),
    ],
)
@pytest.mark.parametrize("factor", [1e6, 0.0])
def test_a_response_from_fewer_releases_says_so(
    site, executors, arrive, monkeypatch, asked, status, factor
):
    """Also one without a body, and a refusal: a reader asks again. Control: without reuse, none."""
    monkeypatch.setattr(app_module, "Models", partial(Models, lifetime_factor=factor))
    limits, broker = ResponseLimits(), BrokerState(os.memfd_create("broker-state"))
    app = application(site.config, executors, limits, broker)
    path, known = f"/v1/streams/air/query?{asked}", {}

    async def go():
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://site") as client:
            first = await client.get(path)
            known.update({"If-None-Match": first.headers.get("etag", "")})
            release = site.release("one", "air", 5)
            site.commit([arrive(topics.release("testing", "one", "air"), release)])
            return first, await client.get(path), await client.get(path, headers=known)

    first, second, third = asyncio.run(go())
    assert first.status_code == second.status_code == status, first.text
    assert "pansketch-newer-releases" not in first.headers
    for each in (second, third):
        assert each.headers.get("pansketch-newer-releases") == ("true" if factor else None)
    unchanged = factor and status == 200
    assert third.status_code == (304 if unchanged else status)
