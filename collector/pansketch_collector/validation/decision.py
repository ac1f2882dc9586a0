"""Decision about a validated message, given the stored state; pure.

A client with a device's credentials can publish any release under its name. These checks limit the
damage to answers, alerts and the disk (docs/how-to/contain-a-hostile-device.md).
"""

from dataclasses import dataclass
from typing import NamedTuple

from pansketch import WindowId
from pansketch_collector.validation.verdicts import (
    Accepted,
    DeviceStatus,
    Duplicate,
    HealthReport,
    ImplausibleError,
    Outcome,
    Rejected,
    StoredWindow,
    Validated,
    reject,
)
from pansketch_fleet.protocol.messages import Status

# A window may end so much later than the collector's clock.
MAX_FUTURE_SECONDS = 86_400
# Limits of stored releases of one stream of one device.
MAX_YEARS = 100
MAX_RELEASES = 1_000_000
# Windows and sequence numbers advance together; a torn ledger skips one of each.
MAX_AHEAD = 16


class LedgerStart(NamedTuple):
    """The lowest stored sequence number of a ledger, and the start of its window."""

    sequence: int
    start: int


class ReleaseState(NamedTuple):
    """The stored state that decides about a release.

    `stored`: the stored release of its window. `removed`: retention removed the release of its
    window. `first`: the first stored release of its ledger. `releases`: stored ones of its stream
    and device.
    """

    stored: StoredWindow | None = None
    removed: bool = False
    first: LedgerStart | None = None
    releases: int = 0


@dataclass(frozen=True)
class DeviceState:
    """The stored state that decides about a device's report.

    `session`: of its newest birth message; None for an unknown device. `has_room`: the table of
    reports has a row for this device, or room for one.
    """

    session: str | None
    has_room: bool


class Decision(NamedTuple):
    """The outcome of a message, and its effect on the database.

    `disputed`: a release to store beside the stored one of its window. `outdated`: a status without
    effect.
    """

    outcome: Outcome
    disputed: Accepted | None = None
    outdated: bool = False


def decide(validated: Validated, state: ReleaseState | DeviceState | None, at: int) -> Decision:
    """Decides about a message received at `at` (unix seconds). A rejected message needs no
    state."""
    match validated, state:
        case Accepted() as release, ReleaseState() as stored_state:
            return _decide_release(release, stored_state, at)
        case (DeviceStatus() | HealthReport()) as report, DeviceState(has_room=False):
            text = "more devices than a fleet may have"
            return Decision(Rejected("devices", text, report.device))
        case DeviceStatus(_, status), DeviceState(session):
            return Decision(validated, outdated=not supersedes(status, session))
    return Decision(validated)


def _decide_release(release: Accepted, state: ReleaseState, at: int) -> Decision:
    """Decides about a release. A second release of a window is stored as disputed and does not
    count: no message of a device removes a stored release."""
    if state.removed:
        return Decision(Duplicate(release.window, release.digest))
    if state.stored is not None:
        outcome = compare(release, state.stored)
        return Decision(outcome, release if isinstance(outcome, Rejected) else None)
    try:
        check_time(release.window, at)
        check_sequence(release.window, state.first)
        check_room(release.window, state.releases)
    except ImplausibleError as error:
        return Decision(reject(release.window, error.reason, str(error)))
    return Decision(release)


def compare(release: Accepted, stored: StoredWindow) -> Duplicate | Rejected:
    """Compares a release with the stored one of its window: a duplicate, or an equivocation."""
    window = release.window
    if stored.digest == release.digest:
        return Duplicate(window, release.digest)
    text = f"the window is stored already as sequence {stored.sequence}"
    if stored.incarnation != window.incarnation:
        text += " of another ledger"
    text = f"{text} with other bytes: a window is released once; see `pansketch-collector disputed`"
    return reject(window, "equivocation", text)


def supersedes(status: Status, newest_session: str | None) -> bool:
    """True unless the status is the last will of a session that a newer birth message has
    replaced."""
    return status.state == "online" or newest_session in (None, status.session)


def check_time(window: WindowId, at: int) -> None:
    """Checks that the window has ended or ends soon. `at`: unix seconds. Raises
    ImplausibleError."""
    if window.end > at + MAX_FUTURE_SECONDS:
        days = (window.end - at) // 86_400
        text = (
            f"the window ends {days} days after the collector's clock; "
            "set the clock that is wrong, the device's or the collector's"
        )
        raise ImplausibleError("future", text)


def check_sequence(window: WindowId, first: LedgerStart | None) -> None:
    """Checks that a sequence number is not ahead of the windows, each of which uses one number.

    A ledger that was rolled back only lags behind. Raises ImplausibleError.
    """
    window_seconds = window.end - window.start
    maximum = window.start // window_seconds
    if first is not None and first.start <= window.start:
        maximum = min(maximum, first.sequence + (window.start - first.start) // window_seconds)
    if window.sequence > maximum + MAX_AHEAD:
        text = f"sequence {window.sequence} is ahead of the windows, of which there were {maximum}"
        raise ImplausibleError("bounds", text)


def check_room(window: WindowId, stored: int) -> None:
    """Checks that a device stays below the limit of stored releases, so none can fill the disk.

    `stored`: releases of this stream of this device. Raises ImplausibleError.
    """
    window_seconds = window.end - window.start
    maximum = min(MAX_RELEASES, MAX_YEARS * 366 * 86_400 // window_seconds)
    if stored >= maximum:
        text = (
            f"{stored} releases of {window.stream} of {window.device} are stored, the maximum; "
            "set a retention"
        )
        raise ImplausibleError("full", text)
