"""The judgement of one message: pure, and the only place that meets bytes from outside.

Whatever the bytes are, `judge` answers; it raises nothing, because a broker sends a message again
until it is acknowledged, and one that raised would come back for ever.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from fleet import topics
from fleet.config import Config
from fleet.messages import Status, digest
from pansketch import Header, HierarchySpec, WindowId, WireError, decode, peek

# The last second of the year 9999: what dates on screen and 63-bit integers can hold.
LATEST_SECOND = 253_402_300_799
MOST_SEQUENCE = 2**63 - 1
MOST_TEXT = 300


@dataclass(frozen=True)
class Rules:
    """What this collector takes: its fleet, and per stream the specs of every device class."""

    fleet: str
    specs: Mapping[str, Mapping[bytes, HierarchySpec]]

    @classmethod
    def of(cls, config: Config) -> "Rules":
        return cls(config.fleet, {s.name: dict(config.specs(s)) for s in config.streams})

    def most_bytes(self, stream: str) -> int:
        """The hard bound on the bytes of a release of one known stream."""
        return max(spec.max_release_nbytes for spec in self.specs[stream].values())

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
    number under which its start is taken; None where there is nothing."""

    digest: str | None
    sequence: int | None


Judged = Accepted | Presence | Refused
Verdict = Accepted | Duplicate | Presence | Refused


def judge(topic: str, payload: bytes, rules: Rules) -> Judged:
    """What one message is, by itself. Never raises."""
    place = topics.parse(topic)
    if place is None or place.kind not in ("release", "status"):
        return Refused("topic", "not a topic of this protocol that a device writes to")
    if place.fleet != rules.fleet:
        return Refused("fleet", f"of fleet {place.fleet}, not of {rules.fleet}")
    if place.kind == "status":
        return _judge_status(place.device, payload)
    return _judge_release(place.device, place.stream or "", payload, rules)


def compare(release: Accepted, held: Held) -> Accepted | Duplicate | Refused:
    """A release against what is held: new, the same again, or another one for the same window."""
    window = release.window
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
    return Refused(reason, text, window.device, window.stream, window.sequence)


def _judge_status(device: str, payload: bytes) -> Presence | Refused:
    try:
        return Presence(device, Status.decode(payload))
    except ValueError:
        return Refused("status", "not a status message of this version", device)


def _judge_release(device: str, stream: str, payload: bytes, rules: Rules) -> Accepted | Refused:
    def refuse(reason: str, text: str, sequence: int = 0) -> Refused:
        return Refused(reason, text[:MOST_TEXT], device, stream, sequence)

    if stream not in rules.specs:
        return refuse("stream", f"the configuration has no stream {stream}")
    most = rules.most_bytes(stream)
    if len(payload) > most:
        return refuse("size", f"longer than the {most} bytes that a release of {stream} can have")
    try:
        header = peek(payload)
        return _match(device, stream, payload, header, rules.specs[stream])
    except WireError as error:
        return refuse(error.reason, str(error))
    except _MismatchError as error:
        return refuse(error.reason, str(error), error.sequence)
    except Exception as error:  # a message that raised would be delivered again for ever
        return refuse("malformed", f"{type(error).__name__} while decoding")


class _MismatchError(Exception):
    """A well-formed release that does not belong where it came."""

    def __init__(self, reason: str, text: str, sequence: int = 0) -> None:
        super().__init__(text)
        self.reason = reason
        self.sequence = sequence


def _match(
    device: str,
    stream: str,
    payload: bytes,
    header: Header,
    specs: Mapping[bytes, HierarchySpec],
) -> Accepted:
    """The release, checked against topic and configuration. Raises _MismatchError, WireError."""
    window = _window(header, device, stream)
    spec = specs.get(header.fingerprint)
    if spec is None:
        text = f"made with other settings than the configuration's stream {stream}"
        raise _MismatchError("fingerprint", text, window.sequence)
    if decode(payload, spec).windows != (window,):
        raise _MismatchError("malformed", "header and body name different windows", window.sequence)
    return Accepted(window, header.fingerprint, digest(payload), payload)


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
