"""Validation of messages by themselves: pure, and the only reader of bytes from outside.

`validate` raises nothing, whatever the bytes are: the broker redelivers a message until it is
acknowledged, and one that raised would be redelivered for ever.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
import numpy.typing as npt

from pansketch import DistinctSpec, Header, Spec, WindowId, WireError
from pansketch.wire import Opened, counters_of_all, open_release
from pansketch_collector.validation.accepted_specs import Epoch, StreamSpecs
from pansketch_collector.validation.verdicts import (
    LATEST_SECOND,
    Accepted,
    EstimatedTotal,
    HealthReport,
    ImplausibleError,
    Judged,
    Presence,
    Refused,
    ScalesHeard,
    refuse,
)
from pansketch_fleet.config.loader import Config
from pansketch_fleet.protocol import topics
from pansketch_fleet.protocol.messages import Health, Status
from pansketch_fleet.settings.device_spec import schedule_offset
from pansketch_fleet.settings.settings import Stream
from pansketch_fleet.settings.stream_schema import MAX_EXPECTED

MAX_SEQUENCE = 2**63 - 1
PORTION_BYTES = 49_152
# What devices do not write to: the collector's own topics, and those of keepers.
NOT_A_DEVICES = ("ack", "mark", "ask", "answer", "keeper-status")


@dataclass(frozen=True)
class Rules:
    """What this collector takes: its fleet, and per stream the specs of every device class."""

    fleet: str
    specs: dict[str, StreamSpecs]

    @classmethod
    def of(cls, config: Config, epochs: Mapping[str, Sequence[Epoch]] | None = None) -> "Rules":
        """`epochs`: by stream, what this collector has served, late releases of which it takes."""
        known = epochs or {}
        specs = {s.name: StreamSpecs.of(config, s, known.get(s.name, ())) for s in config.streams}
        return cls(config.fleet, specs)

    def renew(self, config: Config, stream: Stream, epochs: Sequence[Epoch]) -> None:
        """Takes releases of one more epoch of a stream from now on, none of them longer than
        those of the others."""
        self.specs[stream.name] = StreamSpecs.of(config, stream, epochs)

    @cached_property
    def largest(self) -> int:
        """The most bytes of a release of any stream: what is longer is not read."""
        return max(specs.max_bytes for specs in self.specs.values())


class Message(Protocol):
    """A message of the broker. `digest`: of the whole payload, computed once, when it came."""

    @property
    def topic(self) -> str: ...
    @property
    def payload(self) -> bytes: ...
    @property
    def digest(self) -> str: ...


def validate(messages: Sequence[Message], rules: Rules) -> list[Judged]:
    """A verdict on each message by itself; releases of one spec are decoded together. Never
    raises."""
    opened = [_open(message, rules) for message in messages]
    judged: dict[int, Judged] = {
        place: found for place, found in enumerate(opened) if not isinstance(found, _Opened)
    }
    for portion in _portions(opened):
        verdicts = _check_all([one for _, one in portion])
        judged.update(zip((place for place, _ in portion), verdicts, strict=True))
    return [judged[place] for place in range(len(opened))]


def _open(
    message: Message, rules: Rules
) -> "_Opened | Presence | HealthReport | ScalesHeard | Refused":
    place = topics.parse(message.topic)
    if place is None or place.kind in NOT_A_DEVICES:
        return Refused("topic", "not a topic of this protocol that a device writes to")
    if place.fleet != rules.fleet:
        return Refused("fleet", f"of fleet {place.fleet}, not of {rules.fleet}")
    if place.kind == "scale":
        return ScalesHeard(place.stream or "", message.payload)
    if place.kind == "status":
        return _judge_status(place.device, message.payload)
    if place.kind == "health":
        return _judge_health(place.device, message.payload)
    return _open_release(place.device, place.stream or "", message, rules)


def _judge_status(device: str, payload: bytes) -> Presence | Refused:
    try:
        return Presence(device, Status.decode(payload))
    except ValueError:
        return Refused("status", "not a status message of this version", device)


def _judge_health(device: str, payload: bytes) -> HealthReport | Refused:
    try:
        return HealthReport(device, Health.decode(payload))
    except ValueError:
        return Refused("health", "not a health message of this version", device)


@dataclass(frozen=True)
class _Opened:
    """A release whose header is that of a window of its topic, made under `spec`."""

    window: WindowId
    spec: Spec
    specs: StreamSpecs
    message: Message
    release: Opened


def _open_release(device: str, stream: str, message: Message, rules: Rules) -> _Opened | Refused:
    try:
        return _match(device, stream, message, rules)
    except Exception as error:  # a message that raised would be delivered again for ever
        return _refusal(error, WindowId(device, stream, 0))


def _refusal(error: Exception, window: WindowId) -> Refused:
    match error:
        case _MismatchError():
            label = WindowId(window.device, window.stream, error.sequence)
            return refuse(label, error.reason, str(error))
        case WireError():
            return refuse(window, error.reason, str(error))
    return refuse(window, "malformed", f"{type(error).__name__} while decoding")


def _portions(opened: Sequence[object]) -> Iterator[list[tuple[int, _Opened]]]:
    """Releases of one spec, stream and number of draws with their places, few enough that checking
    them stays in the cache."""
    portions: dict[tuple[str, bytes, int], list[tuple[int, _Opened]]] = {}
    sizes: Counter[tuple[str, bytes, int]] = Counter()
    for place, found in enumerate(opened):
        if isinstance(found, _Opened):
            key = found.window.stream, found.spec.fingerprint, found.release.header.draws
            portions.setdefault(key, []).append((place, found))
            sizes[key] += len(found.message.payload)
            if sizes[key] >= PORTION_BYTES:
                yield portions.pop(key)
                del sizes[key]
    yield from portions.values()


def _check_all(opened: Sequence[_Opened]) -> list[Accepted | Refused]:
    """Verdicts on a portion. A malformed one among them costs a second look at each."""
    first = opened[0]
    try:
        counters = counters_of_all([one.release for one in opened], first.spec)
    except Exception as error:  # as in _open_release
        if len(opened) == 1:
            return [_refusal(error, first.window)]
        return [verdict for one in opened for verdict in _check_all([one])]
    try:
        bounds = first.specs.bounds(first.spec, first.release.header.draws)
    except ImplausibleError as error:
        return [refuse(one.window, error.reason, str(error)) for one in opened]
    held, totals = bounds.examine(counters)
    return [
        _accepted(one, EstimatedTotal(total, bounds.total.variance))
        if within
        else _beyond(one, row)
        for one, within, total, row in zip(
            opened, held.tolist(), totals.tolist(), counters, strict=True
        )
    ]


def _accepted(opened: _Opened, total: EstimatedTotal) -> Accepted:
    message = opened.message
    return Accepted(opened.window, opened.spec.fingerprint, message.digest, message.payload, total)


def _beyond(opened: _Opened, counters: npt.NDArray[np.int64]) -> Refused:
    """The refusal of counters beyond their bounds; for now, if a configuration could allow them."""
    window, spec = opened.window, opened.spec
    if isinstance(spec, DistinctSpec):
        return refuse(window, "bounds", "counters that no keys and no noise explain")
    widest = opened.specs.bounds(spec, opened.release.header.draws, MAX_EXPECTED)
    if not widest.examine(counters[None])[0].all():
        return refuse(window, "bounds", "counters that no readings and no noise explain")
    text = (
        f"counters that {opened.specs.most_readings} readings and their noise do not explain; "
        f"if windows of {window.stream} have more, state it as expect.max_readings"
    )
    return refuse(window, "readings", text)


class _MismatchError(Exception):
    """A well-formed release that does not belong where it came."""

    def __init__(self, reason: str, text: str, sequence: int = 0) -> None:
        super().__init__(text)
        self.reason = reason
        self.sequence = sequence


def _match(device: str, stream: str, message: Message, rules: Rules) -> _Opened:
    """The header, checked against topic and configuration. Raises WireError, _MismatchError."""
    if len(message.payload) > rules.largest:
        text = f"longer than the {rules.largest} bytes that this collector reads"
        raise _MismatchError("length", text)
    release = open_release(message.payload)
    window = _window(release.header, device, stream)
    try:
        return _matched(window, message, release, rules)
    except ImplausibleError as error:
        raise _MismatchError(error.reason, str(error), window.sequence) from None


def _matched(window: WindowId, message: Message, release: Opened, rules: Rules) -> _Opened:
    """The release of a window of this topic. Raises _MismatchError, ImplausibleError."""
    stream = window.stream
    if stream not in rules.specs:
        text = f"the configuration has no stream {stream}"
        raise _MismatchError("stream", text, window.sequence)
    specs = rules.specs[stream]
    spec = specs.at(window.start).get(release.header.fingerprint)
    if spec is None:
        text = f"made with other settings than the configuration's stream {stream}"
        raise _MismatchError("fingerprint", text, window.sequence)
    if len(message.payload) > specs.max_bytes:
        text = f"longer than the {specs.max_bytes} bytes that a release of {stream} can have"
        raise _MismatchError("size", text, window.sequence)
    _check_window(window, specs.lengths_at(window.start, spec.fingerprint))
    return _Opened(window, spec, specs, message, release)


def _window(header: Header, device: str, stream: str) -> WindowId:
    """The one window inside, which must be the topic's. Raises _MismatchError."""
    if len(header.windows) != 1:
        raise _MismatchError("identity", "a device's release holds exactly one window")
    window = header.windows[0]
    if not 0 <= window.sequence <= MAX_SEQUENCE:
        raise _MismatchError("identity", "the sequence number is out of bounds")
    if (window.device, window.stream) != (device, stream):
        text = "the device and stream inside are not those of the topic"
        raise _MismatchError("identity", text, window.sequence)
    if not 0 <= window.start < window.end <= LATEST_SECOND:
        raise _MismatchError("identity", "the window does not end after its start", window.sequence)
    return window


def _check_window(window: WindowId, lengths: Sequence[int]) -> None:
    """Its length and its start are those of the device's schedule, its number is one that a ledger
    gives. `lengths`: seconds of the windows that its stream has or had. Raises ImplausibleError."""
    window_seconds = window.end - window.start
    if window.sequence < 1:
        raise ImplausibleError("bounds", "sequence numbers begin at 1")
    if window_seconds not in lengths:
        text = (
            f"the window is {window_seconds} s long, and the configuration's windows of "
            f"{window.stream} are {lengths[0]} s: set the same window on both sides"
        )
        raise ImplausibleError("window", text)
    offset = schedule_offset(window.device, window_seconds)
    if window.start % window_seconds != offset:
        text = (
            f"windows of {window.device} begin {offset} s after multiples of {window_seconds} s, "
            f"and this one {window.start % window_seconds} s"
        )
        raise ImplausibleError("window", text)
