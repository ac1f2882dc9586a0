"""Streams of a few attributes to make synthetic records of."""

import csv
import gzip
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, partial
from math import isfinite

import numpy as np
import numpy.typing as npt

from benchmarks.datasets import occupancy
from pansketch import Attribute, Domain
from testbed.local_fleet import STATIONS, stations

FloatArray = npt.NDArray[np.float64]
WINDS = ("calm", "north", "east", "south", "west")
ROSE = (
    "N",
    "NNE",
    "NE",
    "ENE",
    "E",
    "ESE",
    "SE",
    "SSE",
    "S",
    "SSW",
    "SW",
    "WSW",
    "W",
    "WNW",
    "NW",
    "NNW",
)


@dataclass(frozen=True)
class Stream:
    """`devices`: the readings of each of them, float64[n, d], in order of time."""

    name: str
    domain: Domain
    devices: Callable[[], tuple[FloatArray, ...]]

    @property
    def truth(self) -> FloatArray:
        """All readings of the fleet."""
        return np.concatenate(self.devices())


TWELVE = Domain(
    [
        Attribute("temp", low=-30, high=50, unit="degC", step=0.1),
        Attribute("dewp", low=-45, high=35, unit="degC", step=0.1),
        Attribute("pres", low=970, high=1060, unit="hPa", step=0.1),
        Attribute("pm25", low=0, high=1000, unit="ug/m3", scale="log", resolution=5, step=1),
        Attribute("o3", low=0, high=1200, unit="ug/m3", scale="log", resolution=10, step=1),
        Attribute("wspm", low=0, high=25, unit="m/s", scale="log", step=0.1),
    ]
)

# The same office, as a person who knows its sensors describes it.
LINEAR_OFFICE = Domain(occupancy.DOMAIN.attributes[:-1])
OFFICE = Domain(
    [
        *LINEAR_OFFICE.attributes[:2],
        Attribute("light", low=0, high=1000, unit="lux", scale="log", step=1),
        Attribute("co2", low=300, high=2300, unit="ppm", step=1),
        LINEAR_OFFICE.attributes[4],
    ]
)

MADE = Domain(
    [
        Attribute("temp", low=-40, high=60, unit="degC", step=0.1),
        Attribute("humid", low=0, high=100, unit="%", step=0.5),
        Attribute("power", low=0, high=5000, unit="W", scale="log", resolution=10),
        Attribute("battery", low=2.5, high=4.5, unit="V", step=0.01),
        Attribute("sector", categories=WINDS),
        Attribute("direction", low=0, high=360, unit="deg", step=1, cyclic=True),
    ]
)


# The code below was written before any measurement on it, and is unchanged since.
WEATHER = Domain(
    [
        Attribute("temp", low=-40, high=60, unit="degC", step=0.1),
        Attribute("rain", low=0, high=200, unit="mm", scale="log", step=0.1),
        Attribute("wspm", low=0, high=30, unit="m/s", step=0.1),
        Attribute("wd", categories=ROSE),
        Attribute("o3", low=0, high=1000, unit="ug/m3", scale="log", resolution=20, step=1),
    ]
)
WIDE = Domain(
    [
        Attribute("temp", low=-60, high=80, unit="degC", step=0.1),
        Attribute("dewp", low=-80, high=60, unit="degC", step=0.1),
        Attribute("pres", low=850, high=1100, unit="hPa", step=0.1),
        Attribute("pm25", low=0, high=3000, unit="ug/m3", scale="log", resolution=5, step=1),
        Attribute("wspm", low=0, high=60, unit="m/s", scale="log", step=0.1),
    ]
)
CLOCK = Domain(
    [
        Attribute("hour", low=0, high=24, unit="h", step=1, cyclic=True),
        Attribute("temp", low=-40, high=60, unit="degC", step=0.1),
        Attribute("o3", low=0, high=1000, unit="ug/m3", scale="log", resolution=20, step=1),
    ]
)
ROOM = Domain(
    [
        Attribute("temperature", low=-10, high=50, unit="degC"),
        Attribute("humidity", low=0, high=100, unit="%"),
        Attribute("co2", low=300, high=5000, unit="ppm", scale="log", resolution=100),
        Attribute("occupied", categories=("no", "yes")),
    ]
)


@cache
def _stations(domain: Domain = TWELVE) -> tuple[FloatArray, ...]:
    return tuple(_station(domain, name) for name in stations())


def _station(domain: Domain, name: str) -> FloatArray:
    """The complete readings of a station, in order of time."""
    with gzip.open(STATIONS / f"{name}.csv.gz", "rt", encoding="ascii", newline="") as file:
        rows = [[_value(row, each) for each in domain.names] for row in csv.DictReader(file)]
    return np.array([row for row in rows if all(map(isfinite, row))])


def _value(row: Mapping[str, str], name: str) -> float:
    if name == "hour":
        return float(row["time"][11:13])
    if not row[name]:
        return float("nan")
    return float(ROSE.index(row[name]) if name == "wd" else row[name])


@cache
def _one_station() -> tuple[FloatArray, ...]:
    return (_station(WIDE, "wanliu"),)


@cache
def _office() -> tuple[FloatArray, ...]:
    return (occupancy.readings()[:, :-1],)


@cache
def _room() -> tuple[FloatArray, ...]:
    return (occupancy.readings()[:, [occupancy.DOMAIN.index(name) for name in ROOM.names]],)


@cache
def _made() -> tuple[FloatArray, ...]:
    """Ten devices with 20,000 readings each, of a fixed seed.

    Readings have two seasons. Numbers depend on each other along curves, a direction on a category.
    """
    return tuple(_device(np.random.default_rng([6, device])) for device in range(10))


def _device(generator: np.random.Generator, count: int = 20_000) -> FloatArray:
    warm = generator.random(count) < 0.6
    temp = np.where(warm, 22, 2) + np.where(warm, 6, 4) * generator.normal(size=count)
    humid = 70 - 1.2 * np.abs(temp - 10) + 9 * generator.normal(size=count)
    power = np.exp(5.5 - 0.05 * temp + 0.7 * generator.normal(size=count))
    battery = 3.3 + 0.2 * np.tanh((temp - 5) / 10) + 0.06 * generator.normal(size=count)
    sector = np.where(
        generator.random(count) < 0.3, 0, generator.choice(4, count, p=[0.5, 0.1, 0.3, 0.1]) + 1
    )
    direction = np.where(
        sector == 0,
        360 * generator.random(count),
        90 * (sector - 1) + 25 * generator.normal(size=count),
    )
    rows = np.column_stack([temp, humid, power, battery, sector, direction % 360])
    return np.asarray(_as_sensors_give_it(rows))


def _as_sensors_give_it(rows: FloatArray) -> FloatArray:
    for place, attribute in enumerate(MADE.attributes):
        if attribute.step is not None:
            rows[:, place] = np.round(np.rint(rows[:, place] / attribute.step) * attribute.step, 6)
        if attribute.cyclic:
            rows[:, place] %= attribute.highest
        rows[:, place] = np.clip(rows[:, place], attribute.origin, attribute.highest)
    return rows


STREAMS = (
    Stream("twelve stations", TWELVE, _stations),
    Stream("office", OFFICE, _office),
    Stream("made up", MADE, _made),
)

# Six in ten readings are 0 lux, in a cell of 31 lux: no release shows where in a cell readings are.
PILED_UP = Stream("office, light linear and no steps", LINEAR_OFFICE, _office)

# Streams on which no constant of the library was set, and the epsilon of each evaluation. The first
# evaluation led to two formulas (`attenuations` and `blurs` of portrait.py). For those, and for
# every later change of a constant, the streams are no longer unseen.
UNSEEN = (
    (Stream("unseen: stations, rain and wind", WEATHER, partial(_stations, WEATHER)), 1.0),
    (Stream("unseen: one station, wide bounds", WIDE, _one_station), 10.0),
    (Stream("unseen: stations, hour of the day", CLOCK, partial(_stations, CLOCK)), 1.0),
    (Stream("unseen: office, wide bounds", ROOM, _room), 1.0),
)
