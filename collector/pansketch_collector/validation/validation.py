"""Validation of single messages: pure, and the only parser of messages from the broker.

`validate` raises nothing for any input: the broker redelivers a message until it is acknowledged,
so it would redeliver for ever a message that raises.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Protocol

import numpy as np
import numpy.typing as npt

from pansketch import DistinctSpec, Spec, WindowId, WireError
from pansketch.wire import BLINDED, Opened, counters_of_all, open_release, peek_blinded
from pansketch_collector.validation.accepted_specs import Epoch, StreamSpecs
from pansketch_collector.validation.keeper_messages import (
    check_masks,
    keeper_names,
    validate_keeper,
)
from pansketch_collector.validation.verdicts import (
    Accepted,
    DeviceStatus,
    EstimatedTotal,
    HealthReport,
    ImplausibleError,
    Rejected,
    ScalesReceived,
    Validated,
    reject,
)
from pansketch_collector.validation.window_labels import (
    MismatchError,
    spec_of_window,
    topics_window,
)
from pansketch_fleet.config.loader import Config
from pansketch_fleet.protocol import topics
from pansketch_fleet.protocol.keeper_messages import MAX_REPLY_BYTES
from pansketch_fleet.protocol.messages import Health, Status
from pansketch_fleet.protocol.signed_release import is_signed, release_in
from pansketch_fleet.settings.settings import Stream
from pansketch_fleet.settings.stream_schema import MAX_EXPECTED

PORTION_BYTES = 49_152
KEPT_BYTES = 8 << 20  # of decoded counters that are kept for the sums
COLLECTORS = ("ack", "mark", "ask")  # topics that only the collector publishes


@dataclass(frozen=True)
class Rules:
    """The fleet of this collector, and the accepted specs by stream.

    `keepers`: their names, by the id of each key. `signed`: unsigned releases are rejected.
    """

    fleet: str
    specs: dict[str, StreamSpecs]
    keepers: Mapping[bytes, str] = field(default_factory=dict)
    signed: bool = False

    @classmethod
    def of(cls, config: Config, epochs: Mapping[str, Sequence[Epoch]] | None = None) -> "Rules":
        """`epochs`: the epochs that this collector has served, by stream; late releases of them are
        accepted."""
        known = epochs or {}
        specs = {s.name: StreamSpecs.of(config, s, known.get(s.name, ())) for s in config.streams}
        signed = config.collector.require_signature
        return cls(config.fleet, specs, keeper_names(config), signed)

    def renew(self, config: Config, stream: Stream, epochs: Sequence[Epoch]) -> None:
        """Accepts releases of one more epoch of a stream; none may be longer than those of the
        others."""
        self.specs[stream.name] = StreamSpecs.of(config, stream, epochs)

    @cached_property
    def largest(self) -> int:
        """The maximum size of a release of any stream, or of a keeper's reply, in bytes."""
        replies = MAX_REPLY_BYTES if self.keepers else 0
        return max(replies, *(specs.max_bytes for specs in self.specs.values()))


class Message(Protocol):
    """A message of the broker. `digest`: of the whole release in it, computed once, on receipt.

    A signed release is in an envelope, which `signatures.authenticate` checks.
    """

    @property
    def topic(self) -> str: ...
    @property
    def payload(self) -> bytes: ...
    @property
    def digest(self) -> str: ...


def validate(messages: Sequence[Message], rules: Rules) -> list[Validated]:
    """Validates each message independently; decodes releases of one spec together. Never raises."""
    opened = [_open(message, rules) for message in messages]
    validated: dict[int, Validated] = {
        index: found for index, found in enumerate(opened) if not isinstance(found, _Opened)
    }
    kept = 0
    for portion in _portions(opened):
        kept += len(portion) * sum(portion[0][1].spec.blocks) * 8
        outcomes = _check_all([one for _, one in portion], keep=kept <= KEPT_BYTES)
        validated.update(zip((index for index, _ in portion), outcomes, strict=True))
    return [validated[index] for index in range(len(opened))]


def _open(message: Message, rules: Rules) -> "_Opened | Validated":
    topic = topics.parse(message.topic)
    if topic is None or topic.kind in COLLECTORS:
        return Rejected("topic", "not a topic of this protocol that a device writes to")
    if topic.fleet != rules.fleet:
        return Rejected("fleet", f"of fleet {topic.fleet}, not of {rules.fleet}")
    if topic.kind == "scale":
        return ScalesReceived(topic.stream or "", message.payload)
    if topic.kind in ("answer", "keeper-status"):
        return validate_keeper(topic, message.payload, rules.keepers)
    if topic.kind == "status":
        return _validate_status(topic.device, message.payload)
    if topic.kind == "health":
        return _validate_health(topic.device, message.payload)
    return _open_release(topic.device, topic.stream or "", message, rules)


def _validate_status(device: str, payload: bytes) -> DeviceStatus | Rejected:
    try:
        return DeviceStatus(device, Status.decode(payload))
    except ValueError:
        return Rejected("status", "not a status message of this version", device)


def _validate_health(device: str, payload: bytes) -> HealthReport | Rejected:
    try:
        return HealthReport(device, Health.decode(payload))
    except ValueError:
        return Rejected("health", "not a health message of this version", device)


@dataclass(frozen=True)
class _Opened:
    """A release with a header that fits its topic and `spec`."""

    window: WindowId
    spec: Spec
    specs: StreamSpecs
    message: Message
    release: Opened


def _open_release(
    device: str, stream: str, message: Message, rules: Rules
) -> _Opened | Accepted | Rejected:
    try:
        return _match(device, stream, message, rules)
    except Exception as error:  # the broker would redeliver a message that raises for ever
        return _refusal(error, WindowId(device, stream, 0))


def _refusal(error: Exception, window: WindowId) -> Rejected:
    match error:
        case MismatchError():
            label = WindowId(window.device, window.stream, error.sequence)
            return reject(label, error.reason, str(error))
        case WireError():
            return reject(window, error.reason, str(error))
    return reject(window, "malformed", f"{type(error).__name__} while decoding")


def _portions(opened: Sequence[object]) -> Iterator[list[tuple[int, _Opened]]]:
    """Groups releases of one spec, stream and number of draws, with their indices.

    A portion is small enough that its checks stay in the CPU cache.
    """
    portions: dict[tuple[str, bytes, int], list[tuple[int, _Opened]]] = {}
    sizes: Counter[tuple[str, bytes, int]] = Counter()
    for index, found in enumerate(opened):
        if isinstance(found, _Opened):
            key = found.window.stream, found.spec.fingerprint, found.release.header.draws
            portions.setdefault(key, []).append((index, found))
            sizes[key] += len(found.message.payload)
            if sizes[key] >= PORTION_BYTES:
                yield portions.pop(key)
                del sizes[key]
    yield from portions.values()


def _check_all(opened: Sequence[_Opened], keep: bool) -> list[Accepted | Rejected]:
    """Checks the counters of a portion. If one is malformed, checks each release alone."""
    first = opened[0]
    try:
        counters = counters_of_all([one.release for one in opened], first.spec)
    except Exception as error:  # as in _open_release
        if len(opened) == 1:
            return [_refusal(error, first.window)]
        return [outcome for one in opened for outcome in _check_all([one], keep)]
    try:
        bounds = first.specs.bounds(first.spec, first.release.header.draws)
    except ImplausibleError as error:
        return [reject(one.window, error.reason, str(error)) for one in opened]
    within_bounds, totals = bounds.examine(counters)
    return [
        _accepted(one, EstimatedTotal(total, bounds.total.variance), row if keep else None)
        if within
        else _beyond(one, row)
        for one, within, total, row in zip(
            opened, within_bounds.tolist(), totals.tolist(), counters, strict=True
        )
    ]


def _accepted(
    opened: _Opened, total: EstimatedTotal, counters: npt.NDArray[np.int64] | None
) -> Accepted:
    message, spec = opened.message, opened.spec
    draws = opened.release.header.draws
    return Accepted(
        *(opened.window, spec.fingerprint, message.digest, release_in(message.payload), total),
        *(spec, draws, counters),
    )


def _beyond(opened: _Opened, counters: npt.NDArray[np.int64]) -> Rejected:
    """Rejects counters beyond their bounds; not finally, if another configuration could allow
    them."""
    window, spec = opened.window, opened.spec
    if isinstance(spec, DistinctSpec):
        return reject(window, "bounds", "counters that no keys and no noise explain")
    widest = opened.specs.bounds(spec, opened.release.header.draws, MAX_EXPECTED)
    if not widest.examine(counters[None])[0].all():
        return reject(window, "bounds", "counters that no readings and no noise explain")
    text = (
        f"counters that {opened.specs.most_readings} readings and their noise do not explain; "
        f"if windows of {window.stream} have more, state it as expect.max_readings"
    )
    return reject(window, "readings", text)


def _match(device: str, stream: str, message: Message, rules: Rules) -> "_Opened | Accepted":
    """Checks the header against topic and configuration; checks a blinded release completely.

    Raises WireError, MismatchError.
    """
    payload = release_in(message.payload)
    if is_signed(payload):
        raise MismatchError("version", "its envelope is of a version that this collector lacks")
    if len(payload) > rules.largest:
        text = f"longer than the {rules.largest} bytes that this collector reads"
        raise MismatchError("length", text)
    if payload[: len(BLINDED)] == BLINDED:
        masked = peek_blinded(payload)
        window = topics_window([masked.window], device, stream)
        spec, _ = spec_of_window(window, masked.fingerprint, len(payload), rules.specs)
        check_masks(payload, spec, masked, rules.keepers)
        return Accepted(window, masked.fingerprint, message.digest, payload, None)
    release = open_release(payload)
    header = release.header
    window = topics_window(header.windows, device, stream)
    spec, specs = spec_of_window(window, header.fingerprint, len(payload), rules.specs)
    if spec.guarantee.answer_micro:
        raise MismatchError("malformed", "its counters are not masked", window.sequence)
    return _Opened(window, spec, specs, message, release)
