"""Compares the collector's mark with the ledger: were windows released that the ledger lacks?

A ledger that was lost, or restored from a copy, would release windows a second time. All readings
in them would then spend epsilon twice. So the agent reads the collector's mark of this device
before its first debit, or, after an offline start, before its first transmission. A mark can only
stop a stream or delay its start. It never lowers a cost or allows a window again.
"""

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from pansketch import WireError
from pansketch.wire import read_any_header
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
    """Checks marks during one run. `put_before`: the releases in the outbox at its start."""

    config: AgentConfig
    ledger: Ledger
    outbox: Outbox
    clock: Clock
    put_before: int
    # By generation, the kept releases at its first mark: it stored those acknowledged later.
    _unacknowledged: dict[str, set[Key]] = field(default_factory=dict)
    # The accounts at the start, by stream.
    _before: dict[str, Account] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._before.update({s.name: self.ledger.spent(s.name) for s in self.config.streams})

    def must_precede_debit(self) -> bool:
        """Return whether a debit before the check could be a second one.

        That is so if the ledger has no window of a stream, if a replay repeats old readings, or if
        the clock is behind. In the last case windows continue after the ledger's last one, and a
        restored ledger lacks later ones.
        """
        now = self.clock.now()
        return any(
            isinstance(stream.source, ReplaySource)
            or self.ledger.spent(stream.name).is_empty
            or self.ledger.spent(stream.name).until > now
            for stream in self.config.streams
        )

    def check(self, mark: Mark, workers: Mapping[str, StreamWorker], sent: bool) -> dict[str, str]:
        """Return one line for each stream that must stop, because the collector has windows of its
        own.

        A live stream continues after the collector's last window, which the ledger adopts. Raises
        LedgerError. `sent`: whether this run has sent a release. Before that, the collector's
        releases were debited before the run, so the accounts of the start are compared.
        """
        stopped = {}
        for stream in self.config.streams:
            known = mark.streams.get(stream.name)
            account = self.ledger.spent(stream.name) if sent else self._before[stream.name]
            if known is None or not self._is_behind(account, known):
                continue
            self._dead_letter_conflicts(stream, known)
            if problem := self._problem(stream, known):
                stopped[stream.name] = f"{stream.name}: {problem}"
                continue
            self._adopt(stream, account, known)
            # A newer mark may arrive before any transmission: it counts from this one on.
            until = max(account.until, known.window_end)
            self._before[stream.name] = account._replace(until=until)
            if stream.name in workers:
                workers[stream.name].skip_until(known.window_end)
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
        """Return why the stream must stop, or ""."""
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
        """Return how many windows the ledger lacks, and how many of them on the day of the last
        one.

        These are at least the collector's count, and at least those that fit behind the ledger's
        last one.
        """
        each = stream.window_seconds
        since = account.until if account.releases else known.window_end
        missing = -((since - known.window_end) // each)
        if bytes.fromhex(known.incarnation) == self.ledger.incarnation:
            missing = max(missing, known.sequence - account.sequence)
        elif not self.ledger.knows(bytes.fromhex(known.incarnation)):
            missing = max(missing, known.windows)
        # A mark cannot claim more windows than are possible.
        windows = max(0, min(missing, known.window_end // each + 1))
        midnight = day_of(known.window_end) * DAY_SECONDS
        return windows, min(windows, -((midnight - known.window_end) // each))

    def _dead_letter_conflicts(self, stream: Stream, known: StreamMark) -> None:
        """Dead-letter releases whose windows the collector has from another ledger: each would be a
        second one.

        A release that was acknowledged and requeued is sent in any case: its bytes were published.
        """
        requeued = self.outbox.requeued()
        queued = (key for key in self.outbox.queued() if key not in requeued)
        conflicting = [key for key in queued if self._conflicts(key, stream, known)]
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
            (window,) = read_any_header(payload).windows
        except (WireError, ValueError):
            return False
        other = window.incarnation.hex() != known.incarnation
        # This ledger ends each incarnation before it starts the next one. So what a copy of it
        # released under its present one follows all windows of its earlier ones.
        present = bytes.fromhex(known.incarnation) == self.ledger.incarnation
        earlier = present and other and self.ledger.knows(window.incarnation)
        fresh = self.outbox.number(key) > self.put_before
        return window.start < known.window_end and not earlier and (other or fresh)

    def requeue_missing(self, mark: Mark) -> None:
        """Send kept releases again after the collector's database was restored or replaced, or if
        that is unknown.

        The new generation is noted on disk once all of them are queued on disk. Until then each
        mark retries those that did not fit.
        """
        # Before its first mark a device does not know which generation has acknowledged a release.
        another = self._generation() != mark.generation
        missing = self._unacknowledged.setdefault(mark.generation, self.outbox.kept())
        left = False
        for stream, payload in self.outbox.newest_kept_payloads().items():
            known = mark.streams.get(stream)
            if not another and known is not None and known.window_end >= window_end(payload):
                continue
            wanted = {key for key in missing & self.outbox.kept() if key.stream == stream}
            requeued_keys = self.outbox.requeue(wanted)
            missing -= set(requeued_keys)
            left |= len(requeued_keys) < len(wanted)
            if requeued_keys:
                LOG.warning(
                    "%s: the collector's database may lack acknowledged releases, so they are "
                    "retransmitted (releases: %d)",
                    stream,
                    len(requeued_keys),
                )
        try:
            # The notes may displace other kept releases, so they come last.
            self.outbox.note_requeued()
        except OSError as error:
            left = True
            LOG.error(
                "a restart may not retransmit what a restored collector lacks (%s); free the disk",
                error.strerror,
            )
        if not left and self._generation() != mark.generation:
            self._note(mark.generation)

    @property
    def _path(self) -> Path:
        return self.ledger.path.with_name("generation")

    def _generation(self) -> str:
        """Return the generation of the collector's database that has all kept releases; "" before
        any.
        """
        return self._path.read_text("ascii", "replace").strip() if self._path.is_file() else ""

    def _note(self, generation: str) -> None:
        try:
            replace_file(self._path, f"{generation}\n".encode())
        except OSError as error:
            LOG.error("%s cannot be written (%s); check the disk", self._path, error.strerror)


def check_not_older(ledger: Ledger, outbox: Outbox) -> None:
    """Raise LedgerError for a ledger that is older than the queued releases: an old copy, or a new
    file.

    If all of them are acknowledged, the ledger continues, with sequence numbers that some of them
    have.
    """
    for key in outbox.queued():
        if key.sequence > ledger.spent(key.stream).sequence:
            raise LedgerError(
                f"{ledger.path}: is older than the outbox, so nothing is published; restore it, or "
                "give the device a new name (agent.device) so that no window is released twice"
            )
    outbox.forget_kept(lambda key: key.sequence > ledger.spent(key.stream).sequence)
