"""`export`: the stored releases of a stream, as JSON lines for other tools."""

import base64
import json
from typing import TextIO

from collector.reader import Reader, Selection, Stored
from fleet import topics


def write_jsonl(reader: Reader, fleet: str, selection: Selection, out: TextIO) -> int:
    """One object a line, by window and device; returns how many."""
    lines = 0
    for stored in reader.releases(selection):
        out.write(json.dumps(as_object(stored, fleet)) + "\n")
        lines += 1
    return lines


def as_object(stored: Stored, fleet: str) -> dict[str, object]:
    """What was received and when: times in unix seconds, `payload` base64 of the exact bytes."""
    return {
        "topic": topics.release(fleet, stored.device, stored.stream),
        "received_at": stored.received_at,
        "device": stored.device,
        "stream": stored.stream,
        "sequence": stored.sequence,
        "window": {"start": stored.start, "end": stored.end},
        "clock_synchronised": stored.clock_synchronised,
        "fingerprint": stored.fingerprint.hex(),
        "digest": stored.digest,
        "payload": base64.b64encode(stored.payload).decode("ascii"),
    }
