"""The outbox's segments against a table of SQLite: bytes and syncs a release, cuts and damage.

Both put releases one by one, each synced before the next, and forget them, unsynced where the
format allows it. Bytes are those of whole pages that the kernel counts for the process, in a folder
on a disk. SQLite gets the cheapest table: no index, and WAL with `synchronous` NORMAL to forget.
"""

import logging
import os
import shutil
import sqlite3
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from benchmarks.harness.result import MeasurementFailed, Row, at_most
from pansketch_agent.outbox.outbox import Outbox
from pansketch_agent.outbox.records import Key
from pansketch_fleet.child_process import run_child
from pansketch_fleet.config.loader import load_agent

CAPACITY_BYTES = 64 * 2**20
RELEASES = 1000
MAX_RATIO = 2.0  # SQLite would be simpler, so it might write this much more.
SYNCS = "fsync,fdatasync,sync_file_range,msync"


class Format(Protocol):
    """A durable queue: `put` is on disk when it returns, `forget` need not be."""

    def put(self, number: int, payload: bytes) -> None: ...
    def forget(self, number: int) -> None: ...
    def read_all(self) -> dict[int, bytes]: ...
    def close(self) -> None: ...


class SegmentFormat:
    """Today's outbox."""

    def __init__(self, folder: Path) -> None:
        self._outbox = Outbox(folder, CAPACITY_BYTES)

    def put(self, number: int, payload: bytes) -> None:
        self._outbox.put(Key(number, "air"), payload)

    def forget(self, number: int) -> None:
        self._outbox.forget(Key(number, "air"))

    def read_all(self) -> dict[int, bytes]:
        found = {key.sequence: self._outbox.read(key) for key in self._outbox.queued()}
        return {number: payload for number, payload in found.items() if payload is not None}

    def close(self) -> None:
        self._outbox.close()


class SqliteFormat:
    """A table in one file; `journal`: WAL, or DELETE for a rollback journal."""

    journal = "WAL"

    def __init__(self, folder: Path) -> None:
        folder.mkdir(exist_ok=True)
        self._db = sqlite3.connect(folder / "outbox.db", isolation_level=None)
        self._db.execute(f"PRAGMA journal_mode={self.journal}")
        self._db.execute("PRAGMA synchronous=FULL")
        self._db.execute(
            "CREATE TABLE IF NOT EXISTS releases (number INTEGER PRIMARY KEY, stream, payload)"
        )

    def put(self, number: int, payload: bytes) -> None:
        self._db.execute("INSERT INTO releases VALUES (?, 'air', ?)", (number, payload))

    def forget(self, number: int) -> None:
        if self.journal == "WAL":  # With a rollback journal this may damage the file.
            self._db.execute("PRAGMA synchronous=NORMAL")
        self._db.execute("DELETE FROM releases WHERE number = ?", (number,))
        self._db.execute("PRAGMA synchronous=FULL")

    def read_all(self) -> dict[int, bytes]:
        return dict(self._db.execute("SELECT number, payload FROM releases ORDER BY number"))

    def close(self) -> None:
        self._db.close()


class RollbackFormat(SqliteFormat):
    journal = "DELETE"


FORMATS: dict[str, Callable[[Path], Format]] = {
    "segments": SegmentFormat,
    "SQLite, WAL": SqliteFormat,
    "SQLite, rollback journal": RollbackFormat,
}


def run(quick: bool) -> list[Row]:
    payload_bytes = load_agent(Path("config.yaml"), {}).streams[0].spec.release_nbytes
    written = {
        (name, order): _measured(name, order, payload_bytes)
        for name in FORMATS
        for order in ("online", "offline")
    }
    rows = []
    for (name, order), (each, syncs) in written.items():
        ratio = each / written["segments", order][0]
        what = f"{name}, {order}: written for each release of {payload_bytes} bytes"
        note = f"{ratio:.2f} times segments, {syncs:.2f} syncs"
        detail = {"syncs": syncs, "times segments": ratio}
        if (name, order) == ("segments", "offline"):
            bar = round(written["SQLite, WAL", order][0] / MAX_RATIO)
            rows.append(at_most(what, each, "bytes", bar, note, detail))
        else:
            rows.append(Row(what, each, "bytes", note=note, detail=detail))
    for name in ("segments", "SQLite, WAL"):
        cuts, lost = _cut(FORMATS[name], payload_bytes, 61 if quick else 1)
        rows.append(at_most(f"{name}: synced releases lost by a cut", lost, "", 0, f"{cuts} cuts"))
        flips, lost, silent = _damaged(FORMATS[name], payload_bytes, 199 if quick else 31)
        note = f"{flips} flipped bytes of 20 releases, {silent} releases silently altered"
        rows.append(Row(f"{name}: releases lost by a flipped byte", lost / flips, "", note=note))
    return rows


def _measured(name: str, order: str, payload_bytes: int) -> tuple[float, float]:
    """Bytes written and syncs, both for each release."""
    command = (sys.executable, "-m", __name__, name, order, str(payload_bytes))
    done = run_child(command, text=True, timeout=600.0)
    if done.returncode or shutil.which("strace") is None:
        raise MeasurementFailed(f"outbox {name} failed, or there is no strace to count syncs")
    traced = ("strace", "-f", "-qq", "-o", "|wc -l", "-e", f"trace={SYNCS}", *command)
    counted = run_child(traced, text=True, timeout=600.0)
    # The child's own line, and the count of the traced calls.
    syncs = int(counted.stdout.split()[-1])
    return float(done.stdout) / RELEASES, syncs / RELEASES


def write(name: str, order: str, payload_bytes: int) -> int:
    """Puts and forgets RELEASES; the bytes that this process wrote. A tmpfs would count none."""
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        before, form = _written(), FORMATS[name](Path(folder) / "outbox")
        for number in range(1, RELEASES + 1):
            form.put(number, os.urandom(payload_bytes))
            if order == "online":
                form.forget(number)
        for number in range(1, RELEASES + 1 if order == "offline" else 1):
            form.forget(number)
        form.close()
        return _written() - before


def _written() -> int:
    lines = Path("/proc/self/io").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("write_bytes"))


def _filled(make: Callable[[Path], Format], folder: Path, payload_bytes: int) -> dict[int, bytes]:
    """Twenty synced releases in the folder `before`, one more in `after`, as a cut leaves them:
    nothing is closed."""
    form, expected = make(folder / "outbox"), {}
    for number in range(1, 22):
        if number == 21:
            shutil.copytree(folder / "outbox", folder / "before")
        expected[number] = os.urandom(payload_bytes)
        form.put(number, expected[number])
    shutil.copytree(folder / "outbox", folder / "after")
    form.close()
    return expected


def _cut(make: Callable[[Path], Format], payload_bytes: int, step: int) -> tuple[int, int]:
    """The last write is torn at every `step`th byte, or ends in zeros: cuts, and synced releases
    that are lost."""
    cuts = lost = 0
    with _unlogged(), tempfile.TemporaryDirectory(dir="/var/tmp") as parent:
        folder = Path(parent)
        expected = _filled(make, folder, payload_bytes)
        (path,) = [path for path in (folder / "after").iterdir() if _grew(path, folder / "before")]
        begin = (folder / "before" / path.name).stat().st_size
        content = path.read_bytes()
        for size in range(begin, len(content), step):
            for tail in (b"", bytes(len(content) - size)):
                found = _opened(make, folder, path.name, content[:size] + tail)
                lost += sum(found.get(number) != expected[number] for number in range(1, 21))
                cuts += 1
    return cuts, lost


def _damaged(make: Callable[[Path], Format], payload_bytes: int, step: int) -> tuple[int, int, int]:
    """A byte of the largest file is flipped after a clean end: flips, releases lost, and releases
    that are read with other bytes."""
    flips = lost = silent = 0
    with _unlogged(), tempfile.TemporaryDirectory(dir="/var/tmp") as parent:
        folder = Path(parent)
        expected = _filled(make, folder, payload_bytes)
        shutil.rmtree(folder / "after")
        shutil.copytree(folder / "outbox", folder / "after")
        path = max((folder / "after").iterdir(), key=lambda each: each.stat().st_size)
        content = path.read_bytes()
        for at in range(0, len(content), step):
            changed = content[:at] + bytes([content[at] ^ 0xFF]) + content[at + 1 :]
            found = _opened(make, folder, path.name, changed)
            lost += sum(number not in found for number in expected)
            silent += sum(found.get(n, payload) != payload for n, payload in expected.items())
            flips += 1
    return flips, lost, silent


def _opened(
    make: Callable[[Path], Format], folder: Path, name: str, content: bytes
) -> dict[int, bytes]:
    """The releases of `after` with another content of one file; none where it cannot be read."""
    shutil.rmtree(folder / "now", ignore_errors=True)
    shutil.copytree(folder / "after", folder / "now")
    (folder / "now" / name).write_bytes(content)
    try:
        form = make(folder / "now")
        try:
            return form.read_all()
        finally:
            form.close()
    except sqlite3.DatabaseError:
        return {}


def _grew(path: Path, before: Path) -> bool:
    return path.stat().st_size > (before / path.name).stat().st_size


@contextmanager
def _unlogged() -> Iterator[None]:
    """Damage is logged; here it is expected."""
    logging.disable()
    try:
        yield
    finally:
        logging.disable(logging.NOTSET)


if __name__ == "__main__":
    print(write(sys.argv[1], sys.argv[2], int(sys.argv[3])))
