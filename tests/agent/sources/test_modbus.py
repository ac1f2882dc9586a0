"""Registers of a real Modbus server, over TCP and a serial line: values, and what is missing."""

import asyncio
import os
import select
import socket
import threading
import tty
from contextlib import contextmanager
from math import nan
from pathlib import Path

import numpy as np
import pytest
from pymodbus.server import ModbusSerialServer, ModbusTcpServer
from pymodbus.simulator import DataType, SimData, SimDevice

from pansketch_agent.__main__ import main
from pansketch_agent.diagnostics.check import check
from pansketch_agent.host.clock import system_clock
from pansketch_agent.runtime.stream_builder import open_source
from pansketch_agent.sources.modbus import (
    _Connection,
    _crc,
    _RefusedError,
    measuring,
    problems,
)
from pansketch_fleet.config.loader import ConfigError
from pansketch_fleet.settings.sources import ModbusSource, Register
from testbed.embedded_broker import free_port
from tests.agent.sources.manual_clock import ManualClock
from tests.waiting import until

GOOD = "{address: 0, scale: 0.1}"
TABLE = [
    SimData(0, values=-215, datatype=DataType.INT16),
    SimData(1, values=65000, datatype=DataType.UINT16),
    SimData(2, values=-70000, datatype=DataType.INT32),
    SimData(4, values=4_000_000_000, datatype=DataType.UINT32),
    SimData(6, values=21.5, datatype=DataType.FLOAT32),
    SimData(8, values=[0, 0x41AC], datatype=DataType.REGISTERS),  # 21.5, its words turned round
    SimData(10, values=[0x7FC0, 0], datatype=DataType.REGISTERS),  # not a number
]


@contextmanager
def serving(made):
    """A server of unit 1, in a thread of its own."""
    ready, stop = threading.Event(), {}

    async def serve() -> None:
        server = made(SimDevice(1, TABLE))
        await server.listen()
        stop["loop"], stop["event"] = asyncio.get_running_loop(), asyncio.Event()
        ready.set()
        await stop["event"].wait()
        await server.shutdown()

    thread = threading.Thread(target=asyncio.run, args=(serve(),))
    thread.start()
    try:
        until(ready.is_set, "the server")
        yield
    finally:
        stop["loop"].call_soon_threadsafe(stop["event"].set)
        thread.join(10)


@pytest.fixture
def port():
    found = free_port()
    with serving(lambda device: ModbusTcpServer(device, address=("127.0.0.1", found))):
        yield found


@pytest.fixture
def wire(tmp_path):
    """A serial line: the names of its two ends."""
    pairs = [os.openpty() for _ in range(2)]
    for handle in (each for pair in pairs for each in pair):
        tty.setraw(handle)
    (one, _), (other, _) = pairs
    stop = threading.Event()

    def carry() -> None:
        while not stop.is_set():
            for ready in select.select([one, other], [], [], 0.05)[0]:
                os.write(other if ready == one else one, os.read(ready, 256))

    thread = threading.Thread(target=carry)
    thread.start()
    yield [os.ttyname(inner) for _, inner in pairs]
    stop.set()
    thread.join(10)
    for handle in (each for pair in pairs for each in pair):
        os.close(handle)


def source(url: str, temp: str = GOOD, more: str = "") -> str:
    registers = f"{{temp: {temp}, wind: {{address: 1, type: uint16}}}}"
    return f'{{type: modbus, url: "{url}", interval: 1s, registers: {registers}{more}}}'


def reading(stream) -> list[float]:
    """Of the first tick."""
    stop, clock = threading.Event(), ManualClock(1000.25).clock()
    polls = open_source(stream, clock, stop, Path("/"), lambda: 0.5, print)
    (row,) = next(polls).rows.tolist()
    polls.close()
    return row


@pytest.mark.parametrize(
    ("temp", "value"),
    [
        (GOOD, -21.5),
        ("{address: 2, type: int32}", -70000),
        ("{address: 4, type: uint32, scale: 1.0e-6}", 4000),
        ("{address: 6, type: float32}", 21.5),
        ("{address: 6, type: float32, table: input}", 21.5),
        ("{address: 8, type: float32, words: low-first}", 21.5),
        ("{address: 10, type: float32}", nan),
        ("{address: 900}", nan),
    ],
)
def test_registers_become_readings(device, port, temp, value):
    stream = device.configure(source=source(f"tcp://127.0.0.1:{port}", temp)).streams[0]
    assert np.allclose(reading(stream), [value, 65000], equal_nan=True)


def test_a_serial_line_is_read_too(device, wire):
    mine, theirs = wire
    with serving(lambda unit: ModbusSerialServer(unit, port=theirs, baudrate=9600)):
        stream = device.configure(source=source(f"rtu:{mine}", more=", baud: 9600")).streams[0]
        assert reading(stream) == [-21.5, 65000]


@pytest.mark.parametrize("url", ["tcp://127.0.0.1:{port}", "rtu:/dev/no-such-port"])
def test_a_device_that_is_absent_is_missing_data(device, caplog, url):
    stream = device.configure(source=source(url.format(port=free_port()))).streams[0]
    assert np.isnan(reading(stream)).all()
    assert not caplog.records


TEMP = Register(0, "holding", 1, "int16", 0.1, False)
ANSWER = "0001 0000 0005 01 03 02 ff29"


def value_of(answer: str, register=TEMP):
    """Return the value that a connection reads from these bytes, and its buffer afterwards."""
    mine, theirs = socket.socketpair()
    with mine, theirs:
        theirs.sendall(bytes.fromhex(answer))
        theirs.shutdown(socket.SHUT_WR)
        line = _Connection(mine.fileno(), system_clock(), serial=False)
        try:
            return line.value(register)
        finally:
            assert not any(line._buffer)


def test_a_name_that_cannot_be_looked_up_is_missing_data():
    """The resolver raises no OSError for such a name."""
    register = Register(0, "holding", 1, "int16", 1.0, low_first=False)
    place = ModbusSource(f"{64 * 'a'}.b", 502, 9600, "N", {"temp": register}, 1.0)
    values = np.zeros(1)
    measuring(place, ("temp",), system_clock())(values)
    assert np.isnan(values[0])
    assert problems(place, ("temp",), system_clock()) == ["no connection"]


def test_an_answer_is_read_and_nothing_of_it_is_kept():
    assert value_of(ANSWER) == -21.5
    high = Register(0, "input", 1, "int32", 1.0, False)
    low = Register(0, "input", 1, "int32", 1.0, True)
    assert value_of("0001 0000 0007 01 04 04 fffe ee90", high) == -70000
    assert value_of("0001 0000 0007 01 04 04 ee90 fffe", low) == -70000


@pytest.mark.parametrize(
    "answer",
    [
        "",
        "0001 0000",
        "0001 0000 0005 01 03 02 ff",
        "0002 0000 0005 01 03 02 ff29",
        "0001 0001 0005 01 03 02 ff29",
        "0001 0000 0006 01 03 02 ff29",
        "0001 0000 0005 02 03 02 ff29",
        "0001 0000 0005 01 04 02 ff29",
        "0001 0000 0005 01 03 04 ff29",
        "0001 0000 0003 02 83 02",
    ],
    ids=["none", "header", "cut", "transaction", "protocol", "length", "unit", "function", "bytes",
         "refusal of another unit"],
)  # fmt: skip
def test_an_answer_to_something_else_is_none(answer):
    with pytest.raises(OSError, match=r"answer|closed"):
        value_of(answer)


def test_a_refusal_states_why():
    for code, says in (("02", "has no such address"), ("63", "answers with the exception 99")):
        with pytest.raises(_RefusedError, match=says):
            value_of(f"0001 0000 0003 01 83 {code}")


@pytest.mark.parametrize("spoiled", range(7))
def test_a_frame_with_a_wrong_checksum_is_no_answer(spoiled):
    """The example of the serial line's specification has this checksum for 02 07."""
    assert _crc(b"\x02\x07") == b"\x41\x12"
    frame = bytearray(b"\x01\x03\x02\xff\x29")
    frame += _crc(frame)
    for wrong in (False, True):
        frame[spoiled] ^= 0x40 * wrong
        mine, theirs = socket.socketpair()
        with mine, theirs:
            theirs.sendall(frame)
            theirs.shutdown(socket.SHUT_WR)
            line = _Connection(mine.fileno(), system_clock(), serial=True)
            if wrong:
                with pytest.raises((OSError, _RefusedError)):
                    line.value(TEMP)
            else:
                assert line.value(TEMP) == -21.5
            assert not any(line._buffer)


def finding(config) -> tuple[str, str]:
    found = check(config, Path("/"), system_clock())
    (of_source,) = [each for each in found if each.subject == "source air"]
    return of_source.state, of_source.text


def test_check_states_what_is_wrong(device, port):
    url = f"tcp://127.0.0.1:{port}"
    found = "holding 0 of unit 1, holding 1 of unit 1"
    assert finding(device.configure(source=source(url))) == ("ok", f"readable at {url}: {found}")
    fix = "; correct streams.air.source, or its wiring"
    for temp, problem in (
        ("{address: 900}", "holding 900 of unit 1 (temp): the unit has no such address"),
        ("{address: 10, type: float32}", "holding 10 of unit 1 (temp) has no number"),
    ):
        config = device.configure(source=source(url, temp))
        assert finding(config) == ("wrong", f"{url}: {problem}{fix}")
    url = f"tcp://127.0.0.1:{free_port()}"
    assert finding(device.configure(source=source(url))) == ("wrong", f"{url}: no connection{fix}")


def test_its_settings_are_shown(device, capsys):
    device.configure(source=source("tcp://192.0.2.9"))
    assert main(["validate", "--config", str(device.config)]) == 0
    assert main(["print-config", "--config", str(device.config)]) == 0
    out = capsys.readouterr().out
    assert "holding 0 of unit 1, holding 1 of unit 1 at tcp://192.0.2.9:502, every 1s" in out
    assert "source.registers.temp" in out


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        (source("http://x"), "source.url: is no address of a Modbus device; write tcp://"),
        (source("rtu:ttyUSB0"), "source.url: is no address of a Modbus device"),
        (source("tcp://a..b"), "source.url: is no address of a Modbus device; write tcp://"),
        (source("tcp://x", more=", parity: X"), "source.parity: 'X' is unknown; use one of N, E"),
        (source("tcp://x", more=", baud: 1"), "source.baud: 1 is unknown; use one of 1200"),
        (source("tcp://x", "{address: 1, type: int8}"), "registers.temp.type: 'int8' is unknown"),
        (source("tcp://x", "{address: 70000}"), "temp.address: 70000 is impossible"),
        (source("tcp://x", "{address: 65535, type: int32}"), "temp.address: 65535 is impossible"),
        (source("tcp://x", "{address: 1, unit: 248}"), "temp.unit: 248 is impossible"),
        (source("tcp://x", "{address: 1, table: coil}"), "temp.table: 'coil' is unknown"),
        (source("tcp://x", "{address: 1, scale: 0}"), "temp.scale: is impossible"),
        (source("tcp://x", "{adress: 1}"), "temp.adress: unknown key; did you mean address?"),
        (
            "{type: modbus, url: 'tcp://x', registers: {temp: {address: 1}}}",
            "source.registers: has no register for the attribute wind; add wind: {address: 30}",
        ),
    ],
)
def test_what_cannot_be_is_refused_where_it_stands(device, settings, words):
    with pytest.raises(ConfigError) as refused:
        device.configure(source=settings)
    assert words in str(refused.value)
