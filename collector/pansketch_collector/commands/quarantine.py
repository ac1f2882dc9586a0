"""`quarantine`: lists rejected messages, and ingests those that this configuration accepts."""

import argparse
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict

from pansketch_collector import clock
from pansketch_collector.commands.atomic_output import writing
from pansketch_collector.errors import wrong
from pansketch_collector.ingest.ingest_loop import BATCH, commit_batch, validate_batch
from pansketch_collector.storage import writer as store
from pansketch_collector.storage.quarantine import QuarantineRow
from pansketch_collector.storage.reader import reading
from pansketch_collector.storage.store import Store
from pansketch_collector.validation.validation import Rules
from pansketch_collector.validation.verdicts import Accepted, Rejected
from pansketch_fleet.config.loader import Config
from pansketch_fleet.text_table import aligned
from pansketch_fleet.units import utc_text

HEADER = ("device", "stream", "sequence", "reason", "times", "first", "last", "bytes", "whole")
NUMBERS = frozenset({"sequence", "times", "bytes"})
MAX_NAMED = 5  # devices of one text


def as_table(found: Sequence[QuarantineRow]) -> str:
    """An aligned table, and below it each text of a reason, with its devices."""
    if not found:
        return "nothing is in quarantine"
    lines = aligned(HEADER, [_cells(row) for row in found], NUMBERS)
    devices: dict[tuple[str, str], dict[str, None]] = {}
    for row in found:
        devices.setdefault((row.reason, row.text), {})[row.device or "-"] = None
    words = [
        f"{reason}: {text} ({', '.join([*names][:MAX_NAMED])}{', ...' * (len(names) > MAX_NAMED)})"
        for (reason, text), names in devices.items()
    ]
    return "\n".join([*lines, "", *words])


def _cells(row: QuarantineRow) -> tuple[str, ...]:
    return (
        row.device or "-",
        row.stream or "-",
        str(row.sequence) if row.whole else "-",
        row.reason,
        str(row.times),
        utc_text(row.first_received_at),
        utc_text(row.received_at),
        str(row.size),
        "yes" if row.whole else "no",
    )


def as_json(found: Sequence[QuarantineRow]) -> str:
    """One object: `quarantine`, a list."""
    return json.dumps({"quarantine": [_object(row) for row in found]})


def _object(row: QuarantineRow) -> Mapping[str, object]:
    times = {name: utc_text(getattr(row, name)) for name in ("first_received_at", "received_at")}
    return {**asdict(row), **times, "device": row.device or None, "stream": row.stream or None}


def retry(store: Store, rules: Rules, at: int) -> int:
    """Ingests the whole releases that this configuration accepts; returns the number of new ones.

    The others stay. Raises one of ERRORS.
    """
    new = after = 0
    while found := store.quarantined(after, BATCH):
        after = found[-1][0]
        validated = validate_batch(store, [message for _, message in found], rules)
        accepted = [
            row for row, one in zip(found, validated, strict=True) if not isinstance(one, Rejected)
        ]
        outcomes = commit_batch(store, [message for _, message in accepted], rules, at)
        new += sum(isinstance(outcome, Accepted) for outcome in outcomes)
        # A release that the stored state rejects stays, unless it is stored as disputed.
        committed = zip(accepted, outcomes, strict=True)
        store.leave_quarantine(
            [
                number
                for (number, _), outcome in committed
                if not isinstance(outcome, Rejected) or outcome.reason == "equivocation"
            ]
        )
    return new


def run_quarantine(config: Config, options: argparse.Namespace) -> int:
    """Prints the quarantined messages, or ingests those that this configuration accepts."""
    if options.action == "list":
        with reading(config.collector.database) as reader:
            found = reader.in_quarantine(options.device, options.stream)
        with writing("-") as out:
            out.write((as_json if options.json else as_table)(found) + "\n")
        return 0
    if options.json or options.device or options.stream:
        raise wrong("--json, --device and --stream are for quarantine list: leave them out")
    with store.opened(config.collector.database) as opened:
        rules = Rules.of(config, opened.serve_settings(config, clock.now()))
        new = retry(opened, rules, clock.now())
    with writing("-") as out:
        out.write(f"ingested from quarantine: {new}\n")
    return 0
