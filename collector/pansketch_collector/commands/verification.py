"""`verify`: checks every stored release; `serve` does the same in the background.

Both report releases that have changed on the disk. `serve`, the one writing process, also moves
them out of the releases, so that a retransmission can replace them.
"""

import argparse
import json
import logging
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from pansketch.sketches import LinearSpec
from pansketch.wire import counters_of_all, open_release
from pansketch_collector.commands.atomic_output import writing
from pansketch_collector.errors import wrong
from pansketch_collector.storage import writer as store
from pansketch_collector.storage.reader import Reader, reading
from pansketch_collector.storage.store import Store
from pansketch_collector.storage.tables.connection import ERRORS
from pansketch_collector.storage.tables.corruption import (
    Damage,
    decode_intact,
    label_damage,
    masked_damage,
)
from pansketch_collector.storage.tables.records import Stored
from pansketch_collector.validation.validation import Rules
from pansketch_collector.validation.verdicts import EstimatedTotal, ImplausibleError
from pansketch_fleet.config.loader import Config
from pansketch_fleet.protocol.messages import digest
from pansketch_fleet.settings.settings import DatabaseServer

PORTION = 64  # releases in one turn of `serve`
PAUSE_SECONDS = 86_400.0  # between two passes over all of them

log = logging.getLogger("collector")


def problem_of(stored: Stored, rules: Rules) -> Damage | None:
    """The damage of one stored release: in its payload, label or digest."""
    known = rules.specs.get(stored.stream)
    spec = None if known is None else known.at(stored.start).get(stored.fingerprint)
    if spec is None:
        found = label_damage(stored)
    elif isinstance(spec, LinearSpec) and spec.guarantee.answer_micro:
        found = masked_damage(stored, spec)
    else:
        damages: list[Damage] = []
        decode_intact([stored], spec, damages)
        found = damages[0] if damages else None
    if found is None and digest(stored.payload) != stored.digest:
        return Damage.of(stored, "the digest beside it is another one")
    return found


def total_of(stored: Stored, rules: Rules) -> EstimatedTotal | None:
    """The estimated total of one intact stored release.

    None with unknown settings, masked counters, or a number of draws that no window has. Raises
    WireError for damaged bytes.
    """
    specs = rules.specs.get(stored.stream)
    spec = None if specs is None else specs.at(stored.start).get(stored.fingerprint)
    if specs is None or spec is None or spec.guarantee.answer_micro:
        return None
    release = open_release(stored.payload)
    try:
        bounds = specs.bounds(spec, release.header.draws)
    except ImplausibleError:
        return None
    _, (value,) = bounds.examine(counters_of_all([release], spec))
    return EstimatedTotal(float(value), bounds.total.variance)


@dataclass(frozen=True)
class VerificationResult:
    """The result of a verification.

    `releases`: their number. `damaged`: the damaged ones. `file`: the faults that SQLite reports, a
    line each. `figures`: stored sums and counts that differ from the releases.
    """

    releases: int
    damaged: tuple[Damage, ...]
    file: tuple[str, ...]
    figures: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        return not (self.damaged or self.file or self.figures)


def verify(reader: Reader, rules: Rules) -> VerificationResult:
    """Checks every release, including disputed ones, and all sums and counts. Raises one of
    ERRORS."""
    releases, damaged = 0, list[Damage]()
    for stored in all_releases(reader):
        releases += 1
        if found := problem_of(stored, rules):
            damaged.append(found)
    return VerificationResult(
        releases, tuple(damaged), tuple(reader.file_faults()), tuple(reader.wrong_figures())
    )


def as_lines(found: VerificationResult, path: Path | DatabaseServer) -> list[str]:
    """A line for each fault, and one with the counts."""
    lines = [f"damaged: {each}" for each in found.damaged]
    lines += [f"{path}: {line}" for line in found.file]
    lines += [f"other than the releases: {each}; run `verify --rebuild`" for each in found.figures]
    count = f"{found.releases} release{'s' * (found.releases != 1)}"
    return [*lines, f"{path}: {count} verified, damaged: {len(found.damaged) or 'none'}"]


def as_json(found: VerificationResult) -> str:
    """One object: `releases`, `damaged` with the name and problem of each, `file`, `figures`."""
    damaged = [
        {
            "device": each.device,
            "stream": each.stream,
            "sequence": each.sequence,
            "window": {"start": each.start, "end": each.end},
            "problem": each.problem,
        }
        for each in found.damaged
    ]
    return json.dumps(
        {
            "releases": found.releases,
            "damaged": damaged,
            "file": list(found.file),
            "figures": list(found.figures),
        }
    )


def all_releases(reader: Reader) -> Iterator[Stored]:
    """All releases, stored and disputed."""
    for table in ("releases", "disputed"):
        after = 0
        while found := reader.portion(table, after, PORTION):
            after = found[-1][0]
            yield from (stored for _, stored in found)


class BackgroundVerification:
    """Checks a few stored releases at each turn, all of them once a day.

    It also estimates missing totals.
    """

    def __init__(self, store: Store, rules: Rules) -> None:
        self._store, self._rules = store, rules
        self._after = 0
        self._due = 0.0

    def step(self, uptime: float, now: int) -> None:
        """Checks a portion and moves damaged releases. Retries later if the database fails."""
        if uptime < self._due:
            return
        try:
            found = self._store.portion(self._after, PORTION)
            last = found[-1][0] if found else self._after
            lacking, totals = self._store.without_total(self._after, last), []
            for number, stored in found:
                if damage := problem_of(stored, self._rules):
                    self._store.move_damaged(number, damage, now)
                    log.error(
                        "moved to the table `damaged`, because its bytes have changed: %s", damage
                    )
                elif number in lacking and (total := total_of(stored, self._rules)):
                    totals.append((stored, total))
            self._store.add_totals(totals)
        except ERRORS as error:
            log.warning("stored releases cannot be verified now (%s); retrying in an hour", error)
            self._due = uptime + PAUSE_SECONDS / 24
            return
        self._after = found[-1][0] if found else 0
        if not found:
            self._due = uptime + PAUSE_SECONDS


def run_verify(config: Config, options: argparse.Namespace) -> int:
    """Prints the damage; returns 1 if there is any."""
    path = options.file or config.collector.database
    if options.file and not options.file.exists():
        raise wrong(f"there is no file {options.file}: name a database or a backup")
    if options.rebuild:
        with store.opened(path) as opened:
            opened.rebuild()
    found = verified(config, path)
    with writing("-") as out:
        if options.json:
            out.write(as_json(found) + "\n")
        else:
            out.writelines(f"{line}\n" for line in as_lines(found, path))
    return 0 if found.ok else 1


def verified(config: Config, path: Path | DatabaseServer) -> VerificationResult:
    """Verifies a database, its releases under the settings that it served."""
    with reading(path) as reader:
        return verify(reader, served_rules(config, reader))


def served_rules(config: Config, reader: Reader) -> Rules:
    """The rules of a database: the specs of the configuration and of all epochs that it served."""
    epochs = {stream.name: reader.epochs(stream.name) for stream in config.streams}
    return Rules.of(config, epochs)
