"""`devices`: state, releases, gaps, totals, settings, health and rejections of each device.

Tables and objects are made of a part of the devices, with the figures of the whole fleet.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

from pansketch_collector import clock
from pansketch_collector.queries.answers import decimals_of, shown
from pansketch_collector.reports import device_health as healths
from pansketch_collector.reports import fleet as fleets
from pansketch_collector.reports import stream_settings
from pansketch_collector.reports.fleet import DeviceTotal, Fleet
from pansketch_collector.reports.reported_settings import ReportedSettings, ServedEpoch
from pansketch_collector.storage import device_reports, exclusions
from pansketch_collector.storage.device_reports import ReceivedHealth
from pansketch_collector.storage.exclusions import Exclusion
from pansketch_collector.storage.reader import QuarantineCount, Reader
from pansketch_collector.storage.tables.holdings import Holding
from pansketch_collector.storage.tables.records import Device
from pansketch_fleet.config.loader import Config
from pansketch_fleet.text_table import aligned
from pansketch_fleet.units import lag_text, utc_text

HEADER = (
    *("device", "state", "stream", "windows", "first", "last"),
    *("gaps", "late", "disputed", "ledgers", "rolled", "unsynced", "duplicates", "received"),
)
NUMBERS = frozenset({"windows", *HEADER[6:-1]})
COUNTED = ("device", "stream", "lag", "counted", "in a window", "settings", "")
COUNTED_NUMBERS = frozenset({"lag", "counted", "in a window"})
MAX_LISTED = 8  # lines of one device
MAX_SHOWN = 1_000  # devices of a table, unless all are asked for
PORTION = 1_000  # devices in memory, of an object of all


@dataclass(frozen=True)
class Overview:
    """The state of some devices at one moment, and the figures of the fleet.

    `devices`: the last status by device name, None without one. `holdings`: counts of stored
    releases, `duplicates`: of retransmitted stored releases, `healths`: the newest health, each by
    device. `differing`: by device and stream, the difference of its settings. `quarantined`: by
    device. `kinds`: the devices of the fleet with a problem, None if all devices are shown.
    """

    fleet: Fleet
    devices: dict[str, Device | None]
    holdings: dict[str, list[Holding]]
    duplicates: dict[str, int]
    healths: dict[str, ReceivedHealth]
    differing: dict[str, dict[str, str]]
    quarantined: Mapping[str, Sequence[QuarantineCount]]
    totals: Mapping[tuple[str, str], DeviceTotal]
    running: Mapping[str, Mapping[str, ServedEpoch]]
    excluded: Mapping[str, Sequence[Exclusion]]
    kinds: Mapping[str, Sequence[str]] | None = None


def overview(
    reader: Reader,
    config: Config,
    fleet: Fleet,
    names: Sequence[str] | None = None,
    kinds: Mapping[str, Sequence[str]] | None = None,
) -> Overview:
    """The overview of these devices, in their order; None: all with a report or a stored
    release."""
    known = {device.device: device for device in reader.devices(names)}
    received = reader.healths(names)
    holdings: dict[str, list[Holding]] = {}
    for holding in reader.holdings(names):
        holdings.setdefault(holding.device, []).append(holding)
    present = {*known, *holdings, *received}
    shown = sorted(present) if names is None else [name for name in names if name in present]
    excluded: dict[str, list[Exclusion]] = {}
    for each in reader.exclusions(names):
        excluded.setdefault(each.device, []).append(each)
    settings = ReportedSettings(reader, config)
    return Overview(
        fleet,
        {name: known.get(name) for name in shown},
        holdings,
        reader.duplicates(names),
        {name: received[name] for name in shown if name in received},
        {
            name: differences
            for name in shown
            if name in known and (differences := settings.differences(known[name]))
        },
        fleet.quarantined
        if names is None
        else {name: fleet.quarantined[name] for name in names if name in fleet.quarantined},
        fleets.device_totals(reader.totals(names), fleet.middles),
        {name: settings.epochs(device) for name, device in known.items()},
        excluded,
        kinds,
    )


def table(reader: Reader, config: Config, patterns: Sequence[str] = (), every: bool = False) -> str:
    """The table of the devices whose name matches a pattern; of all devices without one.

    It has at most MAX_SHOWN devices, those with a problem first, unless `every` is set. Raises
    CommandError if none matches.
    """
    found = fleets.fleet(reader, config)
    if not patterns and (every or found.devices <= MAX_SHOWN):
        return as_table(overview(reader, config, found))
    kinds = fleets.problems(reader, config, found)
    if patterns:
        names = fleets.matching(reader, patterns)
    else:
        names = device_reports.names(reader.connection, limit=MAX_SHOWN)
    if not every:
        of = frozenset(names) if patterns else None
        names = fleets.with_problems_first(names, kinds, MAX_SHOWN, of)
    return as_table(overview(reader, config, found, names, kinds))


def as_table(found: Overview) -> str:
    """A table of the streams of each device, a table of healths, and totals of the quarantine."""
    rows = [row for name in found.devices for row in _rows(found, name)]
    lines = aligned(HEADER, rows, NUMBERS) if rows else ["no device has reported yet"]
    now = clock.now()
    if counted := [row for name in found.devices for row in _counted(found, name, now)]:
        lines += ["", *aligned(COUNTED, counted, COUNTED_NUMBERS)]
        lines += fleets.lag_lines(found.fleet.streams, now)
    lines += healths.as_lines(found.healths)
    lines += [
        f"total: {device} {stream}: {total.value:.6g} ± {total.standard_error:.2g} in "
        f"{total.windows} windows is out of line with the fleet; see `exclude --help`"
        for (device, stream), total in found.totals.items()
        if total.out_of_line
    ]
    lines += [line for name in found.devices for line in _problems(name, found.devices[name])]
    lines += stream_settings.scale_lines(found.fleet.scales)
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
        f"excluded from every answer: {each.device}{exclusions.range_text(each)},"
        f" {each.releases} release{'s' * (each.releases != 1)}"
        for excluded in found.excluded.values()
        for each in excluded
    ]
    if found.kinds is not None:
        lines += fleets.as_lines(found.fleet, found.kinds)
    refusals = found.fleet.refusals
    total = sum(refusals.values())
    reasons = ", ".join(f"{reason} {n}" for reason, n in refusals.items())
    lines.append(f"refused: {total} ({reasons})" if total else "refused: none")
    lines.append(f"duplicates: {found.fleet.duplicates or 'none'}")
    lines.append(f"database generation: {found.fleet.generation}")
    if others := found.fleet.devices - len(found.devices):
        lines.append(
            f"not shown: {others} of {found.fleet.devices} devices; `devices --all` shows all, "
            "`devices NAME ...` those of these names"
        )
    return "\n".join(lines)


def as_json(reader: Reader, config: Config, patterns: Sequence[str] = ()) -> list[str]:
    """One object, as texts that follow each other: `devices`, those whose name matches a pattern,
    and the members of `fleet.as_object`. Raises CommandError if none matches."""
    found, names = fleets.fleet(reader, config), fleets.matching(reader, patterns)
    texts = ['{"devices": [']
    for first in range(0, len(names), PORTION):
        part = overview(reader, config, found, names[first : first + PORTION])
        objects = ", ".join(json.dumps(as_object(part, name)) for name in part.devices)
        texts.append(f", {objects}" if first else objects)
    return [*texts, "], ", json.dumps(fleets.as_object(found))[1:]]


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
        digits = decimals_of(total.standard_error)
        return f"{shown(total.value, digits)} ± {shown(total.standard_error, digits)}"
    return "masked" if stream in found.fleet.masked else "-"


def _settings(epoch: ServedEpoch | None) -> str:
    if epoch is None:
        return "not reported"
    if epoch.now:
        return "now"
    return "other ones" if epoch.since is None else f"since {utc_text(epoch.since)}"


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
            "masked": h.stream in found.fleet.masked,
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
