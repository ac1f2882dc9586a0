"""`/metrics`: the state of ingestion, in the text format of Prometheus.

It contains figures of the schedule, the network and the disk only. No figure depends on a release's
counters, so none discloses a reading.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from pansketch import __version__
from pansketch_collector.reports import device_health
from pansketch_collector.reports.device_health import FleetHealth
from pansketch_collector.reports.keepers import AskingReport, asking_report
from pansketch_collector.storage import device_reports
from pansketch_collector.storage.reader import Reader
from pansketch_collector.storage.tables.holdings import StreamCounts, by_stream
from pansketch_fleet.config.loader import Config

MEDIA_TYPE = "text/plain; version=0.0.4; charset=utf-8"
# The reasons of a rejection (docs/reference/mqtt.md). Prometheus sees no increase in a counter that
# begins above 0, so each is exported from the start.
REASONS = (
    *("topic", "fleet", "device", "stream", "devices", "status", "health"),
    *("size", "length", "magic", "version", "checksum", "malformed", "bounds"),
    *("identity", "fingerprint", "window", "future", "readings", "full", "equivocation"),
    *("keepers", "keeper", "signature"),
)
_PROTECTED = {True: "yes", False: "no", None: "unknown"}
_ESCAPES = {"\\": "\\\\", "\n": "\\n", '"': '\\"'}

Values = Mapping[str, float]


@dataclass(frozen=True)
class Family:
    """One metric: `values` by the value of its `label`; without a label one value, under ""."""

    name: str
    kind: str
    help_text: str
    values: Values
    label: str = ""

    def lines(self) -> Iterator[str]:
        yield f"# HELP {self.name} {self.help_text}"
        yield f"# TYPE {self.name} {self.kind}"
        for value, number in sorted(self.values.items()):
            label = f'{{{self.label}="{_escaped(value)}"}}' if self.label else ""
            yield f"{self.name}{label} {number:.15g}"


@dataclass(frozen=True)
class Measured:
    """The figures of the database: of each stream, of devices in each state, of the healths.

    `duplicates`: of retransmitted stored releases. `refusals`: by reason.
    """

    streams: Mapping[str, StreamCounts]
    states: Mapping[str, int]
    health: FleetHealth
    duplicates: int
    refusals: Mapping[str, int]
    asking: AskingReport


def measured(reader: Reader, config: Config) -> Measured:
    """The figures of all devices."""
    db = reader.connection
    return Measured(
        by_stream(db),
        device_reports.states(db),
        device_health.sum_up(db),
        device_reports.duplicate_count(db),
        reader.refusals(),
        asking_report(reader, config),
    )


def as_text(
    found: Measured,
    now: int,
    answered: Mapping[int, int],
    windows: Mapping[str, int],
    broker_connected: bool,
) -> str:
    """All metrics. `now`: unix seconds; `answered`: responses by status; `windows`: seconds by
    stream."""
    families = [
        *_stored(found.streams, now),
        Family(
            "pansketch_window_seconds", "gauge", "Configured length of a window.", windows, "stream"
        ),
        *_ingested(found),
        *_devices(found),
        *_keepers(found.asking),
        Family(
            "pansketch_broker_connected",
            "gauge",
            "1: the collector has its broker and its subscription there.",
            {"": broker_connected},
        ),
        Family(
            "pansketch_http_responses_total",
            "counter",
            "Responses of this server since its start.",
            {"500": 0} | {str(status): n for status, n in answered.items()},
            "status",
        ),
        Family("pansketch_info", "gauge", "The version.", {__version__: 1}, "version"),
    ]
    return "".join(f"{line}\n" for family in families for line in family.lines())


def _stored(streams: Mapping[str, StreamCounts], now: int) -> Iterator[Family]:
    def each(of: str) -> dict[str, float]:
        return {stream: getattr(counts, of) for stream, counts in streams.items()}

    def lags(of: str) -> Values:
        return {stream: now - end for stream, end in each(of).items()}

    def family(name: str, kind: str, help_text: str, values: Values) -> Family:
        return Family(f"pansketch_{name}", kind, help_text, values, "stream")

    yield family("releases_stored", "gauge", "Releases that count.", each("windows"))
    yield family("missing_windows", "gauge", "Gaps in sequence numbers.", each("gaps"))
    yield family("late_windows", "gauge", "Came after a later one.", each("late"))
    yield family("disputed_windows", "gauge", "Others of a stored window.", each("disputed"))
    yield family("rolled_back_windows", "gauge", "Under a used number.", each("rolled_back"))
    yield family("ledgers", "gauge", "That its releases come from.", each("ledgers"))
    yield family(
        "unsynchronised_windows", "gauge", "Closed by a free clock.", each("unsynchronised")
    )
    ends = each("newest")
    yield family("newest_window_end_timestamp_seconds", "gauge", "Newest window's end.", ends)
    yield family("lag_seconds", "gauge", "Since the newest window's end.", lags("newest"))
    yield family("device_lag_median_seconds", "gauge", "Half the devices lag more.", lags("median"))
    yield family("device_lag_worst_seconds", "gauge", "The device that lags most.", lags("worst"))
    yield family(
        "newest_arrival_timestamp_seconds",
        "gauge",
        "When a release was stored last.",
        each("received_at"),
    )


def _ingested(found: Measured) -> Iterator[Family]:
    yield Family(
        "pansketch_refused_total",
        "counter",
        "Messages that went to quarantine.",
        {**dict.fromkeys(REASONS, 0), **found.refusals},
        "reason",
    )
    again = {"": found.duplicates}
    yield Family("pansketch_duplicates_total", "counter", "Releases that came again.", again)


def _devices(found: Measured) -> Iterator[Family]:
    states = {"online": 0, "offline": 0, "stopped": 0, **found.states}
    yield Family("pansketch_devices", "gauge", "Devices by state.", states, "state")
    health = found.health
    memory = dict.fromkeys(_PROTECTED.values(), 0) | {
        _PROTECTED[value]: devices for value, devices in health.memory_protected.items()
    }
    yield Family(
        "pansketch_memory_protected",
        "gauge",
        "Devices by whether no swap can hold their memory.",
        memory,
        "protected",
    )
    yield Family(
        "pansketch_name_conflicts",
        "gauge",
        "Connections that devices lost to another client of their name.",
        {"": health.name_conflicts},
    )
    for of, help_text, value in (
        ("releases", "Queued on devices, by their health messages.", health.waiting),
        ("oldest_seconds", "The one that waits longest.", health.oldest_waiting_seconds),
        ("dropped", "Outboxes had no room for them.", health.dropped),
        ("set_aside", "Dead-lettered on devices.", health.set_aside),
    ):
        yield Family(f"pansketch_backlog_{of}", "gauge", help_text, {"": value})


def _keepers(asking: AskingReport) -> Iterator[Family]:
    keepers, levels = asking.keepers, asking.levels
    online = {each.keeper: each.state == "online" for each in keepers}
    asked = {each.keeper: each.asked for each in keepers}
    oldest = {each.keeper: each.oldest_asked_at or 0 for each in keepers}
    last = {each.keeper: each.last_answer_at or 0 for each in keepers}

    def total(of: str) -> Values:
        counts: Counter[str] = Counter()
        for each in levels:
            counts[each.stream] += getattr(each, of)
        return counts

    def of_keepers(name: str, help_text: str, values: Values) -> Family:
        return Family(f"pansketch_keeper_{name}", "gauge", help_text, values, "keeper")

    def of_streams(name: str, help_text: str, values: Values) -> Family:
        return Family(f"pansketch_{name}", "gauge", help_text, values, "stream")

    yield of_keepers("online", "1: it reports that it is.", online)
    yield of_keepers("questions_open", "Not answered by it.", asked)
    yield of_keepers("oldest_question_timestamp_seconds", "Its oldest open one; 0: none.", oldest)
    yield of_keepers("last_answer_timestamp_seconds", "Its newest answer; 0: none.", last)
    yield of_streams("answers", "Questions that all keepers answered.", total("answered"))
    yield of_streams("answers_set_aside", "Of no use: see keepers.", total("set_aside"))
    yield of_streams("unasked_windows", "At each level, waiting.", total("waiting"))
    yield of_streams("lost_windows", "At each level, refused by a keeper.", total("lost"))


def _escaped(value: str) -> str:
    return "".join(_ESCAPES.get(character, character) for character in value)
