"""The figures of all devices together, and which devices have a problem.

They are aggregates of the database, and columns of it: no object is made of a device. A device is
compared with the others of a stream by its estimated total of a window.
"""

from collections import Counter
from collections.abc import Collection, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from math import sqrt

import numpy as np

from pansketch_collector import clock
from pansketch_collector.errors import wrong
from pansketch_collector.reports import device_health, keepers, stream_settings
from pansketch_collector.reports.keepers import AskingReport, asking_report
from pansketch_collector.reports.reported_settings import ReportedSettings
from pansketch_collector.reports.stream_settings import ScalesInUse
from pansketch_collector.storage import device_reports, exclusions
from pansketch_collector.storage.reader import QuarantineCount, Reader, Total
from pansketch_collector.storage.tables.connection import Database
from pansketch_collector.storage.tables.holdings import StreamCounts, by_stream
from pansketch_fleet.config.loader import Config
from pansketch_fleet.settings.settings import is_sent_by
from pansketch_fleet.units import lag_text, utc_text

MIN_DEVICES = 7  # of a stream: the median of fewer is no reference
MAX_DEVIATIONS = 10.0
NORMAL = 1.4826  # standard deviation over median absolute deviation, normal distribution
MAX_LISTED = 8  # devices of one line
ROUNDING = 1e-9  # relative, of a distance that the database computes

StreamKey = tuple[str, str]  # device, stream


@dataclass(frozen=True)
class DeviceTotal:
    """The estimated total of a device's counted releases of one stream: readings, or occupied
    slots.

    `out_of_line`: its total of a window is further from the median device than MAX_DEVIATIONS
    robust standard deviations. For normal totals of at least seven devices this happens with a
    probability below 0.001 (tests/collector/reports/test_fleet.py).
    """

    windows: int
    value: float
    standard_error: float
    out_of_line: bool = False


@dataclass(frozen=True)
class Middle:
    """The totals of a window of the devices of one stream: their median, and their robust standard
    deviation."""

    devices: int
    median: float
    spread: float

    def has_outlier(self, mean: float, standard_error: float) -> bool:
        """True if a device's total of a window is out of line with those of the others."""
        deviation = sqrt(self.spread**2 + standard_error**2)
        return self.devices >= MIN_DEVICES and abs(mean - self.median) > MAX_DEVIATIONS * deviation


def middle_of(means: Iterable[float]) -> Middle:
    """The median and the spread of totals of a window."""
    found = np.fromiter(means, dtype=np.float64)
    median = float(np.median(found))
    return Middle(len(found), median, NORMAL * float(np.median(np.abs(found - median))))


def middles(db: Database) -> dict[str, Middle]:
    """The median device's total of a window, by stream."""
    row = db.execute("SELECT stream FROM tallies LIMIT 1").fetchone()
    if row is None:
        return {}
    # The first stream comes as NULL, which is read in half the time of its name.
    found: dict[str | None, list[float]] = {}
    query = "SELECT nullif(stream, ?), value / releases FROM tallies"
    for stream, mean in db.execute(query, row):
        found.setdefault(stream, []).append(mean)
    return {
        row[0] if stream is None else stream: middle_of(means) for stream, means in found.items()
    }


def device_totals(
    rows: Iterable[Total], found: Mapping[str, Middle]
) -> Mapping[StreamKey, DeviceTotal]:
    """Totals from rows of (device, stream, windows, sum of values, sum of variances)."""
    totals = {}
    for device, stream, windows, value, variance in rows:
        error, middle = sqrt(variance), found.get(stream)
        out_of_line = middle is not None and middle.has_outlier(value / windows, error / windows)
        totals[device, stream] = DeviceTotal(windows, value, error, out_of_line)
    return totals


def out_of_line(db: Database, found: Mapping[str, Middle]) -> list[str]:
    """The devices with a total out of line, by name."""
    # No deviation is below the spread, so the database leaves out most devices.
    limits = [
        (stream, each.median, (1 - ROUNDING) * MAX_DEVIATIONS * each.spread)
        for stream, each in found.items()
        if each.devices >= MIN_DEVICES
    ]
    if not limits:
        return []
    rows = db.execute(
        "SELECT device, stream, releases, value, variance FROM tallies"
        f" JOIN (VALUES {', '.join(['(?, ?, ?)'] * len(limits))}) AS limits ON column1 = stream"
        " WHERE abs(value / releases - column2) >= column3 ORDER BY device, stream",
        [value for each in limits for value in each],
    )
    totals = device_totals(rows, found)
    return list(dict.fromkeys(device for (device, _), each in totals.items() if each.out_of_line))


@dataclass(frozen=True)
class Fleet:
    """The figures of all devices at one moment.

    `streams`: counts of stored releases. `states`: the number of devices in each. `duplicates`: of
    retransmitted stored releases. `refusals`: counts of rejected messages, by reason.
    `quarantined`: by device. `settings`: those in use, as in `ReportedSettings`. `texts`: of birth
    messages. `generation`: of the database. `masked`: streams whose devices have no totals.
    """

    generation: str
    streams: Mapping[str, StreamCounts]
    states: Mapping[str, int]
    duplicates: int
    refusals: Mapping[str, int]
    quarantined: Mapping[str, Sequence[QuarantineCount]]
    settings: Sequence[Mapping[str, object]]
    texts: Collection[str]
    middles: Mapping[str, Middle]
    scales: Sequence[ScalesInUse] = ()
    asking: AskingReport = field(default_factory=AskingReport)
    masked: frozenset[str] = frozenset()

    @property
    def devices(self) -> int:
        """The number of devices with a report or a stored release."""
        return sum(self.states.values())

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


def fleet(reader: Reader, config: Config) -> Fleet:
    """The figures of all devices with a report or a stored release."""
    db = reader.connection
    states, texts = Counter({"unknown": device_reports.unknown(db)}), Counter[str]()
    for state, text, devices in device_reports.status_texts(db):
        states[state] += devices
        texts[text] += devices
    return Fleet(
        reader.generation(),
        by_stream(db),
        states,
        device_reports.duplicate_count(db),
        reader.refusals(),
        reader.quarantined(),
        ReportedSettings(reader, config).in_use(texts),
        texts.keys(),
        middles(db),
        stream_settings.scales_in_use(reader, config, clock.now()),
        asking_report(reader, config),
        frozenset(stream.name for stream in config.streams if stream.blinded is not None),
    )


def problems(reader: Reader, config: Config, found: Fleet) -> dict[str, Sequence[str]]:
    """The devices with a problem, by its kind and by name; a device may have several."""
    db = reader.connection
    irregular = [each for counts in found.streams.values() for each in counts.irregular]
    kinds: dict[str, Iterable[str]] = {
        "out of line": out_of_line(db, found.middles),
        **ReportedSettings(reader, config).problems(found.texts),
        "in quarantine": found.quarantined,
        "excluded": exclusions.excluded_devices(db),
        "gaps": (each.device for each in irregular if each.gaps),
        "disputed": (each.device for each in irregular if each.disputed),
        "rolled back": (each.device for each in irregular if each.rolled_back),
        **device_health.sum_up(db).problems,
    }
    return {kind: names for kind, devices in kinds.items() if (names := sorted(set(devices)))}


def matching(reader: Reader, patterns: Sequence[str]) -> list[str]:
    """The devices whose name matches a pattern, by name; all without one. Raises CommandError if
    none matches."""
    names = device_reports.names(reader.connection)
    if not patterns:
        return names
    found = [name for name in names if is_sent_by(tuple(patterns), name)]
    if not found:
        raise wrong(f"no device is called {' or '.join(patterns)}; see `devices`")
    return found


def with_problems_first(
    names: Sequence[str],
    kinds: Mapping[str, Sequence[str]],
    most: int,
    of: Container[str] | None = None,
) -> list[str]:
    """At most so many devices: those with a problem, then the first of the names.

    If too many have a problem, those with a rare one are preferred to those with a frequent one.
    `of`: leaves out all other devices.
    """
    having = set[str]()
    for devices in sorted(kinds.values(), key=len):
        new = (name for name in devices if name not in having and (of is None or name in of))
        having.update(list(islice(new, most - len(having))))
    others = (name for name in names if name not in having)
    return [*sorted(having), *islice(others, most - len(having))]


def lag_lines(found: Mapping[str, StreamCounts], now: int) -> list[str]:
    """A line for each stream."""
    return [
        f"lag of {stream}: median device {lag_text(now - int(counts.median))}, "
        f"worst {lag_text(now - counts.worst)} ({counts.worst_device})"
        for stream, counts in found.items()
    ]


def as_lines(found: Fleet, kinds: Mapping[str, Sequence[str]]) -> list[str]:
    """Lines about all devices, for a table that shows some of them."""
    states = ", ".join(f"{state} {n}" for state, n in sorted(found.states.items()) if n)
    having = ", ".join(f"{kind} {len(names)}" for kind, names in kinds.items())
    return [
        f"devices: {found.devices} ({states})",
        f"with a problem: {having or 'none'}",
        *(
            f"stored of {stream}: {each.windows} windows of {each.devices} devices, {each.gaps}"
            f" gaps, {each.late} late, {each.disputed} disputed, {each.rolled_back} rolled back,"
            f" {each.unsynchronised} unsynced"
            for stream, each in found.streams.items()
        ),
    ]


def as_object(found: Fleet) -> dict[str, object]:
    """The figures of all devices together. Rejected messages by reason, and the quarantine by
    stream and reason. The settings in use, the newest windows and published scales. Open questions
    to keepers, and the database's generation."""
    names = ("stream", "reason", "messages", "devices", "names")
    return {
        "quarantine": found.refusals,
        "refused": [dict(zip(names, each, strict=True)) for each in found.refused],
        "settings": found.settings,
        "newest_windows": {
            stream: {
                "newest": utc_text(counts.newest),
                "median": utc_text(int(counts.median)),
                "worst": utc_text(counts.worst),
                "worst_device": counts.worst_device,
            }
            for stream, counts in found.streams.items()
        },
        "scales": stream_settings.scale_object(found.scales),
        **keepers.as_object(found.asking),
        "generation": found.generation,
    }
