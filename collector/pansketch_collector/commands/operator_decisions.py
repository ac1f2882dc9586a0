"""`disputed`, `exclude` and `forget`: an operator's decisions about stored releases.

`disputed` lists, keeps or drops second releases of stored windows. The release that was stored
first counts. `keep` exchanges both, so that nothing is lost; only `drop` deletes. `exclude` leaves
a device out of every answer, and `forget` deletes its data. All may run beside `serve`.
"""

import argparse
import json
import sys

from pansketch_collector import clock
from pansketch_collector.commands.atomic_output import writing
from pansketch_collector.errors import wrong
from pansketch_collector.queries.selection import when
from pansketch_collector.storage import exclusions
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


def run_exclude(config: Config, options: argparse.Namespace) -> int:
    """Excludes releases of a device from every answer, undoes that, or lists the exclusions."""
    path, device = config.collector.database, options.device
    if options.list:
        if device or options.undo or options.since or options.until:
            raise wrong("--list lists everything: leave out the device, --from, --to and --undo")
        with reading(path) as reader:
            found = reader.exclusions()
        with writing("-") as out:
            out.write((exclusions.as_json if options.json else exclusions.as_table)(found) + "\n")
        return 0
    if device is None or options.json:
        raise wrong("write: exclude DEVICE [--from WHEN] [--to WHEN] [--undo], or exclude --list")
    since = None if options.since is None else when(options.since)
    until = None if options.until is None else when(options.until)
    if since is not None and until is not None and since >= until:
        raise wrong("--from must be before --to")
    with changing(path) as store:
        if options.undo:
            undone = store.undo(device, since, until)
            text = f"{device}: {undone} exclusion{'s' * (undone != 1)} undone"
        else:
            stored = store.exclude(device, since, until, clock.now())
            text = (
                f"{device}: {stored} release{'s' * (stored != 1)} excluded from every answer, and "
                "later ones of these windows; `exclude --undo` counts them again"
            )
            if not stored and not _is_known(config, device):
                note = f"no device {device!r} is known yet; if the name is wrong, undo it"
                print(f"note: {note}; see `pansketch-collector devices`", file=sys.stderr)
    with writing("-") as out:
        out.write(text + "\n")
    return 0


def _is_known(config: Config, device: str) -> bool:
    """True if the device has a stored release of any stream, or has reported."""
    with reading(config.collector.database) as reader:
        return bool(reader.devices([device]) or reader.holdings([device]))


def run_forget(config: Config, options: argparse.Namespace) -> int:
    """Deletes a device's reports, and on request all its stored data."""
    if options.yes and not options.releases:
        raise wrong("--yes is for --releases: leave it out")
    if options.releases and not options.yes and not _confirmed(options.device):
        raise wrong("nothing was deleted: answer with the device's name, or add --yes")
    with changing(config.collector.database) as store:
        deleted = store.forget(options.device, options.releases)
    reported = "its reports are deleted" if deleted.reported else "it had reported nothing"
    with writing("-") as out:
        out.write(
            f"{options.device}: {reported}, {deleted.releases} releases deleted, "
            f"{deleted.kept} kept\n"
        )
    return 0


def _confirmed(device: str) -> bool:
    """True if a person at a terminal types the device's name."""
    if not sys.stdin.isatty():
        return False
    print(f"delete all releases of {device} for good? write its name: ", end="", file=sys.stderr)
    return sys.stdin.readline().strip() == device
