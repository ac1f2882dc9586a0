"""`devices`: state, releases, gaps, totals, settings, health and rejections of each device."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field

from pansketch_collector import clock
from pansketch_collector.reports import device_health as healths
from pansketch_collector.reports import keepers, stream_settings
from pansketch_collector.reports.device_comparison import (
    DeviceTotal,
    NewestWindows,
    device_totals,
    ends_object,
    ends_of,
    lag_lines,
)
from pansketch_collector.reports.keepers import AskingReport, asking_report
from pansketch_collector.reports.stream_settings import (
    ScalesInUse,
    ServedEpoch,
    differing,
    in_use,
    running,
)
from pansketch_collector.storage import exclusions
from pansketch_collector.storage.exclusions import Exclusion
from pansketch_collector.storage.reader import QuarantineCount, Reader, ReceivedHealth
from pansketch_collector.storage.tables.holdings import Holding
from pansketch_collector.storage.tables.records import Device
from pansketch_fleet.config.loader import Config
from pansketch_fleet.text_table import aligned
from pansketch_fleet.units import lag_text, utc_text

HEADER = (
    *("device", "state", "stream", "windows", "first", "last"),
    *("gaps", "late", "disputed", "ledgers", "rolled", "unsynced", "again", "received"),
)
NUMBERS = frozenset({"windows", *HEADER[6:-1]})
COUNTED = ("device", "stream", "lag", "counted", "in a window", "settings", "")
COUNTED_NUMBERS = frozenset({"lag", "counted", "in a window"})
MAX_LISTED = 8  # lines of one device, devices of one line


@dataclass(frozen=True)
class Overview:
    """The state of the fleet at one moment. `devices`: the last status by device name, None without
    one. `holdings`: counts of stored releases, `duplicates`: of retransmitted stored releases,
    `healths`: the newest health, each by device. `refusals`: counts of rejected messages, by
    reason. `generation`: of the database. `masked`: streams whose devices have no totals."""

    devices: dict[str, Device | None]
    holdings: dict[str, list[Holding]]
    duplicates: dict[str, int]
    refusals: dict[str, int]
    healths: dict[str, ReceivedHealth]
    generation: str
    differing: dict[str, dict[str, str]]
    quarantined: dict[str, list[QuarantineCount]]
    totals: Mapping[tuple[str, str], DeviceTotal] = field(default_factory=dict)
    running: Mapping[str, Mapping[str, ServedEpoch]] = field(default_factory=dict)
    excluded: Mapping[str, Sequence[Exclusion]] = field(default_factory=dict)
    scales: Sequence[ScalesInUse] = ()
    asking: AskingReport = field(default_factory=AskingReport)
    masked: frozenset[str] = frozenset()

    @property
    def ends(self) -> Mapping[str, NewestWindows]:
        """The newest windows by stream."""
        return ends_of(each for holdings in self.holdings.values() for each in holdings)

    @property
    def refused(self) -> list[tuple[str, str, int, int, list[str]]]:
        """Stream, reason, messages, devices and most frequent devices of quarantined messages."""
        found: dict[tuple[str, str], Counter[str]] = {}
        for name, refused in self.quarantined.items():
            for each in refused:
                found.setdefault((each.stream, each.reason), Counter())[name] += each.messages
        return [
            (*kind, by.total(), len(by), [name for name, _ in by.most_common(MAX_LISTED)])
            for kind, by in sorted(found.items())
        ]


def overview(reader: Reader, config: Config) -> Overview:
    """The overview of all devices with a report or a stored release. `differing`: by device and
    stream, the difference of its settings. `quarantined`: by device."""
    known = {device.device: device for device in reader.devices()}
    received = reader.healths()
    holdings: dict[str, list[Holding]] = {}
    for holding in reader.holdings():
        holdings.setdefault(holding.device, []).append(holding)
    refused = reader.quarantined()
    names = sorted({*known, *holdings, *received})
    states = {name: known.get(name) for name in names}
    excluded: dict[str, list[Exclusion]] = {}
    for each in exclusions.listed(reader.connection):
        excluded.setdefault(each.device, []).append(each)
    return Overview(
        states,
        holdings,
        reader.duplicates(),
        reader.refusals(),
        received,
        reader.generation(),
        differing(reader, config, list(known.values())),
        refused,
        device_totals(reader.totals()),
        running(reader, config, list(known.values())),
        excluded,
        stream_settings.scales_in_use(reader, config, clock.now()),
        asking_report(reader, config),
        frozenset(stream.name for stream in config.streams if stream.blinded is not None),
    )


def as_table(found: Overview) -> str:
    """A table of the streams of each device, a table of healths, and totals of the quarantine."""
    rows = [row for name in found.devices for row in _rows(found, name)]
    lines = aligned(HEADER, rows, NUMBERS) if rows else ["no device has reported yet"]
    now = clock.now()
    if counted := [row for name in found.devices for row in _counted(found, name, now)]:
        lines += ["", *aligned(COUNTED, counted, COUNTED_NUMBERS)]
        lines += lag_lines(found.ends, now)
    lines += healths.as_lines(found.healths)
    lines += [
        f"total: {device} {stream}: {total.value:.6g} ± {total.standard_error:.2g} in "
        f"{total.windows} windows is out of line with the fleet; see `exclude --help`"
        for (device, stream), total in found.totals.items()
        if total.out_of_line
    ]
    lines += [line for name in found.devices for line in _problems(name, found.devices[name])]
    lines += stream_settings.scale_lines(found.scales)
    lines += [
        f"other settings: {name} {stream}: {difference}"
        for name, streams in found.differing.items()
        for stream, difference in streams.items()
    ]
    lines += [
        f"in quarantine: {name} {each.stream}: {each.messages} by {each.reason} ({each.text})"
        for name, refused in found.quarantined.items()
        for each in refused[:MAX_LISTED]
    ]
    lines += [
        f"excluded from every answer: {each.device}{_range(each)},"
        f" {each.releases} release{'s' * (each.releases != 1)}"
        for excluded in found.excluded.values()
        for each in excluded
    ]
    total = sum(found.refusals.values())
    reasons = ", ".join(f"{reason} {n}" for reason, n in found.refusals.items())
    lines.append(f"refused: {total} ({reasons})" if total else "refused: none")
    lines.append(f"came again after they were stored: {sum(found.duplicates.values()) or 'none'}")
    lines.append(f"database generation: {found.generation}")
    return "\n".join(lines)


def as_json(found: Overview) -> str:
    """One object: `devices`, and the members of `fleet_object`."""
    devices = [as_object(found, name) for name in found.devices]
    return json.dumps({"devices": devices, **fleet_object(found)})


def fleet_object(found: Overview) -> dict[str, object]:
    """The figures of all devices together. Rejected messages by reason, and the quarantine by
    stream and reason. The settings in use, the newest windows and published scales. Open questions
    to keepers, and the database's generation."""
    names = ("stream", "reason", "messages", "devices", "names")
    return {
        "quarantine": found.refusals,
        "refused": [dict(zip(names, each, strict=True)) for each in found.refused],
        "settings": in_use(found.running),
        "newest_windows": ends_object(found.ends),
        "scales": stream_settings.scale_object(found.scales),
        **keepers.as_object(found.asking),
        "generation": found.generation,
    }


def _problems(name: str, device: Device | None) -> list[str]:
    """A line for each stream that the device has stopped, or whose new scales it rejected."""
    reported = {} if device is None else device.births
    return [
        f"{kind_text}: {name} {stream}: {birth[key]}"
        for key, kind_text in (("problem", "stopped"), ("scale_problem", "scales"))
        for stream, birth in reported.items()
        if birth.get(key)
    ]


def _rows(found: Overview, name: str) -> list[tuple[str, ...]]:
    device = found.devices[name]
    state = "unknown" if device is None else device.state
    holdings = found.holdings.get(name)
    if not holdings:
        return [(name, state, "-", "0", *["-"] * 10)]
    return [
        (
            name,
            state,
            h.stream,
            str(h.windows),
            utc_text(h.first_start),
            utc_text(h.last_end),
            str(h.gaps),
            str(h.late),
            str(h.disputed),
            str(h.ledgers),
            str(h.rolled_back),
            str(h.unsynchronised),
            str(found.duplicates.get(name, 0)),
            utc_text(h.received_at),
        )
        for h in holdings
    ]


def _counted(found: Overview, name: str, now: int) -> list[tuple[str, ...]]:
    """For each stream: its lag, its estimated total and its settings."""
    return [
        (
            name,
            h.stream,
            lag_text(now - h.last_end),
            _counted_text(found, h.stream, total),
            "-" if total is None else f"{total.value / total.windows:.4g}",
            _settings(found.running.get(name, {}).get(h.stream)),
            "OUT OF LINE" if total is not None and total.out_of_line else "",
        )
        for h in found.holdings.get(name, ())
        for total in [found.totals.get((name, h.stream))]
    ]


def _counted_text(found: Overview, stream: str, total: DeviceTotal | None) -> str:
    if total is not None:
        return f"{total.value:.6g} ± {total.standard_error:.2g}"
    return "masked" if stream in found.masked else "-"


def _settings(epoch: ServedEpoch | None) -> str:
    if epoch is None:
        return "not reported"
    if epoch.now:
        return "now"
    return "other ones" if epoch.since is None else f"since {utc_text(epoch.since)}"


def _range(each: Exclusion) -> str:
    since = f" from {utc_text(each.since)}" if each.since else ""
    return since if each.until == exclusions.ALWAYS else f"{since} to {utc_text(each.until)}"


def as_object(found: Overview, name: str) -> dict[str, object]:
    """One device with all its figures."""
    device = found.devices[name]
    streams = {
        h.stream: {
            "windows": h.windows,
            "first_window": utc_text(h.first_start),
            "last_window": utc_text(h.last_end),
            "gaps": h.gaps,
            "late": h.late,
            "disputed": h.disputed,
            "ledgers": h.ledgers,
            "rolled_back": h.rolled_back,
            "clock_not_synchronised": h.unsynchronised,
            "received_at": utc_text(h.received_at),
            "total": _total(found, h),
            "masked": h.stream in found.masked,
        }
        for h in found.holdings.get(name, ())
    }
    return {
        "device": name,
        "state": "unknown" if device is None else device.state,
        "since": None if device is None else utc_text(device.since),
        "session": None if device is None else device.session,
        "reported": {} if device is None else device.births,
        "duplicates": found.duplicates.get(name, 0),
        "health": healths.as_object(found.healths.get(name)),
        "settings": {
            stream: {
                "since": None if epoch.since is None else utc_text(epoch.since),
                "now": epoch.now,
            }
            for stream, epoch in found.running.get(name, {}).items()
        },
        "excluded": [exclusions.as_object(each) for each in found.excluded.get(name, ())],
        "other_settings": found.differing.get(name, {}),
        "quarantine": [asdict(each) for each in found.quarantined.get(name, ())],
        "streams": streams,
    }


def _total(found: Overview, holding: Holding) -> dict[str, object] | None:
    """None if none of its releases has an estimate."""
    total = found.totals.get((holding.device, holding.stream))
    return None if total is None else asdict(total)
