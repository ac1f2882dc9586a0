"""Sensors below a fake /sys."""

from pansketch_fleet.config.loader import load_agent

SHARED, OWN = "sys/bus/iio/devices/iio:device0", "sys/bus/iio/devices/iio:device1"
GOOD = "72 01 4b 46 7f ff 0e 10 57 : crc=57 YES\n72 01 4b 46 7f ff 0e 10 57 t=23125\n"
POWER_ON = "50 05 4b 46 7f ff 0c 10 1c : crc=1c YES\n50 05 4b 46 7f ff 0c 10 1c t=85000\n"
SENSORS = "{{type: {kind}, interval: 10s, sensors: {{{sensors}}}}}"
TWO = "temp: ads1115/voltage0, wind: bme280/temp"


def configured(device, kind="iio", sensors=TWO, url="mqtt://127.0.0.1:1"):
    device.configure(url, source=SENSORS.format(kind=kind, sensors=sensors))
    text = device.config.read_text().replace("{categories: [calm, N, NO]}", "{low: 0, high: 9e4}")
    device.config.write_text(text)
    return load_again(device)


def load_again(device):
    return load_agent(device.config, {})
