"""The result of one run of `pansketch audit`, as a file that the collector shows.

It states the tested code, the extent and the result. So an old audit, or one of another version,
cannot be mistaken for one of the current code.
"""

import re
from datetime import UTC, datetime
from typing import Literal, Self

import msgspec

from pansketch_fleet.protocol.strict_json import LINE, decode, encode, expect
from pansketch_fleet.protocol.topics import is_id

LIMIT_BYTES = 65536
MAX_CLAIMS = 10_000
MAX_NAMED = 20

_TIME = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z")
_VERSION = re.compile(r"[A-Za-z0-9.+-]{1,64}")
_SOURCES = re.compile(r"[0-9a-f]{16}")


class AuditRecord(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A record. Raises ValueError when a field is invalid, or two contradict each other.

    `at`: the end of the audit, in UTC. `sources`: a digest of the library's sources. `claims`: the
    number of tested claims; `held`: of those that hold; `broken` names the first twenty others.
    `planted`: each planted bug, and whether the audit caught it. `holds`: the overall result.
    """

    at: str
    version: str
    sources: str
    extent: Literal["quick", "full"]
    claims: int
    held: int
    broken: tuple[str, ...]
    planted: dict[str, bool]
    holds: bool

    def __post_init__(self) -> None:
        expect(_is_time(self.at), "at must be a time such as 2026-01-31T12:00:00Z")
        expect(_VERSION.fullmatch(self.version), "version must be 1 to 64 letters, digits, . + -")
        expect(_SOURCES.fullmatch(self.sources), "sources must be 16 hexadecimal digits")
        expect(1 <= self.claims <= MAX_CLAIMS, f"claims must be from 1 to {MAX_CLAIMS}")
        expect(0 <= self.held <= self.claims, "held must be from 0 to claims")
        named = min(self.claims - self.held, MAX_NAMED)
        expect(len(self.broken) == named, "broken must name the claims that do not hold")
        expect(all(map(LINE.fullmatch, self.broken)), "broken must be lines of 300 characters")
        expect(all(map(is_id, self.planted)), "planted must be named by ids")
        expect(self.planted, "planted must not be empty")
        right = self.held == self.claims and all(self.planted.values())
        expect(self.holds == right, "holds contradicts what was found")

    def encode(self) -> bytes:
        """Return JSON, a line for each field. Raises ValueError beyond the size limit."""
        data = msgspec.json.format(encode(self, LIMIT_BYTES), indent=2) + b"\n"
        expect(len(data) <= LIMIT_BYTES, f"record is larger than {LIMIT_BYTES} bytes")
        return data

    def as_object(self) -> dict[str, object]:
        """Return the fields by name, as in JSON."""
        return dict(msgspec.to_builtins(self))

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """Parse a record. Raises ValueError, one line."""
        return decode(data, cls, LIMIT_BYTES)


def _is_time(text: str) -> bool:
    try:
        return bool(_TIME.fullmatch(text)) and bool(datetime.fromisoformat(text))
    except ValueError:
        return False


def time_text(at: datetime) -> str:
    """Return a moment in the form of a record."""
    return f"{at.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"
