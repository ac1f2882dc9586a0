"""Sensors: of one gas, of five gases and weather, with a sentinel for missing values, and of rain.

All readings are synthetic, hourly, from a fixed seed.
"""

from functools import cache

import numpy as np

from benchmarks.datasets.small_streams import FloatArray, Stream
from pansketch import Attribute, Domain

DEVICES = 10
HOURS = 936  # of a device: what a query of 39 days reads
SENTINEL = -200.0
SENTINEL_SHARE = 0.9
DRY = 0.9  # share of hours without rain

# Of nine sensors of one gas: the deviation of each one alone, in that of the gas.
OWN = np.array([0.015, 0.02, 0.4, 0.6, 0.75, 0.9, 1.0, 1.2, 1.4])
NINE = Domain([Attribute(f"gas {i}", low=0, high=2500, step=1) for i in range(1, 10)])
GASES = Domain(
    [
        Attribute("co", low=0, high=15, unit="mg/m3", step=0.1),
        Attribute("benzene", low=0, high=80, unit="ug/m3", step=0.1),
        Attribute("nox", low=0, high=2000, unit="ppb", step=1),
        Attribute("no2", low=0, high=300, unit="ug/m3", step=1),
        Attribute("o3", low=0, high=2500, unit="counts", step=1),
        Attribute("temp", low=-10, high=50, unit="degC", step=0.1),
        Attribute("humidity", low=0, high=100, unit="%", step=0.1),
        Attribute("vapour", low=0, high=3, unit="g/m3", step=0.01),
    ]
)
MISSING = Domain(
    [
        Attribute("hydrocarbons", low=-200, high=1200, unit="ug/m3", step=1),
        Attribute("co", low=0, high=12, unit="mg/m3", step=0.1),
        Attribute("temp", low=-10, high=50, unit="degC", step=0.1),
        Attribute("humidity", low=0, high=100, unit="%", step=0.1),
    ]
)
RAIN = Domain(
    [
        Attribute("temp", low=-40, high=60, unit="degC", step=0.1),
        Attribute("pressure", low=950, high=1070, unit="hPa", step=0.1),
        Attribute("rain", low=0, high=200, unit="mm", step=0.1),
        Attribute("wind", low=0, high=40, unit="m/s", step=0.1),
    ]
)


def _drift(generator: np.random.Generator, count: int, hours: float) -> FloatArray:
    """A stationary series with deviation 1 that forgets within so many hours: float64[count]."""
    keep = np.exp(-1 / hours)
    steps = np.sqrt(1 - keep**2) * generator.standard_normal(count)
    state, series = generator.standard_normal(), np.empty(count)
    for hour, step in enumerate(steps.tolist()):
        state = keep * state + step
        series[hour] = state
    return series


def _daily(count: int) -> FloatArray:
    return np.sin(2 * np.pi * (np.arange(count) - 9) / 24)


def _shown(domain: Domain, columns: list[FloatArray]) -> FloatArray:
    """Readings as sensors give them: on steps, inside the bounds."""
    rows = np.stack(columns, axis=1)
    for place, attribute in enumerate(domain.attributes):
        assert attribute.step is not None
        rounded = np.rint(rows[:, place] / attribute.step) * attribute.step
        rows[:, place] = np.clip(np.round(rounded, 6), attribute.origin, attribute.highest)
    return rows


def _traffic(generator: np.random.Generator) -> FloatArray:
    """What a street's gases have in common, with deviation 1: float64[HOURS]."""
    return np.asarray(0.6 * _daily(HOURS) * np.sqrt(2) + 0.8 * _drift(generator, HOURS, 12))


@cache
def nine() -> tuple[FloatArray, ...]:
    """Nine sensors of one gas; the first two are as good as the same."""
    return tuple(_nine(np.random.default_rng([16, 3, device])) for device in range(DEVICES))


def _nine(generator: np.random.Generator) -> FloatArray:
    gas = _traffic(generator)
    own = [each * _drift(generator, HOURS, 24) for each in OWN]
    both = [(gas + each) / np.hypot(1, size) for each, size in zip(own, OWN, strict=True)]
    slopes = np.linspace(0.2, 0.45, len(OWN))
    return _shown(NINE, [700 * np.exp(k * each) for k, each in zip(slopes, both, strict=True)])


@cache
def gases() -> tuple[FloatArray, ...]:
    """Carbon monoxide, benzene, nitrogen oxides, ozone; temperature and humidity."""
    return tuple(_gases(np.random.default_rng([16, 4, device])) for device in range(DEVICES))


def _gases(generator: np.random.Generator) -> FloatArray:
    traffic = _traffic(generator)

    def mixed(part: float, hours: float) -> FloatArray:
        return np.asarray(part * traffic + np.sqrt(1 - part**2) * _drift(generator, HOURS, hours))

    temp = 18 + 5 * _daily(HOURS) + 6 * _drift(generator, HOURS, 200)
    humidity = 50 - 1.2 * (temp - 18) + 14 * _drift(generator, HOURS, 48)
    vapour = 0.0105 * humidity * np.exp(0.06 * (temp - 10)) + 0.15 * mixed(0.0, 48)
    return _shown(
        GASES,
        [
            1.9 * np.exp(0.55 * mixed(0.88, 12)),
            8.5 * np.exp(0.65 * mixed(0.88, 12)),
            200 * np.exp(0.7 * mixed(0.75, 48)),
            105 + 42 * mixed(0.7, 48),
            1000 + 350 * mixed(0.6, 24),
            temp,
            humidity,
            vapour,
        ],
    )


@cache
def with_sentinel() -> tuple[FloatArray, ...]:
    """An analyser that writes -200 for 90 % of the hours, beside sensors that work."""
    return tuple(_sentinel(np.random.default_rng([16, 5, device])) for device in range(DEVICES))


def _sentinel(generator: np.random.Generator) -> FloatArray:
    traffic = _traffic(generator)
    broken = generator.random(HOURS) < SENTINEL_SHARE
    hydrocarbons = 200 * np.exp(0.6 * traffic + 0.3 * generator.standard_normal(HOURS))
    temp = 18 + 5 * _daily(HOURS) + 6 * _drift(generator, HOURS, 200)
    return _shown(
        MISSING,
        [
            np.where(broken, SENTINEL, hydrocarbons),
            1.9 * np.exp(0.55 * (0.9 * traffic + 0.44 * _drift(generator, HOURS, 12))),
            temp,
            50 - 1.2 * (temp - 18) + 14 * _drift(generator, HOURS, 48),
        ],
    )


@cache
def rainy() -> tuple[FloatArray, ...]:
    """A year of weather at each of ten sites; it rains in one hour of ten."""
    return tuple(_rainy(np.random.default_rng([16, 6, device])) for device in range(DEVICES))


def _rainy(generator: np.random.Generator) -> FloatArray:
    hours = 8760
    front = _drift(generator, hours, 30)
    season = -np.cos(2 * np.pi * np.arange(hours) / hours)
    temp = 12 + 10 * season + 4 * _daily(hours) + 3 * _drift(generator, hours, 72)
    wet = front > 1.2816  # the quantile of 90 % of a normal distribution
    rain = np.where(wet, 0.1 + 1.5 * np.exp(generator.standard_normal(hours)), 0.0)
    pressure = 1013 - 8 * front + 4 * _drift(generator, hours, 72)
    wind = 3 * np.exp(0.3 * front + 0.5 * _drift(generator, hours, 12))
    return _shown(RAIN, [temp, pressure, rain, wind])


NINE_SENSORS = Stream("nine sensors of one gas", NINE, nine)
FIVE_GASES = Stream("five gases and weather", GASES, gases)
WITH_SENTINEL = Stream("-200 for missing", MISSING, with_sentinel)
HOURLY_RAIN = Stream("weather, dry hours", RAIN, rainy)
