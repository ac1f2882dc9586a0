"""`export` and `replay`: write stored releases to a file, and ingest such a file.

The file is the output of `pansketch-collector export` or `pansketch-agent outbox`. It has no
signatures, so the operator vouches for its devices. All other checks apply: `replay` stores a
release, finds a duplicate or rejects it for the same reasons as the ingest loop.
"""

import argparse
import base64
import json
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import BinaryIO, TextIO

from pansketch_collector import clock
from pansketch_collector.commands.atomic_output import writing
from pansketch_collector.commands.query import note_left_out
from pansketch_collector.errors import CommandError, wrong
from pansketch_collector.ingest.ingest_loop import BATCH, commit_batch
from pansketch_collector.mqtt.connection import Incoming
from pansketch_collector.queries.basis import omitted_releases
from pansketch_collector.queries.selection import check_devices, nothing_selected, select
from pansketch_collector.storage import writer as store
from pansketch_collector.storage.reader import Reader, reading
from pansketch_collector.storage.store import Store
from pansketch_collector.storage.tables.connection import ERRORS, remedy
from pansketch_collector.storage.tables.corruption import Damage, label_damage
from pansketch_collector.storage.tables.records import Selection, Stored
from pansketch_collector.validation.validation import Rules
from pansketch_collector.validation.verdicts import Accepted, Duplicate, Outcome, Rejected
from pansketch_fleet.config.loader import Config
from pansketch_fleet.protocol import topics
from pansketch_fleet.protocol.messages import digest

MAX_ENVELOPE = 4096  # bytes of a line without its payload
UNREADABLE = "unreadable"


def replay(path: Path, store: Store, rules: Rules, now: Callable[[], int]) -> Counter[str]:
    """The number of lines that were "stored", "duplicate", UNREADABLE, or rejected, by reason.

    Rejected releases go to the quarantine; an unreadable line is only counted. Raises CommandError
    when the file cannot be read or the database not written. A second replay changes nothing.
    """
    counts: Counter[str] = Counter()
    try:
        with path.open("rb") as file:
            found = _messages(file, _max_line_bytes(rules))
            while lines := list(islice(found, BATCH)):
                batch = [message for message in lines if message is not None]
                counts[UNREADABLE] += len(lines) - len(batch)
                counts.update(map(_outcome, commit_batch(store, batch, rules, now(), True)))
    except OSError as error:
        raise wrong(f"cannot read {path}: {error.strerror or error}") from error
    except ERRORS as error:
        raise CommandError(
            f"cannot write the database ({error}): {remedy(error)}, and try again"
        ) from error
    return counts


def summary(path: Path, counts: Counter[str]) -> str:
    """One line with the outcomes of a file's lines."""
    stored, duplicates = counts["stored"], counts["duplicate"]
    refused = sorted((reason, n) for reason, n in _problems(counts).items() if n)
    text = ", ".join(f"{reason} {n}" for reason, n in refused)
    if counts and set(counts) == {UNREADABLE}:
        text += "; name a file of `export`, or of `pansketch-agent outbox export`"
    return f"{path}: {stored} stored, {duplicates} duplicates, " + (
        f"refused: {text}" if text else "none refused"
    )


def is_whole(counts: Counter[str]) -> bool:
    """True if every line is stored."""
    return not any(_problems(counts).values())


def _problems(counts: Counter[str]) -> dict[str, int]:
    return {outcome: n for outcome, n in counts.items() if outcome not in ("stored", "duplicate")}


def _outcome(outcome: Outcome) -> str:
    match outcome:
        case Accepted():
            return "stored"
        case Duplicate():
            return "duplicate"
        case Rejected(reason):
            return reason
    return UNREADABLE


def _max_line_bytes(rules: Rules) -> int:
    return MAX_ENVELOPE + 4 * (rules.largest // 3 + 1)


def _messages(file: BinaryIO, max_line_bytes: int) -> Iterator[Incoming | None]:
    """The releases of a file; None for an unreadable line."""
    for line in _lines(file, max_line_bytes):
        if line.strip():
            yield _message(line) if len(line) <= max_line_bytes else None


def _lines(file: BinaryIO, max_line_bytes: int) -> Iterable[bytes]:
    """Lines, truncated at the maximum: a file may be one endless line."""
    while line := file.readline(max_line_bytes + 1):
        rest = line
        while len(rest) > max_line_bytes and not rest.endswith(b"\n"):
            rest = file.readline(max_line_bytes + 1)
        yield line


def _message(line: bytes) -> Incoming | None:
    try:
        found = json.loads(line)
        topic, payload = found["topic"], base64.b64decode(found["payload"], validate=True)
    except (ValueError, TypeError, KeyError, RecursionError):
        return None
    # An old status must not become the device's present state.
    parsed = topics.parse(topic) if isinstance(topic, str) else None
    if parsed is None or parsed.kind != "release":
        return None
    return Incoming(topic, payload, len(payload), digest(payload), 0, 0, 0)


def write_jsonl(
    reader: Reader, fleet: str, selection: Selection, out: TextIO
) -> tuple[int, list[Damage]]:
    """Writes one object a line, by window and device; returns their number, and the omitted
    damage."""
    lines, damaged = 0, list[Damage]()
    for stored in reader.releases(selection):
        if damage := label_damage(stored):
            damaged.append(damage)
            continue
        out.write(json.dumps(as_object(stored, fleet)) + "\n")
        lines += 1
    return lines, damaged


def as_object(stored: Stored, fleet: str) -> dict[str, object]:
    """A release with its time of receipt in unix seconds; `payload` is base64 of the exact
    bytes."""
    return {
        "topic": topics.release(fleet, stored.device, stored.stream),
        "received_at": stored.received_at,
        "device": stored.device,
        "stream": stored.stream,
        "sequence": stored.sequence,
        "window": {"start": stored.start, "end": stored.end},
        "clock_synchronised": stored.clock_synchronised,
        "incarnation": stored.incarnation.hex(),
        "fingerprint": stored.fingerprint.hex(),
        "digest": stored.digest,
        "payload": base64.b64encode(stored.payload).decode("ascii"),
    }


def run_export(config: Config, options: argparse.Namespace) -> int:
    """Writes the stored releases."""
    selection = select(config, options.stream, options.since, options.until, options.devices)
    with reading(config.collector.database) as reader:
        check_devices(reader, selection)
        if not reader.fingerprints(selection):
            raise nothing_selected(reader, selection)
        with writing(options.out) as out:
            lines, damaged = write_jsonl(reader, config.fleet, selection, out)
        left = omitted_releases(damaged, reader, selection)
    note_left_out(left)
    if options.out != "-":
        print(f"{options.out}: {lines} release{'s' * (lines != 1)}", file=sys.stderr)
    return 0


def run_replay(config: Config, options: argparse.Namespace) -> int:
    """Ingests the releases of a file; returns 1 if some of them were rejected."""
    with store.opened(config.collector.database) as opened:
        rules = Rules.of(config, opened.serve_settings(config, clock.now()))
        counts = replay(options.file, opened, rules, clock.now)
    with writing("-") as out:
        out.write(summary(options.file, counts) + "\n")
    return 0 if is_whole(counts) else 1
