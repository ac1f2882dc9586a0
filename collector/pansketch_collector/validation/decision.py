"""Decision about a validated message, given what is stored; pure.

A client with a device's credentials can publish any release under its name. These checks bound the
damage to the fleet's answers, the alerts and the disk (docs/how-to/contain-a-hostile-device.md).
"""

from dataclasses import dataclass

from pansketch import WindowId
from pansketch_collector.validation.verdicts import (
    Accepted,
    Duplicate,
    HealthReport,
    ImplausibleError,
    Judged,
    Presence,
    Refused,
    StoredWindow,
    Verdict,
    refuse,
)
from pansketch_fleet.protocol.messages import Status

# A window may end so much later than the collector's clock says that it is.
MAX_FUTURE_SECONDS = 86_400
# Releases of one stream of one device: all windows of so many years, and never more than these.
MAX_YEARS = 100
MAX_RELEASES = 1_000_000
# Windows and sequence numbers advance together; a torn ledger gives up one of each.
MAX_AHEAD = 16


@dataclass(frozen=True)
class LedgerStart:
    """The lowest sequence number that is stored of a ledger, and the start of its window."""

    sequence: int
    start: int


@dataclass(frozen=True)
class ReleaseState:
    """The stored state that decides about a release.

    `held`: the release that is stored of its window. `removed`: one of its window was stored, and
    removed for its age. `first`: of its ledger. `releases`: stored of its stream and device.
    """

    held: StoredWindow | None = None
    removed: bool = False
    first: LedgerStart | None = None
    releases: int = 0


@dataclass(frozen=True)
class DeviceState:
    """The stored state that decides about a device's report.

    `session`: of its newest birth message, None for a device that is not known. `has_room`: the
    table of such reports takes this device.
    """

    session: str | None
    has_room: bool


@dataclass(frozen=True)
class Decision:
    """The verdict on a message, and its effect on the database.

    `disputed`: a release to keep beside the one that is stored of its window. `outdated`: a status
    that changes nothing.
    """

    verdict: Verdict
    disputed: Accepted | None = None
    outdated: bool = False


def decide(judged: Judged, state: ReleaseState | DeviceState | None, at: int) -> Decision:
    """The decision about a message that came at `at`, in unix seconds. A refused message needs no
    state."""
    match judged, state:
        case Accepted() as release, ReleaseState() as stored:
            return _decide_release(release, stored, at)
        case (Presence() | HealthReport()) as report, DeviceState(has_room=False):
            text = "more devices than a fleet may have"
            return Decision(Refused("devices", text, report.device))
        case Presence(_, status), DeviceState(session):
            return Decision(judged, outdated=not supersedes(status, session))
    return Decision(judged)


def _decide_release(release: Accepted, stored: ReleaseState, at: int) -> Decision:
    """Another release of a stored window is kept beside it and does not count: a device's message
    never removes a stored release."""
    if stored.removed:
        return Decision(Duplicate(release.window, release.digest))
    if stored.held is not None:
        verdict = compare(release, stored.held)
        return Decision(verdict, release if isinstance(verdict, Refused) else None)
    try:
        check_time(release.window, at)
        check_sequence(release.window, stored.first)
        check_room(release.window, stored.releases)
    except ImplausibleError as error:
        return Decision(refuse(release.window, error.reason, str(error)))
    return Decision(release)


def compare(release: Accepted, held: StoredWindow) -> Duplicate | Refused:
    """A release against the one that is stored of its window: the same again, or another one."""
    window = release.window
    if held.digest == release.digest:
        return Duplicate(window, release.digest)
    text = f"the window is stored already as sequence {held.sequence}"
    if held.incarnation != window.incarnation:
        text += " of another ledger"
    text = f"{text} with other bytes: a window is released once; see `pansketch-collector disputed`"
    return refuse(window, "equivocation", text)


def supersedes(status: Status, newest_session: str | None) -> bool:
    """Whether a status is news. The will of a session that a newer birth has replaced is not."""
    return status.state == "online" or newest_session in (None, status.session)


def check_time(window: WindowId, at: int) -> None:
    """It has ended, or ends soon. `at`: the collector's clock. Raises ImplausibleError."""
    if window.end > at + MAX_FUTURE_SECONDS:
        days = (window.end - at) // 86_400
        text = (
            f"the window ends {days} days after the collector's clock; "
            "set the clock that is wrong, the device's or the collector's"
        )
        raise ImplausibleError("future", text)


def check_sequence(window: WindowId, first: LedgerStart | None) -> None:
    """A ledger's numbers do not run ahead of its windows, each of which takes one number; a ledger
    that was rolled back only lags behind. Raises ImplausibleError."""
    window_seconds = window.end - window.start
    most = window.start // window_seconds
    if first is not None and first.start <= window.start:
        most = min(most, first.sequence + (window.start - first.start) // window_seconds)
    if window.sequence > most + MAX_AHEAD:
        text = f"sequence {window.sequence} is ahead of the windows, of which there were {most}"
        raise ImplausibleError("bounds", text)


def check_room(window: WindowId, stored: int) -> None:
    """No device fills the disk. `stored`: releases of this stream of this device. Raises
    ImplausibleError."""
    window_seconds = window.end - window.start
    most = min(MAX_RELEASES, MAX_YEARS * 366 * 86_400 // window_seconds)
    if stored >= most:
        text = (
            f"{stored} releases of {window.stream} of {window.device} are stored, the maximum; "
            "set a retention"
        )
        raise ImplausibleError("full", text)
