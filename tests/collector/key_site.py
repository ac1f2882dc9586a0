"""A fleet with streams of keys, and the releases that its devices would send."""

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from pansketch import DistinctSpec, WindowId, encode
from pansketch_collector.storage import writer as store
from pansketch_collector.validation.validation import Rules
from pansketch_collector.validation.verdicts import Accepted
from pansketch_fleet.config.loader import Config
from pansketch_fleet.protocol import topics
from pansketch_fleet.settings.device_spec import schedule_offset, window_index
from tests.collector.messages import validate_one
from tests.collector.small_fleet import config_at
from tests.seeded_noise import noise_of_test

DAY = 86_400
ENTROPY = noise_of_test()
CONFIG = """
fleet: testing
mqtt: {{url: "mqtt://127.0.0.1:1"}}
agent: {{device: "${{DEVICE}}"}}
streams:
  air:
    source: {{type: stdin}}
    window: 1d
    privacy: {{epsilon: 1}}
    attributes: {{temp: {{low: -40, high: 60}}}}
  doors:
    source: {{type: replay, path: none.csv}}
    window: 1d
    key: badge_id
    privacy: {{epsilon: {doors}}}
    sketches: [{{type: distinct, universe: 1000, release: bitmap}}]
  lockers:
    source: {{type: replay, path: none.csv}}
    window: 1d
    key: card_id
    privacy: {{epsilon: 100}}
    sketches: [{{type: distinct, expected_keys: 4000}}]
collector: {{database: var/collector.sqlite}}
"""


@dataclass
class Site:
    """A configuration on disk, and the means to make what its devices would send.

    At epsilon 100 bits and counts are right but with probability below 1e-15; doors track all keys
    of their universe, so their figures are exact.
    """

    folder: Path
    doors: float = 100
    path: Path = field(init=False)

    def __post_init__(self) -> None:
        self.path = self.folder / "config.yaml"
        self.path.write_text(CONFIG.format(doors=self.doors))

    @property
    def config(self) -> Config:
        return config_at(self.path)

    def spec(self, stream: str) -> DistinctSpec:
        return next(s.spec for s in self.config.streams if s.name == stream)

    def release(self, device, day, keys, stream="doors", frozen=False, base=None) -> bytes:
        """The bytes of one release; `day` of 1970 is its window, its sequence number too."""
        start = day * DAY + schedule_offset(device, DAY)
        window = WindowId(device, stream, day, start, start + DAY)
        spec = (base or self.spec(stream)).for_window(window_index(start, DAY))
        sketch = spec.start(ENTROPY)
        sketch.update_many(keys)
        if frozen:
            sketch.rerandomise(ENTROPY)
        return encode(sketch.release(ENTROPY, window))

    def store(self, *releases: bytes, stream="doors", devices=()) -> None:
        """Takes releases in; all must be accepted."""
        rules, config = Rules.of(self.config), self.config
        with store.opened(config.collector.database) as opened:
            for payload, device in zip(releases, devices, strict=True):
                outcome = validate_one(topics.release("testing", device, stream), payload, rules)
                assert isinstance(outcome, Accepted), outcome
                with opened.batch():
                    opened.add(outcome, 1000)


def keys(*ranges):
    return np.concatenate([np.arange(*each, dtype=np.uint64) for each in ranges])


def outcome(site, payload, device="one", stream="doors"):
    return validate_one(topics.release("testing", device, stream), payload, Rules.of(site.config))


def rows(out: str) -> list[list[str]]:
    lines = out.splitlines()
    assert lines[0].split() == ["window", "devices", "keys", "±", "error"]
    return [line.split() for line in lines[1:] if line[:2] == "19"]
