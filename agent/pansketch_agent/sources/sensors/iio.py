"""Industrial I/O: (raw + offset) x scale of a channel, in the units of the kernel's ABI.

A place is DEVICE/CHANNEL: what the device's file `name` says, or its folder (`iio:device0`), and
what stands between `in_` and `_raw` in the name of the channel's file. Scale and offset may be of
the channel, of all channels of its type, or of the whole device; they are 1 and 0 where there is
none. A channel that has only a file `_input` is converted by its driver already.
"""

from collections.abc import Iterator
from math import nan
from pathlib import Path

from pansketch_agent.sources.sensors import sysfs

DEVICES, PREFIX = "sys/bus/iio/devices", "iio:device"
SUFFIXES = ("_raw", "_input")
# Documentation/ABI/testing/sysfs-bus-iio of the Linux kernel.
UNITS = {
    "temp": "degC/1000",
    "humidityrelative": "%/1000",
    "pressure": "kPa",
    "voltage": "mV",
    "current": "mA",
    "power": "mW",
    "resistance": "ohm",
    "illuminance": "lux",
    "accel": "m/s2",
    "anglvel": "rad/s",
    "magn": "gauss",
    "proximity": "m",
    "distance": "m",
    "concentration": "%",
}


def measure(place: str, root: Path) -> float:
    """The channel's value now; NaN when this host has none."""
    name, _, channel = place.partition("/")
    for folder in sysfs.called(root / DEVICES, PREFIX, name, "name"):
        try:
            return _value(folder, channel)
        except (OSError, ValueError):
            continue
    return nan


def channels(root: Path) -> Iterator[tuple[str, str, str]]:
    """(device, channel, unit) of every channel that this host has."""
    for folder in sysfs.folders(root / DEVICES, PREFIX):
        files = [path.name for path in folder.glob("in_*")]
        named = {
            file.removeprefix("in_").removesuffix(suffix)
            for suffix in SUFFIXES
            for file in files
            if file.endswith(suffix)
        }
        for channel in sorted(named):
            device = sysfs.label(folder / "name") or folder.name
            yield device, channel, UNITS.get(_kinds(channel)[-1], "")


def _value(folder: Path, channel: str) -> float:
    try:
        raw = sysfs.number(folder / f"in_{channel}_raw")
    except FileNotFoundError:
        return sysfs.number(folder / f"in_{channel}_input")
    return (raw + _factor(folder, channel, "offset", 0.0)) * _factor(folder, channel, "scale", 1.0)


def _factor(folder: Path, channel: str, what: str, default: float) -> float:
    owners = (*(f"in_{kind}_" for kind in _kinds(channel)), "in_", "")
    for owner in owners:
        try:
            return sysfs.number(folder / f"{owner}{what}")
        except FileNotFoundError:
            continue
    return default


def _kinds(channel: str) -> tuple[str, ...]:
    """The channel and what it may share: accel_x -> accel_x, accel; voltage0 -> voltage0, voltage.

    A differential channel shares by both of its ends: voltage0-voltage1 -> voltage-voltage.
    """
    plain = "-".join(end.rstrip("0123456789") for end in channel.partition("_")[0].split("-"))
    return (channel, plain)
