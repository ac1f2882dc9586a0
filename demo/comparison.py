"""Distances of the fleet's answers from the raw readings: of the generator and of distinct counts.

Only the demo can compute them: it owns the readings.
"""

import csv
import gzip
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite
from pathlib import Path

import numpy as np
import numpy.typing as npt

from demo.make_door_events import Event
from pansketch import Attribute, Estimate
from pansketch.generators import FittedModel
from pansketch_agent.windows.window import schedule_for
from pansketch_collector.queries.distinct import DistinctAnswer, Keys
from pansketch_fleet.settings.device_spec import window_index
from pansketch_fleet.settings.settings import KeyStream, Stream
from testbed.local_fleet import DOORS, STATIONS
from testbed.metrics import wasserstein

FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Comparison:
    """One attribute: W1 between truth and sample over the truth's deviation, and three answers."""

    attribute: Attribute
    relative_w1: float
    answers: dict[str, tuple[float, Estimate]]


def read_station(file: Path, names: tuple[str, ...]) -> tuple[list[str], FloatArray]:
    """All times of a station's file, and its complete readings, float64[n, d]."""
    with gzip.open(file, "rt", newline="") as text:
        rows = list(csv.DictReader(text))
    values = ([_number(row[name]) for name in names] for row in rows)
    complete = [reading for reading in values if all(map(isfinite, reading))]
    return [row["time"] for row in rows], np.array(complete)


def _number(cell: str) -> float:
    try:
        return float(cell)
    except ValueError:
        return float("nan")


def compare(model: FittedModel, sample: FloatArray, truth: FloatArray) -> list[Comparison]:
    """One comparison for each attribute; sample and truth are float64[n, d] in real units."""
    return [
        _compared(model, attribute, sample[:, place], truth[:, place])
        for place, attribute in enumerate(model.domain.attributes)
    ]


def _compared(
    model: FittedModel, attribute: Attribute, sample: FloatArray, truth: FloatArray
) -> Comparison:
    name = attribute.name
    answers = {
        "mean": (float(truth.mean()), model.mean(name)),
        "median": (float(np.median(truth)), model.quantile(name, 0.5)),
        "quantile 0.95": (float(np.quantile(truth, 0.95)), model.quantile(name, 0.95)),
    }
    return Comparison(attribute, wasserstein(sample, truth) / float(truth.std()), answers)


def attribute_label(attribute: Attribute) -> str:
    return f"{attribute.name} [{attribute.unit}]" if attribute.unit else attribute.name


@dataclass(frozen=True)
class Raw:
    """One device's raw data: complete readings float64[n, d], and events in order of time.

    `first` and `last`: the times of its first and last row of readings, in unix seconds.
    """

    device: str
    first: int
    last: int
    readings: FloatArray
    events: list[Event]

    def windows(self, stream: Stream) -> int:
        """The number of windows that a replay releases, from that of the first row to that of the
        last one."""
        first, last = self.first, self.last
        if isinstance(stream, KeyStream):
            first, last = (unix_seconds(event.time) for event in (self.events[0], self.events[-1]))
        schedule = schedule_for(self.device, stream.window_seconds)
        return schedule.index(last) - schedule.index(first) + 1


def read_raw(device: str, names: tuple[str, ...]) -> Raw:
    """Everything a device replays; `names`: the attributes of its readings."""
    times, readings = read_station(STATIONS / f"{device}.csv.gz", names)
    with gzip.open(DOORS / f"{device}.csv.gz", "rt", newline="") as text:
        events = [Event(**row) for row in csv.DictReader(text)]
    return Raw(device, unix_seconds(times[0]), unix_seconds(times[-1]), readings, events)


def unix_seconds(time: str) -> int:
    """An ISO 8601 time in UTC as unix seconds."""
    return int(np.datetime64(time.removesuffix("Z"), "s").astype(int))


@dataclass(frozen=True)
class KeyWindow:
    """One window: how many distinct keys the fleet had, and the collector's estimate of it."""

    start: int
    truth: int
    estimate: Estimate


@dataclass(frozen=True)
class KeyComparison:
    """One stream of keys, window by window; `keys`: whether its devices share them."""

    stream: str
    keys: Keys
    devices: int
    epsilon: float
    windows: tuple[KeyWindow, ...]


def compare_keys(stream: KeyStream, counted: DistinctAnswer, raw: Sequence[Raw]) -> KeyComparison:
    """The windows that have an estimate beside the devices' raw events."""
    truth = _truth(stream, counted.keys, raw)
    windows = (
        KeyWindow(figure.start, truth[figure.start], figure.estimate)
        for figure in counted.figures
        if figure.estimate is not None
    )
    epsilon = counted.guarantee.epsilon
    return KeyComparison(stream.name, counted.keys, counted.fleet, epsilon, tuple(windows))


def _truth(stream: KeyStream, keys: Keys, raw: Sequence[Raw]) -> dict[int, int]:
    """Distinct keys by the start of their window: of all devices together, or the sum over devices.

    No event of the demo lies in the minutes by which a device's windows begin late.
    """
    seen: dict[tuple[int, str], set[str]] = defaultdict(set)
    for device in raw:
        for event in device.events:
            index = window_index(unix_seconds(event.time), stream.window_seconds)
            who = "" if keys == "shared" else device.device
            seen[index * stream.window_seconds, who].add(getattr(event, stream.key))
    counts: dict[int, int] = defaultdict(int)
    for (start, _), values in seen.items():
        counts[start] += len(values - {""})
    return counts
