"""The collector's mark against the ledger: whether windows were released that the ledger lacks.

A ledger that was lost, or restored from a copy, would release windows a second time, and everybody
in them would pay twice. So the agent reads what the collector stored of this device before it
spends anything, or, where it started offline, before it sends anything. A mark only ever stops a
stream or has it begin later: it makes nothing cheaper and gives no window back.
"""

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from pansketch import WireError
from pansketch.wire import peek_any
from pansketch_agent.host.clock import Clock, utc_text
from pansketch_agent.host.durable_files import replace_file
from pansketch_agent.ledger.accounts import DAY_SECONDS, Account, day_of
from pansketch_agent.ledger.ledger import Ledger, LedgerError
from pansketch_agent.outbox.backlog import window_end
from pansketch_agent.outbox.outbox import Key, Outbox
from pansketch_agent.runtime.stream_worker import StreamWorker
from pansketch_fleet.config.programs import AgentConfig
from pansketch_fleet.protocol.messages import Mark, StreamMark
from pansketch_fleet.settings.settings import Stream
from pansketch_fleet.settings.sources import (
    ReplaySource,
)

LOG = logging.getLogger(__name__)

MAX_AHEAD_SECONDS = DAY_SECONDS


@dataclass(frozen=True)
class LedgerReconciliation:
    """Checks marks for one run, from its start on. `put_before`: how many releases the outbox held
    then."""

    config: AgentConfig
    ledger: Ledger
    outbox: Outbox
    clock: Clock
    put_before: int
    # By generation what was kept when it was first seen: what is acknowledged later, it has.
    _owed: dict[str, set[Key]] = field(default_factory=dict)
    # Where the ledger stood at the start, by stream.
    _before: dict[str, Account] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._before.update({s.name: self.ledger.spent(s.name) for s in self.config.streams})

    def awaited(self) -> bool:
        """Whether a stream could spend what was spent before: nothing says where it stood, the
        readings of long ago come again, or the clock is behind. Windows then go on from the
        ledger's last one, and a restored ledger lacks those that followed."""
        now = self.clock.now()
        return any(
            isinstance(stream.source, ReplaySource)
            or self.ledger.spent(stream.name).young
            or self.ledger.spent(stream.name).until > now
            for stream in self.config.streams
        )

    def check(self, mark: Mark, works: Mapping[str, StreamWorker], sent: bool) -> dict[str, str]:
        """Holds every stream back whose windows the collector knows better: one line for each that
        must not go on. A live one goes on with the windows after the collector's last one, which
        the ledger notes. Raises LedgerError.

        `sent`: whether anything was sent in this run. Before that, what the collector holds was
        debited before the run, and what was debited since says nothing about it.
        """
        stopped = {}
        for stream in self.config.streams:
            known = mark.streams.get(stream.name)
            account = self.ledger.spent(stream.name) if sent else self._before[stream.name]
            if known is None or not self._is_behind(account, known):
                continue
            self._set_aside(stream, known)
            if problem := self._problem(stream, known):
                stopped[stream.name] = f"{stream.name}: {problem}"
                continue
            self._adopt(stream, account, known)
            # A newer mark may follow before anything is sent: it counts from this one on.
            until = max(account.until, known.window_end)
            self._before[stream.name] = account._replace(until=until)
            if stream.name in works:
                works[stream.name].skip_until(known.window_end)
        return stopped

    def _is_behind(self, account: Account, known: StreamMark) -> bool:
        incarnation = bytes.fromhex(known.incarnation)
        own = incarnation == self.ledger.incarnation
        return (
            not self.ledger.knows(incarnation)
            or known.window_end > account.until
            or (own and known.sequence > account.sequence)
        )

    def _problem(self, stream: Stream, known: StreamMark) -> str:
        """Why the stream must stop, or ""."""
        holds = f"the collector holds windows up to {utc_text(known.window_end)}"
        if isinstance(stream.source, ReplaySource):
            return (
                f"{holds} that {self.ledger.path} does not know, and a replay would release them "
                "again; restore the ledger, or give the device a new name (agent.device)"
            )
        if known.window_end > self.clock.now() + stream.window_seconds + MAX_AHEAD_SECONDS:
            return f"{holds}, which is far ahead of this clock; set the clock, then restart"
        return ""

    def _adopt(self, stream: Stream, account: Account, known: StreamMark) -> None:
        windows, of_the_day = self._unknown(stream, account, known)
        micro, incarnation = stream.spec.guarantee.epsilon_micro, bytes.fromhex(known.incarnation)
        end = known.window_end
        self.ledger.adopt(stream.name, incarnation, windows, of_the_day, end, micro)
        LOG.warning(
            "%s: the collector holds windows up to %s that this ledger does not know (about %d); "
            "continuing with later windows; see `pansketch-agent ledger`",
            stream.name,
            utc_text(end),
            windows,
        )

    def _unknown(self, stream: Stream, account: Account, known: StreamMark) -> tuple[int, int]:
        """How many windows were paid for without the ledger, and on the day of the last one: at
        least as many as the collector's count, and as fit behind the ledger's last one."""
        each = stream.window_seconds
        since = account.until if account.releases else known.window_end
        missing = -((since - known.window_end) // each)
        if bytes.fromhex(known.incarnation) == self.ledger.incarnation:
            missing = max(missing, known.sequence - account.sequence)
        elif not self.ledger.knows(bytes.fromhex(known.incarnation)):
            missing = max(missing, known.windows)
        # No more than there ever were: a mark is not believed beyond what is possible.
        windows = max(0, min(missing, known.window_end // each + 1))
        midnight = day_of(known.window_end) * DAY_SECONDS
        return windows, min(windows, -((midnight - known.window_end) // each))

    def _set_aside(self, stream: Stream, known: StreamMark) -> None:
        """Releases of windows that the collector knows, made by a ledger that did not, are never
        sent: each would be a second one. What was acknowledged and waits again is sent whatever a
        mark says: its bytes were published."""
        published = self.outbox.published()
        waiting = (key for key in self.outbox.waiting() if key not in published)
        conflicting = [key for key in waiting if self._conflicts(key, stream, known)]
        for key in conflicting:
            self.outbox.refuse(key)
        if conflicting:
            LOG.error(
                "%s: the collector has other releases of these windows, so none is sent; kept in "
                "%s/refused (releases: %d)",
                stream.name,
                self.outbox.folder,
                len(conflicting),
            )

    def _conflicts(self, key: Key, stream: Stream, known: StreamMark) -> bool:
        payload = self.outbox.read(key) if key.stream == stream.name else None
        if payload is None:
            return False
        try:
            (window,) = peek_any(payload).windows
        except (WireError, ValueError):
            return False
        other = window.incarnation.hex() != known.incarnation
        fresh = self.outbox.number(key) > self.put_before
        return window.start < known.window_end and (other or fresh)

    def send_what_is_missing(self, mark: Mark) -> None:
        """Where the collector's database was restored, or begun anew, the acknowledged releases
        that are kept are sent again: the collector knows which it has.

        The new generation is noted on disk once all of them wait again, on disk as well. Until
        then each mark comes back to those that had no room.
        """
        another = self._generation() not in ("", mark.generation)
        owed = self._owed.setdefault(mark.generation, self.outbox.kept())
        left = False
        for stream, payload in self.outbox.newest_kept().items():
            known = mark.streams.get(stream)
            if not another and known is not None and known.window_end >= window_end(payload):
                continue
            wanted = {key for key in owed & self.outbox.kept() if key.stream == stream}
            try:
                again = self.outbox.wait_again(wanted)
            except OSError as error:
                again = []
                LOG.error(
                    "%s: kept releases cannot be retransmitted (%s); check the disk",
                    stream,
                    error.strerror,
                )
            owed -= set(again)
            left |= len(again) < len(wanted)
            if again:
                LOG.warning(
                    "%s: the collector's database was restored; acknowledged releases are "
                    "retransmitted (releases: %d)",
                    stream,
                    len(again),
                )
        if not left and self._generation() != mark.generation:
            self._note(mark.generation)

    @property
    def _path(self) -> Path:
        return self.ledger.path.with_name("generation")

    def _generation(self) -> str:
        """The generation of the collector's database that has all that is kept; "" before any."""
        return self._path.read_text("ascii", "replace").strip() if self._path.is_file() else ""

    def _note(self, generation: str) -> None:
        try:
            replace_file(self._path, f"{generation}\n".encode())
        except OSError as error:
            LOG.error("%s cannot be written (%s); check the disk", self._path, error.strerror)


def check_same_age(ledger: Ledger, outbox: Outbox) -> None:
    """A ledger that does not know the outbox's releases is an old copy, or a new file. It goes on
    where all of them are acknowledged, under sequence numbers that some of those bear."""
    for key in outbox.waiting():
        if key.sequence > ledger.spent(key.stream).sequence:
            raise LedgerError(
                f"{ledger.path}: is older than the outbox, so nothing is published; restore it, or "
                "give the device a new name (agent.device) so that no window is released twice"
            )
    outbox.forget_kept(lambda key: key.sequence > ledger.spent(key.stream).sequence)
