"""`serve`: the ingest loop, and the tasks that run at each of its turns until SIGTERM or SIGINT.

`ingest`: the loop alone, in further processes beside it. SIGHUP restarts either one, in the same
process, with the configuration of that moment.
"""

import argparse
import logging
import os
import signal
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from pansketch_collector import clock
from pansketch_collector.asking.asker import Asker
from pansketch_collector.commands import enrolment, quarantine, retention, verification
from pansketch_collector.errors import wrong
from pansketch_collector.home_assistant.announcer import discovery_of
from pansketch_collector.http import supervisor
from pansketch_collector.ingest import ingest_loop
from pansketch_collector.ingest.ledger_marks import Marks
from pansketch_collector.mqtt.connection import CollectorClient, Incoming
from pansketch_collector.scales.publication import ScalePublication
from pansketch_collector.storage import writer as store
from pansketch_collector.storage.config_epochs import EpochStore
from pansketch_collector.storage.tables.connection import ERRORS
from pansketch_collector.validation.validation import Rules
from pansketch_collector.validation.verdicts import Outcome
from pansketch_fleet.config.loader import CollectorConfig, load_collector
from pansketch_fleet.config.privacy_cost import weak_epsilon_warning
from pansketch_fleet.config.sketch_summary import first_answer_text
from pansketch_fleet.errors import ConfigError
from pansketch_fleet.logs import log_words, set_up_log
from pansketch_fleet.settings.settings import DatabaseServer
from pansketch_fleet.systemd import Notifier, SignalEvent, on_reload
from pansketch_fleet.units import duration_text

RENEW_SECONDS = 5.0

log = logging.getLogger("collector")


class Sessions:
    """Runs one session after another; SIGHUP begins the next one, with a reloaded configuration.

    Nothing is lost between them: devices retransmit unacknowledged releases.

    Attributes:
        notifier: systemd's, of the process.
        over: set to end the session.
        ends: True to end the process too.
    """

    def __init__(self, config: CollectorConfig, options: argparse.Namespace) -> None:
        self._config, self._options = config, options
        self.notifier, self.over, self.ends = Notifier(os.environ), SignalEvent(), False
        self._reload = SignalEvent()

    def run(self, session: "Callable[[CollectorConfig, Sessions], None]") -> int:
        """Returns the exit code, after SIGTERM or SIGINT. Raises CommandError."""
        set_up_log("pansketch-collector", self._options, os.environ)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._end)
        on_reload(self._reload.set)
        while True:
            # In this order, a signal between the two lines ends the next session at once.
            self.over.clear()
            if self.ends:
                break
            session(self._config, self)
        log.info("stopped")
        return 0

    def _end(self, *_: object) -> None:
        self.ends = True
        self.over.set()

    def step(self) -> None:
        """Ends the session after SIGHUP, if the new configuration is valid."""
        if not self._reload.is_set():
            return
        self._reload.clear()
        try:
            self._config = load_collector(self._options.config, os.environ)
        except ConfigError as error:
            log.error("the configuration before stays in effect: %s", error)
            return
        log.info("the configuration is reloaded; starting again")
        self.notifier.reloading(clock.uptime())
        self.over.set()


def run_serve(config: CollectorConfig, options: argparse.Namespace) -> int:
    """Ingests releases until SIGTERM or SIGINT."""
    http = Path(options.config), log_words(options)
    return Sessions(config, options).run(partial(_serve, http=http))


def _serve(config: CollectorConfig, sessions: Sessions, http: tuple[Path, Sequence[str]]) -> None:
    notifier = sessions.notifier
    serving = f"serving fleet {config.fleet} into {config.collector.database}"
    path, words = http
    with (
        store.opened(config.collector.database) as opened,
        supervisor.supervised(config.collector.http, path, sessions.over.wait, words) as step_http,
    ):
        rules = Rules.of(config, opened.serve_settings(config, clock.now()))
        client = CollectorClient(
            config.mqtt,
            config.fleet,
            rules.largest,
            notifier.connected,
            bool(config.keepers),
            opened.workers,
        )
        discovery = discovery_of(config, client)
        marks = Marks(config.fleet, opened, client, bool(opened.workers))
        scales = ScalePublication(config, opened.epochs, rules, client)
        asker = Asker(config, opened.connection, rules, client)

        verification_task = verification.BackgroundVerification(opened, rules)
        retention_task = retention.RetentionTask(opened, config)

        def heartbeat() -> None:
            sessions.step()
            verification_task.step(clock.uptime(), clock.now())
            retention_task.step(clock.uptime(), clock.now())
            step_http(clock.uptime(), client.connected)
            notifier.alive(clock.uptime(), f"{serving}, {client.state}")
            if discovery is not None:
                discovery.step(clock.uptime())
            marks.step(clock.uptime())
            scales.step(clock.uptime(), clock.now())
            asker.step(clock.uptime(), clock.now())

        def on_committed(message: Incoming, outcome: Outcome) -> None:
            marks.on_committed(message, outcome)
            scales.receive(message, outcome)
            asker.receive(outcome, clock.now())
            if discovery is not None:
                discovery.on_committed(message, outcome)

        log.info("%s, generation %s", serving, opened.generation)
        for stream in config.streams:
            if warning := weak_epsilon_warning(stream, config.streams):
                log.warning("%s: %s", stream.name, warning)
            if not stream.part_of:
                every, usable = duration_text(stream.window_seconds), first_answer_text(stream)
                log.info("%s: a release every %s; an answer is %s", stream.name, every, usable)
        if config.collector.require_signature:
            enrolment.check_signing(opened.connection)
        if ingested := quarantine.retry(opened, rules, clock.now()):
            log.info("ingested from quarantine, under these settings: %d", ingested)
        client.start()
        notifier.ready()
        ingest_loop.tune_gc()
        try:
            ingest_clock = ingest_loop.IngestClock(clock.now, clock.uptime)
            ingest_loop.serve(
                client, opened, rules, ingest_clock, sessions.over, heartbeat, on_committed
            )
        finally:
            if sessions.ends:
                notifier.stopping()
            marks.finish()
            client.stop()


@dataclass
class RuleRenewal:
    """Updates a worker's rules when `serve` stores new settings, for example new scales."""

    config: CollectorConfig
    epochs: EpochStore
    rules: Rules
    newest: int = 0
    due: float = 0.0

    def step(self, uptime: float) -> None:
        """Reads new settings when due; retries later if the database is unavailable."""
        if uptime < self.due:
            return
        self.due = uptime + RENEW_SECONDS
        try:
            newest = self.epochs.newest()
            if newest == self.newest:
                return
            for stream in self.config.streams:
                self.rules.renew(self.config, stream, self.epochs.served(stream.name))
            self.newest = newest
        except ERRORS as error:
            log.warning("new settings cannot be read now (%s); retrying", error)


def run_ingest(config: CollectorConfig, options: argparse.Namespace) -> int:
    """Ingests a share of the releases, beside `serve`, until SIGTERM or SIGINT."""
    return Sessions(config, options).run(_ingest)


def _ingest(config: CollectorConfig, sessions: Sessions) -> None:
    notifier = sessions.notifier
    server = config.collector.database
    if not isinstance(server, DatabaseServer):
        raise wrong(
            "one process writes a SQLite database, which is serve: for ingest, name a PostgreSQL "
            "server in collector.database"
        )
    if config.mqtt.protocol == "3.1.1":
        raise wrong("ingest needs MQTT 5: set mqtt.protocol to auto")
    ingested = 0
    worker = f"ingest-{uuid.uuid4().hex[:8]}"
    serving = f"{worker} of fleet {config.fleet} into {server}"
    with store.changing(server) as opened:
        rules = Rules.of(config, opened.serve_settings(config, clock.now()))
        renewal = RuleRenewal(config, opened.epochs, rules)
        client = CollectorClient(
            replace(config.mqtt, protocol="5"),
            config.fleet,
            rules.largest,
            notifier.connected,
            workers=opened.workers,
            worker=worker,
        )

        def heartbeat() -> None:
            sessions.step()
            renewal.step(clock.uptime())
            notifier.alive(clock.uptime(), f"{serving}, {client.state}")

        def on_committed(message: Incoming, outcome: Outcome) -> None:
            nonlocal ingested
            ingested += 1

        log.info("%s", serving)
        client.start()
        notifier.ready()
        ingest_loop.tune_gc()
        try:
            ingest_clock = ingest_loop.IngestClock(clock.now, clock.uptime)
            ingest_loop.serve(
                client, opened, rules, ingest_clock, sessions.over, heartbeat, on_committed
            )
        finally:
            if sessions.ends:
                notifier.stopping()
            client.stop()
    log.info("%s took %d messages", worker, ingested)
