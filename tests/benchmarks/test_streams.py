"""Made-up streams have the property that they are named for; peers and missing values are right."""

from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

from pansketch import Attribute, Domain

ROOT = Path(__file__).parents[2]
MADE = ("city", "features", "flights", "meters", "nine", "gases", "with_sentinel", "rainy")


def imported(name):
    """A module of the benchmarks, which are not installed."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(ROOT)
        return import_module(f"benchmarks.streams.{name}")


@pytest.fixture(scope="module")
def events():
    return imported("events")


@pytest.fixture(scope="module")
def sensors():
    return imported("sensors")


@pytest.fixture(scope="module")
def peers():
    return imported("peers")


def maker(events, sensors, name):
    return getattr(events, name, None) or getattr(sensors, name)


@pytest.mark.parametrize("name", MADE)
def test_a_made_up_stream_is_the_same_every_time(events, sensors, name):
    make = maker(events, sensors, name)
    first = make()
    for module in (events, sensors):
        for each in vars(module).values():
            if hasattr(each, "cache_clear"):
                each.cache_clear()
    again = make()
    assert again is not first
    assert len(first) == 10
    for one, other in zip(first, again, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("name", MADE)
def test_devices_differ(events, sensors, name):
    one, other = maker(events, sensors, name)()[:2]
    assert not np.array_equal(one, other, equal_nan=True)


def test_readings_lie_inside_the_bounds():
    for kind in imported("kinds").KINDS:
        for place, attribute in enumerate(kind.stream.domain.attributes):
            column = kind.complete[:, place]
            assert attribute.origin <= column.min(), kind.name
            assert column.max() <= attribute.highest, kind.name


def test_later_streams_have_heavy_tails_prices_and_a_storm():
    bicycles, tills, tides = (each.truth for each in imported("later").LATER[:3])
    duration, distance = bicycles[:, 1], bicycles[:, 2]
    kept = np.sort(duration[duration > 3600])
    # Of a Pareto tail of power p a tenth is 10 ** (1 / p) times as far out as the whole.
    assert 10 ** (1 / 1.6) < np.quantile(kept, 0.9) / 3600 < 10 ** (1 / 0.9)
    assert 0.005 < np.mean(duration > 3600) < 0.03
    assert 0.08 < np.mean(distance == 0) < 0.12
    alone = tills[(tills[:, 2] == 1) & (tills[:, 3] == 0), 1]
    assert np.mean(np.abs(alone % 1 - 0.99) < 1e-6) > 0.99
    assert len(alone) > 1000
    assert 0.1 < np.mean(tills[:, 3] > 0) < 0.14
    assert np.corrcoef(tides.T)[1, 2] > 0.8
    storm = tides[:, 3] < 985
    assert 0.001 < storm.mean() < 0.1
    assert tides[storm, 2].mean() > 2 * tides[:, 2].mean()


def test_later_streams_have_swarms_highest_fees_and_rain():
    hives, wells, parking = (each.truth for each in imported("later").LATER[3:])
    cold = hives[:, 1] < 32
    assert 0.005 < cold.mean() < 0.15
    assert hives[cold, 3].mean() > 1.4 * hives[~cold, 3].mean()
    stay, fee = parking[:, 1], parking[:, 2]
    assert fee[stay <= 1440].max() == 24
    assert 0.01 < np.mean(stay > 1440) < 0.02
    assert 0.86 < np.mean(parking[:, 3] == 0) < 0.9
    dry = wells[:, 4] < 1
    # Rain dilutes each well.
    assert np.mean(np.log(wells[~dry, 1])) < np.mean(np.log(wells[dry, 1])) - 0.1
    assert 0.7 < np.mean(wells[:, 2] == 0) < 0.8


def test_a_city_has_heavy_spots_streets_and_water(events):
    rows, (where, widths, _) = events.check_ins(), events.spots()
    assert rows.shape == (events.CHECK_INS, 2) == (120_000, 2)
    assert len(where) == 400
    near, area = np.zeros(len(rows), bool), np.pi * np.sum((3 * widths) ** 2) / events.BOX**2
    for spot, width in zip(where, widths, strict=True):
        near |= ((rows - spot) ** 2).sum(axis=1) < (3 * width) ** 2
    # Spots hold many more check-ins than their part of the box would.
    assert near.mean() > 0.4 > 8 * area
    wet = np.abs(rows[:, 1] - events.river(rows[:, 0])) <= events.RIVER
    assert not wet.any()
    grid = np.histogram2d(*rows.T, bins=64, range=[[0, events.BOX]] * 2)[0]
    assert (grid == 0).mean() > 0.25  # nobody is in a quarter of the box


def test_a_loose_box_is_a_hundred_times_as_long_and_wide(events):
    for tight, loose in zip(
        events.TIGHT_CITY.domain.attributes, events.LOOSE_CITY.domain.attributes, strict=True
    ):
        assert loose.extent == pytest.approx(100 * tight.extent)
        assert loose.origin < tight.origin < tight.highest < loose.highest


def test_features_are_skewed_and_their_bounds_loose(events):
    rows = np.concatenate(events.features())
    assert rows.shape[1] == 10
    assert (np.mean(rows, axis=0) > 1.2 * np.median(rows, axis=0)).all()
    assert (np.quantile(rows, 0.999, axis=0) < events.TOO_LARGE / 4).all()


def test_delays_have_a_heavy_tail_and_missing_arrivals(events):
    rows = np.concatenate(events.flights())
    departure, arrival = rows[:, 0], rows[:, 1]
    assert np.quantile(departure, 0.999) > 20 * np.quantile(departure, 0.75) > 0
    missing = np.isnan(arrival)
    assert 0.04 < missing.mean() < 0.15
    assert np.isfinite(rows[:, [0, 2, 3]]).all()
    # A late flight is more likely to have none.
    assert missing[departure > 15].mean() > 1.5 * missing[departure <= 15].mean()


def test_meters_show_nothing_at_night_and_saturate(events):
    solar = np.concatenate(events.meters())[:, 0]
    assert (solar == 0).mean() > 0.4
    assert (solar == events.FULL_SCALE).mean() > 0.05


def test_sensors_of_one_gas_show_nearly_the_same(sensors):
    related = np.corrcoef(np.log(np.concatenate(sensors.nine())).T)
    assert related.shape == (9, 9)
    assert related[0, 1] > 0.99
    assert related.min() > 0.2


def test_gases_go_together_and_weather_apart(sensors):
    related = np.corrcoef(np.concatenate(sensors.gases()).T)
    assert related[0, 1] > 0.5
    assert np.abs(related[:5, 5:]).max() < 0.5


def test_a_sentinel_stands_for_nine_tenths(sensors):
    column = np.concatenate(sensors.with_sentinel())[:, 0]
    assert (column == sensors.SENTINEL).mean() == pytest.approx(0.9, abs=0.01)
    assert column[column != sensors.SENTINEL].min() > 0


def test_most_hours_are_dry(sensors):
    rain = np.concatenate(sensors.rainy())[:, 2]
    assert (rain == 0).mean() == pytest.approx(sensors.DRY, abs=0.02)
    assert np.quantile(rain[rain > 0], 0.99) > 5 * np.median(rain[rain > 0])


def two(name="x"):
    return Domain([Attribute(f"{name}{i}", low=0, high=1) for i in range(2)])


@pytest.mark.parametrize("peer", ["adaptive_grid", "tree"])
def test_a_peer_follows_dependent_readings_and_loses_them_in_noise(peers, peer):
    generator = np.random.default_rng(1)
    x = generator.random(50_000)
    rows = np.column_stack([x, np.clip(x + 0.05 * generator.standard_normal(50_000), 0, 1)])
    for epsilon, least, most in ((10.0, 0.97, 1.0), (1e-5, -1.0, 0.9)):
        made = getattr(peers, peer)(two(), rows, epsilon, 20_000, np.random.default_rng(2))
        assert made.shape == (20_000, 2)
        assert made.min() >= 0
        assert made.max() <= 1
        assert least <= np.corrcoef(made.T)[0, 1] <= most


def test_a_tree_joins_the_pair_that_depends(peers):
    generator = np.random.default_rng(3)
    free, x = generator.random((2, 50_000))
    rows = np.column_stack([x, free, 1 - x])
    domain = Domain([Attribute(name, low=0, high=1) for name in "abc"])
    made = peers.tree(domain, rows, 10.0, 20_000, generator)
    assert np.corrcoef(made.T)[0, 2] < -0.97
    assert abs(np.corrcoef(made.T)[0, 1]) < 0.05


def test_missing_values_leave_the_other_pairs_whole():
    streams, generator = imported("streams"), np.random.default_rng(4)
    truth = generator.random((20_000, 3))
    records = truth.copy()
    truth[:10_000, 2] = np.nan
    domain = Domain([Attribute(name, low=0, high=1) for name in "abc"])
    found = streams.off(domain, truth, records)
    assert found["pair"] < 0.05
    moved = streams.off(domain, truth, np.column_stack([records[:, :2], records[:, 2] / 2]))
    assert moved["worst pair"] > 0.4
    assert streams.off(domain, truth[:, :], records)["W1"] < 0.01


def test_a_missed_bar_is_shown_as_missed():
    streams, kinds = imported("streams"), imported("kinds")
    kind = next(each for each in kinds.KINDS if each.bars)
    plan = kinds.default_plan(kind.stream, 1.0)
    poor = {"pair": 0.9, "worst pair": 0.9, "W1": 9.0, "correlation": 1.0}
    barred = [row for row in streams._accuracy(kind, 1.0, poor, plan) if row.bar]
    assert [row.meets for row in barred] == [False] * len(kind.bars)
    good = dict.fromkeys(poor, 0.0)
    assert all(row.meets for row in streams._accuracy(kind, 1.0, good, plan) if row.bar)


def test_a_quick_run_has_every_row_of_its_streams(monkeypatch):
    streams, kinds = imported("streams"), imported("kinds")
    chosen = tuple(each for each in kinds.KINDS if each.name == "-200 for missing")
    assert chosen
    monkeypatch.setattr(streams, "KINDS", chosen)
    monkeypatch.setattr(streams, "WITHOUT_BARS", kinds.WITHOUT_BARS[-1:])
    rows = {row.name: row for row in streams.run(True)}
    assert rows["-200 for missing, epsilon 1: mean pairwise TV"].value > 0
    assert "-200 for missing: predicted TV over the measured" in rows
    assert rows["-200 for missing: cdf of hydrocarbons just above the spike is off by"].value < 1
    assert rows["all streams, epsilon 1: TV over the best peer's"].bar == "<= 1.4"
    assert rows["slowest plan"].bar == "<= 2"
    assert rows[f"{kinds.WITHOUT_BARS[-1].name}: predicted TV over the measured"].value > 0
    assert rows["least predicted TV over the measured"].note == "of 1 streams"
    assert rows["least predicted TV over the measured, all streams"].note == "of all 2 streams"
