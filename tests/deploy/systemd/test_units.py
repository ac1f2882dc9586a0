"""The shipped systemd units: systemd takes them, and the agent works under what they forbid."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from pansketch_fleet.systemd import NO_CREDENTIAL
from tests.waiting import SECONDS

REPOSITORY = Path(__file__).parents[3]
UNITS = REPOSITORY / "deploy/systemd"
NAMES = ("agent", "collector", "keeper")
# Newer than Debian 12's systemd; the units state the behaviour without them.
NEWER = ("RestartSteps", "RestartMaxDelaySec")
MAX_EXPOSURE = {"agent": 2.2, "collector": 1.5, "keeper": 1.5}
# After prctl(PR_SET_MDWE, PR_MDWE_REFUSE_EXEC_GAIN), which passes on to the program it becomes.
DENIED = """
import ctypes, mmap, os, sys
ctypes.CDLL(None).prctl(65, 1, 0, 0, 0)
os.execv(sys.executable, [sys.executable, *sys.argv[1:]])
"""


def settings(name: str) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for line in (UNITS / f"pansketch-{name}.service").read_text().splitlines():
        if "=" in line and not line.startswith("#"):
            key, _, value = line.partition("=")
            found.setdefault(key, []).append(value)
    return found


def analyze(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["systemd-analyze", *words], capture_output=True, text=True, timeout=SECONDS
    )


@pytest.mark.needs("systemd")
@pytest.mark.parametrize("name", NAMES)
def test_systemd_takes_every_line(name, tmp_path):
    unit = (UNITS / f"pansketch-{name}.service").read_text()
    unit = unit.replace(f"/opt/pansketch/bin/pansketch-{name}", sys.executable)
    file = tmp_path / f"pansketch-{name}.service"
    file.write_text(unit)
    done = analyze("verify", "--man=no", str(file))
    mine = [line for line in done.stderr.splitlines() if "pansketch" in line]
    assert [line for line in mine if not any(f"'{key}'" in line for key in NEWER)] == []
    file.write_text(unit.replace("NoNewPrivileges=", "NoOldPrivileges="))
    assert "NoOldPrivileges" in analyze("verify", "--man=no", str(file)).stderr, "the control"


@pytest.mark.needs("systemd")
@pytest.mark.parametrize("name", NAMES)
def test_systemd_finds_little_that_is_open(name):
    file = str(UNITS / f"pansketch-{name}.service")
    done = analyze("security", "--offline=true", "--no-pager", file)
    (level,) = re.findall(r"Overall exposure level for \S+: ([0-9.]+)", done.stdout)
    assert float(level) <= MAX_EXPOSURE[name]


@pytest.mark.needs("systemd")
def test_what_the_filters_take_away_is_given_back_where_it_is_called():
    """The process that answers over HTTP calls nice(), which is setpriority to the kernel; locking
    memory is in no group that is taken away."""
    groups = {
        name: analyze("syscall-filter", name).stdout for name in ("@resources", "@privileged")
    }
    assert re.search(r"^ +setpriority$", groups["@resources"], re.M)
    assert not any(re.search(r"^ +mlock", listed, re.M) for listed in groups.values())
    for name in NAMES:
        filters = settings(name)["SystemCallFilter"]
        assert "~@privileged @resources" in filters
        given = filters.index("setpriority") if name == "collector" else len(filters)
        assert filters.index("~@privileged @resources") < given


@pytest.mark.parametrize("name", NAMES)
def test_a_watchdog_that_is_fed_and_a_pause_before_each_restart(name):
    unit = settings(name)
    assert unit["Type"] == ["notify"]
    assert int(unit["WatchdogSec"][0]) >= 60
    assert (unit["Restart"], unit["RestartPreventExitStatus"]) == (["on-failure"], ["2"])
    assert unit["StartLimitIntervalSec"] == ["0"], "it is never given up"
    assert int(unit["RestartSec"][0]) >= 5
    assert "Requires" not in unit
    assert "network-online" not in (UNITS / f"pansketch-{name}.service").read_text()


def test_no_core_no_swap_and_no_sensor_hidden():
    unit = settings("agent")
    assert (unit["LimitCORE"], unit["MemorySwapMax"]) == (["0"], ["0"])
    assert unit["LimitMEMLOCK"] == ["infinity"], "docs/how-to/deploy-a-device.md"
    assert unit["WatchdogSignal"] == ["SIGKILL"], "an abort may leave a core"
    hiding = {"PrivateDevices", "DevicePolicy", "DeviceAllow", "ProtectClock", "ProcSubset"}
    assert not hiding & set(unit)


@pytest.mark.parametrize("name", NAMES)
def test_commands_users_folders_and_secrets_belong_together(name):
    unit = settings(name)
    users = re.findall(r"^u (\S+) ", (UNITS / "sysusers.conf").read_text(), re.M)
    assert unit["User"][0] in users
    assert unit["StateDirectory"] == unit["User"] == [f"pansketch-{name}"]
    program, command, *rest = unit["ExecStart"][0].split()
    assert program == f"/opt/pansketch/bin/pansketch-{name}"
    assert [command, *rest] == [
        "serve" if name == "collector" else "run",
        "--config",
        f"/etc/pansketch/{'keeper' if name == 'keeper' else 'config'}.yaml",
    ]
    loaded = {each.partition(":")[0] for each in unit["LoadCredential"]}
    assert loaded == {each.partition(":")[0] for each in unit["SetCredential"]}
    stand_ins = {each.partition(":")[2].encode() for each in unit["SetCredential"]}
    assert stand_ins == {NO_CREDENTIAL}


@pytest.mark.needs("mosquitto")
def test_the_agent_works_with_memory_that_is_never_writable_and_executable(site):
    """MemoryDenyWriteExecute, by the kernel itself (from Linux 6.3 on; older ones do nothing)."""
    site.install_broker()
    site.start_broker()
    for who, program, words in (
        ("collector", "collector", ("serve",)),
        ("dev-1", "agent", ("run",)),
    ):
        config = site.configure(site.certified(who))
        command = (
            sys.executable,
            "-c",
            DENIED,
            "-m",
            f"pansketch_{program}",
            *words,
            "--config",
            str(config),
        )
        started = site.start(program, *command)
        if program == "collector":
            started.wait_until_connected()
    assert started.wait() == 0, started.output


def test_the_denial_is_one():
    """Negative control: memory that is writable and executable is refused after it (Linux 6.3)."""
    grab = "import mmap; mmap.mmap(-1, 4096, prot=mmap.PROT_WRITE | mmap.PROT_EXEC)"
    done = subprocess.run(
        [sys.executable, "-c", DENIED, "-c", grab], capture_output=True, text=True, timeout=SECONDS
    )
    newer = tuple(map(int, re.findall(r"\d+", os.uname().release)[:2])) >= (6, 3)
    assert ("PermissionError" in done.stderr) == newer


def test_a_secret_from_systemd_s_folder_or_from_etc(site, monkeypatch):
    """`${file:${CREDENTIALS_DIRECTORY:-...}/password}` as in docs/how-to/deploy-a-device.md."""
    from pansketch_fleet.config.loader import load_agent

    monkeypatch.delenv("CREDENTIALS_DIRECTORY", raising=False)
    for folder in ("etc", "run"):
        (site.folder / folder).mkdir()
        (site.folder / folder / "password").write_text(f"from {folder}\n")
    reference = f"${{file:${{CREDENTIALS_DIRECTORY:-{site.folder}/etc}}/password}}"
    path = site.configure({"url": "mqtt://b", "username": "dev-1", "password": reference})
    assert load_agent(path, {}).mqtt.password == "from etc"
    run = {"CREDENTIALS_DIRECTORY": str(site.folder / "run")}
    assert load_agent(path, run).mqtt.password == "from run"
