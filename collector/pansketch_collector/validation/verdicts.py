"""Verdicts on messages: accepted, duplicate, refused, and the reports of devices."""

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from pansketch import Spec, WindowId
from pansketch_fleet.protocol.keeper_messages import Reply
from pansketch_fleet.protocol.messages import Health, Status

# The last second of the year 9999: what dates on screen and 63-bit integers can hold.
LATEST_SECOND = 253_402_300_799
MAX_TEXT = 300
# Reasons that no other configuration, clock or version of the collector would lift. A device keeps
# what is refused for any other reason, and sends it again.
FINAL = frozenset({"magic", "checksum", "malformed", "bounds", "size", "identity", "equivocation"})
# Reasons for which the bytes are no release of the device and stream of their topic.
NO_RELEASE = frozenset({"magic", "checksum", "malformed", "identity", "size", "length"})


@dataclass(frozen=True)
class EstimatedTotal:
    """How much one release says was counted in its window, estimated: readings, or full slots of
    keys. `variance` is that of its noise."""

    value: float
    variance: float


@dataclass(frozen=True)
class Accepted:
    """A release that decodes and is what its topic says, within the bounds of an honest one.
    `payload` are the bytes as received. Masked counters have no `total`. `spec`, `draws` and
    `counters`: what was decoded for the checks, if that is kept."""

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
    """The same bytes are stored already: to be acknowledged again, not to be stored again."""

    window: WindowId
    digest: str


@dataclass(frozen=True)
class Presence:
    """A device's birth or will."""

    device: str
    status: Status


@dataclass(frozen=True)
class HealthReport:
    """How a device says that it is. Nobody answers it."""

    device: str
    health: Health


@dataclass(frozen=True)
class ScalesHeard:
    """Scales of a stream, as somebody published them: bytes that nobody has looked at yet."""

    stream: str
    payload: bytes


@dataclass(frozen=True)
class KeeperPresence:
    """A keeper's birth or will."""

    keeper: str
    status: Status


@dataclass(frozen=True)
class KeeperReply:
    """What a keeper replies to a question. Nobody answers it."""

    keeper: str
    reply: Reply


@dataclass(frozen=True)
class Refused:
    """What goes to quarantine. `device` and `stream` say whom to answer, where the topic tells."""

    reason: str
    text: str
    device: str | None = None
    stream: str | None = None
    sequence: int = 0

    @property
    def final(self) -> bool:
        """Whether the device should not send these bytes again."""
        return self.reason in FINAL

    @property
    def plausible(self) -> bool:
        """Whether it is a release as a device makes them, as far as this version can tell."""
        return self.stream is not None and self.reason not in NO_RELEASE

    @property
    def source(self) -> str:
        """`device/stream` as far as the topic tells."""
        return "/".join(name for name in (self.device, self.stream) if name is not None)


@dataclass(frozen=True)
class StoredWindow:
    """The release that is stored of a window."""

    digest: str
    sequence: int
    incarnation: bytes


Judged = Accepted | Presence | HealthReport | ScalesHeard | KeeperPresence | KeeperReply | Refused
Verdict = Judged | Duplicate


def refuse(window: WindowId, reason: str, text: str) -> Refused:
    """The refusal of a release, whose device is answered."""
    return Refused(reason, text[:MAX_TEXT], window.device, window.stream, window.sequence)


class ImplausibleError(Exception):
    """`reason`: of the refusal; the text says what is expected."""

    def __init__(self, reason: str, text: str) -> None:
        super().__init__(text)
        self.reason = reason
