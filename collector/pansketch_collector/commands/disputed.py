"""`disputed`: lists, keeps or drops second releases of stored windows.

The release that was stored first counts. `keep` exchanges both, so that nothing is lost; only
`drop` deletes. Both may run beside `serve`.
"""

import argparse
import json

from pansketch_collector.commands.atomic_output import writing
from pansketch_collector.errors import wrong
from pansketch_collector.storage.disputes import Dispute
from pansketch_collector.storage.reader import reading
from pansketch_collector.storage.writer import changing
from pansketch_fleet.config.loader import Config
from pansketch_fleet.text_table import aligned
from pansketch_fleet.units import utc_text

HEADER = (
    *("id", "device", "stream", "window", "to", "received", "ledger", "sequence", "bytes"),
    *("counts", "its ledger"),
)
NUMBERS = frozenset({"id", "sequence", "bytes", "counts"})


def as_table(disputes: list[Dispute]) -> str:
    """An aligned table, or a line without any."""
    if not disputes:
        return "no window is disputed"
    rows = [
        (
            str(each.number),
            each.device,
            each.stream,
            utc_text(each.start),
            utc_text(each.end),
            utc_text(each.received_at),
            each.incarnation.hex() or "-",
            str(each.sequence),
            str(each.payload_bytes),
            str(each.counts),
            each.its_incarnation.hex() or "-",
        )
        for each in disputes
    ]
    return "\n".join(aligned(HEADER, rows, NUMBERS))


def as_json(disputes: list[Dispute]) -> str:
    """One object."""
    listed = [
        {
            "id": each.number,
            "device": each.device,
            "stream": each.stream,
            "window": {"from": utc_text(each.start), "to": utc_text(each.end)},
            "received_at": utc_text(each.received_at),
            "incarnation": each.incarnation.hex(),
            "sequence": each.sequence,
            "payload_bytes": each.payload_bytes,
            "digest": each.digest,
            "counts": {
                "incarnation": each.its_incarnation.hex(),
                "sequence": each.counts,
                "digest": each.its_digest,
            },
        }
        for each in disputes
    ]
    return json.dumps({"disputed": listed})


def run_disputed(config: Config, options: argparse.Namespace) -> int:
    """Prints the disputed releases, after a change the remaining ones."""
    if (options.what == "list") == bool(options.ids):
        raise wrong("write: disputed list, or disputed keep ID ..., or disputed drop ID ...")
    if options.what != "list":
        with changing(config.collector.database) as store:
            (store.keep if options.what == "keep" else store.drop)(options.ids)
    with reading(config.collector.database) as reader:
        left = reader.disputes()
    with writing("-") as out:
        out.write((as_json if options.json else as_table)(left) + "\n")
    return 0
