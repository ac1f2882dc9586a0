"""Registers of Modbus devices, over TCP or a serial line (RTU): functions 3 and 4.

An answer is read into one fixed buffer that is overwritten. A library would keep the last frames,
and leave copies of each in freed memory. A failure is a missing value, unlogged, because it may be
data. `pansketch-agent check` explains it. (Modbus Application Protocol 1.1b3, Modbus over Serial
Line 1.02)
"""

import os
import select
import socket
import struct
import termios
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from math import isfinite, nan

from pansketch_agent.host.clock import Clock
from pansketch_agent.sources.readings import FloatArray
from pansketch_fleet.settings.sources import ModbusSource, Register

SECONDS = 1.0  # for one answer
FORMATS = {"int16": ">h", "uint16": ">H", "int32": ">i", "uint32": ">I", "float32": ">f"}
FUNCTIONS = {"holding": 3, "input": 4}
FAILED = 0x80  # in the function code of an exception
HEADER_BYTES = 6  # of TCP: transaction, protocol, length of the rest
ANSWER_BYTES = 3  # unit, function, and how many bytes follow or which exception
CRC_BYTES = 2
BUFFER_BYTES = HEADER_BYTES + ANSWER_BYTES + 4 + CRC_BYTES
REFUSALS = {
    1: "does not offer that table",
    2: "has no such address",
    3: "refuses the request",
    4: "has failed",
    6: "is busy",
    10: "is behind a gateway without a path to it",
    11: "does not answer its gateway",
}


class _RefusedError(Exception):
    """The device answers with an exception code; the text explains it."""


def measuring(
    source: ModbusSource, names: tuple[str, ...], clock: Clock
) -> Callable[[FloatArray], None]:
    """Return a function that writes the current values of `names`, NaN for a missing one."""
    wanted = [source.registers[name] for name in names]

    def measure(values: FloatArray) -> None:
        values.fill(nan)
        try:
            with _connected(source, clock) as line:
                for place, register in enumerate(wanted):
                    try:
                        values[place] = line.value(register)
                    except _RefusedError:
                        continue
        except (OSError, ValueError):
            return  # After one timeout all later values are missing, to bound the time.

    return measure


def problems(source: ModbusSource, names: tuple[str, ...], clock: Clock) -> list[str]:
    """Return why attributes have no value now."""
    found = []
    try:
        with _connected(source, clock) as line:
            for name in names:
                register = source.registers[name]
                try:
                    if not isfinite(line.value(register)):
                        found.append(f"{register} ({name}) has no number")
                except _RefusedError as refused:
                    found.append(f"{register} ({name}): the unit {refused}")
                except OSError:
                    found.append(f"{register} ({name}): no answer")
                    break
    except (OSError, ValueError):
        return ["no connection"]
    return found


@contextmanager
def _connected(source: ModbusSource, clock: Clock) -> Iterator["_Connection"]:
    """Yield a connection. Raises OSError if there is none."""
    if source.port is None:
        descriptor = os.open(source.place, os.O_RDWR | os.O_NOCTTY | os.O_NONBLOCK)
        try:
            _set_up(descriptor, source)
            yield _Connection(descriptor, clock, serial=True)
        finally:
            os.close(descriptor)
    else:
        with socket.create_connection((source.place, source.port), SECONDS) as connection:
            connection.setblocking(False)
            yield _Connection(connection.fileno(), clock, serial=False)


def _set_up(descriptor: int, source: ModbusSource) -> None:
    """Configure eight bits, one stop bit, raw. Raises OSError if this is no serial port."""
    parity = {"N": 0, "E": termios.PARENB, "O": termios.PARENB | termios.PARODD}[source.parity]
    speed = getattr(termios, f"B{source.baud}")
    control = termios.CS8 | termios.CREAD | termios.CLOCAL | parity
    try:
        letters = termios.tcgetattr(descriptor)[6]
        termios.tcsetattr(descriptor, termios.TCSANOW, [0, 0, control, 0, speed, speed, letters])
        termios.tcflush(descriptor, termios.TCIOFLUSH)
    except termios.error as error:
        raise OSError(*error.args) from None


class _Connection:
    """Requests and answers on one connection, one after the other."""

    def __init__(self, descriptor: int, clock: Clock, serial: bool) -> None:
        self._descriptor, self._clock, self._serial = descriptor, clock, serial
        self._buffer, self._transaction = bytearray(BUFFER_BYTES), 0

    def value(self, register: Register) -> float:
        """Read a register. Raises _RefusedError, and OSError without a whole answer in time."""
        layout = FORMATS[register.kind]
        size = struct.calcsize(layout)
        request_fields = register.unit, FUNCTIONS[register.table], register.address, size // 2
        try:
            begin = self._exchange(struct.pack(">BBHH", *request_fields), size)
            content = memoryview(self._buffer)[begin : begin + size]
            if register.low_first and size == 4:
                # Single bytes: larger integers would stay in freed memory.
                content[0], content[1], content[2], content[3] = (
                    *(content[2], content[3]),
                    *(content[0], content[1]),
                )
            (number,) = struct.unpack_from(layout, content)
            return float(number) * register.scale
        finally:
            self._buffer[:] = bytes(BUFFER_BYTES)

    def _exchange(self, request: bytes, size: int) -> int:
        """Send a request, and return the position of the registers of its answer in the buffer."""
        until = self._clock.monotonic() + SECONDS
        self._transaction = self._transaction % 0xFFFF + 1
        header = struct.pack(">HHH", self._transaction, 0, len(request))
        framed = request + _crc(request) if self._serial else header + request
        if os.write(self._descriptor, framed) != len(framed):
            raise OSError("the line takes no request")
        before, after = (0, CRC_BYTES) if self._serial else (HEADER_BYTES, 0)
        begin = before + ANSWER_BYTES
        self._receive(0, begin, until)
        unit, function, rest = (
            self._buffer[before],
            self._buffer[before + 1],
            self._buffer[begin - 1],
        )
        refused = function == request[1] | FAILED
        end = begin + (0 if refused else size) + after
        self._receive(begin, end, until)
        frame = memoryview(self._buffer)[before : end - after]
        if self._serial:
            genuine = self._buffer[end - after : end] == _crc(frame)
        else:
            genuine = struct.unpack_from(">HHH", self._buffer) == (
                *(self._transaction, 0),
                len(frame),
            )
        if not genuine or unit != request[0]:
            raise OSError("an answer to something else")
        if refused:
            raise _RefusedError(REFUSALS.get(rest, f"answers with the exception {rest}"))
        if (function, rest) != (request[1], size):
            raise OSError("an answer to something else")
        return begin

    def _receive(self, begin: int, end: int, until: float) -> None:
        """Fill this part of the buffer. Raises OSError if that takes too long."""
        while begin < end:
            left = until - self._clock.monotonic()
            if left <= 0 or not select.select([self._descriptor], [], [], left)[0]:
                raise OSError("no answer in time")
            received = os.readv(self._descriptor, [memoryview(self._buffer)[begin:end]])
            if not received:
                raise OSError("the connection is closed")
            begin += received


def _crc(frame: bytes | memoryview) -> bytes:
    """Return the checksum of a frame on a serial line, its lower byte first."""
    found = 0xFFFF
    for byte in frame:
        found ^= byte
        for _ in range(8):
            found = found >> 1 ^ (0xA001 if found & 1 else 0)
    return struct.pack("<H", found)
