"""A fake /sys of polled sensors."""

import pytest

from tests.agent.sources.fake_sys import GOOD, OWN, POWER_ON, SHARED

FAKE = {
    f"{SHARED}/name": "ads1115\n",
    f"{SHARED}/in_voltage0_raw": "1200\n",
    f"{SHARED}/in_voltage1_raw": "-3\n",
    f"{SHARED}/in_voltage1_scale": "0.5\n",
    f"{SHARED}/in_voltage0-voltage1_raw": "40\n",
    f"{SHARED}/in_voltage-voltage_scale": "3\n",
    f"{SHARED}/in_voltage_scale": "0.125000\n",
    f"{SHARED}/in_voltage_offset": "-200\n",
    f"{OWN}/name": "bme280\n",
    f"{OWN}/in_temp_input": "21870\n",
    f"{OWN}/in_accel_x_raw": "10\n",
    f"{OWN}/in_accel_scale": "0.25\n",
    f"{OWN}/in_rot_quaternion_raw": "1 2 3 4\n",
    "sys/class/hwmon/hwmon0/name": "nct6775\n",
    "sys/class/hwmon/hwmon0/fan1_input": "1250\n",
    "sys/class/hwmon/hwmon0/in0_input": "3312\n",
    "sys/class/hwmon/hwmon0/power1_input": "2500000\n",
    "sys/class/hwmon/hwmon0/intrusion0_alarm": "0\n",
    "sys/class/hwmon/hwmon10/name": "cpu_thermal\n",
    "sys/class/hwmon/hwmon10/temp1_input": "48250\n",
    "sys/class/hwmon/hwmon2/name": "nvme\n",
    "sys/class/hwmon/hwmon2/temp1_input": "not now\n",
    "sys/class/thermal/thermal_zone0/type": "cpu-thermal\n",
    "sys/class/thermal/thermal_zone0/temp": "51000\n",
    "sys/class/thermal/thermal_zone1/type": "gpu-thermal\n",
    "sys/class/thermal/thermal_zone1/temp": "39500\n",
    "sys/bus/w1/devices/28-0316a2798dff/w1_slave": GOOD,
    "sys/bus/w1/devices/28-0000000000aa/w1_slave": POWER_ON,
    "sys/bus/w1/devices/w1_bus_master1/w1_master_name": "w1_bus_master1\n",
}


@pytest.fixture
def root(tmp_path):
    folder = tmp_path / "host"
    for name, text in FAKE.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder
