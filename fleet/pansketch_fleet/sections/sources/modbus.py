"""A `source:` section of Modbus registers: the address of the devices, and each register."""

import re
from math import isfinite
from typing import Any
from urllib.parse import urlsplit

from pansketch_fleet.sections.mqtt import is_host
from pansketch_fleet.sections.sources.sensors import read_interval
from pansketch_fleet.settings.section import join, nearest, section
from pansketch_fleet.settings.source_schema import (
    BAUDS,
    PARITIES,
    REGISTER_TYPES,
    TABLES,
    WORDS,
    ModbusSection,
    RegisterSection,
)
from pansketch_fleet.settings.sources import ModbusSource, Register
from pansketch_fleet.yaml.document import Document

PORT = 502
MAX_UNIT, MAX_ADDRESS = 247, 65535
_SERIAL = re.compile(r"rtu:(/[\w./:+@-]{1,200})", re.ASCII)
_EXAMPLE = "write tcp://192.0.2.9:502, or rtu:/dev/ttyUSB0"


def read_modbus(document: Document, where: str, raw: dict[str, Any]) -> ModbusSource:
    """Read the section. Raises ConfigError."""
    given = section(document, where, raw, ModbusSection)
    place, port = _place(document, where, given.url)
    if given.baud not in BAUDS:
        known = ", ".join(map(str, BAUDS))
        problem = f"{given.baud} is unknown; use one of {known}"
        raise document.error(join(where, "baud"), problem)
    _one_of(document, join(where, "parity"), given.parity, PARITIES)
    registers = {
        name: _register(document, join(join(where, "registers"), name), inner)
        for name, inner in given.registers.items()
    }
    interval_seconds = read_interval(document, where, given.interval)
    return ModbusSource(place, port, given.baud, given.parity, registers, interval_seconds)


def _place(document: Document, where: str, text: str) -> tuple[str, int | None]:
    if serial := _SERIAL.fullmatch(text):
        return serial[1], None
    try:
        url = urlsplit(text)
        port = PORT if url.port is None else url.port
    except ValueError:
        raise document.error(join(where, "url"), f"is no address; {_EXAMPLE}") from None
    host, rest = url.hostname or "", url.path or url.query or url.fragment or "@" in url.netloc
    if url.scheme != "tcp" or rest or not is_host(host) or not 1 <= port <= 65535:
        raise document.error(join(where, "url"), f"is no address of a Modbus device; {_EXAMPLE}")
    return host, port


def _register(document: Document, where: str, raw: Any) -> Register:
    given = section(document, where, raw, RegisterSection)
    _one_of(document, join(where, "table"), given.table, TABLES)
    _one_of(document, join(where, "type"), given.type, REGISTER_TYPES)
    _one_of(document, join(where, "words"), given.words, WORDS)
    _within(document, join(where, "unit"), given.unit, 0, MAX_UNIT)
    last = MAX_ADDRESS - given.type.endswith("32")
    _within(document, join(where, "address"), given.address, 0, last)
    if not isfinite(given.scale) or given.scale == 0:
        raise document.error(join(where, "scale"), "is impossible; write a number such as 0.1")
    low_first = given.words == "low-first"
    return Register(given.address, given.table, given.unit, given.type, given.scale, low_first)


def _within(document: Document, where: str, number: int, low: int, high: int) -> None:
    if not low <= number <= high:
        raise document.error(where, f"{number} is impossible; write {low} to {high}")


def _one_of(document: Document, where: str, text: str, known: tuple[str, ...]) -> None:
    if text not in known:
        raise document.error(where, f"{text[:40]!r} is unknown; {nearest(text, known)}")


def check_registers(
    document: Document, where: str, source: ModbusSource, names: tuple[str, ...]
) -> None:
    """Raise ConfigError unless `registers` has one for each of the names, and no other."""
    place = join(where, "registers")
    for name in source.registers:
        if name not in names:
            problem = f"is no attribute of this stream; {nearest(name, names)}"
            raise document.error(join(place, name), problem)
    for name in names:
        if name not in source.registers:
            problem = f"has no register for the attribute {name}; add {name}: {{address: 30}}"
            raise document.error(place, problem)
