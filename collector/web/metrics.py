"""`/metrics`: how the taking in goes, in the text format of Prometheus.

Figures of the schedule, the network and the disk only. Nothing here is made of a release's
counters, so nothing here says anything of a reading.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from collector.devices import Overview
from collector.reader import Holding
from collector.web.census import Count
from pansketch import __version__

MEDIA_TYPE = "text/plain; version=0.0.4; charset=utf-8"
# What a message may be refused for (docs/wire-format.md); a counter that begins above 0 has not
# grown in the eyes of Prometheus, so each is there from the first.
REASONS = (
    *("topic", "fleet", "stream", "devices", "status", "health"),
    *("size", "magic", "version", "checksum", "malformed", "bounds"),
    *("identity", "fingerprint", "window", "equivocation"),
)
_ESCAPES = {"\\": "\\\\", "\n": "\\n", '"': '\\"'}

Values = Mapping[str, float]


@dataclass(frozen=True)
class Family:
    """One metric: `values` by the value of its `label`; without a label there is one, under ""."""

    name: str
    kind: str
    says: str
    values: Values
    label: str = ""

    def lines(self) -> Iterator[str]:
        yield f"# HELP {self.name} {self.says}"
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
    """All of them; `now` in unix seconds, `answered`: responses by status, `windows`: seconds of a
    window by stream."""
    held = [h for found in count.found.held.values() for h in found]
    families = [
        *_stored(held, now),
        Family(
            "pansketch_window_seconds", "gauge", "Configured length of a window.", windows, "stream"
        ),
        *_taken_in(count.found),
        *_devices(count.found),
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


def _stored(held: list[Holding], now: int) -> Iterator[Family]:
    def total(of: str) -> Values:
        found: Counter[str] = Counter()
        for each in held:
            found[each.stream] += getattr(each, of)
        return found

    def newest(of: str) -> dict[str, float]:
        found: dict[str, float] = {}
        for each in held:
            found[each.stream] = max(found.get(each.stream, 0), getattr(each, of))
        return found

    def family(name: str, kind: str, says: str, values: Values) -> Family:
        return Family(f"pansketch_{name}", kind, says, values, "stream")

    ends = newest("last_end")
    lags = {stream: now - end for stream, end in ends.items()}
    yield family("releases_stored", "gauge", "Releases that count.", total("windows"))
    yield family("missing_windows", "gauge", "Gaps in sequence numbers.", total("gaps"))
    yield family("late_windows", "gauge", "Came after a later one.", total("late"))
    yield family("disputed_windows", "gauge", "Set aside: bytes differ.", total("disputed"))
    yield family(
        "unsynchronised_windows", "gauge", "Closed by a free clock.", total("unsynchronised")
    )
    yield family("newest_window_end_timestamp_seconds", "gauge", "Newest window's end.", ends)
    yield family("lag_seconds", "gauge", "Since the newest window's end.", lags)
    yield family(
        "newest_arrival_timestamp_seconds",
        "gauge",
        "When a release was stored last.",
        newest("received_at"),
    )


def _taken_in(found: Overview) -> Iterator[Family]:
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
    said = [heard.health for heard in found.healths.values()]
    waiting = {"": sum(health.waiting for health in said)}
    oldest = {"": max((health.oldest_waiting_seconds or 0 for health in said), default=0)}
    dropped = {"": sum(health.dropped for health in said)}
    aside = {"": sum(health.set_aside for health in said)}
    name = "pansketch_backlog"
    yield Family(f"{name}_releases", "gauge", "Waiting on devices, as they said last.", waiting)
    yield Family(f"{name}_oldest_seconds", "gauge", "The one that waits longest.", oldest)
    yield Family(f"{name}_dropped", "gauge", "Outboxes had no room for them.", dropped)
    yield Family(f"{name}_set_aside", "gauge", "Wait on devices for somebody.", aside)


def _escaped(value: str) -> str:
    return "".join(_ESCAPES.get(character, character) for character in value)
