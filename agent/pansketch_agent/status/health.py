"""Status and health messages of a device.

The status is retained: the streams, their guarantees on this device, and which have stopped. The
health is published on each connection, then every minute, and at a clean stop.

Every figure follows from the schedule, the network, the disk or the clock. Neither a figure nor its
moment depends on a reading.
"""

import logging
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from hashlib import blake2b

from pansketch import Spec, WireError, __version__
from pansketch.wire import read_any_header
from pansketch_agent.host.clock import Clock
from pansketch_agent.host.hardening import MemoryProtection
from pansketch_agent.ledger.ledger import Ledger
from pansketch_agent.outbox.dead_letters import count_dead_letters, refused_dropped_in
from pansketch_agent.outbox.outbox import Key, Outbox
from pansketch_agent.status.disk_writes import DiskWrites
from pansketch_fleet.config.programs import AgentConfig
from pansketch_fleet.errors import one_line
from pansketch_fleet.protocol.messages import Health, Status, StreamBirth
from pansketch_fleet.protocol.strict_json import MAX_LINE
from pansketch_fleet.settings.sources import (
    ReplaySource,
)

LOG = logging.getLogger(__name__)

INTERVAL_SECONDS = 60


class HealthCollector:
    """Collects a running agent's figures. `clock` also measures the uptime, from this object's
    creation.

    `deferred`: the number of deferred releases, by class of the collector's reason.
    `name_conflicts`: how often another client with the device's name ended its connection.
    """

    def __init__(
        self,
        config: AgentConfig,
        session: str,
        clock: Clock,
        ledger: Ledger,
        outbox: Outbox,
        memory: MemoryProtection,
        deferred: Callable[[], dict[str, int]] = dict,
        name_conflicts: Callable[[], int] = int,
    ) -> None:
        self._memory, self._deferred = memory, deferred
        self._name_conflicts = name_conflicts
        self._session, self._clock, self._outbox = session, clock, outbox
        self._disk_writes = DiskWrites(config.streams, config.agent.outbox, ledger, clock.now())
        # Their windows have the times of their files.
        self._replayed = {s.name for s in config.streams if isinstance(s.source, ReplaySource)}
        self._begun = clock.monotonic()
        self._ends: dict[Key, int] = {}  # of the windows of each stream's oldest release

    def snapshot(self) -> Health:
        """Return the figures of this moment. Raises OSError when the outbox cannot be read."""
        now, counts = self._clock.now(), self._outbox.counts()
        return Health(
            session=self._session,
            version=__version__,
            uptime_seconds=int(self._clock.monotonic() - self._begun),
            clock_synchronised=self._clock.synchronised(),
            waiting=sum(counts.values()),
            oldest_waiting_seconds=self._oldest_waiting(now, counts.keys() - self._replayed),
            dropped=self._outbox.dropped,
            set_aside=count_dead_letters(self._outbox.folder),
            written_today_bytes=self._disk_writes.written_today(now),
            deferred=self._deferred(),
            refused_dropped=refused_dropped_in(self._outbox.folder),
            memory_protected=self._memory.protected,
            name_conflicts=self._name_conflicts(),
        )

    def _oldest_waiting(self, now: float, streams: set[str]) -> int | None:
        oldest = [key for stream in streams for key in self._outbox.oldest(stream, 1, ())]
        known, self._ends = self._ends, {}
        for key in oldest:
            end = known.get(key) or self._end(key)
            if end is not None:
                self._ends[key] = end
        age = int(now - min(self._ends.values(), default=now))
        return age if self._ends and age >= 0 else None

    def _end(self, key: Key) -> int | None:
        """Return the end of a release's window; None if it is gone, or of a later version."""
        payload = self._outbox.read(key)
        with suppress(WireError):
            return None if payload is None else read_any_header(payload).windows[0].end
        return None


class HealthSchedule:
    """When the health is published, by `publish`.

    A health that cannot be collected is left out, and the reason is logged once until one can be.
    Times are monotonic seconds. The second of the minute follows from the device's name. So a fleet
    that gets its power back does not publish at one moment.
    """

    def __init__(
        self, device: str, collector: HealthCollector, publish: Callable[[Health], None]
    ) -> None:
        name = blake2b(device.encode(), digest_size=8, person=b"pansketch-health").digest()
        self._offset = int.from_bytes(name, "big") % INTERVAL_SECONDS
        self._collector, self._publish = collector, publish
        self._minute: int | None = None
        self._unknown = False

    def connected(self, now: float) -> None:
        """Publish the health at once: a connection is new, or about to end."""
        self._minute = self._minute_of(now)
        try:
            health = self._collector.snapshot()
        except OSError as error:
            self._leave_out(error)
            return
        self._unknown = False
        self._publish(health)

    def step(self, now: float) -> None:
        """Publish it when its second has come. Call it only while the broker is connected."""
        if self._minute_of(now) != self._minute:
            self.connected(now)

    def _leave_out(self, error: OSError) -> None:
        """Publish nothing: an invented figure would be worse than none."""
        if not self._unknown:
            why = error.strerror
            LOG.error("no health is published: the outbox cannot be read (%s); check the disk", why)
        self._unknown = True

    def _minute_of(self, now: float) -> int:
        return int((now - self._offset) // INTERVAL_SECONDS)


@dataclass(frozen=True)
class Facts:
    """The parts of the status that can change while the agent runs.

    `protected`: whether no swap can contain this agent's memory. By stream, `problems`: why it has
    stopped; `specs`: of its window; `scales`: why published scales were refused.
    """

    protected: bool | None
    problems: Mapping[str, str]
    specs: Mapping[str, Spec]
    scales: Mapping[str, str]


EXCEPT = "; except for memory written to swap"
SEE_LOG = "see the agent's log"  # A problem, if the status has no room for its text.
MAX_SESSION = 64  # characters


def statuses(config: AgentConfig, session: str, facts: Facts) -> tuple[Status, Status]:
    """Return the online status, and the offline one for the last will."""
    streams = _births(config, facts)
    return Status("online", session, streams), Status("offline", session, streams)


def stopped_status(config: AgentConfig, session: str, facts: Facts) -> Status:
    """Return the last status of a device that stops gracefully."""
    return Status("stopped", session, _births(config, facts))


def fits_status(config: AgentConfig) -> bool:
    """Return whether a status has room for every stream, also when all of them have stopped."""
    names = [stream.name for stream in config.streams]
    every = dict.fromkeys(names, SEE_LOG)
    return _fits(_births(config, Facts(False, every, {}, every), len(SEE_LOG)))


def _births(
    config: AgentConfig, facts: Facts, longest: int | None = None
) -> dict[str, StreamBirth]:
    """Return the streams' states. Problems are shortened as far as the status has no room for them.

    `longest`: the length of a problem, None: as long as there is room.
    """
    for length in (MAX_LINE, MAX_LINE // 3, len(SEE_LOG)) if longest is None else (longest,):
        found = {
            stream.name: StreamBirth(
                facts.specs.get(stream.name, stream.spec).fingerprint.hex(),
                f"{stream.spec.guarantee}{'' if facts.protected else EXCEPT}",
                stream.window_seconds,
                _shortened(facts.problems.get(stream.name, ""), length),
                _shortened(facts.scales.get(stream.name, ""), length),
            )
            for stream in config.streams
        }
        if _fits(found):
            break
    return found


def _shortened(problem: str, length: int) -> str:
    line = one_line(problem)[:MAX_LINE]
    if len(line) <= length:
        return line
    return line[:length] if length > len(SEE_LOG) else SEE_LOG


def _fits(streams: dict[str, StreamBirth]) -> bool:
    try:
        Status("offline", "0" * MAX_SESSION, streams).encode()
    except ValueError:
        return False
    return True
