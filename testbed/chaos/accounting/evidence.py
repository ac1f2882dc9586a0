"""The files of a finished run: ledgers, outboxes, logs, the database, and the observations.

All evidence is read from files. So a run can be judged again, also after an edit of its files.
"""

import base64
import json
import sqlite3
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pansketch_agent.commands.list_outbox import releases_in
from pansketch_agent.ledger.accounts import LedgerError, read_accounts
from pansketch_agent.outbox.dead_letters import dropped_in
from pansketch_fleet.protocol.messages import digest
from testbed.chaos.environment.configuration import database_in, state_in
from testbed.chaos.environment.supervisor import End
from testbed.chaos.observation.held_in_memory import Held
from testbed.chaos.observation.ledger_marks import Debit, Drop, Marks, Span, TwinRange, debits_in
from testbed.chaos.observation.observer import Name, named

RUN, MADE = "run.json", "made.jsonl"


@dataclass(frozen=True)
class Row:
    """A stored release: its own name, and what its bytes are."""

    name: Name
    sequence: int
    end: int
    received_at: int
    digest: str
    payload: bytes


@dataclass(frozen=True)
class Run:
    """The run's own records: the part of the evidence that no program of the fleet has written.

    The sets of names are those of `testbed.chaos.observation.ledger_marks.Marks`.
    """

    seed: int
    devices: tuple[str, ...]
    windows: int
    faults: Mapping[str, int]  # how many of each kind were injected
    left_out: Mapping[str, str]  # kinds that this host does not allow, and why
    how: Mapping[str, str]  # how disks and clocks were done
    problems: tuple[str, ...]  # what went wrong with the run itself
    seconds: Mapping[str, float]
    ends: tuple[End, ...] = ()
    held: tuple[Held, ...] = ()  # by write-behind devices, and on no disk when their process ended
    debits: tuple[Debit, ...] = ()  # all that were seen in a ledger until its process ended
    drops: tuple[Drop, ...] = ()  # from the devices' logs
    full_disks: tuple[Span, ...] = ()
    damaged: frozenset[Name] = frozenset()
    erased: frozenset[Name] = frozenset()
    unkept: frozenset[Name] = frozenset()
    rolled_back: frozenset[Name] = frozenset()
    requeued: frozenset[Name] = frozenset()
    twins: frozenset[Name] = frozenset()
    twin_ranges: tuple[TwinRange, ...] = ()
    overtaken: frozenset[Name] = frozenset()
    refused: frozenset[Name] = frozenset()
    lost_with_process: frozenset[Name] = frozenset()
    reset: frozenset[str] = frozenset()  # devices whose state was deleted or replaced
    forgotten: frozenset[str] = frozenset()  # masked windows at levels
    asked_until: float = 0.0  # Every period that ends before was to be asked about; unix seconds.

    @classmethod
    def of(cls, marks: Marks, devices: tuple[str, ...], **known: Any) -> "Run":
        """`known`: the fields that `marks` does not hold."""
        known |= {field: frozenset(getattr(marks, field)) for field in _NAMES}
        debits = tuple(debit for device in devices for debit in marks.debits(device))
        return cls(
            devices=devices,
            debits=debits,
            drops=tuple(marks.drops),
            full_disks=tuple(marks.full_disks),
            twin_ranges=tuple(marks.twin_ranges),
            reset=frozenset(marks.reset),
            forgotten=frozenset(marks.forgotten),
            **known,
        )


_NAMES = (
    *("damaged", "erased", "unkept", "rolled_back", "requeued", "twins", "overtaken"),
    *("refused", "lost_with_process"),
)


@dataclass(frozen=True)
class Evidence:
    """All that the accounting looks at; `made`: the payloads that were seen, by digest."""

    run: Run
    made: Mapping[Name, Mapping[str, bytes]]
    debits: tuple[Debit, ...]
    ledger_problems: tuple[str, ...]
    stored: tuple[Row, ...]
    disputed: tuple[Name, ...]
    integrity: str
    quarantined: Mapping[str, int]
    duplicates: int
    waiting: Mapping[Name, str]
    refused: frozenset[Name]
    counted_dropped: Mapping[str, int]
    listed: Mapping[str, tuple[int, int]]  # `outbox list` of each device: waiting, dropped ever
    tracebacks: tuple[str, ...]


def write(folder: Path, run: Run, made: Mapping[Name, Mapping[str, bytes]]) -> None:
    """Leaves in the folder what only the run knows."""
    with (folder / MADE).open("w", encoding="ascii") as file:
        for name, payloads in sorted(made.items()):
            for payload in payloads.values():
                text = base64.b64encode(payload).decode()
                file.write(json.dumps({**asdict(name), "payload": text}) + "\n")
    (folder / RUN).write_text(json.dumps(asdict(run), default=_plain, indent=1))


def gather(folder: Path) -> Evidence:
    """Reads a finished run. Raises OSError, ValueError, sqlite3.Error when it is none."""
    run = _read_run(folder)
    states = {device: state_in(folder, device) for device in run.devices}
    stored, disputed, integrity, quarantined, duplicates = _read_database(database_in(folder))
    return Evidence(
        run,
        _read_made(folder),
        _debits(run, states),
        tuple(_problems_of_ledgers(states)),
        stored,
        disputed,
        integrity,
        quarantined,
        duplicates,
        {name: found for d, state in states.items() for name, found in _waiting(d, state)},
        run.refused | {name for d, state in states.items() for name in _dead_letters(d, state)},
        {device: dropped_in(state / "outbox") for device, state in states.items()},
        {device: _listed((folder / "list" / f"{device}.txt").read_text()) for device in states},
        tuple(path.name for path in sorted((folder / "log").iterdir()) if _broke(path)),
    )


def _debits(run: Run, states: Mapping[str, Path]) -> tuple[Debit, ...]:
    """The debits that were seen during the run or are in the ledgers now, each once."""
    seen = dict.fromkeys(run.debits)
    for device, state in states.items():
        seen |= dict.fromkeys(debits_in(state, device))
    return tuple(seen)


def _waiting(device: str, state: Path) -> Iterable[tuple[Name, str]]:
    for key, payload in releases_in(state / "outbox"):
        name = named(device, key.stream, payload)
        if name is not None:
            yield name, digest(payload)


def _dead_letters(device: str, state: Path) -> Iterable[Name]:
    """Named in the log, or kept in the folder: a crash may come between the two."""
    for path in (state / "outbox" / "refused").glob("*.release"):
        name = named(device, path.name.split(".")[1], path.read_bytes())
        if name is not None:
            yield name


def _plain(value: Name | frozenset[Any]) -> object:
    return sorted(value) if isinstance(value, frozenset) else asdict(value)


def _read_run(folder: Path) -> Run:
    record: dict[str, Any] = json.loads((folder / RUN).read_text())
    record |= {field: frozenset(Name(**name) for name in record[field]) for field in _NAMES}
    return Run(
        held=tuple(Held(Name(**held.pop("name")), **held) for held in record.pop("held")),
        debits=tuple(Debit(Name(**one.pop("name")), **one) for one in record.pop("debits")),
        drops=tuple(Drop(Name(**one.pop("name")), **one) for one in record.pop("drops")),
        full_disks=tuple(Span(**one) for one in record.pop("full_disks")),
        twin_ranges=tuple(TwinRange(**one) for one in record.pop("twin_ranges")),
        reset=frozenset(record.pop("reset")),
        forgotten=frozenset(record.pop("forgotten")),
        ends=tuple(End(**end) for end in record.pop("ends")),
        devices=tuple(record.pop("devices")),
        problems=tuple(record.pop("problems")),
        **record,
    )


def _read_made(folder: Path) -> dict[Name, dict[str, bytes]]:
    made: dict[Name, dict[str, bytes]] = defaultdict(dict)
    for text in (folder / MADE).read_text().splitlines():
        record = json.loads(text)
        payload = base64.b64decode(record.pop("payload"))
        made[Name(**record)][digest(payload)] = payload
    return dict(made)


def _read_database(
    path: Path,
) -> tuple[tuple[Row, ...], tuple[Name, ...], str, dict[str, int], int]:
    with closing(sqlite3.connect(path)) as database:
        rows = database.execute(
            "SELECT device, stream, window_start, sequence, window_end, received_at, digest,"
            " payload FROM releases"
        ).fetchall()
        disputed = database.execute("SELECT device, stream, window_start FROM disputed").fetchall()
        refusals = dict(database.execute("SELECT reason, total FROM refusals").fetchall())
        (again,) = database.execute("SELECT coalesce(sum(total), 0) FROM duplicates").fetchone()
        integrity = str(database.execute("PRAGMA integrity_check").fetchone()[0])
    stored = tuple(Row(Name(*row[:3]), *row[3:]) for row in rows)
    return stored, tuple(Name(*row) for row in disputed), integrity, refusals, again


def _problems_of_ledgers(states: Mapping[str, Path]) -> Iterable[str]:
    for state in states.values():
        try:
            read_accounts(state / "ledger")
        except (LedgerError, OSError) as error:
            yield str(error)


def _broke(path: Path) -> bool:
    text = path.read_text(errors="replace")
    return "Traceback" in text or "please report this" in text


def _listed(text: str) -> tuple[int, int]:
    """The numbers of releases that the list names and that it reports as dropped. Raises
    ValueError."""
    header, *rows = text.splitlines() or [""]
    if not header.startswith("release"):
        raise ValueError(f"outbox list: {header}")
    dropped = [int(row.rpartition(" ")[2]) for row in rows if row.startswith("dropped ever")]
    return sum("".join(row.split()[:1]).isdigit() for row in rows), sum(dropped)


def count_by_device(names: Iterable[Name]) -> Counter[str]:
    return Counter(name.device for name in names)
