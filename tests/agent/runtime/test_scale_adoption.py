"""Which published scales a device takes, from which window on, and what a power cut leaves."""

import os
import subprocess
import sys

import pytest

from pansketch_agent.host.clock import Clock
from pansketch_agent.ledger.ledger import Ledger
from pansketch_agent.mqtt.events import ScalesArrived
from pansketch_agent.runtime.scale_adoption import ScaleAdoption
from pansketch_fleet.config.loader import load_agent
from pansketch_fleet.config.published_scales import DAY_SECONDS, domain_name
from pansketch_fleet.protocol.scale_message import HeldScales, Scales, TakenScales
from testbed.program import ROOT

HOUR = 3600
NOW = 1_704_067_200 // HOUR * HOUR
CONFIG = """
fleet: house
mqtt: {url: "mqtt://127.0.0.1:1"}
agent: {device: dev-1, profile: pi-zero-2w}
streams:
  air:
    source: {type: stdin}
    window: 1h
    scales: {}
    privacy: {epsilon: 1}
    attributes: {temp: {low: -40, high: 60}, pm25: {low: 0, high: 1000, scale: log}}
  raw:
    source: {type: system, interval: 10s}
    window: 1h
    privacy: {epsilon: 1}
    attributes: {load: {low: 0, high: 60}}
"""
KNOTS = {"temp": (-40.0, -20.0, 0.0, 4.0, 5.0, 20.0, 35.0, 50.0, 60.0)}
OTHERS = {"temp": (-40.0, -20.0, 0.0, 14.0, 15.0, 20.0, 35.0, 50.0, 60.0)}


class Worker:
    """Keeps what it is given."""

    def __init__(self):
        self.later = None

    def rescale(self, later):
        self.later = list(later)


class Device:
    """The scales of one device, by a clock that is set by hand."""

    def __init__(self, folder, text=CONFIG):
        self.path = folder / "config.yaml"
        self.path.write_text(text)
        self.config = load_agent(self.path, {})
        self.config.agent.state.mkdir(parents=True, exist_ok=True)
        self.now, self.worker = float(NOW), Worker()
        self.start()

    def start(self):
        """Once more, as after a restart."""
        with Ledger(self.config.agent.state) as ledger:
            clock = Clock(lambda: self.now, lambda: 0.0, lambda stop, seconds: False)
            self.adoption = ScaleAdoption(self.config, ledger, clock)

    @property
    def file(self):
        return self.config.agent.state / "scales-air.json"

    def scales(self, begins, knots=None, **fields):
        domain = domain_name(self.config.streams[0])
        found = {"version": 1, "stream": "air", "domain": domain, "begins": begins}
        return Scales(**{**found, "knots": KNOTS if knots is None else knots, **fields})

    def receives(self, scales, stream="air"):
        """The problem that it has afterwards."""
        payload = scales if isinstance(scales, bytes) else scales.encode()
        self.adoption.arrived(ScalesArrived(stream, payload), {"air": self.worker})
        return self.adoption.problems.get("air", "")

    def times(self):
        return [at for at, _ in self.adoption.specs("air")]

    def knots(self, start):
        return self.adoption.at(start)["air"].domain.attributes[0].knots


@pytest.fixture
def device(tmp_path):
    return Device(tmp_path)


def test_scales_hold_from_the_window_that_they_state(device):
    assert device.receives(device.scales(NOW + 2 * HOUR)) == ""
    assert device.knots(NOW + 2 * HOUR - 1) == ()
    assert device.knots(NOW + 2 * HOUR) == KNOTS["temp"]
    assert [at for at, _ in device.worker.later] == [NOW + 2 * HOUR]
    assert device.adoption.at(NOW + 2 * HOUR)["raw"] == device.config.streams[1].spec


def test_they_outlive_a_restart_before_and_after_their_window(device):
    device.receives(device.scales(NOW + HOUR))
    for now in (NOW, NOW + 5 * HOUR, NOW + 400 * DAY_SECONDS, 0):
        device.now = now
        device.start()
        assert device.times() == [NOW + HOUR]


def test_the_same_message_again_writes_nothing(device):
    device.receives(device.scales(NOW + HOUR))
    before = device.file.stat()
    device.receives(device.scales(NOW + HOUR))
    device.now += 3 * HOUR
    device.receives(device.scales(NOW + HOUR))
    assert device.file.stat() == before


def test_what_has_not_begun_yet_is_replaced(device):
    """A scale for the year 9999 blocks no later one."""
    device.receives(device.scales(252_000_000_000))
    assert device.receives(device.scales(NOW + HOUR, OTHERS)) == ""
    assert device.times() == [NOW + HOUR]
    device.receives(device.scales(252_000_000_000))
    device.now = NOW + 2 * HOUR
    assert device.receives(device.scales(NOW + HOUR, OTHERS)) == ""
    assert device.times() == [NOW + HOUR]


def test_what_is_in_force_stays_for_a_day(device):
    device.receives(device.scales(NOW + HOUR))
    device.now = NOW + 2 * HOUR
    assert device.receives(device.scales(NOW + 3 * HOUR, OTHERS)) == ""
    assert device.times() == [NOW + HOUR, NOW + HOUR + DAY_SECONDS]
    device.start()
    assert device.knots(NOW + DAY_SECONDS) == KNOTS["temp"]
    assert device.knots(NOW + HOUR + DAY_SECONDS) == OTHERS["temp"]
    device.now = NOW + 2 * DAY_SECONDS
    assert device.receives(device.scales(NOW + 3 * DAY_SECONDS)) == ""
    assert device.times() == [NOW + HOUR + DAY_SECONDS, NOW + 3 * DAY_SECONDS]


def test_earlier_scales_than_those_in_force_are_refused(device):
    device.receives(device.scales(NOW))
    device.now = NOW + HOUR
    assert "before those in force" in device.receives(device.scales(NOW - HOUR, OTHERS))
    assert device.times() == [NOW]


def test_a_clock_that_wakes_in_1970_takes_nothing_back(device):
    with Ledger(device.config.agent.state) as ledger:
        ledger.debit({"air": 1_000_000}, NOW, NOW + HOUR)
    device.receives(device.scales(NOW))
    device.now = 100.0
    device.start()
    assert device.receives(device.scales(NOW + 5 * DAY_SECONDS, OTHERS)) == ""
    assert device.times() == [NOW, NOW + 5 * DAY_SECONDS]


def test_the_configured_scales_come_back(device):
    device.receives(device.scales(NOW))
    device.now = NOW + DAY_SECONDS
    assert device.receives(device.scales(NOW + 2 * DAY_SECONDS, {})) == ""
    assert device.knots(NOW + 2 * DAY_SECONDS) == ()


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"domain": "0" * 16}, "other attributes"),
        ({"stream": "raw"}, "other attributes"),
        ({"begins": NOW + 1}, "multiple of 3600"),
        ({"knots": {"temp": (-40.0, 60.0, 0.0)}}, "last one high"),
        ({"knots": {"temp": (-40.0, 59.0, 60.0)}}, "wider than a quarter"),
    ],
)
def test_refused_scales_change_nothing_and_are_logged_once(device, fields, says, caplog):
    device.receives(device.scales(NOW))
    before = device.file.read_bytes()
    wrong = {"begins": NOW + 2 * DAY_SECONDS, **fields}
    begins = wrong.pop("begins")
    for _ in range(2):
        problem = device.receives(device.scales(begins, **wrong))
        assert says in problem
    assert problem.startswith("published scales are refused: ")
    assert device.file.read_bytes() == before
    assert device.times() == [NOW]
    assert caplog.text.count("are refused") == 1
    device.receives(device.scales(NOW))
    assert device.adoption.problems == {}


@pytest.mark.parametrize("payload", [b"{", b"\xff", b"[]", b"{}", b" " * 70_000])
def test_bytes_that_are_no_scales_are_refused(device, payload):
    assert "refused" in device.receives(payload)
    assert not device.file.exists()


def test_an_empty_message_and_one_of_another_stream_state_nothing(device):
    device.receives(device.scales(NOW))
    assert device.receives(b"") == ""
    assert device.receives(device.scales(NOW + DAY_SECONDS), stream="raw") == ""
    assert device.receives(device.scales(NOW + DAY_SECONDS), stream="gone") == ""
    assert device.times() == [NOW]


def test_a_stream_that_adopts_none_ignores_its_file(device, tmp_path):
    device.receives(device.scales(NOW))
    without = Device(tmp_path, CONFIG.replace("    scales: {}\n", ""))
    assert without.adoption.specs("air") == []
    assert without.adoption.streams == {}


def test_scales_for_other_bounds_are_left(device, tmp_path, caplog):
    device.receives(device.scales(NOW))
    other = Device(tmp_path, CONFIG.replace("high: 60}, pm25", "high: 70}, pm25"))
    assert other.times() == []
    assert "starting on the configured scales" in caplog.text


def test_a_disk_that_refuses_leaves_the_scales_in_force(device, monkeypatch):
    device.receives(device.scales(NOW))

    def full(*_):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", full)
        problem = device.receives(device.scales(NOW + DAY_SECONDS, OTHERS))
    assert problem == "published scales cannot be stored: No space left on device"
    assert device.times() == [NOW]
    device.start()
    assert device.times() == [NOW]
    assert device.receives(device.scales(NOW + DAY_SECONDS, OTHERS)) == ""


WRITES = """
import os, signal, sys
from pathlib import Path
from pansketch_agent.host import durable_files

def killed(*_):
    os.kill(os.getpid(), signal.SIGKILL)

setattr(os, sys.argv[3], killed)
durable_files.replace_file(Path(sys.argv[1]), Path(sys.argv[2]).read_bytes())
"""


@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_a_power_cut_while_writing_leaves_the_old_scales(device, tmp_path, step):
    """The process ends at the moment in question, as it does when the power goes."""
    device.receives(device.scales(NOW))
    old = device.file.read_bytes()
    wanted = TakenScales.decode(old)
    new = tmp_path / "new"
    held = HeldScales(NOW + 5 * HOUR, wanted.held[0].scales)
    new.write_bytes(TakenScales((held,)).encode())
    command = [sys.executable, "-c", WRITES, str(device.file), str(new), step]
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT}/agent:{ROOT}/fleet"}
    done = subprocess.run(command, env=environment, check=False, timeout=180)
    assert done.returncode == -9
    device.start()
    assert device.file.read_bytes() == old
    assert device.times() == [NOW]


@pytest.mark.parametrize("content", [b"", b"{", b'{"held":[{"at":1}]}'])
def test_a_damaged_file_is_left_and_the_broker_tells_again(device, content, caplog):
    device.receives(device.scales(NOW))
    device.file.write_bytes(content)
    device.start()
    assert device.times() == []
    assert "is not used" in caplog.text
    assert device.receives(device.scales(NOW)) == ""
    assert device.times() == [NOW]
