"""The agent at work: sources in their threads, windows by the clock, releases to the collector."""

import logging
import threading
from collections.abc import Callable, Mapping

from agent.absence import Absence
from agent.asking import Answers
from agent.assembly import TICK_SECONDS, Workshop
from agent.clock import Clock
from agent.delivery import Delivery
from agent.denials import Denials
from agent.events import Absent, AckArrived, Connected, Event, HandedOver, Subscribed
from agent.health import Reports, Vitals
from agent.intrusion import Confirmations, told
from agent.ledger import Ledger, LedgerError
from agent.link import Link
from agent.outbox import Outbox
from agent.presence import farewell, statuses
from agent.sources.opening import open_source
from agent.stream import StreamWork
from agent.task import Signals, Task
from fleet.messages import Ack, Status
from fleet.notify import Notifier
from fleet.settings import Config
from pansketch import Entropy

LOG = logging.getLogger(__name__)

JOIN_SECONDS = 10.0


def run(
    config: Config,
    task: Task,
    clock: Clock,
    entropy: Mapping[str, Entropy],
    session: str,
    signals: Signals,
    notifier: Notifier,
) -> int:
    """Runs until the sources are done and acknowledged, or is told to stop: 0, or 1 on a failure.

    `entropy`: secret randomness for each stream. Raises LedgerError, OSError when the state folder
    cannot be used, TlsFilesError.
    """
    assert config.agent is not None
    with Ledger(config.agent.state) as ledger:
        outbox = Outbox(
            config.agent.state / "outbox", config.profile.outbox_bytes, config.agent.outbox
        )
        _check_same_age(ledger, outbox)
        confirmations = Confirmations(config.agent.state)
        confirmations.write()
        online, offline = statuses(config, session, {})
        link = Link(config.mqtt, config.fleet, config.agent.device, online, offline)
        rng = next(iter(entropy.values()))
        delivery = Delivery(outbox, link.send, _chance(rng), link.room)
        vitals = Vitals(config, session, clock, ledger, outbox)
        reports = Reports(config.agent.device, vitals, link.report)
        agent = _Agent(
            config, task, clock, signals, delivery, link, session, confirmations, reports
        )
        try:
            link.start()
            agent.start(ledger, entropy)
            notifier.ready()
            return agent.serve(notifier)
        finally:
            notifier.stopping()
            # The ledger stays open until no thread can debit any more.
            signals.stop.set()
            agent.join()
            try:
                link.stop(agent.farewell())
            finally:
                # Whatever the farewell came to: what is held in memory has to reach the disk.
                outbox.close()


class _Agent:
    """The main thread's part: ticks, deliveries, and what is said about the broker."""

    def __init__(
        self,
        config: Config,
        task: Task,
        clock: Clock,
        signals: Signals,
        delivery: Delivery,
        link: Link,
        session: str,
        confirmations: Confirmations,
        reports: Reports,
    ) -> None:
        self._config, self._task, self._clock, self._signals = config, task, clock, signals
        self._delivery, self._link, self._session = delivery, link, session
        self._outbox = delivery.outbox
        self._confirmations, self._reports = confirmations, reports
        assert config.agent is not None
        self._answers = Answers(config.agent.state)
        self._problems: dict[str, str] = {}
        self._broker = f"{config.mqtt.host}:{config.mqtt.port}"
        self._absence = Absence(self._broker)
        self._denials = Denials(config.agent.device)
        self._connected = False
        self._works: list[StreamWork] = []
        self._threads: list[threading.Thread] = []
        self._finished_at: float | None = None

    def start(self, ledger: Ledger, entropy: Mapping[str, Entropy]) -> None:
        """Opens every stream's window and starts its source."""
        assert self._config.agent is not None
        task, stop = self._task, self._signals.stop
        workshop = Workshop(
            self._config.agent.device,
            ledger,
            self._outbox,
            self._clock,
            stop,
            task.once,
            task.drain_seconds,
        )
        for stream in self._config.streams:
            work = workshop.assemble(stream, entropy[stream.name])
            chance = _chance(entropy[stream.name])
            source = open_source(stream, self._clock, stop, task.root, chance)
            arguments = (source, self._clock, stop)
            self._works.append(work)
            self._threads.append(
                threading.Thread(target=work.run, args=arguments, name=stream.name, daemon=True)
            )
        self._tick()
        for thread in self._threads:
            thread.start()

    def join(self) -> None:
        for thread in self._threads:
            if thread.is_alive():
                thread.join(JOIN_SECONDS)

    def serve(self, notifier: Notifier) -> int:
        """The main loop; returns the exit code. Its turns are the signs of life, not the broker."""
        while not self._signals.stop.is_set():
            notifier.alive(self._clock.monotonic(), self._state())
            event = self._link.next_event(TICK_SECONDS)
            while event is not None:
                self._handle(event)
                event = self._link.next_event(0)
            self._tick()
            self._answer_intrusion()
            self._answer_question()
            self._report_problems()
            self._deliver(self._clock.monotonic())
            if (code := self._finished()) is not None:
                return code
        return 0

    def _deliver(self, now: float) -> None:
        self._outbox.persist_overdue(now)
        if not self._connected:
            return
        self._reports.step(now)
        self._delivery.step(now)
        if self._delivery.stalled(now):
            self._connected = False
            LOG.warning("the broker at %s answers nothing; connecting anew", self._broker)
            self._link.reopen()

    def farewell(self) -> Status:
        """The last status, of a clean stop, after the health that stays known from then on."""
        if self._connected:
            self._reports.connected(self._clock.monotonic())
        return farewell(self._config, self._session, self._problems)

    def _state(self) -> str:
        """For `systemctl status`; depends on the schedule and the network only."""
        broker = "connected" if self._connected else "not connected"
        dropped = f", dropped ever: {self._outbox.dropped}" if self._outbox.dropped else ""
        waiting = f"releases waiting: {len(self._outbox)}{dropped}"
        return f"{broker} to the broker at {self._broker}, {waiting}"

    def _tick(self) -> None:
        for work in self._works:
            work.tick(self._clock)

    def _answer_intrusion(self) -> None:
        if not self._signals.intruded.is_set():
            return
        # Cleared first: an intrusion announced from here on is another one.
        self._signals.intruded.clear()
        for work in self._works:
            work.rerandomise()
        LOG.info("an intrusion was announced: %s", told(self._config.streams))
        try:
            self._confirmations.confirm()
        except OSError as error:
            LOG.error("the fresh noise cannot be confirmed (%s); free the disk", error.strerror)

    def _answer_question(self) -> None:
        if not self._signals.asked.is_set():
            return
        self._signals.asked.clear()
        try:
            if self._answers.asked_to_retry():
                self._delivery.retry()
                LOG.info("asked to send again what is on its way, at once")
            sent, held_back = self._delivery.attempts(), self._delivery.held_back()
            self._answers.write(sent, self._outbox.held, self._outbox.dropped, held_back)
        except OSError as error:
            LOG.error("a question about the outbox cannot be answered (%s)", error.strerror)

    def _report_problems(self) -> None:
        """A stream that has stopped shows in the device's status."""
        problems = {work.name: work.failure for work in self._works if work.failure}
        if problems != self._problems:
            self._problems = problems
            self._link.change(*statuses(self._config, self._session, problems))

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
            case Connected(version):
                self._connected = True
                self._absence.over()
                LOG.info("connected to the broker at %s (MQTT %s)", self._broker, version)
                self._link.announce()
                self._reports.connected(self._clock.monotonic())
                self._delivery.connected(self._clock.monotonic())
            case Absent():
                if self._connected:
                    self._delivery.disconnected()
                self._connected = False
                self._absence.say(event)
            case Subscribed(topic, failure):
                self._denials.answered("hear", topic, failure)
            case HandedOver(message, failure, topic):
                self._denials.answered("write", topic, failure)
                if not self._reports.is_own(message):
                    self._delivery.handed_over(message, failure)
            case AckArrived(payload):
                self._acknowledge(payload)

    def _acknowledge(self, payload: bytes) -> None:
        try:
            ack = Ack.decode(payload)
        except ValueError:
            return  # Whatever it was, the release is still in the outbox and is sent again.
        self._delivery.acknowledged(ack)


def _chance(rng: Entropy) -> Callable[[], float]:
    """A random number from [0, 1) at each call, for the jitter of pauses."""
    return lambda: rng.identifier() / 2**63


def _check_same_age(ledger: Ledger, outbox: Outbox) -> None:
    """A ledger that does not know the outbox's releases is an old copy, or a new file."""
    for key in outbox.waiting():
        if key.sequence > ledger.spent(key.stream).sequence:
            raise LedgerError(
                f"{ledger.path}: is older than the outbox and nothing is published; restore it, or "
                "give the device a new name (agent.device) so that no window is released twice"
            )
