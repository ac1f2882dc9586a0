"""What waits in an outbox, read beside a running agent."""

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
from pansketch_agent.outbox.dead_letters import named, refused_in
from pansketch_agent.outbox.records import Key, payload_of, scan, waiting_in
from pansketch_agent.outbox.segment_files import numbers_in
from pansketch_fleet.protocol import topics
from pansketch_fleet.protocol.messages import digest

LATEST = 253_402_300_800  # The year 10000: beyond it no date can be written.
HEADER: tuple[str, ...] = ("release", "stream", "window", "to", "bytes", "age", "attempts")


def releases_in(folder: Path) -> Iterator[tuple[Key, bytes]]:
    """The releases on disk that wait, oldest first. Changes nothing.

    None before there is a folder; a segment that goes away meanwhile is an acknowledged one. Raises
    OSError when the folder cannot be read.
    """
    seen: set[Key] = set()
    for number in numbers_in(folder) if folder.exists() else []:
        try:
            content = (folder / f"{number:08d}.segment").read_bytes()
        except FileNotFoundError:
            continue
        for key, record in waiting_in(scan(content)).items():
            if key not in seen:
                seen.add(key)
                yield key, payload_of(content, record)


def as_rows(folder: Path, now: float, answer: OutboxReply | None) -> list[tuple[str, ...]]:
    """What waits on disk, as a table; `age` counts from the end of a release's window, attempts
    from the start of the agent that runs, if one does. A last column, if the agent holds any back,
    says why.
    """
    rows = [HEADER]
    why = {} if answer is None else answer.held_back
    for key, payload in releases_in(folder):
        row = _row(key, payload, now, answer)
        rows.append((*row, why.get(key.filename, "")) if why else row)
    return [(*HEADER, "on hold"), *rows[1:]] if why else rows


def as_jsonl(fleet: str, device: str, folder: Path) -> Iterator[str]:
    """One JSON object for each release that waits, as `pansketch-collector export` writes them.

    So do refused ones, behind them, with `refused` true. `received_at` is null: no collector has
    received it. So is what this version cannot read in one that another version has made.
    """
    kept = ((path.name, path) for path in refused_in(folder))
    refused = ((named(name), path.read_bytes()) for name, path in kept)
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
    """What a release of one window says of itself; None when this version cannot tell."""
    try:
        header = peek_any(payload)
    except WireError:
        return None
    times = [at for window in header.windows for at in (window.start, window.end)]
    return header if len(times) == 2 and min(times) >= 0 and max(times) < LATEST else None


def _age(seconds: float) -> str:
    """Rounded down, as people say it; a clock that was set back makes none."""
    for unit, size in (("d", 86400), ("h", 3600), ("m", 60)):
        if seconds >= 2 * size:
            return f"{int(seconds // size)}{unit}"
    return f"{max(0, int(seconds))}s"


def write(lines: Iterable[str], path: Path) -> int:
    """Writes the lines to a file, whole or not at all; returns how many. Raises OSError."""
    count = 0
    with replacing(path) as file:
        for line in lines:
            count += bool(file.write(line.encode("ascii") + b"\n"))
    return count
