"""Sensors as an operator meets them: settings, checks, and the list of what a host has."""

import json

import pytest

from pansketch_agent.__main__ import main
from pansketch_agent.diagnostics.check import check
from pansketch_agent.host.clock import system_clock
from pansketch_fleet.config.loader import ConfigError
from tests.agent.sources.fake_sys import OWN, TWO, configured, load_again


@pytest.mark.parametrize(
    ("kind", "sensors", "words"),
    [
        ("iio", "temp: bme280/temp", "has no sensor for the attribute wind; add wind: DEVICE/CHA"),
        ("iio", f"{TWO}, tmp: a/b", "sensors.tmp: is no attribute of this stream; did you mean te"),
        ("iio", "temp: bme280, wind: a/b", "'bme280' is no sensor of iio; write DEVICE/CHANNEL"),
        ("iio", "temp: ../../etc/x, wind: a/b", "is no sensor of iio"),
        ("hwmon", "temp: cpu/volume1, wind: a", "is no sensor of hwmon; write CHIP or CHIP/INPUT"),
        ("w1", "temp: 28-03, wind: a", "is no sensor of w1; write the id of a device"),
        ("iio", "temp: 5, wind: a/b", "'5' is no sensor of iio"),
    ],
)
def test_sensors_that_cannot_be_are_refused(device, kind, sensors, words):
    with pytest.raises(ConfigError) as refused:
        configured(device, kind, sensors)
    assert words in str(refused.value)
    assert "config.yaml:6: streams.air.source" in str(refused.value)


def test_an_impossible_interval_is_refused(device):
    source = "{type: w1, interval: 1ms, sensors: {temp: 28-0316a2798dff, wind: 28-0316a2798dff}}"
    with pytest.raises(ConfigError, match="1ms is impossible; write 100ms to 1d"):
        device.configure(source=source)


def test_sensors_bear_no_keys(device):
    device.configure()
    text = device.config.read_text()
    begin, end = text.index("    attributes:"), text.index("    sketch:")
    keyed = f"{text[:begin]}    key: badge\n{text[end:]}".replace("unit: reading, ", "unit: key, ")
    source = "{type: w1, sensors: {badge: 28-0316a2798dff}}"
    device.config.write_text(keyed.replace("{type: replay, path: rows.csv}", source))
    with pytest.raises(ConfigError, match="is w1, and sensors bear no keys"):
        load_again(device)


def test_check_names_a_missing_sensor_and_the_fix(device, root):
    config = configured(device)
    assert finding(config, root) == ("ok", "readable: ads1115/voltage0, bme280/temp")
    (root / OWN / "in_temp_input").unlink()
    state, text = finding(config, root)
    assert state == "wrong"
    assert text.startswith("no data from bme280/temp (wind); correct streams.air.source.sensors")
    assert "pansketch-agent sources" in text


def finding(config, root) -> tuple[str, str]:
    (found,) = [each for each in check(config, root, system_clock()) if "source" in each.subject]
    return found.state, found.text


def test_validate_and_print_config_show_the_sensors(device, capsys):
    configured(device)
    assert main(["validate", "--config", str(device.config)]) == 0
    assert "iio ads1115/voltage0, bme280/temp, every 10s" in capsys.readouterr().out
    assert main(["print-config", "--config", str(device.config)]) == 0
    out = capsys.readouterr().out
    assert "streams.air.source.sensors.wind" in out
    assert "bme280/temp" in out


def listed(root, capsys) -> list[dict]:
    assert main(["sources", "--json", "--root", str(root)]) == 0
    found = json.loads(capsys.readouterr().out)
    (sender,) = [each for each in found if each["kind"] == "http"]
    assert sender["yaml"] == "source: {type: http, port: 8787}"
    return [each for each in found if each["kind"] != "http"]


def test_sources_lists_what_the_host_has_and_no_value(root, capsys):
    found = {(each["kind"], each["place"]): each["readable"] for each in listed(root, capsys)}
    assert found == {
        ("iio", "ads1115/voltage0"): True,
        ("iio", "ads1115/voltage0-voltage1"): True,
        ("iio", "ads1115/voltage1"): True,
        ("iio", "bme280/accel_x"): True,
        ("iio", "bme280/rot_quaternion"): False,
        ("iio", "bme280/temp"): True,
        ("hwmon", "cpu_thermal/temp1"): True,
        ("hwmon", "gpu-thermal/temp1"): True,
        ("hwmon", "nct6775/fan1"): True,
        ("hwmon", "nct6775/in0"): True,
        ("hwmon", "nct6775/power1"): True,
        ("hwmon", "nvme/temp1"): False,
        ("w1", "28-0000000000aa"): False,
        ("w1", "28-0316a2798dff"): True,
        ("system", "temperature"): True,
    }
    assert main(["sources", "--root", str(root)]) == 0
    out = capsys.readouterr().out
    assert "21870" not in out
    assert "48" not in out.replace("hwmon", "")


def test_every_listed_line_can_be_pasted(device, root, capsys):
    (root / "proc").mkdir()
    (root / "proc/loadavg").write_text("0.50 0.25 0.10 2/345 6789\n")
    lines = [each["yaml"] for each in listed(root, capsys)]
    assert len(lines) == 19
    for line in lines:
        device.configure()
        name = line.rpartition("attribute ")[2] if "#" in line else ""
        name = name or line.partition("sensors: {")[2].partition(":")[0]
        text = device.config.read_text()
        begin, end = text.index("      temp:"), text.index("    sketch:")
        text = f"{text[:begin]}      {name}: {{low: 0, high: 9}}\n{text[end:]}"
        device.config.write_text(text.replace("source: {type: replay, path: rows.csv}", line))
        assert load_again(device).streams[0].names == (name,)


def test_a_host_without_sensors_is_reported(tmp_path, capsys):
    assert main(["sources", "--root", str(tmp_path)]) == 0
    nothing, sender = capsys.readouterr().out.splitlines()
    assert nothing.strip() == "this host has no sensor that can be listed"
    assert sender.startswith("127.0.0.1:8787")


def test_an_agent_releases_what_a_sensor_measures(device, broker, peer, root):
    source = "{type: hwmon, interval: 100ms, sensors: {temp: cpu_thermal, wind: nct6775/fan1}}"
    device.configure(broker.url, source=source, window="1s")
    with peer(broker.url) as collector:
        agent = device.start("once", "--root", str(root))
        assert agent.wait() == 0, agent.output
    assert len(collector.releases) == 1
