"""The messages of a simulated fleet: births, health, and releases with real noise.

The counters of linear sketches are sums. So the readings of a window are absorbed for a few
profiles of devices, and each release adds its own noise. The library's exact sampler draws it for
many devices at once, with as many draws of the same scales as in `LinearSketch`. Every other family
starts and releases one sketch for each device.
"""

import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from pansketch import (
    Attribute,
    DistinctSpec,
    Entropy,
    Release,
    Spec,
    WindowId,
    __version__,
    encode_all,
)
from pansketch.sketches import LinearSpec
from pansketch_fleet.config.loader import Config, Stream
from pansketch_fleet.protocol import topics
from pansketch_fleet.protocol.messages import Health, Status, StreamBirth, digest
from pansketch_fleet.settings.device_spec import schedule_offset, window_index
from pansketch_fleet.settings.settings import KeyStream

PROFILES = 32  # sets of readings in one window
BATCH_COUNTERS = 2**17
MAX_BATCH = 1024
KEYS_PER_READING = 4

Counters = npt.NDArray[np.int64]


class Message(NamedTuple):
    """One message of a device. `digest`: of a release, which has to be acknowledged; else ""."""

    device: str
    topic: str
    payload: bytes
    digest: str


@dataclass(frozen=True)
class Load:
    """The size of a simulated fleet.

    Attributes:
        devices: the number of devices.
        windows: of each device and stream, the last ones that have ended.
        readings: of each window, or keys.
        outages: share of the releases that are delayed until the device's next window.
        health: health messages of each device and window.
        prefix: of the devices' names.
        seed: of readings and outages; noise has none.
    """

    devices: int
    windows: int
    readings: int = 60
    outages: float = 0.0
    health: int = 0
    prefix: str = "simulated"
    seed: int = 1


class SimulatedFleet:
    """All messages of one run, in the order in which a fleet would publish them."""

    def __init__(self, config: Config, streams: Sequence[Stream], load: Load, rng: Entropy) -> None:
        """`rng`: where noise is drawn from."""
        self._fleet, self._streams, self._load, self._rng = config.fleet, streams, load, rng
        self._chance = np.random.default_rng(load.seed)
        self._now = int(time.time())
        self._run = rng.identifier().to_bytes(8, "big")
        self._waiting: defaultdict[int, list[Message]] = defaultdict(list)
        self.offline = 0
        fields = {
            stream.name: StreamBirth(
                stream.spec.fingerprint.hex(), str(stream.spec.guarantee), stream.window_seconds
            )
            for stream in streams
        }
        self._birth = Status("online", self._run.hex(), fields).encode()

    @property
    def releases(self) -> int:
        """The number of releases of the whole run."""
        return self._load.devices * self._load.windows * len(self._streams)

    def messages(self, first: int = 1, last: int | None = None) -> Iterator[Message]:
        """Yield the messages of all devices, window by window: from window `first` to `last`, or to
        the end. Those of window 1 begin with a birth message each."""
        for number in range(first, (last or self._load.windows) + 1):
            for stream in self._streams:
                yield from self._window(stream, number)

    def _window(self, stream: Stream, number: int) -> Iterator[Message]:
        """The messages of all devices at the end of their window of this number, from 1 on."""
        # The newest window has ended on every device, also with the largest offset.
        newest = self._now // stream.window_seconds - 2
        index = newest - self._load.windows + number
        spec = stream.spec.for_window(index)
        readings = [_readings(stream, self._load.readings, self._chance) for _ in range(PROFILES)]
        made = _batches(self._load.devices, sum(spec.blocks))
        health = self._health(number * stream.window_seconds)
        for batch in made:
            labels = [self._label(stream, device, index, number) for device in batch]
            which = self._chance.integers(PROFILES, size=len(batch))
            found = releases(spec, labels, readings, which, self._rng)
            for device, window, payload in zip(batch, labels, encode_all(found), strict=True):
                if number == 1 and stream is self._streams[0]:
                    topic = topics.status(self._fleet, window.device)
                    yield Message(window.device, topic, self._birth, "")
                yield from self._published(device, number, window, payload, health)

    def _published(
        self, device: int, number: int, window: WindowId, payload: bytes, health: bytes
    ) -> Iterator[Message]:
        topic = topics.release(self._fleet, window.device, window.stream)
        message = Message(window.device, topic, payload, digest(payload))
        last = number == self._load.windows
        if not last and self._chance.random() < self._load.outages:
            self.offline += 1
            self._waiting[device].append(message)
            return
        if self._load.health:
            report = Message(window.device, topics.health(self._fleet, window.device), health, "")
            yield from [report] * self._load.health
        yield from self._waiting.pop(device, ())
        yield message

    def _health(self, uptime: int) -> bytes:
        return Health(self._run.hex(), __version__, uptime, True, 0, None, 0, 0, 0).encode()

    def _label(self, stream: Stream, device: int, index: int, sequence: int) -> WindowId:
        name, seconds = self._name(device), stream.window_seconds
        start = index * seconds + schedule_offset(name, seconds)
        assert window_index(start, seconds) == index
        ledger = blake2b(name.encode(), digest_size=8, key=self._run).digest()
        return WindowId(name, stream.name, sequence, start, start + seconds, True, ledger)

    def _name(self, device: int) -> str:
        return f"{self._load.prefix}-{device + 1}"


def releases(
    spec: Spec,
    labels: Sequence[WindowId],
    readings: Sequence[npt.NDArray[Any]],
    which: npt.NDArray[np.int64],
    rng: Entropy,
) -> list[Release]:
    """A release for each label, of the sketch that absorbed `readings[which[i]]`."""
    if not isinstance(spec, LinearSpec):
        return [_one(spec, label, readings[n], rng) for label, n in zip(labels, which, strict=True)]
    counts = np.zeros((len(readings), sum(spec.blocks)), spec.counter)
    absorber, form = spec.absorber(), spec.state_form()
    for n in set(which.tolist()):
        absorber.absorb(readings[n], counts[n])
        if form is not None:  # It maps sums to sums, and no counts to no counts.
            form.to_counts(counts[n])
    draws = spec.guarantee.draws
    counters, start = counts[which].astype(np.int64), 0
    for size, scale in zip(spec.blocks, spec.scales, strict=True):
        noise = np.zeros(len(labels) * size, spec.counter)
        for _ in range(draws):
            rng.add_discrete_laplace(scale, noise)
        counters[:, start : start + size] += noise.reshape(len(labels), size)
        start += size
    return [
        Release(spec, (label,), draws, row) for label, row in zip(labels, counters, strict=True)
    ]


def _one(spec: Spec, label: WindowId, readings: npt.NDArray[Any], rng: Entropy) -> Release:
    sketch = spec.start(rng)
    sketch.update_many(readings)
    return sketch.release(rng, label)


def _batches(devices: int, counters: int) -> Iterable[range]:
    size = min(MAX_BATCH, max(1, BATCH_COUNTERS // counters))
    return [range(at, min(at + size, devices)) for at in range(0, devices, size)]


def _readings(stream: Stream, many: int, rng: np.random.Generator) -> npt.NDArray[Any]:
    """Readings of a window, float64[n, d] in the domain's units, or keys, int64[n]."""
    if isinstance(stream, KeyStream):
        return _keys(stream.spec, many, rng)
    many = min(many, stream.most_readings)
    return np.stack([_column(each, many, rng) for each in stream.domain.attributes], axis=1)


def _keys(spec: DistinctSpec, many: int, rng: np.random.Generator) -> npt.NDArray[np.int64]:
    return rng.integers(min(spec.universe or 2**62, KEYS_PER_READING * many), size=many)


def _column(attribute: Attribute, many: int, rng: np.random.Generator) -> npt.NDArray[np.float64]:
    if attribute.categories is not None:
        return rng.integers(len(attribute.categories), size=many).astype(float)
    if not attribute.varies:
        return np.full(many, attribute.highest)
    low, high = attribute.origin, attribute.highest
    values = low + (high - low) * rng.beta(2.0, 4.0, many)
    return np.round(values / attribute.step) * attribute.step if attribute.step else values
