"""Outcomes of validation: accepted, duplicate, rejected, and the reports of devices."""

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from pansketch import Spec, WindowId
from pansketch_fleet.protocol.keeper_messages import Reply
from pansketch_fleet.protocol.messages import Health, Status

# The last second of the year 9999, which dates on screen and 63-bit integers can represent.
LATEST_SECOND = 253_402_300_799
MAX_TEXT = 300
# Final reasons: no other configuration, clock or version of the collector would accept the release.
# A device keeps a release that was rejected for another reason, and retransmits it.
FINAL = frozenset({"magic", "checksum", "malformed", "bounds", "size", "identity", "equivocation"})
# Reasons for which the payload is no release of the device and stream of its topic.
NO_RELEASE = frozenset({"magic", "checksum", "malformed", "identity", "size", "length"})


@dataclass(frozen=True)
class EstimatedTotal:
    """The estimated number of readings, or of occupied slots of keys, in one release's window.

    `variance`: of its noise.
    """

    value: float
    variance: float


@dataclass(frozen=True)
class Accepted:
    """A release that decodes, matches its topic and is within the bounds of an honest one.

    `payload`: the bytes as received. A blinded release has no `total`. `spec`, `draws` and
    `counters`: decoded for the checks, if kept.
    """

    window: WindowId
    fingerprint: bytes
    digest: str
    payload: bytes
    total: EstimatedTotal | None = field(default=EstimatedTotal(0.0, 0.0), compare=False)
    spec: Spec | None = field(default=None, compare=False, repr=False)
    draws: int = field(default=0, compare=False, repr=False)
    counters: npt.NDArray[np.int64] | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True)
class Duplicate:
    """A release that is stored already: to be acknowledged again, not to be stored again."""

    window: WindowId
    digest: str


@dataclass(frozen=True)
class DeviceStatus:
    """A device's birth message or last will."""

    device: str
    status: Status


@dataclass(frozen=True)
class HealthReport:
    """A device's health message, which is not acknowledged."""

    device: str
    health: Health


@dataclass(frozen=True)
class ScalesReceived:
    """A scale message of a stream, not decoded yet; any client may have published it."""

    stream: str
    payload: bytes


@dataclass(frozen=True)
class KeeperStatus:
    """A keeper's birth message or last will."""

    keeper: str
    status: Status


@dataclass(frozen=True)
class KeeperReply:
    """A keeper's reply to a question, which is not acknowledged."""

    keeper: str
    reply: Reply


@dataclass(frozen=True)
class Rejected:
    """A message for the quarantine. `device` and `stream`: receive the acknowledgement, if in the
    topic."""

    reason: str
    text: str
    device: str | None = None
    stream: str | None = None
    sequence: int = 0

    @property
    def final(self) -> bool:
        """True if the device must not retransmit this release."""
        return self.reason in FINAL

    @property
    def plausible(self) -> bool:
        """True if the payload is a release as a device makes it, as far as this version can
        decide."""
        return self.stream is not None and self.reason not in NO_RELEASE

    @property
    def source(self) -> str:
        """`device/stream`, or the part that the topic has."""
        return "/".join(name for name in (self.device, self.stream) if name is not None)


class StoredWindow(NamedTuple):
    """The stored release of a window."""

    digest: str
    sequence: int
    incarnation: bytes


Validated = (
    Accepted | DeviceStatus | HealthReport | ScalesReceived | KeeperStatus | KeeperReply | Rejected
)
Outcome = Validated | Duplicate


def reject(window: WindowId, reason: str, text: str) -> Rejected:
    """The rejection of a release, which is acknowledged to its device."""
    return Rejected(reason, text[:MAX_TEXT], window.device, window.stream, window.sequence)


class ImplausibleError(Exception):
    """A release that no honest device makes. `reason`: of the rejection."""

    def __init__(self, reason: str, text: str) -> None:
        super().__init__(text)
        self.reason = reason
