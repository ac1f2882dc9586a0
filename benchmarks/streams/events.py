"""Events: a city's check-ins, skewed features, delays with missing values, meters that saturate.

All readings are synthetic, from a fixed seed.
"""

from functools import cache

import numpy as np

from benchmarks.datasets.small_streams import FloatArray, Stream
from pansketch import Attribute, Domain

DEVICES = 10
CHECK_INS = 120_000
BOX = 20.0  # km
LOOSE = 100  # times as long is each side of the loose box
CORNER = BOX * (0.4 - LOOSE / 2)  # of the loose box: the city is near its middle, not on it
SPOTS = 400
STREETS = 60
OF_SPOTS, OF_STREETS = 0.45, 0.35  # of the check-ins; the rest are spread over the quarters
ACROSS_STREET = 0.016  # km: deviation from a street's middle
RIVER = 0.6  # km: half of its width
# In shares of the box: centres of the quarters, their deviations, and their shares of the people.
QUARTERS = np.array([[0.45, 0.55], [0.75, 0.7], [0.25, 0.8], [0.6, 0.2], [0.2, 0.35], [0.8, 0.35]])
WIDTHS = np.array([0.095, 0.05, 0.06, 0.04, 0.07, 0.05])
PEOPLE = np.array([0.5, 0.15, 0.12, 0.1, 0.08, 0.05])

EVENTS = 2_000  # of a device that measures features
FEATURES = 10
TOO_LARGE = 5.0  # times the largest feature that is usual
FLIGHTS = 10_000  # of a device
UNKNOWN_ARRIVAL = 0.08  # share of flights without an arrival delay
HOURS = 8_760  # of a meter
FULL_SCALE = 10.0  # kW

TEN = Domain([Attribute(f"feature {i}", low=0, high=TOO_LARGE) for i in range(1, FEATURES + 1)])
DELAYS = Domain(
    [
        Attribute("departure", low=-60, high=2000, unit="min", step=1),
        Attribute("arrival", low=-100, high=2000, unit="min", step=1),
        Attribute("distance", low=0, high=10_000, unit="km", step=1),
        Attribute("taxi", low=0, high=300, unit="min", step=1),
    ]
)
METERS = Domain(
    [
        Attribute("solar", low=0, high=FULL_SCALE, unit="kW"),
        Attribute("use", low=0, high=50, unit="kW"),
        Attribute("battery", low=0, high=100, unit="%", step=1),
    ]
)


def box(low: float, high: float) -> Domain:
    """Two coordinates within the same bounds."""
    return Domain([Attribute(name, low=low, high=high, unit="km") for name in ("east", "north")])


def river(east: FloatArray) -> FloatArray:
    """The river's middle at these coordinates, km."""
    return BOX * (0.3 + 0.12 * np.sin(5 * east / BOX))


@cache
def spots() -> tuple[FloatArray, FloatArray, FloatArray]:
    """Where heavy spots are, km float64[SPOTS, 2]; their deviations, km; their shares."""
    generator = np.random.default_rng([16, 1])
    widths = BOX * np.exp(generator.uniform(np.log(0.0006), np.log(0.004), SPOTS))
    weights = np.arange(1, SPOTS + 1) ** -0.9
    return _around(generator, SPOTS), widths, weights / weights.sum()


@cache
def check_ins() -> FloatArray:
    """Of all devices: km, float64[CHECK_INS, 2]."""
    generator, many = np.random.default_rng([16, 2]), 2 * CHECK_INS
    kind = generator.choice(3, many, p=[OF_SPOTS, OF_STREETS, 1 - OF_SPOTS - OF_STREETS])
    of_kinds = [_at_spots(generator, many), _on_streets(generator, many)]
    found = np.choose(kind[:, None], [*of_kinds, _around(generator, many)])
    inside = ((found > 0) & (found < BOX)).all(axis=1)
    dry = np.abs(found[:, 1] - river(found[:, 0])) > RIVER
    return np.asarray(found[inside & dry][:CHECK_INS])


def _around(generator: np.random.Generator, count: int) -> FloatArray:
    quarter = generator.choice(len(PEOPLE), count, p=PEOPLE)
    spread = WIDTHS[quarter, None] * generator.standard_normal((count, 2))
    return np.asarray(BOX * (QUARTERS[quarter] + spread))


def _at_spots(generator: np.random.Generator, count: int) -> FloatArray:
    where, widths, shares = spots()
    which = generator.choice(SPOTS, count, p=shares)
    away = widths[which, None] * generator.standard_normal((count, 2))
    return np.asarray(where[which] + away)


def _on_streets(generator: np.random.Generator, count: int) -> FloatArray:
    """Streets run in two directions, at right angles, as in a planned city."""
    middles = _around(generator, STREETS)
    angles = 0.35 + np.pi / 2 * generator.integers(2, size=STREETS)
    directions = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    lengths = BOX * generator.uniform(0.05, 0.3, STREETS)
    which = generator.integers(STREETS, size=count)
    along = (lengths[which] * generator.uniform(-1, 1, count))[:, None] * directions[which]
    away = ACROSS_STREET * generator.standard_normal((count, 2))
    return np.asarray(middles[which] + along + away)


def city() -> tuple[FloatArray, ...]:
    """Each device sees a tenth of the check-ins."""
    return tuple(np.array_split(check_ins(), DEVICES))


@cache
def features() -> tuple[FloatArray, ...]:
    """Ten positive features with a factor in common, most of them far below the largest."""
    return tuple(_features(np.random.default_rng([16, 7, device])) for device in range(DEVICES))


def _features(generator: np.random.Generator) -> FloatArray:
    shared = generator.standard_normal((EVENTS, 1))
    parts = np.linspace(0.35, 0.85, FEATURES)
    own = generator.standard_normal((EVENTS, FEATURES))
    normal = parts * shared + np.sqrt(1 - parts**2) * own
    # Three and a half deviations above the middle are 1, a fifth of the bounds.
    widths = np.linspace(0.65, 1.1, FEATURES)
    return np.asarray(np.minimum(np.exp(widths * (normal - 3.5)), TOO_LARGE))


@cache
def flights() -> tuple[FloatArray, ...]:
    """Delays with a tail of hours; NaN where a flight's arrival is unknown."""
    return tuple(_flights(np.random.default_rng([16, 8, device])) for device in range(DEVICES))


def _flights(generator: np.random.Generator) -> FloatArray:
    late = generator.random(FLIGHTS) < 0.25
    tail = 12 * generator.pareto(1.8, FLIGHTS) + generator.exponential(15, FLIGHTS)
    departure = np.where(late, tail, 4 * generator.standard_normal(FLIGHTS) - 2)
    distance = np.exp(6.9 + 0.7 * generator.standard_normal(FLIGHTS))
    taxi = np.exp(2.7 + 0.4 * generator.standard_normal(FLIGHTS))
    arrival = departure + taxi - 22 + 11 * generator.standard_normal(FLIGHTS)
    # Long delays end more often with no arrival at all.
    lost = generator.random(FLIGHTS) < UNKNOWN_ARRIVAL * np.where(late, 2.2, 0.6)
    rows = np.rint(np.stack([departure, arrival, distance, taxi], axis=1))
    low = [each.origin for each in DELAYS.attributes]
    rows = np.clip(rows, low, [each.highest for each in DELAYS.attributes])
    rows[lost, 1] = np.nan
    return np.asarray(rows)


@cache
def meters() -> tuple[FloatArray, ...]:
    """Roofs with solar cells: nothing at night, at most what the inverter gives at noon."""
    return tuple(_meters(np.random.default_rng([16, 9, device])) for device in range(DEVICES))


def _meters(generator: np.random.Generator) -> FloatArray:
    hour = np.arange(HOURS) % 24
    sun = np.clip(np.round(np.sin(np.pi * (hour - 6) / 12), 9), 0.0, None)
    clear = generator.beta(1.5, 1.0, HOURS)
    solar = np.minimum(16 * sun * clear, FULL_SCALE)
    use = np.exp(-0.9 + 0.5 * np.sin(2 * np.pi * (hour - 13) / 24))
    use = use * np.exp(0.6 * generator.standard_normal(HOURS))
    battery = np.clip(
        np.rint(50 + 9 * (solar - use) + 10 * generator.standard_normal(HOURS)), 0, 100
    )
    return np.asarray(np.stack([solar, use, battery], axis=1))


TEN_FEATURES = Stream("ten features, bounds 5x too loose", TEN, features)
FLIGHT_DELAYS = Stream("delays, arrivals missing", DELAYS, flights)
SOLAR_METERS = Stream("solar meters", METERS, meters)
TIGHT_CITY = Stream("city, tight box", box(0, BOX), city)
LOOSE_CITY = Stream(f"city, box {LOOSE}x too large", box(CORNER, CORNER + LOOSE * BOX), city)
