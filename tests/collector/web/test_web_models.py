"""The models that are kept: fitted once for all who ask, and anew as soon as releases differ."""

import asyncio
from contextlib import closing

import pytest

from collector.failure import CommandError
from collector.generators import Choice
from collector.reader import Selection
from collector.web.desk import Desk
from collector.web.models import Models
from fleet import topics

AIR = Selection("air")
AUTO = Choice()


@pytest.fixture
def site(make_site):
    found = make_site()
    found.fill()
    return found


@pytest.fixture
def desk(site):
    with closing(Desk(site.config.collector.database)) as found:
        yield found


def test_who_asks_at_once_gets_one_model(site, desk):
    async def go():
        models = Models(desk, site.config)
        asked = [models.model(AIR, Choice(name)) for name in ("auto", "privhp") * 10]
        return await asyncio.gather(*asked, models.model(AIR, Choice("kdtree")))

    *same, other = asyncio.run(go())
    assert len({id(model) for model in same}) == 1
    assert other is not same[0]


def test_a_new_release_and_a_dispute_each_make_a_new_model(site, desk, arrive):
    async def go():
        models, config = Models(desk, site.config), []
        for message in (
            None,
            site.release("one", "air", 5),
            site.release("one", "air", 5, times=2),  # under its number: both are set aside
            site.release("two", "air", 5),  # takes the row number of what was set aside
        ):
            if message is not None:
                device = "one" if len(config) < 3 else "two"
                site.settle([arrive(topics.release("testing", device, "air"), message)])
            config.append(await models.model(AIR, AUTO))
            assert await models.model(AIR, AUTO) is config[-1]
        return config

    assert [len(model.windows) for model in asyncio.run(go())] == [6, 7, 6, 7]


def test_only_the_models_asked_for_last_are_kept(site, desk):
    async def go():
        models = Models(desk, site.config, most=2)
        first = await models.model(AIR, AUTO)
        for device in ("one", "two"):
            await models.model(Selection("air", devices=frozenset([device])), AUTO)
        return first, await models.model(AIR, AUTO)

    first, again = asyncio.run(go())
    assert first is not again
    assert first.windows == again.windows


def test_a_failure_is_told_to_all_who_wait_and_not_kept(site, desk):
    async def go():
        models = Models(desk, site.config)
        for _ in range(2):
            asked = [models.model(Selection("silent"), AUTO) for _ in range(5)]
            found = await asyncio.gather(*asked, return_exceptions=True)
            assert all(isinstance(each, CommandError) for each in found)
        return models

    assert not asyncio.run(go())._kept


def test_who_goes_away_leaves_the_fit_to_the_others(site, desk):
    async def go():
        models = Models(desk, site.config)
        first = asyncio.create_task(models.model(AIR, AUTO))
        second = asyncio.create_task(models.model(AIR, AUTO))
        while not models._kept:
            await asyncio.sleep(0)
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first
        return await second

    assert len(asyncio.run(go()).windows) == 6
