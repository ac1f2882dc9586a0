"""A configuration of a small fleet, and the releases that its devices would send."""

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from pansketch import Entropy, HierarchySpec, WindowId, encode
from pansketch_collector.mqtt.connection import Incoming
from pansketch_collector.storage.reader import reading
from pansketch_collector.storage.tables.records import Selection
from pansketch_collector.validation.validation import Rules
from pansketch_fleet.config.loader import Config, load_collector
from pansketch_fleet.protocol import topics
from pansketch_fleet.protocol.messages import digest
from pansketch_fleet.protocol.signed_release import release_in
from pansketch_fleet.settings.device_spec import schedule_offset
from tests.seeded_noise import noise_of_test

DAY = 86_400
ENTROPY = noise_of_test()
# Of the streams that differ in their sketch and in epsilon only.
OF_THREE = """source: {{type: system, interval: 10s}}
    window: 1d
    privacy: {{epsilon: {epsilon}}}
    attributes:
      temp: {{low: -40, high: 60, unit: degC}}
      humid: {{low: 0, high: 100}}
      wind: {{categories: [calm, "north, east", south]}}"""
CONFIG = """
fleet: {fleet}
mqtt: {{url: "{url}"}}
agent: {{device: "${{DEVICE}}", profile: pi-zero-2w}}
streams:
  air:
    source: {{type: stdin}}
    window: 1d
    privacy: {{epsilon: {epsilon}, unit: reading, intrusion: silent}}
    attributes:
      temp: {{low: -40, high: 60, unit: degC}}
    sketch: {{depth: 4, k: 4, width: 8, rows: 1, fanout: 2}}
  fine:
    source: {{type: system, interval: 10s}}
    window: 1d
    privacy: {{epsilon: 100, unit: reading, intrusion: silent}}
    attributes:
      temp: {{low: -40, high: 60, unit: degC}}
      wind: {{categories: [calm, "north, east", south]}}
    sketch: {{depth: 12}}           # the rest is planned, otherwise for a class of little memory
  heavy:
    {of_three}
    sketches: [{{type: cells}}]
  sums:
    {of_three}
    sketches: [{{type: moments}}]
  bars:
    {noisy}
    sketches: [{{type: moments, features: hist, bins: 50}}]
collector: {{database: "{database}"}}
"""


def config_at(path: Path) -> Config:
    """The collector's configuration in a file, cached by its text: fleets read it for every
    release."""
    return _read(path, path.read_bytes())


@lru_cache(maxsize=8)
def _read(path: Path, text: bytes) -> Config:
    return load_collector(path, {})


@dataclass
class SmallFleet:
    """A configuration on disk, and the means to make what its devices would send."""

    folder: Path
    fleet: str = "testing"
    url: str = "mqtt://127.0.0.1:1"
    epsilon: float = 1.0
    server: str = "var/collector.sqlite"
    path: Path = field(init=False)

    def __post_init__(self) -> None:
        self.path = self.folder / "config.yaml"
        text = CONFIG.format(
            fleet=self.fleet,
            url=self.url,
            epsilon=self.epsilon,
            database=self.server,
            of_three=OF_THREE.format(epsilon=100),
            noisy=OF_THREE.format(epsilon=self.epsilon),
        )
        self.path.write_text(text, encoding="utf-8")

    @property
    def config(self) -> Config:
        return config_at(self.path)

    @property
    def database(self) -> Path:
        return self.config.collector.database

    @property
    def rules(self) -> Rules:
        return Rules.of(self.config)

    def specs(self, stream: str) -> list[HierarchySpec]:
        config = self.config
        return list(config.specs(next(s for s in config.streams if s.name == stream)).values())

    def release(
        self,
        device: str = "one",
        sequence: int = 1,
        stream: str = "air",
        readings: Sequence[Sequence[float]] = ((20.0,),),
        window: WindowId | None = None,
        spec: HierarchySpec | None = None,
        entropy: Entropy = ENTROPY,
    ) -> bytes:
        """The bytes of one fresh release; day `sequence` of 1970 is its window."""
        spec = spec or self.specs(stream)[0]
        sketch = spec.start(entropy)
        sketch.update_many(np.array(readings, dtype=np.float64))
        start = sequence * DAY + schedule_offset(device, DAY)
        day = WindowId(device, stream, sequence, start, start + DAY)
        return encode(sketch.release(entropy, window or day))

    def stored(self, stream: str = "air") -> list[bytes]:
        """The payloads in the database, by window."""
        with reading(self.database) as reader:
            return [r.payload for r in reader.releases(Selection(stream))]

    def topic(self, device: str = "one", stream: str = "air") -> str:
        return topics.release(self.fleet, device, stream)


def rows(path: Path, query: str) -> list[tuple[Any, ...]]:
    """The rows that a query finds in a database."""
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute(query).fetchall()


def incoming(topic: str, payload: bytes) -> Incoming:
    return Incoming(topic, payload, len(payload), digest(release_in(payload)), 0, 1, 1)
