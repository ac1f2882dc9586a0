"""What a finished run has left: ledgers, outboxes, logs, the database, and what was witnessed.

Everything is read from files, so a run can be judged again, also after somebody has changed them.
"""

import base64
import json
import re
import sqlite3
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from agent.aside import dropped_in
from agent.backlog import releases_in
from agent.book import LedgerError, read_book
from chaos.held import Held
from chaos.marks import Debit, debits_in
from chaos.programs import End
from chaos.site import database_in, state_in
from chaos.witness import Name
from fleet.messages import digest

RUN, MADE = "run.json", "made.jsonl"
_DROPPED = re.compile(
    r"release (?P<old>\d+) of (?P<old_stream>[a-z0-9-]+), the oldest, is dropped"
    r"|(?P<new_stream>[a-z0-9-]+): (?:window .*, )?release (?P<new>\d+) is dropped"
)
_REFUSED = re.compile(r"(\d{12})\.([a-z0-9-]+)\.release is (?:refused|larger)")


@dataclass(frozen=True)
class Row:
    """A stored release: its own name, and what its bytes are."""

    name: Name
    start: int
    end: int
    digest: str
    payload: bytes


@dataclass(frozen=True)
class Run:
    """What the run knew: the part of the evidence that no program of the fleet has written."""

    seed: int
    devices: tuple[str, ...]
    windows: int
    faults: Mapping[str, int]  # how many of each kind were injected
    left_out: Mapping[str, str]  # kinds that this host does not allow, and why
    how: Mapping[str, str]  # how disks and clocks were done
    problems: tuple[str, ...]  # what went wrong with the run itself
    full_disks: frozenset[str]  # devices whose disk was ever full
    damaged: frozenset[Name]
    lost_with_process: frozenset[Name]
    held: tuple[Held, ...]  # by patient devices, and on no disk when their process ended
    ends: tuple[End, ...]
    seconds: Mapping[str, float]


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
    dropped: frozenset[Name]
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
    logs = {device: _log(folder, device) for device in run.devices}
    stored, disputed, integrity, quarantined, duplicates = _read_database(database_in(folder))
    return Evidence(
        run,
        _read_made(folder),
        tuple(debit for device, state in states.items() for debit in debits_in(state, device)),
        tuple(_problems_of_ledgers(states)),
        stored,
        disputed,
        integrity,
        quarantined,
        duplicates,
        {
            Name(device, key.stream, key.sequence): digest(payload)
            for device, state in states.items()
            for key, payload in releases_in(state / "outbox")
        },
        frozenset(name for d, text in logs.items() for name in _refused_in(d, text, states[d])),
        frozenset(name for device, text in logs.items() for name in _dropped_in(device, text)),
        {device: dropped_in(state / "outbox") for device, state in states.items()},
        {device: _listed((folder / "list" / f"{device}.txt").read_text()) for device in states},
        tuple(path.name for path in sorted((folder / "log").iterdir()) if _broke(path)),
    )


def _plain(value: Name | frozenset[Any]) -> object:
    return sorted(value) if isinstance(value, frozenset) else asdict(value)


def _read_run(folder: Path) -> Run:
    said: dict[str, Any] = json.loads((folder / RUN).read_text())
    return Run(
        damaged=_names(said.pop("damaged")),
        lost_with_process=_names(said.pop("lost_with_process")),
        held=tuple(Held(Name(**held.pop("name")), **held) for held in said.pop("held")),
        ends=tuple(End(**end) for end in said.pop("ends")),
        full_disks=frozenset(said.pop("full_disks")),
        devices=tuple(said.pop("devices")),
        problems=tuple(said.pop("problems")),
        **said,
    )


def _names(said: list[dict[str, Any]]) -> frozenset[Name]:
    return frozenset(Name(**name) for name in said)


def _read_made(folder: Path) -> dict[Name, dict[str, bytes]]:
    made: dict[Name, dict[str, bytes]] = defaultdict(dict)
    for text in (folder / MADE).read_text().splitlines():
        said = json.loads(text)
        payload = base64.b64decode(said.pop("payload"))
        made[Name(**said)][digest(payload)] = payload
    return dict(made)


def _read_database(
    path: Path,
) -> tuple[tuple[Row, ...], tuple[Name, ...], str, dict[str, int], int]:
    with closing(sqlite3.connect(path)) as database:
        rows = database.execute(
            "SELECT device, stream, sequence, window_start, window_end, digest, payload"
            " FROM releases"
        ).fetchall()
        disputed = database.execute("SELECT device, stream, sequence FROM disputed").fetchall()
        refusals = dict(database.execute("SELECT reason, total FROM refusals").fetchall())
        (again,) = database.execute("SELECT coalesce(sum(total), 0) FROM duplicates").fetchone()
        integrity = str(database.execute("PRAGMA integrity_check").fetchone()[0])
    stored = tuple(Row(Name(*row[:3]), *row[3:]) for row in rows)
    return stored, tuple(Name(*row) for row in disputed), integrity, refusals, again


def _problems_of_ledgers(states: Mapping[str, Path]) -> Iterable[str]:
    for state in states.values():
        try:
            read_book(state / "ledger")
        except (LedgerError, OSError) as error:
            yield str(error)


def _log(folder: Path, name: str) -> str:
    path = folder / "log" / f"{name}.log"
    return path.read_text(errors="replace") if path.exists() else ""


def _broke(path: Path) -> bool:
    text = path.read_text(errors="replace")
    return "Traceback" in text or "please report this" in text


def _listed(text: str) -> tuple[int, int]:
    """How many releases the list names, and how many it says were dropped. Raises ValueError."""
    header, *rows = text.splitlines() or [""]
    if not header.startswith("release"):
        raise ValueError(f"outbox list: {header}")
    dropped = [int(row.rpartition(" ")[2]) for row in rows if row.startswith("dropped ever")]
    return sum("".join(row.split()[:1]).isdigit() for row in rows), sum(dropped)


def _dropped_in(device: str, text: str) -> Iterable[Name]:
    for match in _DROPPED.finditer(text):
        stream, sequence = match["old_stream"] or match["new_stream"], match["old"] or match["new"]
        yield Name(device, stream, int(sequence))


def _refused_in(device: str, text: str, state: Path) -> Iterable[Name]:
    """Named in the log, or kept in the folder: a crash may come between the two."""
    for sequence, stream in _REFUSED.findall(text):
        yield Name(device, stream, int(sequence))
    for path in (state / "outbox" / "refused").glob("*.release"):
        sequence, stream, _ = path.name.split(".")
        yield Name(device, stream, int(sequence))


def count_by_device(names: Iterable[Name]) -> Counter[str]:
    return Counter(name.device for name in names)
