"""Faults that end a program and start it again, and those of keepers."""

import os
import shutil
import signal
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from testbed.chaos.environment.configuration import first_ledger_in, keeper_ledger_in
from testbed.chaos.environment.fleet import Fleet
from testbed.chaos.environment.supervisor import Service
from testbed.chaos.faults.schedule import Fault

MOMENT_SECONDS = 4.0  # So long a kill waits for its moment.
CHANGE_SECONDS = 30.0
REFUSED_SECONDS = 60.0
SIDECARS = ("", "-wal", "-shm")


def away(fleet: Fleet, program: Service, number: int, seconds: float, group: bool = False) -> None:
    """Ends a program, and starts it again later."""
    with program.lane:
        program.end(number, group)
        fleet.pause(seconds)
        program.start()


def agent_killed(fleet: Fleet, fault: Fault) -> None:
    away(fleet, fleet.agents[fault.target], signal.SIGKILL, fault.seconds)


def agent_restarted(fleet: Fleet, fault: Fault) -> None:
    away(fleet, fleet.agents[fault.target], signal.SIGTERM, fault.seconds)


def collector_killed(fleet: Fleet, fault: Fault) -> None:
    group = fault.kind == "collector-group-killed"
    away(fleet, fleet.collector, signal.SIGKILL, fault.seconds, group)


def collector_restarted(fleet: Fleet, fault: Fault) -> None:
    away(fleet, fleet.collector, signal.SIGTERM, fault.seconds)


def collector_killed_in_commit(fleet: Fleet, fault: Fault) -> None:
    log = _sidecar(fleet.site.database, "-wal")
    _killed_when(fleet, fleet.collector, lambda: _written(log), fault)


def collector_killed_asking(fleet: Fleet, fault: Fault) -> None:
    _killed_when(fleet, fleet.collector, lambda: fleet.answers.asked, fault)


def keeper_killed(fleet: Fleet, fault: Fault) -> None:
    away(fleet, fleet.keepers[fault.target], signal.SIGKILL, fault.seconds)


def keeper_away(fleet: Fleet, fault: Fault) -> None:
    away(fleet, fleet.keepers[fault.target], signal.SIGTERM, fault.seconds)


def keeper_killed_answering(fleet: Fleet, fault: Fault) -> None:
    log = _sidecar(keeper_ledger_in(fleet.site.folder, fault.target), "-wal")
    _killed_when(fleet, fleet.keepers[fault.target], lambda: _written(log), fault)


def keeper_restored(fleet: Fleet, fault: Fault) -> None:
    """Restore a backup of a keeper's ledger, with which the keeper must not run; then undo it.

    If nothing was answered since the backup, the first ledger of the run is restored.
    """
    ledger, keeper = keeper_ledger_in(fleet.site.folder, fault.target), fleet.keepers[fault.target]
    backup = fleet.site.folder / "backup" / f"{fault.number}-{fault.target}"
    backup.mkdir()
    with keeper.lane:
        with (
            closing(sqlite3.connect(ledger)) as source,
            closing(sqlite3.connect(backup / "copy")) as copy,
        ):
            source.backup(copy)
        before, until = _changes(ledger), time.monotonic() + CHANGE_SECONDS
        while _changes(ledger) == before and time.monotonic() < until:
            fleet.pause(0.1)
        fleet.pause(fault.seconds)
        keeper.end(signal.SIGKILL)
        now = _changes(ledger)
        old = backup / "copy" if before < now else first_ledger_in(fleet.site.folder, fault.target)
        changed = _changes(old) < now
        for ending in SIDECARS:
            if _sidecar(ledger, ending).exists():
                shutil.move(_sidecar(ledger, ending), backup)
        shutil.copyfile(old, ledger)
        ledger.chmod(0o600)
        keeper.start()
        if not changed:
            return  # It is no old copy.
        keeper.wanted = False
        try:
            what = "a keeper to refuse an old copy of its ledger"
            fleet.until(lambda: not keeper.running, REFUSED_SECONDS, what)
        finally:
            keeper.end(signal.SIGKILL)
            for ending in SIDECARS:
                _sidecar(ledger, ending).unlink(missing_ok=True)
                if (backup / _sidecar(ledger, ending).name).exists():
                    shutil.move(backup / _sidecar(ledger, ending).name, ledger.parent)
            keeper.start()


def _killed_when(fleet: Fleet, program: Service, changes: Callable[[], int], fault: Fault) -> None:
    """Kills it as soon as a number changes, or after some time."""
    with program.lane:
        before, until = changes(), time.monotonic() + MOMENT_SECONDS
        while changes() == before and time.monotonic() < until:
            fleet.pause(0.0005)
        away(fleet, program, signal.SIGKILL, fault.seconds)


def _written(path: os.PathLike[str]) -> int:
    try:
        return os.stat(path).st_mtime_ns
    except FileNotFoundError:
        return 0


def _sidecar(database: Path, ending: str) -> Path:
    return database.with_name(database.name + ending)


def _changes(ledger: Path) -> int:
    with closing(sqlite3.connect(ledger)) as connection:
        return int(connection.execute("SELECT number FROM changes").fetchone()[0])
