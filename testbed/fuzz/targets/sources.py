"""Inputs from sensors: JSON lines and messages, CSV files, and the small files of /sys and
/proc."""

import csv
import gzip
import io
import os
import threading
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import numpy as np

from pansketch import Attribute, Domain
from pansketch_agent.commands import list_sensors
from pansketch_agent.host.clock import Clock
from pansketch_agent.sources import metrics_page, replay, stdin
from pansketch_agent.sources.decoders import KeyDecoder, ReadingDecoder, RecordDecoder
from pansketch_agent.sources.readings import NotOfferedError, Readings, Rows, SourceError
from pansketch_agent.sources.sensors import host_metrics, hwmon, iio, onewire
from testbed.fuzz.harness.target import Bound, Run, Target, require

DOMAIN = Domain([Attribute("temp", -40, 60), Attribute("wind", categories=("N", "E"))])
STILL = Clock(lambda: 1.0, lambda: 0.0, lambda _stop, _seconds: False)
FORMS: tuple[RecordDecoder, ...] = (
    ReadingDecoder(DOMAIN),
    ReadingDecoder(DOMAIN, {"temp": ("a", "0", "t"), "wind": ()}),
    KeyDecoder("badge", None),
    KeyDecoder("badge", 70_000, ("a", "1")),
)
MAX_PIPE = 60_000
JSON = (
    b'{"temp": 271828.182, "wind": "E"}', b'{"badge": "badge-of-ada"}', b'{"badge": 271828}',
    b'{"a": [{"t": 271828.182}, "65535"]}', b'"N"', b"271828.182",
)  # fmt: skip
TOKENS = (
    b"\n", b"\r\n", b'"', b"{", b"[", b"]", b"}", b":", b",", b"NaN", b"Infinity", b"-", b"1e999",
    b"\\u0000", b"\\ud800", b"\xff", b"9" * 20, b"9" * 5000, b"[" * 2000, b'{"a":' * 400, b"null",
    b"true", b" " * 300, b"x" * 8192,
)  # fmt: skip


def _open_lines(_folder: Path) -> Run:
    return _lines


def _lines(data: bytes) -> None:
    """However the bytes arrive, the same rows come of them."""
    data, middle = data[:MAX_PIPE], len(data[:MAX_PIPE]) // 2
    for form in FORMS:
        whole = _taken([data], form)
        parts = _taken([data[:middle], data[middle:]], form)
        require(whole.tobytes() == parts.tobytes(), "rows differ by how their bytes arrive")


def _taken(parts: Iterable[bytes], form: RecordDecoder) -> Rows:
    """The rows of what comes through a pipe, one part after the other was read."""
    reading, writing = os.pipe()
    rest = iter([part for part in parts if part])
    try:
        with os.fdopen(writing, "wb", 0) as pipe:

            def feed(_stop: threading.Event, _seconds: float) -> bool:
                if part := next(rest, b""):
                    pipe.write(part)
                else:
                    pipe.close()
                return False

            feed(threading.Event(), 0.0)
            clock = Clock(STILL.now, STILL.monotonic, feed)
            found = stdin.lines(reading, form, clock, threading.Event(), 1e9)
            return np.concatenate([form.empty(0), *(block.rows.copy() for block in found)])
    finally:
        os.close(reading)


def _open_message(_folder: Path) -> Run:
    return _message


def _message(data: bytes) -> None:
    """A message that does not fit a form leaves its row unchanged."""
    for form in FORMS:
        rows = form.empty(1)
        if not form.decode_line(memoryview(data), rows, 0):
            require(not rows.any(), "a message that is none has written a row")
        form.overwrite_freed()


def _open_page(_folder: Path) -> Run:
    return _page_line


def _page_line(data: bytes) -> None:
    """A line of a page of metrics is a sample, or none."""
    found = metrics_page.parse(memoryview(data))
    require(found is None or type(found[2]) is float, "a sample's value is no number")


def _open_csv(folder: Path) -> Run:
    return _replaying(folder / "rows.csv", lambda data: data)


def _open_gzip(folder: Path) -> Run:
    return _replaying(folder / "rows.csv.gz", lambda data: data)


def _open_packed(folder: Path) -> Run:
    """The file is what the input compresses to; its last 2 KiB stand there sixteen times."""
    return _replaying(
        folder / "rows.csv.gz",
        lambda data: gzip.compress(data + 16 * data[-2048:], 1, mtime=0),
    )


def _replaying(path: Path, content: Callable[[bytes], bytes]) -> Run:
    forms = (FORMS[0], FORMS[2])

    def run(data: bytes) -> None:
        path.write_bytes(content(data))
        refused = [error for form in forms if (error := _replayed(path, form)) is not None]
        if refused:
            raise refused[0]

    return run


def _replayed(path: Path, form: RecordDecoder) -> Exception | None:
    """Parsing row by row and in blocks agrees. An exception is returned."""
    stop = threading.Event()
    try:
        blocks = _fingerprint(replay.blocks(path, form))
        paced = _fingerprint(replay.paced(path, form, 60.0, STILL, stop))
    except (SourceError, NotOfferedError) as error:
        return error
    require(blocks == paced, "rows differ between a replay in blocks and a paced one")
    return None


def _fingerprint(found: Iterable[Readings]) -> tuple[int, int]:
    """The number of rows, and a digest of their values."""
    count, number = 0, 0
    for block in found:
        require(
            ((block.at >= 0) & (block.at < replay.MAX_UNIX_SECONDS)).all(),
            "a time beyond all times",
        )
        for moment, row in zip(block.at, block.rows, strict=True):
            count, number = count + 1, hash((number, moment.tobytes(), row.tobytes()))
    return count, number


def _open_small(folder: Path) -> Run:
    return lambda data: _measured(data, folder)


FILES = (
    "sys/bus/iio/devices/iio:device0/name", "sys/bus/iio/devices/iio:device0/in_temp_raw",
    "sys/bus/iio/devices/iio:device0/in_temp_offset",
    "sys/bus/iio/devices/iio:device0/in_temp_scale",
    "sys/class/hwmon/hwmon0/name", "sys/class/hwmon/hwmon0/temp1_input",
    "sys/class/thermal/thermal_zone0/type", "sys/class/thermal/thermal_zone0/temp",
    "sys/bus/w1/devices/28-0316a2798dff/w1_slave", "proc/loadavg", "proc/meminfo", "proc/uptime",
    "sys/devices/system/cpu/cpu0/cpufreq/scaling_cur_freq",
)  # fmt: skip
TREE = (
    b"bme280\n", b"271828\n", b"-1\n", b"0.001\n",
    b"cpu_thermal\n", b"41000\n", b"cpu\n", b"42000\n",
    b"72 01 4b 46 7f ff 0e 10 57 : crc=57 YES\n72 01 4b 46 7f ff 0e 10 57 t=23125\n",
    b"0.1 0.2 0.3 1/271828 9\n", b"MemTotal: 9 kB\nMemAvailable: 4 kB\n",
    b"271828.1 1\n", b"1000\n",
)  # fmt: skip


def _measured(data: bytes, root: Path) -> None:
    """The files' contents, a zero byte between; every sensor is a number or NaN."""
    contents = data.split(b"\0") + [b""] * len(FILES)
    for file, content in zip(FILES, contents, strict=False):
        (root / file).parent.mkdir(parents=True, exist_ok=True)
        (root / file).write_bytes(content)
    values = [iio.measure("iio:device0/temp", root), hwmon.measure("hwmon0/temp1", root)]
    values += [hwmon.measure("thermal_zone0", root), onewire.measure("28-0316a2798dff", root)]
    values += [host_metrics.measure(name, root) for name in host_metrics.SENSORS]
    require(all(type(value) is float for value in values), "a sensor's value is no number")
    cells = [cell for row in list_sensors.as_rows(list_sensors.sensors(root)) for cell in row]
    require(all(cell.isprintable() for cell in cells), "a sensor's line is not printable")


def _csv() -> list[bytes]:
    lines = (
        b"time,temp,wind,badge\n2016-01-01T00:00,271828.182,N,badge-of-ada\n1451606460,2,E,b\n",
        b'time,badge\n"1451606400","badge-of-ada"\n1451606400,"a""b\n"\n',
        b"271828.182,N,badge-of-ada\n3,E,b\n",
    )
    return [*lines, b"\xef\xbb\xbf" + lines[0].replace(b"\n", b"\r\n")]


def _header(data: bytes) -> bytes:
    """The first row of a file, where it is one of names: those may be shown."""
    text = io.StringIO(data.decode("utf-8-sig", "replace"), newline="")
    for row in _sound(csv.reader(text)):
        return ",".join(row).encode() if {"time", *FORMS[0].names, "badge"} & {*row} else b""
    return b""


def _sound(rows: Iterator[list[str]]) -> Iterator[list[str]]:
    while True:
        try:
            yield next(rows)
        except csv.Error:
            continue
        except StopIteration:
            return


FEED = Bound(2 << 20, 100)
TARGETS = {
    "lines": Target(
        "JSON lines on standard input, or of a program", _open_lines, (), lambda: JSON,
        memory=FEED, steps=Bound(100_000, 400), secret=True, tokens=TOKENS,
    ),
    "message": Target(
        "a JSON message of a local topic", _open_message, (), lambda: JSON,
        memory=FEED, steps=Bound(100_000, 400), secret=True, tokens=TOKENS,
    ),
    "page": Target(
        "a line of a page of metrics", _open_page, (),
        lambda: [b'room{name="hall",floor="1"} 271828.182 1520879607 # {id="2"} 3', b"up 1"],
        memory=FEED, steps=Bound(100_000, 400), secret=True,
        tokens=(b"{", b"}", b'"', b"\\", b"=", b",", b" ", b"NaN", b"+Inf", b"# TYPE", b"1e999"),
    ),
    "csv": Target(
        "a replayed CSV file", _open_csv, (SourceError, NotOfferedError), _csv,
        memory=FEED, steps=Bound(200_000, 4_000), secret=True, public=_header,
        tokens=(b"time", b"temp", b",", b'"', b"\n", b"\r", b"\0", b"nan", b"9" * 140_000),
    ),
    "gzip": Target(
        "a replayed CSV file, compressed", _open_gzip, (SourceError, NotOfferedError),
        lambda: [gzip.compress(data, mtime=0) for data in _csv()],
        memory=FEED, steps=Bound(200_000, 40_000),
    ),
    "gzip-packed": Target(
        "what a compressed CSV file unfolds to", _open_packed, (SourceError, NotOfferedError),
        lambda: [*_csv(), b"time,temp,wind\n1,2," + b"N" * 9000],
        memory=FEED, steps=Bound(200_000, 200_000), secret=True, public=_header,
    ),
    "sensors": Target(
        "the small files of /sys and /proc", _open_small, (), lambda: [b"\0".join(TREE)],
        memory=FEED, steps=Bound(60_000, 400), secret=True,
        tokens=(b"\0", b"_", b"1e999", b"nan", b"\xff", b"-", b" YES\n", b"t=85000", b"\x1b[2J"),
    ),
}  # fmt: skip
