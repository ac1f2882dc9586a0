"""Builds a worker from a configured stream: its windows, rate limiter, publisher and source."""

import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from pansketch.randomness import KeyEntropy
from pansketch_agent.host.clock import Clock, utc_text
from pansketch_agent.ledger.ledger import Ledger
from pansketch_agent.outbox.outbox import Outbox
from pansketch_agent.runtime.stream_worker import StreamWorker, WaitForRoom
from pansketch_agent.sources import exec as child
from pansketch_agent.sources import http_push, metrics_page, modbus, mqtt_topic, replay, stdin
from pansketch_agent.sources.decoders import decoder_for
from pansketch_agent.sources.polling import polled
from pansketch_agent.sources.readings import Readings, SourceError
from pansketch_agent.sources.sensors import host_metrics
from pansketch_agent.sources.sensors import registry as sensors
from pansketch_agent.windows.rate_limiter import SpanLimiter
from pansketch_agent.windows.release_writer import BlindedWriter, ReleaseWriter
from pansketch_agent.windows.window import Schedule, Windows, far_behind, schedule_for
from pansketch_fleet.config.blinded_summary import max_release_nbytes
from pansketch_fleet.config.sketch_summary import first_answer_windows
from pansketch_fleet.sections.time_slots import arrival_kind, slots_of
from pansketch_fleet.settings.settings import KeyStream, Stream
from pansketch_fleet.settings.sources import (
    ExecSource,
    HttpSource,
    MetricsSource,
    ModbusSource,
    MqttSource,
    ReplaySource,
    SensorSource,
    SystemSource,
)
from pansketch_fleet.units import duration_text

LOG = logging.getLogger(__name__)

TICK_SECONDS = 0.2
YEAR_SECONDS = 366 * 86400


@dataclass(frozen=True)
class StreamBuilder:
    """The common parts of all streams of a device.

    `drain_seconds`: the longest wait for acknowledgements, None for ever.
    """

    fleet: str
    device: str
    ledger: Ledger
    outbox: Outbox
    clock: Clock
    stop: threading.Event
    once: bool
    drain_seconds: float | None

    def build(self, parts: Sequence[Stream], rng: KeyEntropy) -> StreamWorker:
        """Return a worker for the streams of one source; nothing has started."""
        stream = parts[0]
        live = not isinstance(stream.source, ReplaySource)
        waits_for_room = isinstance(stream.source, ReplaySource) and stream.source.speed is None
        blinded = stream.blinded
        epoch_seconds = None if blinded is None else blinded.epoch_seconds
        schedule = schedule_for(self.device, stream.window_seconds, epoch_seconds)
        # A window that one sketch has released is over for all.
        spent = until = max(self.ledger.spent(each.name).until for each in parts)
        if live and isinstance(stream, KeyStream) and stream.plan.privacy.intrusion == "announced":
            until = max(until, self._end_of_window(stream.name, schedule))
        micro = {each.name: each.spec.guarantee.epsilon_micro for each in parts}
        writer = ReleaseWriter(
            self.device, micro, rng, self.ledger, self.outbox, stream.daily_cap_micro
        )
        publish, start = writer.publish, None
        if blinded is not None:
            masked = BlindedWriter(writer, rng, self.fleet, blinded.keys)
            publish, start = masked.publish, masked.start
        windows = Windows([each.spec for each in parts], schedule, rng, until, live, start)
        now = self.clock.now()
        if live and now < spent and not far_behind(now, spent, stream.window_seconds):
            LOG.warning(
                "%s: windows up to %s are %s already; the next one follows",
                stream.name,
                utc_text(until),
                "released" if blinded is None else "debited",
            )
        largest = sum(map(max_release_nbytes, parts))
        wait_for_room = self._wait_for_room(largest) if waits_for_room else None
        limiter = self._limiter(stream, live)
        names = tuple(micro)
        return StreamWorker(
            names, schedule, windows, publish, live, self.once, limiter, wait_for_room
        )

    def _end_of_window(self, name: str, schedule: Schedule) -> int:
        """Return the end of the current window, which is skipped.

        An earlier agent may have had this window and been compromised. A key before and after would
        then spend epsilon twice. In silent mode the output's share of epsilon covers that.
        """
        end = schedule.span(schedule.index(self.clock.now())).end
        LOG.info("%s: the first window starts at %s", name, utc_text(end))
        return end

    def _limiter(self, stream: Stream, live: bool) -> SpanLimiter | None:
        """Return the rate limiter; None for a polled source, which is polled once a slot."""
        slots = slots_of(stream)
        if slots is None or arrival_kind(stream.source) == "poll":
            return None
        return SpanLimiter(slots, self.clock.monotonic() if live else None)

    def _wait_for_room(self, size_bytes: int) -> WaitForRoom:
        """Return a function that makes a replay at full speed wait while the outbox is full.

        It returns False when the agent stops. It raises SourceError after `drain_seconds`.
        """

        def wait() -> bool:
            since = self.clock.monotonic()
            if not self.outbox.has_room(size_bytes):
                LOG.info("the outbox is full: the replay waits until the collector has caught up")
            while not self.outbox.has_room(size_bytes):
                if self.clock.wait(self.stop, TICK_SECONDS):
                    return False
                limit = self.drain_seconds
                if limit is not None and self.clock.monotonic() - since > limit:
                    raise SourceError("the outbox is full; check the collector")
            return not self.stop.is_set()

        return wait


def outlook(stream: Stream, open_start: int | None, now: float) -> str:
    """Return when the first releases and answers follow, as far as this device alone can know.

    `open_start`: the start of the open window, or of the first that may open; None for a replay. It
    depends on the configuration, the schedule and the clock only.
    """
    every = duration_text(stream.window_seconds)
    if open_start is None:
        needed = first_answer_windows(stream)
        released = f"a replay, with a release for each window of {every}"
        return f"{released}; this device alone makes an answer usable after about {needed} of them"
    end = open_start + stream.window_seconds
    # Windows go on by elapsed time where the clock is behind them.
    ahead = max(open_start - now - stream.window_seconds, 0.0)
    left = (end - max(now, open_start)) / stream.window_seconds
    needed = first_answer_windows(stream, first=min(max(left, 0.0), 1.0))
    at = end + (needed - 1) * stream.window_seconds
    if stream.blinded is not None:
        at += stream.blinded.lateness_seconds  # before keepers are asked
    released = f"the first release follows at {utc_text(end)}, then one every {every}"
    if ahead:
        released = f"the first release follows in {every}, labelled {utc_text(end)}, then one each"
    if at - now - ahead > YEAR_SECONDS:
        fix = "raise epsilon, or use longer windows"
        return f"{released}; this device alone makes no answer usable within a year; {fix}"
    moment = "" if ahead else f", at about {utc_text(at)}"
    return (
        f"{released}; this device alone makes an answer usable after about {needed} of them{moment}"
    )


STDIN = 0


def open_source(
    stream: Stream,
    clock: Clock,
    stop: threading.Event,
    root: Path,
    uniform: Callable[[], float],
    report: Callable[[str], None],
) -> Iterator[Readings]:
    """Yield the stream's readings from now on.

    `root`: the folder with proc/ and sys/. `uniform`: draws from [0, 1), for jitter. `report`:
    receives a line about the source itself, for the log.
    """
    source = stream.source
    if isinstance(source, SystemSource):
        slots = slots_of(stream)
        return host_metrics.readings(
            stream.names, source.interval_seconds, clock, stop, root, slots
        )
    if isinstance(source, SensorSource):
        return sensors.readings(source, stream.names, clock, stop, root, slots_of(stream))
    if isinstance(source, MetricsSource | ModbusSource):
        if isinstance(source, MetricsSource):
            measure = metrics_page.measuring(source, stream.names, clock)
        else:
            measure = modbus.measuring(source, stream.names, clock)
        slots, count = slots_of(stream), len(stream.names)
        return polled(measure, count, source.interval_seconds, clock, stop, slots)
    decoder = decoder_for(stream)
    if isinstance(source, ExecSource):
        return child.lines(source.command, decoder, clock, stop, uniform, report)
    if isinstance(source, MqttSource):
        return mqtt_topic.messages(stream.name, source, decoder, clock, stop, uniform)
    if isinstance(source, HttpSource):
        return http_push.readings(stream.name, source, decoder, clock, stop, uniform)
    if isinstance(source, ReplaySource):
        if source.speed is None:
            return replay.blocks(source.path, decoder)
        return replay.paced(source.path, decoder, source.speed, clock, stop)
    return stdin.lines(STDIN, decoder, clock, stop)
