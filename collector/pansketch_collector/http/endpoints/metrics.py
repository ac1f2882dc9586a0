"""`/metrics`: the state of ingestion, in the text format of Prometheus.

It contains figures of the schedule, the network and the disk only. No figure depends on a release's
counters, so none discloses a reading.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from statistics import median

from pansketch import __version__
from pansketch_collector.http.endpoints.caches import Count
from pansketch_collector.reports.devices import Overview
from pansketch_collector.storage.tables.holdings import Holding

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


def as_text(
    count: Count,
    now: int,
    answered: Mapping[int, int],
    windows: Mapping[str, int],
    broker_connected: bool,
) -> str:
    """All metrics. `now`: unix seconds; `answered`: responses by status; `windows`: seconds by
    stream."""
    holdings = [h for found in count.found.holdings.values() for h in found]
    families = [
        *_stored(holdings, now),
        Family(
            "pansketch_window_seconds", "gauge", "Configured length of a window.", windows, "stream"
        ),
        *_ingested(count.found),
        *_devices(count.found),
        *_keepers(count.found),
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


def _stored(holdings: list[Holding], now: int) -> Iterator[Family]:
    def total(of: str) -> Values:
        found: Counter[str] = Counter()
        for each in holdings:
            found[each.stream] += getattr(each, of)
        return found

    def newest(of: str) -> dict[str, float]:
        found: dict[str, float] = {}
        for each in holdings:
            found[each.stream] = max(found.get(each.stream, 0), getattr(each, of))
        return found

    def family(name: str, kind: str, help_text: str, values: Values) -> Family:
        return Family(f"pansketch_{name}", kind, help_text, values, "stream")

    ends = newest("last_end")
    lags = {stream: now - end for stream, end in ends.items()}
    yield family("releases_stored", "gauge", "Releases that count.", total("windows"))
    yield family("missing_windows", "gauge", "Gaps in sequence numbers.", total("gaps"))
    yield family("late_windows", "gauge", "Came after a later one.", total("late"))
    yield family("disputed_windows", "gauge", "Others of a stored window.", total("disputed"))
    yield family("rolled_back_windows", "gauge", "Under a used number.", total("rolled_back"))
    yield family("ledgers", "gauge", "That its releases come from.", total("ledgers"))
    yield family(
        "unsynchronised_windows", "gauge", "Closed by a free clock.", total("unsynchronised")
    )
    yield family("newest_window_end_timestamp_seconds", "gauge", "Newest window's end.", ends)
    yield family("lag_seconds", "gauge", "Since the newest window's end.", lags)
    each = {stream: [now - h.last_end for h in holdings if h.stream == stream] for stream in ends}
    medians = {stream: median(found) for stream, found in each.items()}
    worst = {stream: max(found) for stream, found in each.items()}
    yield family("device_lag_median_seconds", "gauge", "Half the devices lag more.", medians)
    yield family("device_lag_worst_seconds", "gauge", "The device that lags most.", worst)
    yield family(
        "newest_arrival_timestamp_seconds",
        "gauge",
        "When a release was stored last.",
        newest("received_at"),
    )


def _ingested(found: Overview) -> Iterator[Family]:
    yield Family(
        "pansketch_refused_total",
        "counter",
        "Messages that went to quarantine.",
        dict.fromkeys(REASONS, 0) | found.refusals,
        "reason",
    )
    again = {"": sum(found.duplicates.values())}
    yield Family("pansketch_duplicates_total", "counter", "Releases that came again.", again)


def _devices(found: Overview) -> Iterator[Family]:
    states = Counter({"online": 0, "offline": 0, "stopped": 0, "unknown": 0})
    states.update("unknown" if d is None else d.state for d in found.devices.values())
    yield Family("pansketch_devices", "gauge", "Devices by state.", states, "state")
    healths = [received.health for received in found.healths.values()]
    waiting = {"": sum(health.waiting for health in healths)}
    oldest = {"": max((health.oldest_waiting_seconds or 0 for health in healths), default=0)}
    dropped = {"": sum(health.dropped for health in healths)}
    dead_lettered = {"": sum(health.set_aside for health in healths)}
    conflicts = {"": sum(health.name_conflicts for health in healths)}
    memory = Counter({"yes": 0, "no": 0, "unknown": 0})
    memory.update(_PROTECTED[health.memory_protected] for health in healths)
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
        conflicts,
    )
    name = "pansketch_backlog"
    yield Family(
        f"{name}_releases", "gauge", "Queued on devices, by their health messages.", waiting
    )
    yield Family(f"{name}_oldest_seconds", "gauge", "The one that waits longest.", oldest)
    yield Family(f"{name}_dropped", "gauge", "Outboxes had no room for them.", dropped)
    yield Family(f"{name}_set_aside", "gauge", "Dead-lettered on devices.", dead_lettered)


def _keepers(found: Overview) -> Iterator[Family]:
    keepers, levels = found.asking.keepers, found.asking.levels
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
