"""`pansketch-agent check`: everything the agent needs of this device, each with its fix."""

import os
import tempfile
from math import isnan
from pathlib import Path

from agent import hardening, preflight
from agent.book import LedgerError, read_book
from agent.clock import Clock, clock_is_synchronised, year
from agent.finding import Finding
from agent.ledger import holder
from agent.reach import reach
from agent.sources import system
from fleet.errors import ConfigError
from fleet.quantities import size_text
from fleet.settings import Config, ReplaySource, Stream, SystemSource

YEARS = range(2024, 2100)


def check(config: Config, root: Path, clock: Clock) -> list[Finding]:
    """All findings, in at most a few seconds. `root`: the folder with proc/ and sys/."""
    assert config.agent is not None
    device, state = config.agent.device, config.agent.state
    return [
        *hardening.apply(),
        _clock(clock),
        _disk(state, config.profile.outbox_bytes),
        _ledger(state),
        reach(config.mqtt, config.fleet, device, clock),
        *(_source(config, stream, root) for stream in config.streams),
    ]


def _clock(clock: Clock) -> Finding:
    if (now := year(clock.now())) not in YEARS:
        return Finding("clock", "wrong", f"says the year {now}; set it, windows are labelled by it")
    match clock_is_synchronised():
        case True:
            return Finding("clock", "ok", "plausible and synchronised")
        case False:
            fix = "turn on systemd-timesyncd or chrony"
            return Finding("clock", "note", f"plausible, not synchronised; {fix}")
        case None:
            return Finding("clock", "note", "plausible; the system does not say if synchronised")


def _disk(state: Path, outbox_bytes: int) -> Finding:
    folder = next((path for path in (state, *state.absolute().parents) if path.exists()), Path("/"))
    try:
        with tempfile.TemporaryFile(dir=folder):
            pass
        place = os.statvfs(folder)
        waiting = sum(path.stat().st_size for path in (state / "outbox").glob("*.release"))
    except OSError as error:
        fix = "let the agent write there, or change agent.state"
        return Finding("disk", "wrong", f"{state}: cannot be written ({error.strerror}); {fix}")
    free, wanted = place.f_bavail * place.f_frsize, outbox_bytes - waiting
    if free < wanted:
        short = f"{free >> 20} MiB free, the outbox may take {max(wanted >> 20, 1)} MiB more"
        return Finding("disk", "wrong", f"{state}: {short}; free the disk or move agent.state")
    return Finding(
        "disk", "ok", f"{state}: writable, room for an outbox of {size_text(outbox_bytes)}"
    )


def _ledger(state: Path) -> Finding:
    path = state / "ledger"
    try:
        agent = holder(state)
        read_book(path)
    except FileNotFoundError:
        return Finding("ledger", "ok", f"{path}: none yet, nothing was ever released")
    except OSError as error:
        fix = "let the agent read it"
        return Finding("ledger", "wrong", f"{path}: cannot be read ({error.strerror}); {fix}")
    except LedgerError as error:
        return Finding("ledger", "wrong", str(error))
    beside = f", held by the running agent (process {agent})" if agent else ""
    return Finding("ledger", "ok", f"{path}: sound{beside}")


def _source(config: Config, stream: Stream, root: Path) -> Finding:
    subject = f"source {stream.name}"
    try:
        preflight.check_stream(config, stream)
    except ConfigError as error:
        return Finding(subject, "wrong", str(error))
    match stream.source:
        case SystemSource():
            return _sensors(subject, stream, root)
        case ReplaySource(path=path):
            return Finding(subject, "ok", f"{path}: has every attribute")
        case _:
            return Finding(subject, "ok", "standard input, to be read by the agent")


def _sensors(subject: str, stream: Stream, root: Path) -> Finding:
    names = stream.spec.domain.names
    silent = [name for name in names if isnan(system.measure(name, root))]
    if silent:
        why = f"no data for {', '.join(silent)} on this host, every reading would be dropped"
        return Finding(subject, "wrong", f"{why}; take it out of streams.{stream.name}.attributes")
    return Finding(subject, "ok", f"readable: {', '.join(names)}")
