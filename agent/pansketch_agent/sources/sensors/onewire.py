"""1-wire thermometers (DS18B20 and its family): degrees Celsius, only with a valid checksum.

A sensor is the device's id. The kernel's own result (YES) is checked again over the nine bytes. Two
answers with a valid checksum are refused: 85 degC and zeros only. A sensor sends the former after a
loss of power, and a short circuit causes the latter.
"""

import re
from collections.abc import Iterator
from math import nan
from pathlib import Path

from pansketch_agent.sources.sensors import sysfs

DEVICES, FILE = "sys/bus/w1/devices", "w1_slave"
FAMILIES = ("10", "22", "28", "3b", "42")
UNIT = "degC"
POWER_ON = 85_000
_ANSWER = re.compile(
    r"((?:[0-9a-f]{2} ){9}): crc=([0-9a-f]{2}) YES\n(?:[0-9a-f]{2} ){9}t=(-?[0-9]{1,6})\n?"
)


def measure(place: str, root: Path) -> float:
    """Return the device's current temperature; NaN if there is none."""
    try:
        return temperature(sysfs.text(root / DEVICES / place / FILE))
    except (OSError, ValueError):
        return nan


def devices(root: Path) -> Iterator[str]:
    """Yield the ids of the thermometers on the bus."""
    for path in sorted((root / DEVICES).glob("*-*")):
        if path.name.partition("-")[0] in FAMILIES:
            yield path.name


def temperature(answer: str) -> float:
    """Parse a file w1_slave to degrees Celsius. Raises ValueError for an invalid answer."""
    match = _ANSWER.fullmatch(answer)
    if match is None:
        raise ValueError
    scratchpad, thousandths = bytes.fromhex(match[1]), int(match[3])
    right = crc8(scratchpad[:8]) == scratchpad[8] == int(match[2], 16)
    if not right or not any(scratchpad) or thousandths == POWER_ON:
        raise ValueError
    return thousandths / 1000


def crc8(content: bytes) -> int:
    """Return the checksum of 1-wire: x^8 + x^5 + x^4 + 1, lowest bit first (Maxim, AN 27)."""
    remainder = 0
    for byte in content:
        remainder ^= byte
        for _ in range(8):
            remainder = remainder >> 1 ^ (0x8C if remainder & 1 else 0)
    return remainder
