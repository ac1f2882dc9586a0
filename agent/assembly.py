"""From a configured stream to one at work: its windows, limiter and publisher, put together."""

import logging
import threading
from dataclasses import dataclass

from agent.clock import Clock, utc_text
from agent.ledger import Ledger
from agent.limiter import SpanLimiter
from agent.outbox import Outbox
from agent.publisher import Publisher
from agent.sources.readings import SourceError
from agent.stream import Room, StreamWork
from agent.timeline import far_behind
from agent.window import Closed, Schedule, Windows, schedule_for
from fleet.settings import ReplaySource, Stream
from pansketch import Entropy, Span

LOG = logging.getLogger(__name__)

TICK_SECONDS = 0.2


@dataclass(frozen=True)
class Workshop:
    """What all streams of a device share. `drain_seconds`: the longest wait for the collector, None
    for ever.
    """

    device: str
    ledger: Ledger
    outbox: Outbox
    clock: Clock
    stop: threading.Event
    once: bool
    drain_seconds: float | None

    def assemble(self, stream: Stream, rng: Entropy) -> StreamWork:
        """The stream, ready to run; nothing of it has begun."""
        live = not isinstance(stream.source, ReplaySource)
        patient = isinstance(stream.source, ReplaySource) and stream.source.speed is None
        schedule = schedule_for(self.device, stream.window_seconds)
        until = self.ledger.spent(stream.name).until
        if live and stream.key is not None and stream.plan.privacy.intrusion == "announced":
            until = max(until, self._end_of_window(stream.name, schedule))
        windows = Windows(stream.spec, schedule, rng, until, live)
        publisher = Publisher(
            self.device, stream.name, rng, self.ledger, self.outbox, stream.daily_cap_micro
        )

        def publish(closed: Closed) -> None:
            known = self._synchronised(work) if live else None
            publisher.publish(closed, stream.spec.guarantee.epsilon_micro, known)

        now, spent = self.clock.now(), self.ledger.spent(stream.name).until
        if live and now < spent and not far_behind(now, spent, stream.window_seconds):
            LOG.warning(
                "%s: released already up to %s; waiting until then", stream.name, utc_text(until)
            )
        room = self._room(stream.spec.max_release_nbytes) if patient else None
        limiter = self._limiter(stream, live)
        work = StreamWork(stream.name, schedule, windows, publish, live, self.once, limiter, room)
        return work

    def _synchronised(self, work: StreamWork) -> bool | None:
        """Whether the label of a live window that closes now can be relied on; a replay's windows
        bear the times of its file, and this host's clock says nothing of them."""
        return False if work.adrift else self.clock.synchronised()

    def _end_of_window(self, name: str, schedule: Schedule) -> int:
        """When the window of now is over; it is left out.

        An agent before this one may have had it, and been looked into: a key that came then and
        comes again would pay twice. In silent mode the output's share of epsilon pays for that.
        """
        end = schedule.span(schedule.index(self.clock.now())).end
        LOG.info("%s: begins with the next window, at %s", name, utc_text(end))
        return end

    def _limiter(self, stream: Stream, live: bool) -> SpanLimiter | None:
        unit = stream.plan.privacy.unit
        if not isinstance(unit, Span):
            return None
        return SpanLimiter(unit, self.clock.monotonic() if live else None)

    def _room(self, size_bytes: int) -> Room:
        """A replay at full speed waits while the outbox is full; False when the agent stops.

        Raises SourceError when that takes longer than the agent may wait.
        """

        def room() -> bool:
            since = self.clock.monotonic()
            if not self.outbox.has_room(size_bytes):
                LOG.info("the outbox is full: the replay waits until the collector has caught up")
            while not self.outbox.has_room(size_bytes):
                if self.clock.wait(self.stop, TICK_SECONDS):
                    return False
                limit = self.drain_seconds
                if limit is not None and self.clock.monotonic() - since > limit:
                    raise SourceError("the outbox is full; see why the collector is away")
            return not self.stop.is_set()

        return room
