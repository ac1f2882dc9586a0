"""Comparison of the devices of a stream: estimated totals, and the lag of their newest windows.

collector/pansketch_collector/storage/tables/holding_counts.py adds up the totals of releases. Lags
are stored as ends of windows, which change only with new releases.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import sqrt
from statistics import median

from pansketch_collector.storage.tables.holdings import Holding
from pansketch_fleet.units import lag_text, utc_text

MIN_DEVICES = 7  # of a stream: the median of fewer is no reference
MAX_DEVIATIONS = 10.0
NORMAL = 1.4826  # standard deviation over median absolute deviation, normal distribution

StreamKey = tuple[str, str]  # device, stream


@dataclass(frozen=True)
class DeviceTotal:
    """The estimated total of a device's counted releases of one stream: readings, or occupied
    slots.

    `out_of_line`: its total of a window is further from the median device than MAX_DEVIATIONS
    robust standard deviations. For normal totals of at least seven devices this happens with a
    probability below 0.001 (tests/collector/reports/test_device_comparison.py).
    """

    windows: int
    value: float
    standard_error: float
    out_of_line: bool = False


def device_totals(
    rows: Iterable[tuple[str, str, int, float, float]],
) -> Mapping[StreamKey, DeviceTotal]:
    """Totals from rows of (device, stream, windows, sum of values, sum of variances)."""
    streams: dict[str, dict[str, DeviceTotal]] = {}
    for device, stream, windows, value, variance in rows:
        streams.setdefault(stream, {})[device] = DeviceTotal(windows, value, sqrt(variance))
    found: dict[StreamKey, DeviceTotal] = {}
    for stream, devices in streams.items():
        means = [each.value / each.windows for each in devices.values()]
        median_value = median(means)
        spread = NORMAL * median(abs(mean - median_value) for mean in means)
        for device, each in devices.items():
            deviation = sqrt(spread**2 + (each.standard_error / each.windows) ** 2)
            distance = abs(each.value / each.windows - median_value)
            out_of_line = len(devices) >= MIN_DEVICES and distance > MAX_DEVIATIONS * deviation
            found[device, stream] = DeviceTotal(
                each.windows, each.value, each.standard_error, out_of_line=out_of_line
            )
    return found


@dataclass(frozen=True)
class NewestWindows:
    """Ends of the devices' newest windows of one stream, in unix seconds.

    `newest`: of the first device; `median`: of the median device; `worst`: of the device that lags
    most, `worst_device`.
    """

    newest: int
    median: int
    worst: int
    worst_device: str


def ends_of(holdings: Iterable[Holding]) -> Mapping[str, NewestWindows]:
    """The newest windows by stream, in the order of the names."""
    streams: dict[str, list[tuple[int, str]]] = {}
    for each in holdings:
        streams.setdefault(each.stream, []).append((each.last_end, each.device))
    found = {}
    for stream, ends in sorted(streams.items()):
        worst, device = min(ends)
        median_value = int(median(end for end, _ in ends))
        found[stream] = NewestWindows(max(ends)[0], median_value, worst, device)
    return found


def lag_lines(found: Mapping[str, NewestWindows], now: int) -> list[str]:
    """A line for each stream."""
    return [
        f"lag of {stream}: median device {lag_text(now - ends.median)}, "
        f"worst {lag_text(now - ends.worst)} ({ends.worst_device})"
        for stream, ends in found.items()
    ]


def ends_object(found: Mapping[str, NewestWindows]) -> dict[str, object]:
    """The ends of the newest windows by stream, in UTC: a reader computes lags with his own
    clock."""
    return {
        stream: {
            "newest": utc_text(ends.newest),
            "median": utc_text(ends.median),
            "worst": utc_text(ends.worst),
            "worst_device": ends.worst_device,
        }
        for stream, ends in found.items()
    }
