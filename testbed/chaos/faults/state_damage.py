"""Faults that damage, lose or roll back stored state: a segment, a state folder, the database.

A segment of the outbox is damaged as by a power loss or a worn card. A second agent of one name is
such a fault too.
"""

import shutil
import signal
import sqlite3
import time
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from pansketch_agent.commands.list_outbox import releases_in
from pansketch_agent.outbox.records import Key
from pansketch_agent.outbox.segment_files import numbers_in
from testbed.chaos.environment import configuration
from testbed.chaos.environment.configuration import state_in
from testbed.chaos.environment.fleet import Fleet
from testbed.chaos.environment.supervisor import Service
from testbed.chaos.faults.schedule import Fault
from testbed.chaos.observation.answers import fixed
from testbed.chaos.observation.ledger_marks import Debit, debits_in
from testbed.chaos.observation.observer import Name, waiting_of

AHEAD_SECONDS = 30.0  # The longest wait for a window in the future,
GO_ON_SECONDS = 120.0  # and the first one of a device that has lost its state.
SIDECARS = ("-wal", "-shm")
# A release of the last window may not wait yet.
JUST_ENDED_SECONDS = 2 * configuration.WINDOW_SECONDS


def state_lost(fleet: Fleet, fault: Fault) -> None:
    """A new SD card: the agent is killed, its state is deleted, it starts again."""
    with _at_rest(fleet, fault):
        fleet.agents[fault.target].end(signal.SIGKILL)
        _replace_state(fleet, fault.target, None)
        fleet.agents[fault.target].start()


def state_restored(fleet: Fleet, fault: Fault) -> None:
    """A backup of the card is written back: the agent goes on with a state of some time ago."""
    state, agent = state_in(fleet.site.folder, fault.target), fleet.agents[fault.target]
    copy = fleet.site.folder / "backup" / f"{fault.number}-{fault.target}"
    with _at_rest(fleet, fault):
        agent.end(signal.SIGTERM)
        shutil.copytree(state, copy, ignore=shutil.ignore_patterns("filler"))
        agent.start()
        fleet.pause(fault.seconds)
        agent.end(signal.SIGKILL)
        _replace_state(fleet, fault.target, copy)
        agent.start()


@contextmanager
def _at_rest(fleet: Fleet, fault: Fault) -> Iterator[None]:
    """No other fault touches this device's clock, disk or process meanwhile.

    Without its ledger and without the collector a device cannot know which windows it has released.
    Only the clock moves it past them. So the fault first waits until no window of a clock that was
    ahead is in the future. No clock is set back before the device has debited a later window.
    """
    name = fault.target
    with fleet.lane(f"clock {name}"), fleet.lane(f"disk {name}"):
        with fleet.agents[name].lane:
            until = time.monotonic() + AHEAD_SECONDS
            while _last_end(fleet, name) > time.time():
                if time.monotonic() > until:
                    raise NotNowError(f"{name} has windows hours ahead")
                fleet.pause(0.2)
            yield
        debits = fleet.marks.debits(name)
        state = state_in(fleet.site.folder, name)
        fleet.until(
            lambda: gone_on(debits, debits_in(state, name)), GO_ON_SECONDS, f"{name} to go on"
        )


def gone_on(before: Iterable[Debit], now: Iterable[Debit]) -> bool:
    """True if each stream has debited a window after all windows that were debited before."""
    ends: dict[str, int] = {}
    for debit in before:
        ends[debit.name.stream] = max(debit.end, ends.get(debit.name.stream, 0))
    newest = {debit.name.stream: debit.name.start for debit in now}
    return all(newest.get(stream, 0) >= end for stream, end in ends.items())


class NotNowError(Exception):
    """The fault cannot happen to this device; it happens to another one, or not at all."""


def _last_end(fleet: Fleet, device: str) -> int:
    fleet.note_debits(device)
    return max((debit.end for debit in fleet.marks.debits(device)), default=0)


def _replace_state(fleet: Fleet, device: str, copy: Path | None) -> None:
    """Puts the copy, or nothing, in the place of a device's state; a mount point stays one."""
    state = state_in(fleet.site.folder, device)
    needed = fleet.needed(device)
    for path in state.iterdir():
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    if copy is not None:
        shutil.copytree(copy, state, dirs_exist_ok=True)
    fleet.marks.note(fleet.marks.erased, needed - fleet.needed(device))
    fleet.marks.reset.add(device)


def database_restored(fleet: Fleet, fault: Fault) -> None:
    """The collector's own backup is made while it serves; later the database is replaced by it."""
    database, copy = fleet.site.database, fleet.site.folder / "backup" / f"{fault.number}.sqlite"
    with fleet.lane("database"), fleet.lane("disk collector"), fleet.collector.lane:
        words = configuration.collector_command(fleet.config, "backup", str(copy))
        backup = Service("backup", words, fleet.site.folder, fleet.site.environment)
        fleet.add_helper(backup).start()
        backup.wanted = False
        fleet.until(
            lambda: not backup.running, configuration.BACKUP_SECONDS, "a backup of the database"
        )
        backup.end()
        fleet.pause(fault.seconds)
        fleet.collector.end(signal.SIGTERM)
        before, asked = _stored(database), fixed(database)
        for ending in SIDECARS:
            database.with_name(database.name + ending).unlink(missing_ok=True)
        shutil.copyfile(copy, database)
        fleet.note_rolled_back(before - _stored(database))
        fleet.marks.note(fleet.marks.forgotten, asked - fixed(database))
        fleet.collector.start()


def _stored(database: Path) -> set[Name]:
    with closing(sqlite3.connect(database)) as connection:
        rows = connection.execute("SELECT device, stream, window_start FROM releases").fetchall()
    return {Name(*row) for row in rows}


def twin(fleet: Fleet, fault: Fault) -> None:
    """A copied SD card: for a while two agents of one name alternate at the broker."""
    device = next(device for device in fleet.devices if device.name == fault.target)
    state = fleet.site.folder / "var" / f"{fault.target}-twin-{fault.number}"
    config = fleet.site.configure(device, fleet.links[fault.target].port, state=state.name)
    words = configuration.agent_command(config)
    with fleet.lane(f"clock {fault.target}"), fleet.agents[fault.target].lane:
        program = Service(state.name, words, fleet.site.folder, fleet.site.environment, reads=True)
        began = int(time.time()) - JUST_ENDED_SECONDS
        with fleet.observer.beside(fault.target, state / "outbox"):
            fleet.add_helper(program).start()
            waited = waiting_of(fault.target, state_in(fleet.site.folder, fault.target))
            waited |= fleet.ages.young(fault.target)
            fleet.pause(fault.seconds)
            program.end(signal.SIGKILL)
        fleet.marks.note_twin(fault.target, debits_in(state, fault.target), began, waited)


@dataclass(frozen=True)
class Damage:
    """`what` was done, and which releases that wait it has `cost`."""

    what: str
    cost: frozenset[Key]


def tear(folder: Path, draw: float) -> Damage:
    """Cuts off the last bytes of the newest segment: 1 to 400 of them."""
    return _damage(folder, draw, flip=False)


def flip(folder: Path, draw: float) -> Damage:
    """Changes one byte of the newest segment."""
    return _damage(folder, draw, flip=True)


def _damage(folder: Path, draw: float, flip: bool) -> Damage:
    numbers = numbers_in(folder) if folder.exists() else []
    if not numbers:
        return Damage("no segment", frozenset())
    before = {key for key, _ in releases_in(folder)}
    path = folder / f"{numbers[-1]:08d}.segment"
    content = bytearray(path.read_bytes())
    if flip:
        place = int(draw * len(content))
        content[place] ^= 1 << (place % 8)
        what = f"{path.name}: bit {place % 8} of byte {place} changed"
    else:
        cut = min(len(content), 1 + int(draw * 400))
        del content[len(content) - cut :]
        what = f"{path.name}: {cut} bytes cut off"
    path.write_bytes(content)
    after = {key for key, _ in releases_in(folder)}
    return Damage(what, frozenset(before - after))
