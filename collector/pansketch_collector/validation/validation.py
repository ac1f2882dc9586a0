"""Validation of messages by themselves: pure, and the only reader of bytes from outside.

`validate` raises nothing, whatever the bytes are: the broker redelivers a message until it is
acknowledged, and one that raised would be redelivered for ever.
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
    judge_keeper,
    keeper_names,
)
from pansketch_collector.validation.verdicts import (
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
KEPT_BYTES = 8 << 20  # of counters that are decoded once for the checks and for the sums
COLLECTORS = ("ack", "mark", "ask")  # topics that it writes alone


@dataclass(frozen=True)
class Rules:
    """What this collector takes: its fleet, and per stream the specs of every device class.
    `keepers`: their names, by the id of each of their keys. `signed`: a release without a signature
    is refused."""

    fleet: str
    specs: dict[str, StreamSpecs]
    keepers: Mapping[bytes, str] = field(default_factory=dict)
    signed: bool = False

    @classmethod
    def of(cls, config: Config, epochs: Mapping[str, Sequence[Epoch]] | None = None) -> "Rules":
        """`epochs`: by stream, what this collector has served, late releases of which it takes."""
        known = epochs or {}
        specs = {s.name: StreamSpecs.of(config, s, known.get(s.name, ())) for s in config.streams}
        signed = config.collector.require_signature
        return cls(config.fleet, specs, keeper_names(config), signed)

    def renew(self, config: Config, stream: Stream, epochs: Sequence[Epoch]) -> None:
        """Takes releases of one more epoch of a stream from now on, none of them longer than
        those of the others."""
        self.specs[stream.name] = StreamSpecs.of(config, stream, epochs)

    @cached_property
    def largest(self) -> int:
        """The most bytes of a release of any stream, or of a keeper's reply: what is longer is not
        read."""
        replies = MAX_REPLY_BYTES if self.keepers else 0
        return max(replies, *(specs.max_bytes for specs in self.specs.values()))


class Message(Protocol):
    """A message of the broker. `digest`: of the whole release in it, computed once, when it came.
    A signed release is in an envelope, which `signatures.authenticate` checks."""

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
    kept = 0
    for portion in _portions(opened):
        kept += len(portion) * sum(portion[0][1].spec.blocks) * 8
        verdicts = _check_all([one for _, one in portion], keep=kept <= KEPT_BYTES)
        judged.update(zip((place for place, _ in portion), verdicts, strict=True))
    return [judged[place] for place in range(len(opened))]


def _open(message: Message, rules: Rules) -> "_Opened | Judged":
    place = topics.parse(message.topic)
    if place is None or place.kind in COLLECTORS:
        return Refused("topic", "not a topic of this protocol that a device writes to")
    if place.fleet != rules.fleet:
        return Refused("fleet", f"of fleet {place.fleet}, not of {rules.fleet}")
    if place.kind == "scale":
        return ScalesHeard(place.stream or "", message.payload)
    if place.kind in ("answer", "keeper-status"):
        return judge_keeper(place, message.payload, rules.keepers)
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


def _open_release(
    device: str, stream: str, message: Message, rules: Rules
) -> _Opened | Accepted | Refused:
    try:
        return _match(device, stream, message, rules)
    except Exception as error:  # a message that raised would be delivered again for ever
        return _refusal(error, WindowId(device, stream, 0))


def _refusal(error: Exception, window: WindowId) -> Refused:
    match error:
        case MismatchError():
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


def _check_all(opened: Sequence[_Opened], keep: bool) -> list[Accepted | Refused]:
    """Verdicts on a portion. A malformed one among them costs a second look at each."""
    first = opened[0]
    try:
        counters = counters_of_all([one.release for one in opened], first.spec)
    except Exception as error:  # as in _open_release
        if len(opened) == 1:
            return [_refusal(error, first.window)]
        return [verdict for one in opened for verdict in _check_all([one], keep)]
    try:
        bounds = first.specs.bounds(first.spec, first.release.header.draws)
    except ImplausibleError as error:
        return [refuse(one.window, error.reason, str(error)) for one in opened]
    held, totals = bounds.examine(counters)
    return [
        _accepted(one, EstimatedTotal(total, bounds.total.variance), row if keep else None)
        if within
        else _beyond(one, row)
        for one, within, total, row in zip(
            opened, held.tolist(), totals.tolist(), counters, strict=True
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


def _match(device: str, stream: str, message: Message, rules: Rules) -> "_Opened | Accepted":
    """The header, checked against topic and configuration; of masked counters, which nobody can
    look at, all of it. Raises WireError, MismatchError."""
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
