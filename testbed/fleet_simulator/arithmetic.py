"""The load of a fleet by its configuration: messages, bytes and releases, without a run.

Offsets of devices spread the releases of one window over a tenth of it, at most ten minutes. A
server must keep up with the rate in that time, or catch up in the rest of the window.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace

from pansketch import Entropy
from pansketch_fleet.config.loader import Config, Stream
from pansketch_fleet.settings.device_spec import MAX_OFFSET_SECONDS
from pansketch_fleet.text_table import aligned
from testbed.fleet_simulator.releases import Load, SimulatedFleet

SAMPLE_DEVICES = 64
DAY_SECONDS, YEAR_SECONDS = 86_400, 365 * 86_400
HEALTH_SECONDS = 60  # between two health messages of an agent
HEADER = ("stream", "window", "bytes", "releases/s", "in a tenth", "MB/day", "releases/year")


@dataclass(frozen=True)
class StreamLoad:
    """The releases of one stream by all devices.

    Attributes:
        stream: its name.
        window_seconds: from one release of a device to the next.
        release_bytes: of a payload, the mean of a few.
        releases_per_second: the mean.
        peak_per_second: while the releases of one window arrive.
        bytes_per_day: of payloads.
        releases_per_year: the rows of a database that keeps all.
    """

    stream: str
    window_seconds: int
    release_bytes: float
    releases_per_second: float
    peak_per_second: float
    bytes_per_day: float
    releases_per_year: int


def loads(config: Config, streams: Sequence[Stream], load: Load, rng: Entropy) -> dict[str, object]:
    """The figures of each stream, and how many health messages agents add, for JSON."""
    found = [_stream_load(config, stream, load, rng) for stream in streams]
    return {
        "devices": load.devices,
        "streams": [asdict(each) for each in found],
        "health_per_second": load.devices / HEALTH_SECONDS,
    }


def text(config: Config, streams: Sequence[Stream], load: Load, rng: Entropy) -> str:
    """The same as a table."""
    rows = []
    for each in (_stream_load(config, stream, load, rng) for stream in streams):
        rows.append(
            (
                each.stream,
                f"{each.window_seconds} s",
                f"{each.release_bytes:,.0f}",
                f"{each.releases_per_second:,.2f}",
                f"{each.peak_per_second:,.1f}",
                f"{each.bytes_per_day / 1e6:,.1f}",
                f"{each.releases_per_year:,}",
            )
        )
    health = f"health messages: {load.devices / HEALTH_SECONDS:,.1f}/s"
    lines = [f"{load.devices:,} devices", *aligned(HEADER, rows, HEADER[1:]), health]
    return "\n".join(lines)


def _stream_load(config: Config, stream: Stream, load: Load, rng: Entropy) -> StreamLoad:
    few = replace(load, devices=SAMPLE_DEVICES, windows=1)
    made = [m.payload for m in SimulatedFleet(config, [stream], few, rng).messages() if m.digest]
    size, seconds = sum(map(len, made)) / len(made), stream.window_seconds
    spread = max(1, min(seconds // 10, MAX_OFFSET_SECONDS))
    return StreamLoad(
        stream.name,
        seconds,
        size,
        load.devices / seconds,
        load.devices / spread,
        size * load.devices * DAY_SECONDS / seconds,
        load.devices * YEAR_SECONDS // seconds,
    )
