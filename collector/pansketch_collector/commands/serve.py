"""`serve`: the ingest loop, and the tasks that run at each of its turns until SIGTERM or SIGINT."""

import argparse
import logging
import os
import signal
import threading
from pathlib import Path

from pansketch_collector import clock
from pansketch_collector.asking.asker import Asker
from pansketch_collector.commands import quarantine, retention, verification
from pansketch_collector.home_assistant.announcer import discovery_of
from pansketch_collector.http import supervisor
from pansketch_collector.ingest import ingest_loop
from pansketch_collector.ingest.ledger_marks import Marks
from pansketch_collector.mqtt.connection import CollectorClient, Incoming
from pansketch_collector.scales.publication import ScalePublication
from pansketch_collector.storage import writer as store
from pansketch_collector.validation.validation import Rules
from pansketch_collector.validation.verdicts import Verdict
from pansketch_fleet.config.loader import CollectorConfig
from pansketch_fleet.config.privacy_cost import weakness
from pansketch_fleet.logs import log_words, set_up_log
from pansketch_fleet.systemd import Notifier

log = logging.getLogger("collector")


def run_serve(config: CollectorConfig, options: argparse.Namespace) -> int:
    """Takes in releases until SIGTERM or SIGINT."""
    set_up_log("pansketch-collector", options, os.environ)
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    notifier = Notifier(os.environ)
    serving = f"serving fleet {config.fleet} into {config.collector.database}"
    http, path = config.collector.http, Path(options.config)
    with (
        store.opened(config.collector.database) as opened,
        supervisor.answering(http, path, stop.wait, log_words(options)) as attend,
    ):
        rules = Rules.of(config, opened.serve_settings(config, clock.now()))
        link = CollectorClient(
            config.mqtt, config.fleet, rules.largest, notifier.connected, bool(config.keepers)
        )
        discovery = discovery_of(config, link)
        marks = Marks(config.fleet, opened, link)
        scales = ScalePublication(config, opened.epochs, rules, link)
        asker = Asker(config, opened.connection, rules, link)

        patrol = verification.BackgroundVerification(opened, rules)
        removal = retention.RetentionTask(opened, config)

        def alive() -> None:
            patrol.step(clock.uptime(), clock.now())
            removal.step(clock.uptime(), clock.now())
            attend(clock.uptime(), link.connected)
            notifier.alive(clock.uptime(), f"{serving}, {link.state}")
            if discovery is not None:
                discovery.step(clock.uptime())
            marks.step(clock.uptime())
            scales.step(clock.uptime(), clock.now())
            asker.step(clock.uptime(), clock.now())

        def heard(message: Incoming, verdict: Verdict) -> None:
            marks.heard(message, verdict)
            scales.heard(message, verdict)
            asker.heard(verdict, clock.now())
            if discovery is not None:
                discovery.heard(message, verdict)

        log.info("%s, generation %s", serving, opened.generation)
        for stream in config.streams:
            if warning := weakness(stream, config.streams):
                log.warning("%s: %s", stream.name, warning)
        if taken := quarantine.retry(opened, rules, clock.now()):
            log.info("ingested from quarantine, under these settings: %d", taken)
        link.start()
        notifier.ready()
        ingest_loop.spare_collections()
        try:
            watch = ingest_loop.IngestClock(clock.now, clock.uptime)
            ingest_loop.serve(link, opened, rules, watch, stop, alive, heard)
        finally:
            notifier.stopping()
            marks.finish()
            link.stop()
    log.info("stopped")
    return 0
