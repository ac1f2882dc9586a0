"""`replay`: exported releases once more through the judgement, as if they came from the broker.

The file is what `pansketch-collector export` or `pansketch-agent outbox` writes. Nothing in it is
believed: a release is stored, a duplicate or refused for the same reasons as on the way in.
"""

import base64
import json
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import BinaryIO

from collector.failure import CommandError, wrong
from collector.inbox import Accepted, Duplicate, Refused, Rules, Verdict
from collector.link import Incoming
from collector.service import BATCH, settle
from collector.store import Store
from fleet import topics
from fleet.messages import digest

MOST_AROUND = 4096  # bytes of a line beside its payload
UNREADABLE = "unreadable"


def replay(path: Path, store: Store, rules: Rules, now: Callable[[], int]) -> Counter[str]:
    """How many lines were "stored", "duplicate", UNREADABLE, or refused, by reason.

    What is refused goes to quarantine; a line that holds no message is only counted. Raises
    CommandError when the file cannot be read or the database not written; replaying it all again
    repeats nothing.
    """
    counts: Counter[str] = Counter()
    try:
        with path.open("rb") as file:
            found = _messages(file, _longest(rules))
            while lines := list(islice(found, BATCH)):
                batch = [message for message in lines if message is not None]
                counts[UNREADABLE] += len(lines) - len(batch)
                counts.update(map(_outcome, settle(store, batch, rules, now())))
    except OSError as error:
        raise wrong(f"cannot read {path}: {error.strerror or error}") from error
    except sqlite3.Error as error:
        raise CommandError(f"cannot write the database ({error}): free its disk, again") from error
    return counts


def summary(path: Path, counts: Counter[str]) -> str:
    """One line: what became of the lines of a file."""
    stored, again = counts["stored"], counts["duplicate"]
    refused = sorted((reason, n) for reason, n in _problems(counts).items() if n)
    text = ", ".join(f"{reason} {n}" for reason, n in refused)
    return f"{path}: {stored} stored, {again} held already, " + (
        f"not taken: {text}" if text else "none refused"
    )


def is_whole(counts: Counter[str]) -> bool:
    """Whether every line is in the database now."""
    return not any(_problems(counts).values())


def _problems(counts: Counter[str]) -> dict[str, int]:
    return {what: n for what, n in counts.items() if what not in ("stored", "duplicate")}


def _outcome(verdict: Verdict) -> str:
    match verdict:
        case Accepted():
            return "stored"
        case Duplicate():
            return "duplicate"
        case Refused(reason):
            return reason
    return UNREADABLE


def _longest(rules: Rules) -> int:
    return MOST_AROUND + 4 * (rules.largest // 3 + 1)


def _messages(file: BinaryIO, longest: int) -> Iterator[Incoming | None]:
    """The releases of a file; None for a line that holds none."""
    for line in _lines(file, longest):
        if line.strip():
            yield _message(line) if len(line) <= longest else None


def _lines(file: BinaryIO, longest: int) -> Iterable[bytes]:
    """Lines, of which one that is too long is cut: a file may be one endless line."""
    while line := file.readline(longest + 1):
        rest = line
        while len(rest) > longest and not rest.endswith(b"\n"):
            rest = file.readline(longest + 1)
        yield line


def _message(line: bytes) -> Incoming | None:
    try:
        found = json.loads(line)
        topic, payload = found["topic"], base64.b64decode(found["payload"], validate=True)
    except (ValueError, TypeError, KeyError, RecursionError):
        return None
    # A status of long ago would say of a device that it is there now.
    place = topics.parse(topic) if isinstance(topic, str) else None
    if place is None or place.kind != "release":
        return None
    return Incoming(topic, payload, len(payload), digest(payload), 0, 0, 0)
