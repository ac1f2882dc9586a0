"""`check` and the hardening of a process: requests to the system, and the results."""

import json
import os
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from pansketch_agent.__main__ import main
from pansketch_agent.diagnostics import check as checking
from pansketch_agent.host.clock import Clock
from pansketch_agent.ledger.ledger import Ledger
from pansketch_fleet.settings.profiles import every
from testbed.embedded_broker import free_port

SYSTEM = "{type: system, interval: 1s}"


def found_by(device, *more: str) -> tuple[int, dict[str, tuple[str, str]]]:
    """The exit code and the findings of a check in a process of its own, by subject."""
    command = device.start("check", "--json", *more)
    code = command.wait()
    assert command.process.stdout is not None
    found = json.loads(command.process.stdout.read())
    return code, {each["subject"]: (each["state"], each["text"]) for each in found}


def host_source(device, url: str, first: str = "load1") -> None:
    device.configure(url, source=SYSTEM)
    text = device.config.read_text().replace("temp:", f"{first}:").replace("wind:", "load5:")
    device.config.write_text(text.replace("{categories: [calm, N, NO]}", "{low: 0, high: 9}"))


def test_a_sound_device_is_all_ok_or_refused_by_the_system(device, broker):
    device.configure(broker.url)
    code, found = found_by(device)
    assert code == 0, found
    assert {state for state, _ in found.values()} <= {"ok", "refused", "note"}
    said = "accepts the device with MQTT 3.1.1, and its access rules know the device"
    assert found["broker"] == ("ok", f"127.0.0.1:{broker.port} {said}")
    assert {"core dumps", "memory access", "memory lock", "clock", "disk", "ledger"} <= set(found)
    assert not device.state.exists(), "a check leaves nothing behind"


def test_it_is_a_table_for_people(device, broker):
    device.configure(broker.url)
    command = device.start("check")
    assert command.wait() == 0
    out = command.process.stdout.read()
    assert out.splitlines()[0].split() == ["core", "dumps", "ok", "off"]


def test_it_does_not_disturb_the_running_agent(device, broker):
    device.configure(broker.url, source="{type: stdin}")
    agent = device.start("run")
    agent.wait_until_connected()
    code, found = found_by(device)
    assert (code, found["broker"][0]) == (0, "ok")
    assert f"held by the running agent (process {agent.process.pid})" in found["ledger"][1]
    assert agent.stop() == 0
    assert "no broker" not in agent.output


def test_a_broker_that_is_absent(device):
    port = free_port()
    device.configure(f"mqtt://127.0.0.1:{port}")
    code, found = found_by(device)
    assert code == 1
    state, text = found["broker"]
    assert state == "wrong"
    assert text.startswith(f"TCP: no connection to 127.0.0.1:{port} (Connection refused); start")


def test_a_host_that_has_no_address(device):
    device.configure("mqtt://no-such-host.invalid")
    code, found = found_by(device)
    assert (code, found["broker"][0]) == (1, "wrong")
    assert found["broker"][1].startswith("DNS: no address for no-such-host.invalid")
    assert "correct mqtt.url" in found["broker"][1]


def test_a_server_that_is_no_broker(device, monkeypatch):
    monkeypatch.setattr("pansketch_agent.diagnostics.broker_reachability.MAX_SECONDS", 0.5)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        config = device.configure(f"mqtt://127.0.0.1:{port}")
        found = checking.check(config, Path("/"), clock_at(1_700_000_000))
    (broker,) = [finding for finding in found if finding.subject == "broker"]
    assert broker.state == "wrong"
    assert f"127.0.0.1:{port}" in broker.text
    assert "MQTT: " in broker.text
    assert "rejects the device: no answer to CONNECT" in broker.text


def test_a_state_folder_that_cannot_be_written(device, broker):
    device.configure(broker.url)
    text = device.config.read_text().replace("dev-1,", "dev-1, state: /proc/pansketch,")
    device.config.write_text(text)
    code, found = found_by(device)
    assert (code, found["disk"][0]) == (1, "wrong")
    assert "/proc/pansketch: cannot be written" in found["disk"][1]
    assert "change agent.state" in found["disk"][1]


def test_a_disk_too_full_for_the_outbox(device, monkeypatch):
    config = device.configure()
    monkeypatch.setattr(os, "statvfs", lambda _: os.statvfs_result((1,) * 10))
    found = checking.check(config, Path("/"), clock_at(1_700_000_000))
    (disk,) = [finding for finding in found if finding.subject == "disk"]
    assert disk.state == "wrong"
    assert "0 MiB free, the outbox may take 32 MiB more; free the disk" in disk.text


def test_a_sensor_without_data_is_wrong_and_no_value_is_shown(device, broker, tmp_path):
    host_source(device, broker.url)
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/loadavg").write_text("17.348261 x 1 1/2 3\n")
    code, found = found_by(device, "--root", str(tmp_path))
    assert (code, found["source air"][0]) == (1, "wrong")
    assert "no data for load5 on this host" in found["source air"][1]
    assert "17.34" not in json.dumps(found)
    (tmp_path / "proc/loadavg").write_text("17.348261 18.5 1 1/2 3\n")
    code, found = found_by(device, "--root", str(tmp_path))
    assert (code, found["source air"]) == (0, ("ok", "readable: load1, load5"))


def test_a_sensor_that_no_host_has(device, broker):
    host_source(device, broker.url, first="luck")
    code, found = found_by(device)
    assert (code, found["source air"][0]) == (1, "wrong")
    line = device.line_of("luck:")
    assert f"config.yaml:{line}: streams.air.attributes.luck" in found["source air"][1]


def clock_at(now: float) -> Clock:
    return Clock(lambda: now, lambda: 0.0, threading.Event.wait)


@pytest.mark.parametrize(("now", "state"), [(1_700_000_000, ("ok", "note")), (0, ("wrong",))])
def test_a_clock_of_another_century_is_wrong(device, now, state):
    found = checking.check(device.configure(), Path("/"), clock_at(now))
    (clock,) = [finding for finding in found if finding.subject == "clock"]
    wanted = state if now == 0 else (*state, "wrong")
    assert clock.state in wanted
    assert ("shows the year 1970; set it" in clock.text) == (now == 0)


def test_an_agent_that_runs_is_hardened(device):
    device.configure(source="{type: stdin}")
    agent = device.start("run")
    agent.wait_until_ready()
    limits = Path(f"/proc/{agent.process.pid}/limits").read_text()
    (core,) = [line for line in limits.splitlines() if line.startswith("Max core file size")]
    assert core.split()[4:6] == ["0", "0"]
    status = Path(f"/proc/{agent.process.pid}/status").read_text()
    locked = int(status.partition("VmLck:")[2].split()[0])
    assert locked or "running without protection of memory lock" in agent.output
    assert agent.stop() == 0


def test_an_idle_agent_needs_little_beside_its_libraries(device):
    """Interpreters and NumPy differ by 5 MiB between releases; the agent's own share does not."""
    device.configure(source="{type: stdin}")
    agent = device.start("run")
    agent.wait_until_ready()
    resident = resident_kib(agent.process.pid)
    assert agent.stop() == 0
    words = [sys.executable, "-c", "import numpy, ssl; print(flush=True); input()"]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as libraries:
        assert libraries.stdout is not None
        assert libraries.stdout.readline() == b"\n"
        beside = resident_kib(libraries.pid)
        libraries.communicate(b"\n")
    assert resident - beside < 20 * 1024
    assert resident < min(profile.process_memory_bytes for profile in every()) // 1024


def resident_kib(pid: int) -> int:
    """The memory of a process that is in RAM, in KiB."""
    status = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    return int(status.partition("VmRSS:")[2].split()[0])


HUNDRED = """\
fleet: testing
mqtt: {url: "mqtt://127.0.0.1:1"}
agent: {device: dev-1, profile: pi-zero-2w}
streams:
"""
STREAM = """\
  s{number:02d}:
    source: {{type: replay, path: rows.csv}}
    window: 1h
    privacy: {{epsilon: 1.0}}
    attributes: {{temp: {{low: -40, high: 60}}}}
"""


def test_a_hundred_streams_fit_a_small_board(device):
    """Each absorbs a batch and makes two releases; what is resident follows what is in use."""
    device.configure()
    rows = "".join(f"{1704067200 + 60 * minute},{minute % 40}\n" for minute in range(120))
    (device.folder / "rows.csv").write_text(f"time,temp\n{rows}")
    device.config.write_text(HUNDRED + "".join(STREAM.format(number=n) for n in range(100)))
    agent = device.start("run")
    agent.wait_for_output("waiting for the collector to acknowledge the outbox")
    status = Path(f"/proc/{agent.process.pid}/status").read_text()
    assert int(status.partition("VmHWM:")[2].split()[0]) < 120 * 1024
    assert agent.stop() == 0


def test_the_check_sees_the_lock_beside_a_missing_ledger(device):
    config = device.configure()
    with Ledger(device.state):
        found = checking.check(config, Path("/"), clock_at(1_700_000_000))
    (ledger,) = [finding for finding in found if finding.subject == "ledger"]
    assert ledger.state == "ok"
    assert main(["check", "--config", str(device.config)]) == 1  # no broker
