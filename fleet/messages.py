"""The small JSON messages beside the releases: the collector's Ack, a device's Status and Health.

All are strict: an unknown or repeated key, a wrong type, a text that is too long or a message
beyond its size limit is refused, on the way out as on the way in.
"""

import re
from hashlib import blake2b
from typing import Literal, Self

import msgspec

from fleet.ids import ID_RULE, is_id
from fleet.strict_json import LINE as _LINE
from fleet.strict_json import decode as _decode
from fleet.strict_json import encode as _encode
from fleet.strict_json import expect as _expect

ACK_LIMIT_BYTES = 2048
STATUS_LIMIT_BYTES = 65536
HEALTH_LIMIT_BYTES = 1024
MOST_SEQUENCE = 2**63 - 1
MOST_NUMBER = 2**53 - 1  # what every reader of JSON holds exactly
MOST_WINDOW_SECONDS = 10 * 366 * 86400

_DIGEST = re.compile(r"[0-9a-f]{32}")
_FINGERPRINT = re.compile(r"[0-9a-f]{16}")
_SESSION = re.compile(r"[A-Za-z0-9-]{1,64}")
_VERSION = re.compile(r"[A-Za-z0-9.+-]{1,64}")


def digest(payload: bytes) -> str:
    """Names the exact bytes of one release: BLAKE2b-128 in 32 hexadecimal digits."""
    return blake2b(payload, digest_size=16).hexdigest()


class Ack(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What became of one release. Raises ValueError when a field is not what it should be."""

    stream: str
    sequence: int
    digest: str
    status: Literal["stored", "duplicate", "refused"]
    reason: str = ""

    def __post_init__(self) -> None:
        _expect(is_id(self.stream), f"stream must be {ID_RULE}")
        _expect(0 <= self.sequence <= MOST_SEQUENCE, "sequence must be a 63-bit whole number")
        _expect(_DIGEST.fullmatch(self.digest), "digest must be 32 hexadecimal digits")
        _expect(_LINE.fullmatch(self.reason), "reason must be one line of at most 300 characters")

    def encode(self) -> bytes:
        return _encode(self, ACK_LIMIT_BYTES)

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """Raises ValueError, one line, on anything that is no Ack."""
        return _decode(data, cls, ACK_LIMIT_BYTES)


class StreamBirth(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """What a device says of one stream: fingerprint (16 hexadecimal digits), guarantee, window.

    `problem`: one line when the stream has stopped and needs somebody; it is left out otherwise.
    """

    fingerprint: str
    guarantee: str
    window_seconds: int
    problem: str = ""

    def __post_init__(self) -> None:
        _expect(
            _FINGERPRINT.fullmatch(self.fingerprint), "fingerprint must be 16 hexadecimal digits"
        )
        _expect(
            _LINE.fullmatch(self.guarantee), "guarantee must be one line of at most 300 characters"
        )
        _expect(1 <= self.window_seconds <= MOST_WINDOW_SECONDS, "window_seconds is out of range")
        _expect(_LINE.fullmatch(self.problem), "problem must be one line of at most 300 characters")


class Status(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A device's presence. `session` is new at each start, so that a stale will can be told.

    `state`: "stopped" is a device's own farewell, "offline" the will of one that is gone.
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
        """Raises ValueError, one line, on anything that is no Status."""
        return _decode(data, cls, STATUS_LIMIT_BYTES)


class Health(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How a device is: its schedule, its network, its disk and its clock, and nothing of a reading.

    `waiting`: releases in the outbox. `oldest_waiting_seconds`: since the end of the first window
    of a live stream among them, by the wall clock; null where there is none, or the clock is behind
    it. `dropped`: releases that the outbox ever had no room for. `set_aside`: files that wait for
    somebody to look at them, refused releases and damaged segments. `written_today_bytes`: about,
    since 0 h UTC or the start, counted by windows. `clock_synchronised`: null where the system does
    not tell.
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

    def __post_init__(self) -> None:
        _expect(_SESSION.fullmatch(self.session), "session must be 1 to 64 letters, digits and -")
        _expect(_VERSION.fullmatch(self.version), "version must be 1 to 64 letters, digits, . + -")
        for name in ("uptime_seconds", "waiting", "dropped", "set_aside", "written_today_bytes"):
            _expect(0 <= getattr(self, name) <= MOST_NUMBER, f"{name} must be from 0 to 2**53 - 1")
        oldest = self.oldest_waiting_seconds
        _expect(
            oldest is None or 0 <= oldest <= MOST_NUMBER,
            "oldest_waiting_seconds must be null or from 0 to 2**53 - 1",
        )
        _expect(oldest is None or self.waiting, "oldest_waiting_seconds must be null: none waits")

    def encode(self) -> bytes:
        return _encode(self, HEALTH_LIMIT_BYTES)

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """Raises ValueError, one line, on anything that is no Health."""
        return _decode(data, cls, HEALTH_LIMIT_BYTES)
