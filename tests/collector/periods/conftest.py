"""Five days of two devices, whose first attribute rises on the third day."""

import numpy as np
import pytest

from pansketch_collector.ingest.ingest_loop import commit_batch
from pansketch_collector.storage import writer as store
from pansketch_collector.validation.verdicts import Accepted

STREAM = """
  many:
    source: {type: system, interval: 10s}
    window: 1d
    privacy: {epsilon: 10}
    attributes:
      temp: {low: -40, high: 60, unit: degC}
      humid: {low: 0, high: 100}
      way: {low: 0, high: 360, cyclic: true}
      wind: {categories: [calm, south]}
    views: [[temp], [humid], [way], [wind], [temp, humid]]
collector:"""
DAYS = (1, 2, 3, 4, 6)  # the fifth is missing
READINGS = 1000
FEW = 3  # of the last day, which noise outweighs
RISE = 5.0


def weather(rng, day):
    """Readings (temp, humid, way, wind): temp is warmer by RISE from the third day on."""
    count = READINGS if day != DAYS[-1] else FEW
    temp = np.clip(rng.normal(15 + RISE * (day > 2), 5, count), -40, 60)
    humid = np.clip(rng.normal(50, 10, count), 0, 100)
    return np.column_stack([temp, humid, rng.uniform(0, 360, count), rng.choice(2, count)])


@pytest.fixture
def fleet(small_fleet, arrive):
    """The small_fleet, and the readings of each day of both devices."""
    small_fleet.path.write_text(small_fleet.path.read_text().replace("\ncollector:", STREAM))
    rng, messages, told = np.random.default_rng(1), [], {}
    for day in DAYS:
        for device in ("one", "two"):
            rows = weather(rng, day)
            told[day] = np.vstack([told[day], rows]) if day in told else rows
            payload = small_fleet.release(device, day, "many", rows)
            messages.append(arrive(small_fleet.topic(device, "many"), payload))
    with store.opened(small_fleet.database) as opened:
        outcomes = commit_batch(opened, messages, small_fleet.rules, 1_000_001_000)
    assert all(isinstance(v, Accepted) for v in outcomes), outcomes
    return told
