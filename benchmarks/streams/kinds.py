"""Which streams are measured, and the figures that they are held to.

`today` is what the default plan had on real data of the same kind when the bars were set. Those
data are not in this repository; the synthetic streams were calibrated to come near these figures,
so that the bars carry over.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache

import numpy as np

from benchmarks.datasets.small_streams import STREAMS, FloatArray, Stream
from benchmarks.streams import events, later, machines, sensors
from pansketch import Domain, Privacy
from pansketch.planning import Expected, HierarchyPlan, ViewPlan, plan_hierarchy, plan_views
from pansketch_fleet.sections.memory_budget import HIERARCHY_PART, VIEWS_PART
from pansketch_fleet.settings.profiles import load_profile

PROFILE = "pi-zero-2w"

Figures = Mapping[str, float]
"""By measure: `pair` and `worst pair` (total variation), `W1`, `correlation`."""


@dataclass(frozen=True)
class Kind:
    """A stream; what it had on real data; bars at epsilon 1 in the first window, at epsilon 10, and
    after one learned scale. `beside`: an attribute and a number just above its spike. `atoms`: what
    an operator who knows the stream declares, by attribute."""

    stream: Stream
    today: Figures = field(default_factory=dict)
    bars: Figures = field(default_factory=dict)
    bars_at_10: Figures = field(default_factory=dict)
    learned: Figures = field(default_factory=dict)
    beside: tuple[str, float] | None = None
    atoms: Mapping[str, tuple[float | str, ...]] = field(default_factory=dict)

    @property
    def with_atoms(self) -> Stream:
        """The same readings, with the atoms declared."""
        attributes = self.stream.domain.attributes
        declared = [replace(each, atoms=self.atoms.get(each.name, ())) for each in attributes]
        return replace(self.stream, domain=Domain(declared))

    @property
    def name(self) -> str:
        return self.stream.name

    @property
    def complete(self) -> FloatArray:
        """The readings without a missing value."""
        rows = self.stream.truth
        return np.asarray(rows[np.isfinite(rows).all(axis=1)])


@cache
def _pair_of_stations() -> tuple[FloatArray, ...]:
    return tuple(each[:, [0, 3]] for each in STREAMS[0].devices())


_TWELVE = STREAMS[0].domain
TWO_OF_STATIONS = Stream(
    "twelve stations, temp and pm25",
    Domain([_TWELVE.attributes[0], _TWELVE.attributes[3]]),
    _pair_of_stations,
)
TWELVE_TODAY = {"pair": 0.050, "W1": 0.010, "correlation": 0.052}

KINDS = (
    Kind(events.TIGHT_CITY, {"pair": 0.125, "W1": 0.007}, {"pair": 0.09}, learned={"pair": 0.07}),
    Kind(
        events.LOOSE_CITY,
        {"pair": 0.80, "W1": 3.9},
        {"pair": 0.18, "W1": 0.05},
        learned={"pair": 0.10, "W1": 0.02},
    ),
    Kind(
        events.TEN_FEATURES,
        {"pair": 0.61, "W1": 1.2, "correlation": 0.44},
        {"pair": 0.16},
        learned={"pair": 0.13},
    ),
    Kind(
        sensors.NINE_SENSORS,
        {"pair": 0.31, "worst pair": 0.91, "W1": 0.08, "correlation": 0.98},
        {"worst pair": 0.7, "correlation": 0.4},
        {"worst pair": 0.25, "correlation": 0.10},
    ),
    Kind(sensors.FIVE_GASES, {"pair": 0.21, "W1": 0.058, "correlation": 0.68}, {"pair": 0.17}),
    Kind(
        sensors.WITH_SENTINEL,
        beside=("hydrocarbons", sensors.SENTINEL + 0.5),
        atoms={"hydrocarbons": (sensors.SENTINEL,)},
    ),
    Kind(sensors.HOURLY_RAIN, beside=("rain", 0.05), atoms={"rain": (0,)}),
    Kind(events.FLIGHT_DELAYS, atoms={"arrival": ("missing",)}),
    Kind(
        events.SOLAR_METERS,
        beside=("solar", 0.001),
        atoms={"solar": (0, events.FULL_SCALE), "battery": (0, 100)},
    ),
    Kind(STREAMS[0], TWELVE_TODAY, TWELVE_TODAY),
    Kind(TWO_OF_STATIONS),
    Kind(STREAMS[1]),
)

# Made after the bars were set. On those of later.py no record was tuned.
WITHOUT_BARS = tuple(map(Kind, (*machines.MACHINES, *later.LATER)))


def default_plan(stream: Stream, epsilon: float, windows: int = 1) -> HierarchyPlan | ViewPlan:
    """What a stream without a `sketches:` section gets, if `expect:` states what there is: so
    many windows, devices and readings."""
    devices = len(stream.devices())
    expected = Expected(len(stream.truth) // devices, devices, windows)
    memory = load_profile(PROFILE).sketch_memory_bytes
    if stream.domain.dimension < 3:
        return plan_hierarchy(stream.domain, Privacy(epsilon), memory // HIERARCHY_PART, expected)
    return plan_views(stream.domain, Privacy(epsilon), memory // VIEWS_PART, expected)


def size_of(plan: HierarchyPlan | ViewPlan) -> str:
    """The plan's sizes in a few words."""
    if isinstance(plan, HierarchyPlan):
        return f"depth {plan.spec.depth}"
    return f"margins of {1 << plan.single_bits}, " + (
        f"pairs of {1 << plan.pair_bits}" if plan.pair_bits else "no pairs"
    )
