"""The judgement of one message: pure, and the only place that meets bytes from outside.

Whatever the bytes are, `judge` answers; it raises nothing, because a broker sends a message again
until it is acknowledged, and one that raised would come back for ever.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from collector.specs import StreamSpecs
from fleet import topics
from fleet.config import Config
from fleet.messages import Health, Status, digest
from pansketch import DistinctSpec, Header, Spec, WindowId, WireError
from pansketch.wire import Opened, check_all, open_release

# The last second of the year 9999: what dates on screen and 63-bit integers can hold.
LATEST_SECOND = 253_402_300_799
MOST_SEQUENCE = 2**63 - 1
MOST_TEXT = 300
PORTION_BYTES = 16_384


@dataclass(frozen=True)
class Rules:
    """What this collector takes: its fleet, and per stream the specs of every device class."""

    fleet: str
    specs: Mapping[str, StreamSpecs]

    @classmethod
    def of(cls, config: Config) -> "Rules":
        return cls(config.fleet, {s.name: StreamSpecs.of(config, s) for s in config.streams})

    def most_bytes(self, stream: str) -> int:
        """The hard bound on the bytes of a release of one known stream."""
        return self.specs[stream].most_bytes

    @property
    def largest(self) -> int:
        """The hard bound over all streams: what is longer can only be refused."""
        return max(self.most_bytes(stream) for stream in self.specs)


@dataclass(frozen=True)
class Accepted:
    """A release that decodes and is what its topic says. `payload` are the bytes as received."""

    window: WindowId
    fingerprint: bytes
    digest: str
    payload: bytes


@dataclass(frozen=True)
class Duplicate:
    """The same bytes are held already: to be acknowledged again, not to be stored again."""

    window: WindowId
    digest: str


@dataclass(frozen=True)
class Presence:
    """A device's birth or will."""

    device: str
    status: Status


@dataclass(frozen=True)
class Checkup:
    """How a device says that it is. Nobody answers it."""

    device: str
    health: Health


@dataclass(frozen=True)
class Refused:
    """What goes to quarantine. `device` and `stream` say whom to answer, where the topic tells."""

    reason: str
    text: str
    device: str | None = None
    stream: str | None = None
    sequence: int = 0


@dataclass(frozen=True)
class Held:
    """What the store knows near a window: the digest under its sequence number, and the sequence
    number under which its start is taken; None where there is nothing. `disputed`: what is held
    is set aside, because other bytes came under its sequence number."""

    digest: str | None
    sequence: int | None
    disputed: bool = False


Judged = Accepted | Presence | Checkup | Refused
Verdict = Accepted | Duplicate | Presence | Checkup | Refused


def judge(topic: str, payload: bytes, rules: Rules) -> Judged:
    """What one message is, by itself. Never raises."""
    return judge_all([(topic, payload)], rules)[0]


def judge_all(messages: Sequence[tuple[str, bytes]], rules: Rules) -> list[Judged]:
    """`judge` of each; releases of one spec are decoded together. Never raises."""
    opened = [_open(topic, payload, rules) for topic, payload in messages]
    judged: dict[int, Judged] = {
        place: found for place, found in enumerate(opened) if not isinstance(found, _Opened)
    }
    for portion in _portions(opened):
        verdicts = _check_all([one for _, one in portion])
        judged.update(zip((place for place, _ in portion), verdicts, strict=True))
    return [judged[place] for place in range(len(opened))]


def _open(topic: str, payload: bytes, rules: Rules) -> "_Opened | Presence | Checkup | Refused":
    place = topics.parse(topic)
    if place is None or place.kind == "ack":
        return Refused("topic", "not a topic of this protocol that a device writes to")
    if place.fleet != rules.fleet:
        return Refused("fleet", f"of fleet {place.fleet}, not of {rules.fleet}")
    if place.kind == "status":
        return _judge_status(place.device, payload)
    if place.kind == "health":
        return _judge_health(place.device, payload)
    return _open_release(place.device, place.stream or "", payload, rules)


def compare(release: Accepted, held: Held) -> Accepted | Duplicate | Refused:
    """A release against what is held: new, the same again, or another one for the same window."""
    window = release.window
    if held.disputed:
        text = f"different releases came as sequence {window.sequence}, and none of them counts"
        return _refuse(window, "equivocation", text)
    if held.digest == release.digest:
        return Duplicate(window, release.digest)
    if held.digest is not None:
        text = f"sequence {window.sequence} is held already with other bytes"
        return _refuse(window, "equivocation", text)
    if held.sequence is not None:
        text = f"the window is held already as sequence {held.sequence}: it is released only once"
        return _refuse(window, "window", text)
    return release


def _refuse(window: WindowId, reason: str, text: str) -> Refused:
    return Refused(reason, text[:MOST_TEXT], window.device, window.stream, window.sequence)


def _judge_status(device: str, payload: bytes) -> Presence | Refused:
    try:
        return Presence(device, Status.decode(payload))
    except ValueError:
        return Refused("status", "not a status message of this version", device)


def _judge_health(device: str, payload: bytes) -> Checkup | Refused:
    try:
        return Checkup(device, Health.decode(payload))
    except ValueError:
        return Refused("health", "not a health message of this version", device)


@dataclass(frozen=True)
class _Opened:
    """A release whose header is that of a window of its topic, made under `spec`."""

    window: WindowId
    spec: Spec
    payload: bytes
    release: Opened


def _open_release(device: str, stream: str, payload: bytes, rules: Rules) -> _Opened | Refused:
    if stream not in rules.specs:
        text = f"the configuration has no stream {stream}"
        return Refused("stream", text, device, stream)
    most = rules.most_bytes(stream)
    if len(payload) > most:
        text = f"longer than the {most} bytes that a release of {stream} can have"
        return Refused("size", text, device, stream)
    try:
        return _match(device, stream, payload, rules.specs[stream])
    except Exception as error:  # a message that raised would be delivered again for ever
        return _refusal(error, WindowId(device, stream, 0))


def _refusal(error: Exception, window: WindowId) -> Refused:
    match error:
        case _MismatchError():
            label = WindowId(window.device, window.stream, error.sequence)
            return _refuse(label, error.reason, str(error))
        case WireError():
            return _refuse(window, error.reason, str(error))
    return _refuse(window, "malformed", f"{type(error).__name__} while decoding")


def _portions(opened: Sequence[object]) -> Iterator[list[tuple[int, _Opened]]]:
    """Releases of one spec with their places, few enough that checking them stays in the cache."""
    portions: dict[bytes, list[tuple[int, _Opened]]] = {}
    sizes: Counter[bytes] = Counter()
    for place, found in enumerate(opened):
        if isinstance(found, _Opened):
            key = found.spec.fingerprint
            portions.setdefault(key, []).append((place, found))
            sizes[key] += len(found.payload)
            if sizes[key] >= PORTION_BYTES:
                yield portions.pop(key)
                del sizes[key]
    yield from portions.values()


def _check_all(opened: Sequence[_Opened]) -> list[Accepted | Refused]:
    """Verdicts on releases of one spec. One bad one among them costs a second look at each."""
    try:
        check_all([one.release for one in opened], opened[0].spec)
    except Exception as error:  # as in _open_release
        if len(opened) == 1:
            return [_refusal(error, opened[0].window)]
        return [verdict for one in opened for verdict in _check_all([one])]
    return [_check(one) for one in opened]


def _check(opened: _Opened) -> Accepted | Refused:
    spec, bits = opened.spec, opened.release.all_bits
    if isinstance(spec, DistinctSpec) and spec.release == "bitmap" and not bits:
        # One of them in the sum would leave the whole fleet without a union.
        return _refuse(opened.window, "bounds", "a bitmap that holds other numbers than 0 and 1")
    return Accepted(opened.window, spec.fingerprint, digest(opened.payload), opened.payload)


class _MismatchError(Exception):
    """A well-formed release that does not belong where it came."""

    def __init__(self, reason: str, text: str, sequence: int = 0) -> None:
        super().__init__(text)
        self.reason = reason
        self.sequence = sequence


def _match(device: str, stream: str, payload: bytes, specs: StreamSpecs) -> _Opened:
    """The header, checked against topic and configuration. Raises WireError, _MismatchError."""
    release = open_release(payload)
    window = _window(release.header, device, stream)
    spec = specs.at(window.start).get(release.header.fingerprint)
    if spec is None:
        text = f"made with other settings than the configuration's stream {stream}"
        raise _MismatchError("fingerprint", text, window.sequence)
    return _Opened(window, spec, payload, release)


def _window(header: Header, device: str, stream: str) -> WindowId:
    """The one window inside, which must be the topic's. Raises _MismatchError."""
    if len(header.windows) != 1:
        raise _MismatchError("identity", "a device's release holds exactly one window")
    window = header.windows[0]
    if not 0 <= window.sequence <= MOST_SEQUENCE:
        raise _MismatchError("identity", "the sequence number is out of bounds")
    if (window.device, window.stream) != (device, stream):
        text = "the device and stream inside are not those of the topic"
        raise _MismatchError("identity", text, window.sequence)
    if not 0 <= window.start < window.end <= LATEST_SECOND:
        raise _MismatchError("identity", "the window does not end after its start", window.sequence)
    return window


def supersedes(status: Status, newest_session: str | None) -> bool:
    """Whether a status is news. The will of a session that a newer birth has replaced is not."""
    return status.state == "online" or newest_session in (None, status.session)
