"""Industrial I/O: (raw + offset) x scale of a channel, in the units of the kernel's ABI.

A sensor is DEVICE/CHANNEL. DEVICE is the content of the device's file `name`, or its folder
(`iio:device0`). CHANNEL is the part between `in_` and `_raw` in the name of the channel's file.
Scale and offset may belong to the channel, to all channels of its type, or to the whole device.
They default to 1 and 0. The driver has already converted a channel that has only a file `_input`.
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
    """Return the channel's current value; NaN if this host has none."""
    name, _, channel = place.partition("/")
    for folder in sysfs.matching(root / DEVICES, PREFIX, name, "name"):
        try:
            return _value(folder, channel)
        except (OSError, ValueError):
            continue
    return nan


def channels(root: Path) -> Iterator[tuple[str, str, str]]:
    """Yield (device, channel, unit) of every channel of this host."""
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
    """Return the channel and its type: accel_x -> accel_x, accel; voltage0 -> voltage0, voltage.

    The type of a differential channel has both ends: voltage0-voltage1 -> voltage-voltage.
    """
    plain = "-".join(end.rstrip("0123456789") for end in channel.partition("_")[0].split("-"))
    return (channel, plain)
