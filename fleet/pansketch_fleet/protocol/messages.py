"""The JSON messages beside the releases: the collector's Ack and Mark, a device's Status and
Health.

All are strict, for encoding and decoding. They refuse an unknown or repeated key, a wrong type, a
text that is too long, and a message beyond its size limit.
"""

import re
from collections.abc import Iterable
from hashlib import blake2b
from typing import Literal, Self

import msgspec

from pansketch_fleet.protocol.strict_json import LINE as _LINE
from pansketch_fleet.protocol.strict_json import LONG_LINE
from pansketch_fleet.protocol.strict_json import decode as _decode
from pansketch_fleet.protocol.strict_json import encode as _encode
from pansketch_fleet.protocol.strict_json import expect as _expect
from pansketch_fleet.protocol.topics import ID_RULE, is_id

ACK_LIMIT_BYTES = 2048
STATUS_LIMIT_BYTES = 65536
MARK_LIMIT_BYTES = 65536
HEALTH_LIMIT_BYTES = 1024
MAX_SEQUENCE = 2**63 - 1
LATEST_SECOND = 253_402_300_799  # the last of the year 9999
MAX_NUMBER = 2**53 - 1  # exact in every JSON parser
MAX_STREAMS = 256  # of one device: the limit of its mark
MAX_CLASSES = 8  # of reasons, in one health message
MAX_WINDOW_SECONDS = 10 * 366 * 86400

_DIGEST = re.compile(r"[0-9a-f]{32}")
_INCARNATION = re.compile(r"(?:[0-9a-f]{16})?")
_FINGERPRINT = re.compile(r"[0-9a-f]{16}")
_SESSION = re.compile(r"[A-Za-z0-9-]{1,64}")
_CLASS = re.compile(r"[a-z][a-z-]{0,31}")
_COUNTS = (
    *("uptime_seconds", "waiting", "dropped", "set_aside", "written_today_bytes"),
    *("refused_dropped", "name_conflicts"),
)
_VERSION = re.compile(r"[A-Za-z0-9.+-]{1,64}")


def digest(payload: bytes) -> str:
    """Return the digest of the bytes of one release: BLAKE2b-128 in 32 hexadecimal digits."""
    return blake2b(payload, digest_size=16).hexdigest()


class Ack(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The collector's acknowledgement of one release. Raises ValueError when a field is invalid.

    `status`: "later" is a refusal that depends on the collector's configuration, clock or version,
    so the device keeps the release and retries; "refused" is final. `reason` begins with the class
    of the refusal and a colon.
    """

    stream: str
    sequence: int
    digest: str
    status: Literal["stored", "duplicate", "later", "refused"]
    reason: str = ""

    def __post_init__(self) -> None:
        _expect(is_id(self.stream), f"stream must be {ID_RULE}")
        _expect(0 <= self.sequence <= MAX_SEQUENCE, "sequence must be a 63-bit whole number")
        _expect(_DIGEST.fullmatch(self.digest), "digest must be 32 hexadecimal digits")
        _expect(_LINE.fullmatch(self.reason), "reason must be one line of at most 300 characters")

    @property
    def reason_class(self) -> str:
        """The part of `reason` before its colon: one word, or "other"."""
        word = self.reason.partition(":")[0]
        return word if _CLASS.fullmatch(word) else "other"

    def encode(self) -> bytes:
        return _encode(self, ACK_LIMIT_BYTES)

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """Parse an Ack. Raises ValueError, one line."""
        return _decode(data, cls, ACK_LIMIT_BYTES)


class StreamBirth(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The state of one stream: fingerprint (16 hexadecimal digits), guarantee, window.

    `problem`: one line when the stream has stopped and needs a person. `scale_problem`: one line
    when the device refused the newest published scales. Both are omitted otherwise.
    """

    fingerprint: str
    guarantee: str
    window_seconds: int
    problem: str = ""
    scale_problem: str = ""

    def __post_init__(self) -> None:
        _expect(
            _FINGERPRINT.fullmatch(self.fingerprint), "fingerprint must be 16 hexadecimal digits"
        )
        _expect(
            LONG_LINE.fullmatch(self.guarantee),
            "guarantee must be one line of at most 600 characters",
        )
        _expect(1 <= self.window_seconds <= MAX_WINDOW_SECONDS, "window_seconds is out of range")
        _expect(_LINE.fullmatch(self.problem), "problem must be one line of at most 300 characters")
        _expect(
            _LINE.fullmatch(self.scale_problem),
            "scale_problem must be one line of at most 300 characters",
        )


class Status(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A device's status. `session` is new at each start, which reveals a stale last will.

    `state`: "stopped" is a graceful disconnect, "offline" the last will.
    """

    state: Literal["online", "offline", "stopped"]
    session: str
    streams: dict[str, StreamBirth]

    def __post_init__(self) -> None:
        _expect(_SESSION.fullmatch(self.session), "session must be 1 to 64 letters, digits and -")
        _expect(all(map(is_id, self.streams)), f"streams must be named by {ID_RULE}")

    def encode(self) -> bytes:
        return _encode(self, STATUS_LIMIT_BYTES)

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """Parse a Status. Raises ValueError, one line."""
        return _decode(data, cls, STATUS_LIMIT_BYTES)


class StreamMark(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The collector's record of one stream of a device.

    `incarnation` (16 hexadecimal digits, or none) and `sequence` are of the ledger whose window
    ends last, at `window_end`; `sequence` is its highest. `windows`: the number stored, of all
    ledgers.
    """

    incarnation: str
    sequence: int
    window_end: int
    windows: int

    def __post_init__(self) -> None:
        _expect(
            _INCARNATION.fullmatch(self.incarnation), "incarnation must be 16 hexadecimal digits"
        )
        _expect(0 <= self.sequence <= MAX_SEQUENCE, "sequence must be a 63-bit whole number")
        _expect(0 <= self.window_end <= LATEST_SECOND, "window_end is out of range")
        _expect(0 <= self.windows <= MAX_NUMBER, "windows must be from 0 to 2**53 - 1")


class Mark(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The collector's high-water mark of one device, by stream.

    `generation` names its database; a restored database has another one.
    """

    generation: str
    streams: dict[str, StreamMark]

    def __post_init__(self) -> None:
        _expect(_FINGERPRINT.fullmatch(self.generation), "generation must be 16 hexadecimal digits")
        _expect(all(map(is_id, self.streams)), f"streams must be named by {ID_RULE}")

    def encode(self) -> bytes:
        return _encode(self, MARK_LIMIT_BYTES)

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """Parse a Mark. Raises ValueError, one line."""
        return _decode(data, cls, MARK_LIMIT_BYTES)


class Health(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The health of a device: its schedule, network, disk and clock, and nothing about readings.

    `waiting`: releases in the outbox. `oldest_waiting_seconds`: since the end of the first window
    of their live streams, by the wall clock; null without one, or if the clock is behind.
    `dropped`: releases that the outbox ever dropped. `set_aside`: dead letters and damaged
    segments, which need a person. `written_today_bytes`: about, since 0 h UTC or the start, by the
    number of windows. `clock_synchronised`: null if the system does not report it. `deferred`:
    releases in the outbox that the collector deferred, by the class of its reason.
    `refused_dropped`: dead letters that were ever removed for lack of space. `memory_protected`:
    whether no swap can contain the agent's memory; null, or omitted, if unknown. `name_conflicts`:
    how often since its start another client with this device's name ended its connection.
    """

    session: str
    version: str
    uptime_seconds: int
    clock_synchronised: bool | None
    waiting: int
    oldest_waiting_seconds: int | None
    dropped: int
    set_aside: int
    written_today_bytes: int
    deferred: dict[str, int] = {}
    refused_dropped: int = 0
    memory_protected: bool | None = None
    name_conflicts: int = 0

    def __post_init__(self) -> None:
        _expect(_SESSION.fullmatch(self.session), "session must be 1 to 64 letters, digits and -")
        _expect(_VERSION.fullmatch(self.version), "version must be 1 to 64 letters, digits, . + -")
        for name in _COUNTS:
            _expect(0 <= getattr(self, name) <= MAX_NUMBER, f"{name} must be from 0 to 2**53 - 1")
        oldest = self.oldest_waiting_seconds
        _expect(
            oldest is None or 0 <= oldest <= MAX_NUMBER,
            "oldest_waiting_seconds must be null or from 0 to 2**53 - 1",
        )
        _expect(
            len(self.deferred) <= MAX_CLASSES
            and all(map(_CLASS.fullmatch, self.deferred))
            and all(0 < count <= MAX_NUMBER for count in self.deferred.values()),
            f"deferred must count releases by at most {MAX_CLASSES} classes of reasons",
        )
        _expect(oldest is None or self.waiting, "oldest_waiting_seconds must be null: none waits")

    def encode(self) -> bytes:
        return _encode(self, HEALTH_LIMIT_BYTES)

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """Parse a Health. Raises ValueError, one line."""
        return _decode(data, cls, HEALTH_LIMIT_BYTES)


class HealthFigures(msgspec.Struct, frozen=True, gc=False):
    """The figures of a `Health` that are added up over a fleet, by the same names."""

    waiting: int
    oldest_waiting_seconds: int | None
    dropped: int
    set_aside: int
    clock_synchronised: bool | None
    deferred: dict[str, int] = {}
    memory_protected: bool | None = None
    name_conflicts: int = 0


_FIGURES = msgspec.json.Decoder(list[HealthFigures])


def health_figures(texts: Iterable[str]) -> list[HealthFigures]:
    """Return the figures of healths that `Health.decode` has accepted, in one step for speed."""
    return _FIGURES.decode(f"[{','.join(texts)}]")
