"""The main loop of the agent: sources in threads, windows by the clock, then delivery."""

import logging
import threading
from collections.abc import Mapping

from pansketch.randomness import KeyEntropy
from pansketch_agent.delivery.delivery import Delivery
from pansketch_agent.host.clock import Clock, implausible_year
from pansketch_agent.host.hardening import MemoryProtection
from pansketch_agent.ledger.ledger import Ledger
from pansketch_agent.mqtt.connection import DeviceClient
from pansketch_agent.outbox.outbox import Outbox
from pansketch_agent.runtime.broker_session import BrokerSession
from pansketch_agent.runtime.control import Control, MemoryCheck, Signals, reloaded
from pansketch_agent.runtime.exit_status import ExitStatus, RunOptions
from pansketch_agent.runtime.high_water_mark import LedgerReconciliation, check_not_older
from pansketch_agent.runtime.mark_check import CONNECT_SECONDS, MarkCheck
from pansketch_agent.runtime.scale_adoption import ScaleAdoption
from pansketch_agent.runtime.status_report import StatusReport
from pansketch_agent.runtime.stream_builder import TICK_SECONDS, StreamBuilder, open_source, outlook
from pansketch_agent.runtime.stream_worker import StreamWorker
from pansketch_agent.status.health import Facts, HealthCollector, HealthSchedule, statuses
from pansketch_fleet.backoff import system_uniform
from pansketch_fleet.config.programs import AgentConfig
from pansketch_fleet.protocol.messages import Status
from pansketch_fleet.systemd import Notifier

LOG = logging.getLogger(__name__)

JOIN_SECONDS = 10.0


def run(
    config: AgentConfig,
    options: RunOptions,
    clock: Clock,
    entropy: Mapping[str, KeyEntropy],
    session: str,
    signals: Signals,
    notifier: Notifier,
    memory: MemoryProtection,
) -> int:
    """Run until the sources end and are acknowledged, or until `signals.stop`: 0, or 1 on a
    failure.

    `entropy`: secret randomness for each stream. `memory`: this process's own. Raises LedgerError,
    OSError when the state folder cannot be used, TlsFilesError, ExposedMemoryError.
    """
    with Ledger(config.agent.state) as ledger:
        outbox = Outbox(
            config.agent.state / "outbox", config.profile.outbox_bytes, config.agent.outbox
        )
        check_not_older(ledger, outbox)
        adoption = ScaleAdoption(config, ledger, clock)
        facts = Facts(memory.protected, {}, adoption.at(clock.now()), {})
        births = statuses(config, session, facts)
        who = config.mqtt, config.fleet, config.agent.device
        client = DeviceClient(*who, *births, list(adoption.streams), config.agent.credentials)
        delivery = Delivery(
            outbox, client.send, system_uniform, client.max_release_bytes, clock.now
        )
        collector = HealthCollector(
            config, session, clock, ledger, outbox, memory, delivery.deferred, client.name_conflicts
        )
        agent = _Agent(
            config,
            session,
            clock,
            signals,
            notifier,
            client,
            delivery,
            HealthSchedule(config.agent.device, collector, client.publish_health),
            LedgerReconciliation(config, ledger, outbox, clock, outbox.put_count),
            memory,
            options,
            adoption,
            facts,
        )
        try:
            client.start()
            agent.await_mark()
            agent.start(ledger, entropy)
            notifier.ready()
            return agent.serve()
        finally:
            notifier.stopping()
            # The ledger stays open until no thread can debit any more.
            signals.stop.set()
            agent.join()
            try:
                client.stop(agent.stopped_status())
            finally:
                notifier.connected(False)
                # Releases in memory have to reach the disk even if the last status does not.
                outbox.close()


class _Agent:
    """The main thread's part: ticks, the broker, requests from outside and the status."""

    def __init__(
        self,
        config: AgentConfig,
        session: str,
        clock: Clock,
        signals: Signals,
        notifier: Notifier,
        client: DeviceClient,
        delivery: Delivery,
        health: HealthSchedule,
        reconciliation: LedgerReconciliation,
        memory: MemoryProtection,
        options: RunOptions,
        adoption: ScaleAdoption,
        facts: Facts,
    ) -> None:
        self._config, self._clock, self._signals = config, clock, signals
        self._notifier, self._options, self._outbox = notifier, options, delivery.outbox
        self._workers: list[StreamWorker] = []
        self._threads: list[threading.Thread] = []
        self._mark_check = MarkCheck(reconciliation, self._workers)
        self._broker = BrokerSession(
            *(config, clock, notifier, client, delivery, health),
            *(self._mark_check, adoption, self._workers),
        )
        self._control = Control(config.agent.state, signals, config.streams, delivery)
        self._memory_check = MemoryCheck(
            memory, config.agent.require_locked_memory, clock.monotonic()
        )
        self._exit_status = ExitStatus(delivery, options.drain_seconds)
        self._adoption = adoption
        self._status = StatusReport(
            config, session, client, self._workers, adoption, self._memory_check, facts
        )

    def await_mark(self) -> None:
        """Wait a little for the broker and the collector's mark, if a debit needs the mark."""
        check = self._mark_check
        if not check.must_precede_debit():
            return
        until, absent = self._clock.monotonic() + CONNECT_SECONDS, False
        while not (absent or self._signals.stop.is_set()):
            absent = self._broker.process_events(TICK_SECONDS)
            if check.done or check.step_before_debit(self._clock.monotonic(), until):
                break
        check.debit()

    def start(self, ledger: Ledger, entropy: Mapping[str, KeyEntropy]) -> None:
        """Open every stream's window and start its source."""
        options, stop, stopped = self._options, self._signals.stop, self._mark_check.stopped
        builder = StreamBuilder(
            self._config.fleet,
            self._config.agent.device,
            ledger,
            self._outbox,
            self._clock,
            stop,
            options.once,
            options.drain_seconds,
        )
        for stream in self._config.streams:
            if stream.part_of:
                continue  # It absorbs what the first sketch of its section absorbs.
            worker = builder.build(self._config.parts(stream), entropy[stream.name])
            worker.rescale(self._adoption.specs(stream.name))
            source = open_source(
                stream, self._clock, stop, options.root, system_uniform, worker.report
            )
            self._workers.append(worker)
            if failure := next((stopped[name] for name in worker.names if name in stopped), ""):
                worker.stop(failure)
                continue
            arguments = (source, self._clock, stop)
            self._threads.append(
                threading.Thread(target=worker.run, args=arguments, name=stream.name, daemon=True)
            )
        self._control.retry_if_requested()
        self._tick()
        self._log_outlook()
        for thread in self._threads:
            thread.start()

    def _log_outlook(self) -> None:
        """Log when the first releases and answers of each stream follow, and an impossible year."""
        live = any(worker.live for worker in self._workers)
        if live and (wrong := implausible_year(self._clock.now())):
            LOG.warning("the clock %s", wrong)
        streams = {stream.name: stream for stream in self._config.streams}
        for worker in self._workers:
            if worker.done.is_set() or self._options.once:
                continue
            start = worker.open_start if worker.live else None
            text = outlook(streams[worker.name], start, self._clock.now())
            LOG.info("%s: %s", worker.name, text)

    def join(self) -> None:
        for thread in self._threads:
            if thread.is_alive():
                thread.join(JOIN_SECONDS)

    def serve(self) -> int:
        """Run the main loop, and return the exit status. Each iteration pings the watchdog."""
        while not self._signals.stop.is_set():
            self._notifier.alive(self._clock.monotonic(), self._broker.state())
            self._broker.process_events(TICK_SECONDS)
            self._tick()
            self._control.answer_intrusion(self._workers)
            self._control.answer_outbox_request()
            self._reload()
            self._memory_check.step(self._clock.monotonic())
            self._status.step()
            now = self._clock.monotonic()
            self._broker.deliver(now)
            if (code := self._exit_status.of(self._workers, now)) is not None:
                return code
        return 0

    def stopped_status(self) -> Status:
        """Return the last status, of a clean stop, after publishing the last health."""
        self._broker.report_last()
        return self._status.stopped_status()

    def _reload(self) -> None:
        """Read the configuration again if that was requested."""
        load = self._options.load
        if load is None or not self._signals.reload.is_set():
            return
        self._signals.reload.clear()
        self._notifier.reloading(self._clock.monotonic())
        if (found := reloaded(self._config, load)) is not None:
            self._config = found
            self._broker.renew(found)
            LOG.info("the configuration is reloaded; reconnecting")
        self._notifier.ready()

    def _tick(self) -> None:
        for worker in self._workers:
            worker.tick(self._clock)
