"""The agent at work: sources in their threads, windows by the clock, releases to the collector."""

import logging
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from agent.clock import Clock, utc_text
from agent.delivery import Delivery
from agent.ledger import Ledger, LedgerError
from agent.mqtt import Absent, AckArrived, Connected, Event, HandedOver, Link
from agent.outbox import Outbox
from agent.publisher import Publisher
from agent.sources.opening import open_source
from agent.sources.readings import SourceError
from agent.stream import StreamWork
from agent.window import Closed, Windows, schedule_for
from fleet.messages import Ack, Status, StreamBirth
from fleet.settings import Config, ReplaySource, Stream
from pansketch import Entropy

LOG = logging.getLogger(__name__)

TICK_SECONDS = 0.2
JOIN_SECONDS = 10.0


@dataclass(frozen=True)
class Task:
    """How long to run. `once`: one window of each stream. `drain_seconds`: the longest wait for the
    collector after the last release, None for ever. `root`: the folder with proc/ and sys/.
    """

    once: bool = False
    drain_seconds: float | None = None
    root: Path = Path("/")


def run(
    config: Config,
    task: Task,
    clock: Clock,
    entropy: Mapping[str, Entropy],
    session: str,
    stop: threading.Event,
) -> int:
    """Runs until the sources are done and acknowledged, or `stop` is set: 0, or 1 on a failure.

    `entropy`: secret randomness for each stream. Raises LedgerError, OSError when the state folder
    cannot be used, ValueError for a CA file that is none.
    """
    assert config.agent is not None
    with Ledger(config.agent.state) as ledger:
        outbox = Outbox(config.agent.state / "outbox", config.profile.outbox_bytes)
        _check_same_age(ledger, outbox)
        link = _link(config, session)
        agent = _Agent(config, task, clock, stop, outbox, link)
        try:
            link.start()
            agent.start(ledger, entropy)
            return agent.serve()
        finally:
            # The ledger stays open until no thread can debit any more.
            stop.set()
            agent.join()
            link.stop()


class _Agent:
    """The main thread's part: ticks, deliveries, and what is said about the broker."""

    def __init__(
        self,
        config: Config,
        task: Task,
        clock: Clock,
        stop: threading.Event,
        outbox: Outbox,
        link: Link,
    ) -> None:
        self._config, self._task, self._clock, self._stop = config, task, clock, stop
        self._outbox, self._link = outbox, link
        self._delivery = Delivery(outbox, link.send)
        self._broker = f"{config.mqtt.host}:{config.mqtt.port}"
        self._connected = self._said_absent = False
        self._works: list[StreamWork] = []
        self._threads: list[threading.Thread] = []
        self._finished_at: float | None = None

    def start(self, ledger: Ledger, entropy: Mapping[str, Entropy]) -> None:
        """Opens every stream's window and starts its source."""
        for stream in self._config.streams:
            work = self._work(stream, ledger, entropy[stream.name])
            source = open_source(stream, self._clock, self._stop, self._task.root)
            arguments = (source, self._clock, self._stop)
            self._works.append(work)
            self._threads.append(
                threading.Thread(target=work.run, args=arguments, name=stream.name, daemon=True)
            )
        self._tick()
        for thread in self._threads:
            thread.start()

    def _work(self, stream: Stream, ledger: Ledger, rng: Entropy) -> StreamWork:
        assert self._config.agent is not None
        device = self._config.agent.device
        live = not isinstance(stream.source, ReplaySource)
        patient = isinstance(stream.source, ReplaySource) and stream.source.speed is None
        schedule = schedule_for(device, stream.window_seconds)
        until = ledger.spent(stream.name).until
        windows = Windows(stream.spec, schedule, rng, until, live)
        publisher = Publisher(device, stream.name, rng, ledger, self._outbox)

        def publish(closed: Closed) -> None:
            if not patient or self._wait_for_room(stream.spec.max_release_nbytes):
                publisher.publish(closed, stream.spec.guarantee.epsilon_micro)

        if live and until > self._clock.now():
            LOG.warning(
                "%s: released already up to %s; waiting until then", stream.name, utc_text(until)
            )
        return StreamWork(stream.name, schedule, windows, publish, live, self._task.once)

    def _wait_for_room(self, size_bytes: int) -> bool:
        """A replay at full speed waits while the outbox is full; False when the agent stops.

        Raises SourceError when that takes longer than the task allows.
        """
        since, limit = self._clock.monotonic(), self._task.drain_seconds
        if not self._outbox.has_room(size_bytes):
            LOG.info("the outbox is full: the replay waits until the collector has caught up")
        while not self._outbox.has_room(size_bytes):
            if self._clock.wait(self._stop, TICK_SECONDS):
                return False
            if limit is not None and self._clock.monotonic() - since > limit:
                raise SourceError("the outbox is full; see why the collector is away")
        return not self._stop.is_set()

    def join(self) -> None:
        for thread in self._threads:
            if thread.is_alive():
                thread.join(JOIN_SECONDS)

    def serve(self) -> int:
        """The main loop; returns the exit code."""
        while not self._stop.is_set():
            event = self._link.next_event(TICK_SECONDS)
            while event is not None:
                self._handle(event)
                event = self._link.next_event(0)
            self._tick()
            if self._connected:
                self._delivery.step(self._clock.monotonic())
            if (code := self._finished()) is not None:
                return code
        return 0

    def _tick(self) -> None:
        for work in self._works:
            work.tick(self._clock.now())

    def _finished(self) -> int | None:
        """The exit code once there is nothing left to do; None before."""
        if any(work.fatal for work in self._works):
            return 1
        if not all(work.done.is_set() for work in self._works):
            return None
        failed = any(work.failure for work in self._works)
        if not len(self._outbox):
            return int(failed or self._delivery.refused)
        return self._drained()

    def _drained(self) -> int | None:
        now = self._clock.monotonic()
        if self._finished_at is None:
            self._finished_at = now
            LOG.info(
                "waiting for the collector to acknowledge the outbox (releases: %d)",
                len(self._outbox),
            )
        limit = self._task.drain_seconds
        if limit is None or now - self._finished_at < limit:
            return None
        LOG.error(
            "not acknowledged after %g s; kept in %s for the next start (releases: %d)",
            limit,
            self._outbox.folder,
            len(self._outbox),
        )
        return 1

    def _handle(self, event: Event) -> None:
        match event:
            case Connected():
                self._connected, self._said_absent = True, False
                LOG.info("connected to the broker at %s", self._broker)
                self._link.announce()
                self._delivery.connected(self._clock.monotonic())
            case Absent(reason):
                self._connected = False
                self._say_absent(reason)
            case HandedOver(message, failure):
                self._delivery.handed_over(message, failure)
            case AckArrived(payload):
                self._acknowledge(payload)

    def _say_absent(self, reason: str) -> None:
        if not self._said_absent:
            LOG.warning("no broker at %s (%s); trying until it is there", self._broker, reason)
        self._said_absent = True

    def _acknowledge(self, payload: bytes) -> None:
        try:
            ack = Ack.decode(payload)
        except ValueError:
            return  # Whatever it was, the release is still in the outbox and is sent again.
        self._delivery.acknowledged(ack)


def _link(config: Config, session: str) -> Link:
    assert config.agent is not None
    streams = {
        stream.name: StreamBirth(
            stream.spec.fingerprint.hex(), str(stream.spec.guarantee), stream.window_seconds
        )
        for stream in config.streams
    }
    online, offline = Status("online", session, streams), Status("offline", session, streams)
    return Link(config.mqtt, config.fleet, config.agent.device, online, offline)


def _check_same_age(ledger: Ledger, outbox: Outbox) -> None:
    """A ledger that does not know the outbox's releases is an old copy, or a new file."""
    for key in outbox.waiting():
        if key.sequence > ledger.spent(key.stream).sequence:
            raise LedgerError(
                f"{ledger.path}: is older than the outbox and nothing is published; restore it, or "
                "give the device a new name (agent.device) so that no window is released twice"
            )
