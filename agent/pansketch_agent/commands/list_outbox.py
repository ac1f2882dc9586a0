"""`pansketch-agent outbox list` and `export`: the queued releases, read beside a running agent."""

import base64
import json
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path

from pansketch import Header, WireError
from pansketch.wire import peek_any
from pansketch_agent.control.requests import OutboxReply
from pansketch_agent.host.clock import utc_text
from pansketch_agent.host.durable_files import replacing
from pansketch_agent.outbox.dead_letters import key_of, refused_in
from pansketch_agent.outbox.records import Key, payload_of, queued_in, scan
from pansketch_agent.outbox.segment_files import numbers_in
from pansketch_fleet.protocol import topics
from pansketch_fleet.protocol.messages import digest

MAX_UNIX_SECONDS = 253_402_300_800  # The year 10000: beyond it no date can be written.
HEADER: tuple[str, ...] = ("release", "stream", "window", "to", "bytes", "age", "attempts")


def releases_in(folder: Path) -> Iterator[tuple[Key, bytes]]:
    """Yield the queued releases on disk, oldest first, without changing anything.

    There are none before the folder exists. A segment that disappears meanwhile held acknowledged
    releases only. Raises OSError when the folder cannot be read.
    """
    seen: set[Key] = set()
    for number in numbers_in(folder) if folder.exists() else []:
        try:
            content = (folder / f"{number:08d}.segment").read_bytes()
        except FileNotFoundError:
            continue
        for key, record in queued_in(scan(content)).items():
            if key not in seen:
                seen.add(key)
                yield key, payload_of(content, record)


def as_rows(folder: Path, now: float, answer: OutboxReply | None) -> list[tuple[str, ...]]:
    """Return the queued releases on disk as a table.

    `age` counts from the end of a release's window, `attempts` from the start of the running agent.
    A last column has the reasons of releases on hold, if there are any.
    """
    rows = [HEADER]
    reasons = {} if answer is None else answer.on_hold
    for key, payload in releases_in(folder):
        row = _row(key, payload, now, answer)
        rows.append((*row, reasons.get(key.filename, "")) if reasons else row)
    return [(*HEADER, "on hold"), *rows[1:]] if reasons else rows


def as_jsonl(fleet: str, device: str, folder: Path) -> Iterator[str]:
    """Yield one JSON object for each queued release, in the form of `pansketch-collector export`.

    Dead-lettered releases follow, with `refused` true. `received_at` is null, because no collector
    has received them. Fields of a header that only a later version can read are null, too.
    """
    kept = ((path.name, path) for path in refused_in(folder))
    refused = ((key_of(name), path.read_bytes()) for name, path in kept)
    everything = chain(
        ((key, payload, False) for key, payload in releases_in(folder)),
        ((key, payload, True) for key, payload in refused if key is not None),
    )
    for key, payload, is_refused in everything:
        header = _header(payload)
        window = header.windows[0] if header else None
        yield json.dumps(
            {
                "topic": topics.release(fleet, device, key.stream),
                "received_at": None,
                "device": device,
                "stream": key.stream,
                "sequence": key.sequence,
                "window": {"start": window.start, "end": window.end} if window else None,
                "clock_synchronised": window.clock_synchronised if window else None,
                "incarnation": window.incarnation.hex() if window else None,
                "fingerprint": header.fingerprint.hex() if header else None,
                "digest": digest(payload),
                "payload": base64.b64encode(payload).decode("ascii"),
                **({"refused": True} if is_refused else {}),
            }
        )


def _row(key: Key, payload: bytes, now: float, answer: OutboxReply | None) -> tuple[str, ...]:
    header = _header(payload)
    attempts = "-" if answer is None else str(answer.attempts.get(key.filename, 0))
    start, end, age = "-", "-", "-"
    if header is not None:
        window = header.windows[0]
        start, end, age = utc_text(window.start), utc_text(window.end), _age(now - window.end)
    return (str(key.sequence), key.stream, start, end, str(len(payload)), age, attempts)


def _header(payload: bytes) -> Header | None:
    """Return the header of a release of one window, or None if this version cannot read it."""
    try:
        header = peek_any(payload)
    except WireError:
        return None
    times = [at for window in header.windows for at in (window.start, window.end)]
    return header if len(times) == 2 and min(times) >= 0 and max(times) < MAX_UNIX_SECONDS else None


def _age(seconds: float) -> str:
    """Return an age as people write it, rounded down; 0 after a clock was set back."""
    for unit, size in (("d", 86400), ("h", 3600), ("m", 60)):
        if seconds >= 2 * size:
            return f"{int(seconds // size)}{unit}"
    return f"{max(0, int(seconds))}s"


def write(lines: Iterable[str], path: Path) -> int:
    """Write the lines to a file, all or none, and return their number. Raises OSError."""
    count = 0
    with replacing(path) as file:
        for line in lines:
            count += bool(file.write(line.encode("ascii") + b"\n"))
    return count
