"""Streams of lifts, greenhouses and pumps: most of the time a number has one value, and at others
it is spread. All readings are synthetic, from a fixed seed.
"""

from collections.abc import Callable
from functools import cache, partial

import numpy as np

from benchmarks.datasets.small_streams import FloatArray, Stream
from pansketch import Attribute, Domain

DEVICES = 10

LIFTS = Domain(
    [
        Attribute("floor", low=0, high=40, step=1),
        Attribute("load", low=0, high=2000, unit="kg", step=10),
        Attribute("travel", low=0, high=600, unit="s"),
        Attribute("motor", low=-20, high=150, unit="degC", step=0.1),
    ]
)
GREENHOUSE = Domain(
    [
        Attribute("co2", low=0, high=10_000, unit="ppm", step=1),
        Attribute("light", low=0, high=200_000, unit="lx"),
        Attribute("humidity", low=0, high=100, unit="%", step=0.1),
        Attribute("temp", low=-10, high=60, unit="degC", step=0.1),
        Attribute("wetness", low=0, high=15),
    ]
)
PUMPS = Domain(
    [
        Attribute("pressure", low=0, high=400, unit="bar", step=0.1),
        Attribute("flow", low=0, high=5000, unit="l/min"),
        Attribute("vibration", low=0, high=1000, unit="mm/s"),
        Attribute("current", low=0, high=500, unit="A", step=0.1),
    ]
)


def _lifts(rng: np.random.Generator) -> FloatArray:
    """Trips of a lift in a house of 22 floors, half of which begin or end at the entrance."""
    many = 4000
    floors = np.where(rng.random(many) < 0.5, 2, rng.integers(0, 22, many))
    people = rng.poisson(0.9, many)
    load = people * 70 + 15 * rng.standard_normal(many) * (people > 0)
    travel = 4 + 2.2 * np.abs(floors - rng.integers(0, 22, many)) + rng.exponential(2, many)
    motor = 32 + 6 * rng.standard_normal(many) + 0.01 * load
    return np.stack([floors, load, travel, motor], axis=1)


def _greenhouse(rng: np.random.Generator) -> FloatArray:
    """Three months of hours: gas is dosed by day, leaves are wet by night."""
    hours = np.arange(2160) % 24
    sun = np.clip(np.round(np.sin(np.pi * (hours - 6) / 12), 9), 0, None)
    light = 60_000 * sun * rng.beta(2, 1.5, len(hours))
    dosed = (sun > 0.2) & (rng.random(len(hours)) < 0.7)
    co2 = np.where(dosed, 1000 + 60 * rng.standard_normal(len(hours)), 430 + 80 * rng.gamma(2, 1))
    temp = 18 + 9 * sun + 1.5 * rng.standard_normal(len(hours))
    humidity = np.minimum(96 - 2.2 * (temp - 16) + 4 * rng.standard_normal(len(hours)), 100)
    wetness = np.where(humidity > 90, 15 - rng.exponential(2, len(hours)), 0.0)
    return np.stack([co2, light, humidity, temp, wetness], axis=1)


def _pumps(rng: np.random.Generator) -> FloatArray:
    """A month of a well's pump every ten minutes, which runs two fifths of the time."""
    many = 4320
    runs = rng.random(many) < 0.4
    pressure = np.where(runs, 62 + 4 * rng.standard_normal(many), 0.0)
    flow = np.where(runs, 9 * pressure + 40 * rng.standard_normal(many), 0.0)
    vibration = np.where(runs, np.exp(0.9 + 0.5 * rng.standard_normal(many)), 0.02)
    jammed = rng.random(many) < 0.003
    vibration = np.where(jammed, 180 + 60 * rng.standard_normal(many), vibration)
    current = np.where(runs, 14 + 0.012 * flow + 0.6 * rng.standard_normal(many), 0.3)
    return np.stack([pressure, flow, vibration, np.where(jammed, 41.0, current)], axis=1)


@cache
def devices(
    domain: Domain, number: int, made: Callable[[np.random.Generator], FloatArray]
) -> tuple[FloatArray, ...]:
    """Readings of each device, on steps and inside the bounds, as sensors give them. `number`: of
    the stream, for its seed."""
    found = []
    for device in range(DEVICES):
        rows = made(np.random.default_rng([16, 20, number, device]))
        for column, attribute in zip(rows.T, domain.attributes, strict=True):
            if attribute.step is not None:
                column[:] = np.round(np.rint(column / attribute.step) * attribute.step, 6)
            np.clip(column, attribute.origin, attribute.highest, out=column)
        found.append(rows)
    return tuple(found)


MACHINES = (
    Stream("lifts", LIFTS, partial(devices, LIFTS, 1, _lifts)),
    Stream("greenhouses", GREENHOUSE, partial(devices, GREENHOUSE, 2, _greenhouse)),
    Stream("pumps", PUMPS, partial(devices, PUMPS, 3, _pumps)),
)
