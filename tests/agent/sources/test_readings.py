"""Sources: the readings of a row, a line or a sensor, and the silent drops."""

import gzip
import os
import sys
import threading
from math import isnan, nan
from struct import calcsize

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pansketch import Attribute, Domain
from pansketch_agent.sources import readings as module
from pansketch_agent.sources import replay, stdin
from pansketch_agent.sources.decoders import ReadingDecoder
from pansketch_agent.sources.readings import NotOfferedError, SourceError
from pansketch_agent.sources.sensors import host_metrics
from tests.agent.sources.manual_clock import ManualClock

DOMAIN = Domain((Attribute("temp", -40, 60), Attribute("wind", categories=("calm", "N", "NO"))))
FORM = ReadingDecoder(DOMAIN)


def taken(source) -> list[list[float]]:
    """[time, values...] of every reading, copied before the source overwrites its buffer."""
    rows = []
    for readings in source:
        assert readings.rows.shape == (len(readings.at), 2)
        rows += np.column_stack([readings.at, readings.rows]).tolist()
    return rows


def same(rows: list[list[float]], expected: list[list[float]]) -> bool:
    return len(rows) == len(expected) and np.array_equal(rows, expected, equal_nan=True)


def write(path, text):
    if path.suffix == ".gz":
        path.write_bytes(gzip.compress(text.encode()))
    else:
        path.write_text(text)
    return path


@pytest.mark.parametrize("name", ["rows.csv", "rows.csv.gz"])
def test_replay_reads_columns_by_name_and_categories_by_code(tmp_path, name):
    text = "wind,note,time,temp\nN,x,2024-01-01T00:00:00Z,1.5\nNO,y,1704067201.5, -3\n"
    rows = taken(replay.blocks(write(tmp_path / name, text), FORM))
    assert rows == [[1704067200.0, 1.5, 1.0], [1704067201.5, -3.0, 2.0]]


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("2024-01-01T00:00:00Z", 1704067200.0),
        ("2024-01-01 00:00", 1704067200.0),
        ("2024-01-01T01:00:00+01:00", 1704067200.0),
        (" 1704067200 ", 1704067200.0),
        ("yesterday", nan),
        ("", nan),
        ("9999-12-31T23:59:59-23:59", nan),
    ],
)
def test_times(text, seconds):
    got = replay.unix_seconds(text)
    assert got == seconds or (isnan(seconds) and not 0 <= got < replay.MAX_UNIX_SECONDS)


@pytest.mark.parametrize("cell", ["", "NaN", "x", "1_0", "1,5", "--", "0x10", "\0"])
def test_a_cell_that_is_no_number_leaves_only_its_time(tmp_path, cell):
    path = write(tmp_path / "rows.csv", f'time,temp,wind\n10,"{cell}",N\n20,5,N\n')
    assert same(taken(replay.blocks(path, FORM)), [[10, nan, 1], [20, 5, 1]])


@pytest.mark.parametrize("cell", ["", "n", "West", "1", "nan"])
def test_a_category_that_is_none_leaves_only_its_time(tmp_path, cell):
    path = write(tmp_path / "rows.csv", f"time,temp,wind\n10,5,{cell}\n")
    assert same(taken(replay.blocks(path, FORM)), [[10, 5, nan]])


@pytest.mark.parametrize(
    "row", ["", ",5,N", "later,5,N", "nan,5,N", "-5,5,N", "inf,5,N", "1e300,5"]
)
def test_a_row_without_a_time_is_left_out(tmp_path, row):
    path = write(tmp_path / "rows.csv", f"time,temp,wind\n{row}\n20,5,N\n")
    assert taken(replay.blocks(path, FORM)) == [[20, 5, 1]]


def test_a_short_row_has_no_values(tmp_path):
    path = write(tmp_path / "rows.csv", "time,temp,wind\n10\n20,5,N\n")
    assert same(taken(replay.blocks(path, FORM)), [[10, nan, nan], [20, 5, 1]])


def test_many_rows_come_in_blocks_and_the_buffer_is_overwritten(tmp_path):
    count = 2 * replay.BLOCK_ROWS + 7
    text = "time,temp,wind\n" + "".join(f"{number},7.25,N\n" for number in range(count))
    kept = []
    rows = 0
    for readings in replay.blocks(write(tmp_path / "rows.csv", text), FORM):
        rows += len(readings.at)
        assert (readings.rows[:, 0] == 7.25).all()
        kept.append(readings.rows)
    assert rows == count
    assert not any((values == 7.25).any() for values in kept)


@pytest.mark.parametrize(
    ("text", "error", "words"),
    [
        ("", SourceError, "no column 'time'"),
        ("when,temp,wind\n", SourceError, "only: when, temp, wind"),
        ("time,temp\n", NotOfferedError, "no 'wind'; rename it to one of: temp"),
    ],
)
def test_a_header_that_lacks_something_is_reported_with_what_there_is(tmp_path, text, error, words):
    with pytest.raises(error, match=words):
        replay.check(write(tmp_path / "rows.csv", text), DOMAIN.names)


def test_a_damaged_gzip_is_reported_without_its_contents(tmp_path):
    text = "time,temp,wind\n" + "".join(f"{n},{n % 50}.5,N\n" for n in range(20000))
    path = write(tmp_path / "rows.csv.gz", text)
    path.write_bytes(path.read_bytes()[:-200])
    with pytest.raises(SourceError, match=r"rows.csv.gz: is damaged .*; fetch the file again"):
        taken(replay.blocks(path, FORM))


@given(st.binary(max_size=300))
def test_no_file_breaks_the_reader(tmp_path_factory, content):
    path = tmp_path_factory.mktemp("any") / "rows.csv"
    path.write_bytes(b"time,temp,wind\n" + content)
    for _, temp, wind in taken(replay.blocks(path, FORM)):
        assert isinstance(temp, float)
        assert isnan(wind) or wind in (0, 1, 2)


def test_a_paced_replay_yields_one_reading_when_its_time_has_come(tmp_path):
    path = write(tmp_path / "rows.csv", "time,temp,wind\n100,1,N\n160,2,N\n170,3,N\n")
    manual = ManualClock(5000.0)
    seen = []
    for readings in replay.paced(path, FORM, 10.0, manual.clock(), threading.Event()):
        seen.append((manual.at, readings.at.tolist()))
    assert seen == [(5000.0, [100.0]), (5006.0, [160.0]), (5007.0, [170.0])]


def piped(*chunks: bytes) -> list[list[float]]:
    """The readings of stdin's source from chunks that arrive one after the other."""
    reader, writer = os.pipe()

    def feed() -> None:
        with os.fdopen(writer, "wb", buffering=0) as pipe:
            for chunk in chunks:
                pipe.write(chunk)

    feeder = threading.Thread(target=feed)
    feeder.start()
    try:
        return taken(stdin.lines(reader, FORM, ManualClock(77.0).clock(), threading.Event()))
    finally:
        feeder.join()
        os.close(reader)


def test_stdin_takes_objects_line_by_line_at_the_clocks_time():
    rows = piped(b'{"temp": 1.5, "wind": "N", "time": 3}\n{"wi', b'nd":"NO","temp":-2}\n')
    assert rows == [[77.0, 1.5, 1.0], [77.0, -2.0, 2.0]]


def test_stdin_takes_a_last_line_without_its_end():
    assert piped(b'{"temp": 1.5, "wind": "N"}') == [[77.0, 1.5, 1.0]]


@pytest.mark.parametrize(
    "line",
    [
        b"temp=1",
        b"",
        b"[1, 2]",
        b"7",
        b'{"temp": 1, ',
        b'{"temp": 1, "wind": "N"} x',
        b"\xff\xfe",
        b"[" * 5000,
        b'{"temp": NaN, "wind": "N"}',
    ],
)
def test_stdin_drops_what_is_no_object(line):
    assert piped(line + b'\n{"temp": 1, "wind": "N"}\n') == [[77.0, 1.0, 1.0]]


@pytest.mark.parametrize("value", ["true", "null", '"5"', "[]", "{}", "1" * 400, "1e999"])
def test_stdin_values_that_are_no_numbers(value):
    *rows, last = piped(f'{{"temp": {value}, "wind": "N"}}\n{{"temp": 2, "wind": "N"}}\n'.encode())
    assert not any(np.isfinite(row[1]) for row in rows)
    assert last == [77.0, 2.0, 1.0]


def test_stdin_drops_a_very_long_line_and_goes_on():
    long = b'{"temp": 1, "wind": "' + b"N" * 5 * stdin.MAX_LINE_BYTES + b'"}\n'
    assert piped(long, b'{"temp": 2, "wind": "N"}\n', long + b'{"temp": 3, "wind": "N"}\n') == [
        [77.0, 2.0, 1.0],
        [77.0, 3.0, 1.0],
    ]


def test_stdin_takes_more_lines_than_a_block_holds():
    lines = b'{"temp":1,"wind":"N"}\n' * 5 * stdin.MAX_ROWS
    assert len(piped(lines)) == 5 * stdin.MAX_ROWS


@given(st.lists(st.binary(max_size=200), max_size=5))
def test_no_bytes_break_stdin(chunks):
    for _, temp, wind in piped(*chunks, b'\n{"temp": 1, "wind": "N"}\n')[-1:]:
        assert (temp, wind) == (1.0, 1.0)


FAKE = {
    "proc/loadavg": "0.50 0.25 0.10 2/345 6789\n",
    "proc/meminfo": "MemTotal: 1000 kB\nMemAvailable: 250 kB\nSwapTotal: 0 kB\nSwapFree: 0 kB\n",
    "proc/uptime": "7200.50 100.0\n",
    "sys/class/hwmon/hwmon0/name": "nvme\n",
    "sys/class/hwmon/hwmon0/temp1_input": "30000\n",
    "sys/class/hwmon/hwmon1/name": "cpu_thermal\n",
    "sys/class/hwmon/hwmon1/temp1_input": "48250\n",
    "sys/class/thermal/thermal_zone0/temp": "51000\n",
}


@pytest.fixture
def root(tmp_path):
    for name, text in FAKE.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("load1", 0.5),
        ("load5", 0.25),
        ("load15", 0.1),
        ("memory_percent", 75.0),
        ("swap_percent", nan),
        ("temperature", 48.25),
        ("uptime_hours", 7200.5 / 3600),
        ("processes", 345.0),
        ("frequency_mhz", nan),
    ],
)
def test_sensors(root, name, value):
    assert host_metrics.measure(name, root) == pytest.approx(value, nan_ok=True)


def test_the_temperature_falls_back_and_then_is_no_data(root):
    (root / "sys/class/hwmon/hwmon1/temp1_input").unlink()
    assert host_metrics.measure("temperature", root) == 30.0
    (root / "sys/class/hwmon/hwmon0/temp1_input").write_text("not now")
    assert host_metrics.measure("temperature", root) == 51.0
    (root / "sys/class/thermal/thermal_zone0/temp").unlink()
    assert isnan(host_metrics.measure("temperature", root))


@pytest.mark.parametrize("name", sorted(host_metrics.SENSORS))
def test_a_host_without_any_sensor_is_no_crash(tmp_path, name):
    assert isnan(host_metrics.measure(name, tmp_path))


def test_the_system_is_read_on_public_ticks(root):
    domain = Domain((Attribute("load1", 0, 8), Attribute("temperature", 0, 100)))
    stop, manual = threading.Event(), ManualClock(1003.0)
    seen = []
    for readings in host_metrics.readings(domain.names, 10.0, manual.clock(), stop, root):
        seen.append((readings.at.tolist(), readings.rows.tolist()))
        if len(seen) == 3:
            stop.set()
    assert seen == [([at], [[0.5, 48.25]]) for at in (1010.0, 1020.0, 1030.0)]


def test_an_attribute_that_no_host_has_is_refused_with_what_there_is():
    with pytest.raises(NotOfferedError, match=r"no 'humidity'.*load1, load5") as refused:
        host_metrics.check(("load1", "humidity"))
    assert refused.value.name == "humidity"


def test_every_size_of_python_s_pools_is_filled_to_its_last_byte():
    """Python's allocator rounds up to two pointers. Python caches bytes of one character, so the
    smallest size is the first one that a text of two needs.
    """
    step = 2 * calcsize("P")
    filled = [sys.getsizeof(bytes(length)) for length in module._LENGTHS]
    least = -(-sys.getsizeof(bytes(2)) // step) * step
    assert sorted(set(filled)) == list(range(least, module.MAX_BYTES + 1, step))
    for size in set(filled):
        assert filled.count(size) * size > module.POOL_BYTES
