"""Comparison of the devices of a stream: estimated totals, and the lag of their newest windows.

collector/pansketch_collector/storage/tables/holding_counts.py adds up the totals of releases. Lags
are kept as ends of windows, which change only when releases come.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import sqrt
from statistics import median

from pansketch_collector.storage.tables.holdings import Holding
from pansketch_fleet.units import lag_text, utc_text

MIN_DEVICES = 7  # of a stream: fewer have no middle to be compared with
MAX_DEVIATIONS = 10.0
NORMAL = 1.4826  # deviations of the median of absolute deviations, for a normal distribution

StreamKey = tuple[str, str]  # device, stream


@dataclass(frozen=True)
class DeviceTotal:
    """What a device's releases of one stream, without excluded ones, say together: readings, or
    full slots of keys. `out_of_line`: the total of a window is further from the median device than
    MAX_DEVIATIONS robust standard deviations. Among normal totals of seven devices or more fewer
    than one in a thousand is (tests/collector/reports/test_device_comparison.py)."""

    windows: int
    value: float
    standard_error: float
    out_of_line: bool = False


def judged(rows: Iterable[tuple[str, str, int, float, float]]) -> Mapping[StreamKey, DeviceTotal]:
    """From (device, stream, windows, sum of values, sum of variances)."""
    streams: dict[str, dict[str, DeviceTotal]] = {}
    for device, stream, windows, value, variance in rows:
        streams.setdefault(stream, {})[device] = DeviceTotal(windows, value, sqrt(variance))
    found: dict[StreamKey, DeviceTotal] = {}
    for stream, devices in streams.items():
        means = [each.value / each.windows for each in devices.values()]
        middle = median(means)
        spread = NORMAL * median(abs(mean - middle) for mean in means)
        for device, each in devices.items():
            deviation = sqrt(spread**2 + (each.standard_error / each.windows) ** 2)
            away = abs(each.value / each.windows - middle)
            out = len(devices) >= MIN_DEVICES and away > MAX_DEVIATIONS * deviation
            found[device, stream] = DeviceTotal(
                each.windows, each.value, each.standard_error, out_of_line=out
            )
    return found


@dataclass(frozen=True)
class NewestWindows:
    """Ends of the devices' newest windows of one stream, in unix seconds: of the device that is
    ahead, of the median device, and of the one that lags most, with its name."""

    newest: int
    median: int
    worst: int
    worst_device: str


def ends_of(held: Iterable[Holding]) -> Mapping[str, NewestWindows]:
    """By stream, in the order of their names."""
    streams: dict[str, list[tuple[int, str]]] = {}
    for each in held:
        streams.setdefault(each.stream, []).append((each.last_end, each.device))
    found = {}
    for stream, ends in sorted(streams.items()):
        worst, device = min(ends)
        middle = int(median(end for end, _ in ends))
        found[stream] = NewestWindows(max(ends)[0], middle, worst, device)
    return found


def lag_lines(found: Mapping[str, NewestWindows], now: int) -> list[str]:
    """A line for each stream."""
    return [
        f"lag of {stream}: median device {lag_text(now - ends.median)}, "
        f"worst {lag_text(now - ends.worst)} ({ends.worst_device})"
        for stream, ends in found.items()
    ]


def ends_object(found: Mapping[str, NewestWindows]) -> dict[str, object]:
    """By stream when the newest windows end, in UTC: a reader counts lags from his own clock."""
    return {
        stream: {
            "newest": utc_text(ends.newest),
            "median": utc_text(ends.median),
            "worst": utc_text(ends.worst),
            "worst_device": ends.worst_device,
        }
        for stream, ends in found.items()
    }
