"""The report of a run: what was published, what became of it, and what it took."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pansketch_collector.commands.verification import VerificationResult
from pansketch_fleet.text_table import columns
from testbed.fleet_simulator.kills import Kills
from testbed.fleet_simulator.outbox import FleetOutbox
from testbed.fleet_simulator.releases import Load
from testbed.fleet_simulator.usage import Usage

GOOD = {"stored", "duplicate"}


@dataclass(frozen=True)
class Run:
    """One run of the simulator.

    Attributes:
        load: what it should publish.
        streams: names of the streams.
        seconds: from the first message to the last acknowledgement, or from the end of the pause.
        outbox: all outboxes as they were then.
        offline: releases that waited for their device's next window.
        processes: CPU time of each process meanwhile, and its peak of memory.
        database_bytes: files of the database; 0 where they are on another machine.
        problem: why it ended before all was acknowledged, or "".
        kills: of the programs of the server, if any were wanted.
        verification: of the database after kills or a backlog.
        before: releases that were stored before the backlog; None without one.
        other_cores: cores that programs beside `processes` kept busy meanwhile.
    """

    load: Load
    streams: tuple[str, ...]
    seconds: float
    outbox: FleetOutbox
    offline: int
    processes: Mapping[str, Usage]
    database_bytes: int
    problem: str
    kills: Kills | None = None
    verification: VerificationResult | None = None
    before: int | None = None
    other_cores: float = 0.0

    @property
    def good(self) -> bool:
        """True if every release was acknowledged as stored or as a duplicate, and after kills or
        a backlog is stored once, and in all sums."""
        counts, found = self.outbox.counts, self.verification
        releases = counts.releases + (self.before or 0)
        is_stored = found is None or (found.ok and found.releases == releases)
        return self.outbox.done and not self.problem and set(counts.answers) <= GOOD and is_stored

    def figures(self) -> dict[str, Any]:
        """All of it, for JSON."""
        counts, seconds = self.outbox.counts, max(self.seconds, 1e-9)
        releases = max(1, counts.releases)
        return {
            "devices": self.load.devices,
            "windows": self.load.windows,
            "streams": list(self.streams),
            "seconds": round(self.seconds, 3),
            "releases": counts.releases,
            "releases_per_second": round(counts.releases / seconds, 1),
            "messages": counts.messages,
            "messages_per_second": round(counts.messages / seconds, 1),
            "payload_bytes": counts.payload_bytes,
            "resent": counts.resent,
            "repeated": counts.repeated,
            "offline": self.offline,
            "acknowledged": dict(sorted(counts.answers.items())),
            "unknown_acknowledgements": counts.unknown,
            "unacknowledged": self.outbox.waiting,
            "processes": {
                name: {
                    "cpu_seconds": round(used.cpu_seconds, 2),
                    "cpu_microseconds_per_release": round(1e6 * used.cpu_seconds / releases, 1),
                    "peak_mib": round(used.peak_mib, 1),
                }
                for name, used in self.processes.items()
            },
            "other_cores": round(self.other_cores, 2),
            "database_bytes": self.database_bytes,
            "database_bytes_per_release": round(self.database_bytes / releases, 1),
            "problem": self.problem,
            **self._verified(),
        }

    def _verified(self) -> dict[str, Any]:
        figures: dict[str, Any] = {}
        if self.kills is not None:
            figures["kills"] = dict(sorted(self.kills.done.items()))
            figures["restarts"] = self.kills.restarts
        if self.before is not None:
            figures["before"] = self.before
        if (found := self.verification) is not None:
            figures["stored"] = found.releases
            figures["faults"] = len(found.damaged) + len(found.file) + len(found.figures)
        return figures


def text(run: Run) -> str:
    """The report for people."""
    found = run.figures()
    answers = ", ".join(f"{name} {n:,}" for name, n in found["acknowledged"].items()) or "none"
    rows = [
        ("releases", f"{found['releases']:,}", f"{found['releases_per_second']:,.0f}/s"),
        ("messages", f"{found['messages']:,}", f"{found['messages_per_second']:,.0f}/s"),
        ("payload", f"{found['payload_bytes']:,}", "bytes"),
        ("resent", f"{found['resent']:,}", "without an acknowledgement in time"),
        ("repeated", f"{found['repeated']:,}", "after a lost acknowledgement"),
        ("offline", f"{found['offline']:,}", "in a later window"),
        ("unacknowledged", f"{found['unacknowledged']:,}", f"acknowledged: {answers}"),
    ]
    for name, used in found["processes"].items():
        each = f"{used['cpu_microseconds_per_release']:,.0f} µs a release"
        rows.append(
            (name, f"{used['cpu_seconds']:,.1f}", f"s CPU, {each}, {used['peak_mib']:,.0f} MiB")
        )
    rows.append(("others", f"{found['other_cores']:,.1f}", "cores that other programs kept busy"))
    if collector := found["processes"].get("collector"):
        each = 1e6 / max(1e-9, collector["cpu_microseconds_per_release"])
        rows.append(("one core", f"{each:,.0f}", "releases/s, by the CPU time of the collector"))
    if run.database_bytes:
        each = f"{found['database_bytes_per_release']:,.0f} a release"
        rows.append(("database", f"{run.database_bytes:,}", f"bytes, {each}"))
    if "kills" in found:
        kills = ", ".join(f"{name} {n}" for name, n in found["kills"].items())
        rows.append(("killed", f"{sum(found['kills'].values()):,}", kills))
    if "before" in found:
        rows.append(("before", f"{found['before']:,}", "releases stored before the backlog"))
    if "stored" in found:
        rows.append(("stored", f"{found['stored']:,}", f"verified, {found['faults']} faults"))
    head = f"{run.load.devices:,} devices, {run.load.windows} windows of {', '.join(run.streams)}"
    lines = [f"{head}, in {run.seconds:,.1f} s", *columns(rows, {1})]
    return "\n".join([*lines, *([run.problem] if run.problem else [])])
