"""A device's health, as it says it: on each connection, then every minute, and at a clean stop.

Every figure follows from the schedule, the network, the disk or the clock. None follows from a
reading, and neither does the moment at which it is said.
"""

import logging
from collections.abc import Callable
from contextlib import suppress
from hashlib import blake2b

from agent.aside import set_aside_in
from agent.clock import Clock
from agent.ledger import Ledger
from agent.outbox import Key, Outbox
from agent.wear import Wear
from fleet.messages import Health
from fleet.settings import Config, ReplaySource
from pansketch import WireError, __version__, peek

LOG = logging.getLogger(__name__)

INTERVAL_SECONDS = 60


class Vitals:
    """Takes a running agent's figures. `clock` also says how long it runs: since this was made."""

    def __init__(
        self, config: Config, session: str, clock: Clock, ledger: Ledger, outbox: Outbox
    ) -> None:
        assert config.agent is not None
        self._session, self._clock, self._outbox = session, clock, outbox
        self._wear = Wear(config.streams, config.agent.outbox, ledger, clock.now())
        # Their windows bear the times of their files.
        self._replayed = {s.name for s in config.streams if isinstance(s.source, ReplaySource)}
        self._begun = clock.monotonic()
        self._ends: dict[Key, int] = {}  # of the windows of each stream's oldest release

    def taken(self) -> Health:
        """The figures of this moment. Raises OSError when the outbox's folder cannot be read."""
        now, counts = self._clock.now(), self._outbox.counts()
        return Health(
            session=self._session,
            version=__version__,
            uptime_seconds=int(self._clock.monotonic() - self._begun),
            clock_synchronised=self._clock.synchronised(),
            waiting=sum(counts.values()),
            oldest_waiting_seconds=self._oldest_waiting(now, counts.keys() - self._replayed),
            dropped=self._outbox.dropped,
            set_aside=set_aside_in(self._outbox.folder),
            written_today_bytes=self._wear.written_today(now),
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
        """The end of a release's window; None when it is gone by now, or of a later version."""
        payload = self._outbox.read(key)
        with suppress(WireError):
            return None if payload is None else peek(payload).windows[0].end
        return None


class Reports:
    """When the health is said. `say` publishes it and returns the client's message number. A health
    that cannot be taken is left out, and the reason is said once until one can be.

    Times are monotonic seconds. The second of the minute follows from the device's name, so that a
    fleet that gets its power back together does not speak together.
    """

    def __init__(self, device: str, vitals: Vitals, say: Callable[[Health], int]) -> None:
        name = blake2b(device.encode(), digest_size=8, person=b"pansketch-health").digest()
        self._offset = int.from_bytes(name, "big") % INTERVAL_SECONDS
        self._vitals, self._say = vitals, say
        self._minute: int | None = None
        self._message: int | None = None
        self._unknown = False

    def connected(self, now: float) -> None:
        """There is a connection, new or about to end: the health is said at once."""
        self._minute = self._minute_of(now)
        try:
            health = self._vitals.taken()
        except OSError as error:
            self._leave_out(error)
            return
        self._unknown = False
        self._message = self._say(health)

    def step(self, now: float) -> None:
        """Says it when its second has come. Call it only while the broker is there."""
        if self._minute_of(now) != self._minute:
            self.connected(now)

    def is_own(self, message: int) -> bool:
        """Whether the client's number is that of the last health: the broker owes no answer to it,
        so its being handed over says nothing of the broker."""
        return message == self._message

    def _leave_out(self, error: OSError) -> None:
        """A figure that is made up would be worse than none."""
        if not self._unknown:
            why = error.strerror
            LOG.error("the health is left out while the outbox cannot be read (%s)", why)
        self._unknown = True

    def _minute_of(self, now: float) -> int:
        return int((now - self._offset) // INTERVAL_SECONDS)
