"""Sensors below a fake /sys: what their files become, what is no data, and what is refused."""

import threading
from math import isnan, nan

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pansketch_agent.runtime.stream_builder import open_source
from pansketch_agent.sources.sensors import hwmon, iio, onewire, sysfs
from tests.agent.sources.fake_sys import GOOD, OWN, POWER_ON, SHARED, configured
from tests.agent.sources.manual_clock import ManualClock

COLD = "5e ff 4b 46 7f ff 02 10 b6 : crc=b6 YES\n5e ff 4b 46 7f ff 02 10 b6 t=-10125\n"
SHORTED = "00 00 00 00 00 00 00 00 00 : crc=00 YES\n00 00 00 00 00 00 00 00 00 t=0\n"


@pytest.mark.parametrize(
    ("place", "value"),
    [
        ("ads1115/voltage0", (1200 - 200) * 0.125),
        ("ads1115/voltage1", (-3 - 200) * 0.5),
        ("ads1115/voltage0-voltage1", 120.0),
        ("iio:device0/voltage0", 125.0),
        ("bme280/temp", 21870.0),
        ("bme280/accel_x", 2.5),
        ("bme280/rot_quaternion", nan),
        ("bme280/pressure", nan),
        ("bmp388/temp", nan),
    ],
)
def test_iio_is_raw_plus_offset_times_scale(root, place, value):
    assert iio.measure(place, root) == pytest.approx(value, nan_ok=True)


def test_iio_offset_and_scale_of_the_whole_device_come_last(root):
    (root / SHARED / "in_scale").write_text("7\n")
    assert iio.measure("ads1115/voltage0", root) == 125.0
    (root / SHARED / "in_voltage_scale").unlink()
    assert iio.measure("ads1115/voltage0", root) == 7000.0
    (root / SHARED / "in_scale").unlink()
    assert iio.measure("ads1115/voltage0", root) == 1000.0


def test_iio_takes_no_value_without_its_true_scale(root):
    (root / SHARED / "in_voltage_scale").write_text("soon\n")
    assert isnan(iio.measure("ads1115/voltage0", root))


@pytest.mark.parametrize(
    ("place", "value"),
    [
        ("cpu_thermal", 48.25),
        ("cpu-thermal/temp1", 48.25),
        ("hwmon10/temp1", 48.25),
        ("cpu_thermal/temp2", nan),
        ("gpu-thermal", 39.5),
        ("gpu-thermal/fan1", nan),
        ("nct6775/fan1", 1250.0),
        ("nct6775/in0", 3.312),
        ("nct6775/power1", 2.5),
        ("nvme", nan),
        ("none", nan),
    ],
)
def test_hwmon_in_whole_units(root, place, value):
    assert hwmon.measure(place, root) == pytest.approx(value, nan_ok=True)


def test_a_thermal_zone_stands_in_for_its_chip(root):
    (root / "sys/class/hwmon/hwmon10/temp1_input").write_text("\n")
    assert hwmon.measure("cpu_thermal", root) == 51.0
    (root / "sys/class/thermal/thermal_zone0/temp").unlink()
    assert isnan(hwmon.measure("cpu_thermal", root))


def test_a_thermometer_on_the_bus(root):
    assert onewire.measure("28-0316a2798dff", root) == 23.125
    assert isnan(onewire.measure("28-0000000000aa", root))
    assert isnan(onewire.measure("28-0000000000bb", root))


def test_the_checksum_is_that_of_the_standard():
    assert onewire.crc8(bytes.fromhex("02 1c b8 01 00 00 00")) == 0xA2  # Maxim, application note 27
    assert onewire.temperature(GOOD) == 23.125
    assert onewire.temperature(COLD) == -10.125


@pytest.mark.parametrize(
    "answer",
    [
        POWER_ON,
        SHORTED,
        "",
        GOOD.replace("YES", "NO"),
        GOOD.replace("YES\n", "YES NO\n"),
        GOOD.replace("72 01", "73 01"),
        GOOD.replace("crc=57", "crc=58"),
        GOOD.replace("10 57 :", "10 56 :"),
        GOOD.replace("t=23125", "t="),
        GOOD.replace("t=23125", "t=0x10"),
        GOOD.splitlines()[0],
        GOOD.splitlines()[1],
        GOOD + GOOD,
    ],
)
def test_an_answer_that_cannot_be_trusted_is_no_data(answer):
    with pytest.raises(ValueError, match=r"^$"):
        onewire.temperature(answer)


def test_every_damaged_bit_of_the_scratchpad_is_noticed():
    """The test of the test: the undamaged answer is taken."""
    content = bytes.fromhex(GOOD[:26])
    for bit in range(72):
        changed = (int.from_bytes(content) ^ 1 << bit).to_bytes(9)
        with pytest.raises(ValueError, match=r"^$"):
            onewire.temperature(GOOD.replace(content.hex(" "), changed.hex(" ")))
    assert onewire.temperature(GOOD.replace(content.hex(" "), content.hex(" "))) == 23.125


@given(st.binary(max_size=2 * sysfs.MAX_BYTES))
def test_no_file_breaks_a_sensor(tmp_path_factory, content):
    root = tmp_path_factory.mktemp("any")
    for name in (f"{OWN}/name", f"{OWN}/in_temp_raw", f"{OWN}/in_temp_scale"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(b"bme280" if name.endswith("name") else content)
    for name in ("hwmon/hwmon0/temp1_input", "hwmon/hwmon0/name"):
        (root / "sys/class" / name).parent.mkdir(parents=True, exist_ok=True)
        (root / "sys/class" / name).write_bytes(content)
    device = root / onewire.DEVICES / "28-0316a2798dff"
    device.mkdir(parents=True)
    (device / onewire.FILE).write_bytes(content)
    measured = (
        iio.measure("bme280/temp", root),
        hwmon.measure("hwmon0", root),
        onewire.measure("28-0316a2798dff", root),
    )
    assert all(isinstance(value, float) for value in measured)
    list(iio.channels(root)), list(hwmon.inputs(root))


@given(st.text(alphabet="0123456789abcdef: crc=YES\nt-", max_size=90))
def test_no_answer_breaks_the_thermometer(answer):
    try:
        degrees = onewire.temperature(answer)
    except ValueError:
        return
    assert -1000 < degrees < 1000


@pytest.mark.parametrize("place", ["iio:device0/x", "a/b"])
def test_a_host_without_any_sensor_is_no_crash(tmp_path, place):
    assert isnan(iio.measure(place, tmp_path))
    assert isnan(hwmon.measure("cpu_thermal", tmp_path))
    assert isnan(onewire.measure("28-0316a2798dff", tmp_path))


def test_sensors_are_asked_on_public_ticks_and_nothing_is_kept(device, root):
    stream = configured(device).streams[0]
    stop, manual, seen = threading.Event(), ManualClock(1003.0), []
    kept = None
    for readings in open_source(stream, manual.clock(), stop, root, float, print):
        seen.append((readings.at.tolist(), readings.rows.tolist()))
        kept = readings.rows
        (root / OWN / "in_temp_input").unlink(missing_ok=True)
        if len(seen) == 2:
            stop.set()
    assert seen[0] == ([1010.0], [[125.0, 21870.0]])
    assert seen[1][0] == [1020.0]
    assert np.array_equal(seen[1][1], [[125.0, nan]], equal_nan=True)
    assert not kept.any()
