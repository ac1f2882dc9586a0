"""The collector's message about the scales of one stream: the knots, and the start of their use.

It is strict, as the other messages are. The device's further checks are in
fleet/pansketch_fleet/config/published_scales.py.
"""

import re
from math import isfinite
from typing import Literal, Self

import msgspec

from pansketch_fleet.protocol.strict_json import decode, encode, expect
from pansketch_fleet.protocol.topics import ID_RULE, is_id

SCALES_LIMIT_BYTES = 65536
MAX_ATTRIBUTES = 16
MAX_NAME = 64
MAX_KNOTS = 129
MAX_HELD = 2  # scales of one stream on a device: the current and the next ones
LATEST_SECOND = 253_402_300_799  # the last of the year 9999

_DOMAIN = re.compile(r"[0-9a-f]{16}")


class Scales(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The scales of one stream. Raises ValueError when a field is invalid.

    `version`: of this form. `domain`: 16 hexadecimal digits that name the attributes as configured.
    `begins`: they apply to windows that start then or later, in unix seconds. `knots`: by
    attribute; an omitted one has its configured scale.
    """

    version: Literal[1]
    stream: str
    domain: str
    begins: int
    knots: dict[str, tuple[float, ...]]

    def __post_init__(self) -> None:
        expect(is_id(self.stream), f"stream must be {ID_RULE}")
        expect(_DOMAIN.fullmatch(self.domain), "domain must be 16 hexadecimal digits")
        expect(0 <= self.begins <= LATEST_SECOND, "begins is out of range")
        expect(len(self.knots) <= MAX_ATTRIBUTES, f"knots must be of {MAX_ATTRIBUTES} attributes")
        for name, knots in self.knots.items():
            expect(0 < len(name) <= MAX_NAME, f"names must have 1 to {MAX_NAME} characters")
            expect(3 <= len(knots) <= MAX_KNOTS, f"knots must number 3 to {MAX_KNOTS}")
            expect(all(map(isfinite, knots)), "knots must be finite")

    def encode(self) -> bytes:
        """Encode the message. Raises ValueError beyond the size limit."""
        return encode(self, SCALES_LIMIT_BYTES)

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """Parse a message. Raises ValueError, one line."""
        return decode(data, cls, SCALES_LIMIT_BYTES)


class HeldScales(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Scales that a device has adopted, for its windows that start at `at` or later."""

    at: int
    scales: Scales

    def __post_init__(self) -> None:
        expect(0 <= self.at <= LATEST_SECOND, "at is out of range")


class TakenScales(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A device's file of one stream: the current scales and the next ones, in this order.

    Raises ValueError when a field is invalid.
    """

    held: tuple[HeldScales, ...]

    def __post_init__(self) -> None:
        times = [each.at for each in self.held]
        expect(len(times) <= MAX_HELD and times == sorted(times), "held must be two, in order")

    def encode(self) -> bytes:
        return encode(self, MAX_HELD * SCALES_LIMIT_BYTES)

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """Parse a file. Raises ValueError, one line."""
        return decode(data, cls, MAX_HELD * SCALES_LIMIT_BYTES)
