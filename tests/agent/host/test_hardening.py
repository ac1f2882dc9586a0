"""The memory lock and swap: real processes that may not lock memory, with swap areas of a root
folder.

Missing protection is logged, and refused where the configuration requires it.
"""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from pansketch import Guarantee, Privacy, Span, os_entropy
from pansketch_agent.host.clock import system_clock
from pansketch_agent.host.hardening import ExposedMemoryError, MemoryProtection
from pansketch_agent.runtime import agent_loop
from pansketch_agent.runtime.control import Signals
from pansketch_agent.runtime.exit_status import RunOptions
from pansketch_agent.status.health import EXCEPT, Facts, statuses
from pansketch_fleet.config.loader import load_agent
from pansketch_fleet.protocol.messages import StreamBirth
from pansketch_fleet.systemd import Notifier

SWAPS = "Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n"
AREA = "/var/swap                               file\t\t102396\t\t0\t\t-2\n"
ZRAM = "/dev/zram0                              partition\t498116\t\t0\t\t100\n"
# As a service without LimitMEMLOCK: 8 MiB, and neither CAP_IPC_LOCK (14) nor CAP_SYS_RESOURCE (24)
# in the program that this one becomes. Without root the last two calls fail, and are not needed.
LIMITED = """
import ctypes, os, resource, sys
allowed = resource.getrlimit(resource.RLIMIT_MEMLOCK)[1]
limit = 8 << 20 if allowed == resource.RLIM_INFINITY else min(allowed, 8 << 20)
resource.setrlimit(resource.RLIMIT_MEMLOCK, (limit, limit))
for capability in (14, 24):
    ctypes.CDLL(None).prctl(24, capability, 0, 0, 0)
os.execv(sys.executable, [sys.executable, "-m", "pansketch_agent", *sys.argv[1:]])
"""
WHOLE = """
import contextlib, ctypes, resource, sys
with contextlib.suppress(OSError, ValueError):
    resource.setrlimit(resource.RLIMIT_MEMLOCK, (resource.RLIM_INFINITY,) * 2)
sys.exit(ctypes.CDLL(None).mlockall(7) != 0)
"""


def may_lock() -> bool:
    """Return whether this host lets a test's process lock all of its memory."""
    return subprocess.run([sys.executable, "-c", WHOLE], check=False).returncode == 0


@pytest.fixture
def root(tmp_path):
    """Makes the root folder of a system with such swap areas."""

    def made(swaps: str | None, group: str = "", limits: tuple[tuple[str, str], ...] = ()) -> Path:
        folder = tmp_path / "root"
        (folder / "proc/self").mkdir(parents=True)
        if swaps is not None:
            (folder / "proc/swaps").write_text(swaps)
        (folder / "proc/self/cgroup").write_text(group)
        for path, limit in limits:
            place = folder / "sys/fs/cgroup" / path
            place.mkdir(parents=True, exist_ok=True)
            (place / "memory.swap.max").write_text(limit)
        return folder

    return made


def swapping(root):
    return root(SWAPS + AREA)


FILE = SWAPS + AREA
NESTED = "1:cpu:/x\n0::/a.slice/b\n"
KINDS = {
    "a file": (FILE, "", (), False),
    "compressed memory": (SWAPS + ZRAM, "", (), False),
    "none": (SWAPS, "", (), True),
    "unknown": (None, "", (), None),
    "forbidden to the service": (FILE, NESTED, (("a.slice/b", "0\n"),), True),
    "forbidden above": (FILE, NESTED, (("a.slice", "0\n"), ("a.slice/b", "max\n")), True),
    "forbidden to a container": (FILE, "0::/\n", ((".", "0\n"),), True),
    "limited": (FILE, NESTED, (("a.slice/b", "1048576\n"),), False),
    "forbidden to another": (FILE, NESTED, (("c", "0\n"),), False),
    "of no control group": (FILE, "0::/../..\n", ((".", "0\n"),), False),
}


@pytest.mark.parametrize("kind", KINDS)
def test_where_swap_can_hold_memory_that_is_not_locked(root, kind):
    swaps, group, limits, protected = KINDS[kind]
    folder = root(swaps, group, limits)
    assert MemoryProtection("too little", folder).protected is protected
    assert MemoryProtection("", folder).protected is True, "a lock holds whatever swap there is"
    assert ("NOT locked" in str(MemoryProtection("too little", folder))) == (protected is not True)


def test_a_list_of_swap_areas_that_a_container_hides(root):
    folder = root(None)
    (folder / "proc/meminfo").write_text("MemTotal: 500000 kB\nSwapTotal: 102396 kB\n")
    assert MemoryProtection("too little", folder).protected is False
    (folder / "proc/meminfo").write_text("MemTotal: 500000 kB\nSwapTotal: 0 kB\n")
    assert MemoryProtection("too little", folder).protected is True


def required(device, broker=None):
    """Configures the device to require locked memory."""
    device.configure(*([broker.url] if broker else []))
    text = device.config.read_text()
    device.config.write_text(text.replace("dev-1,", "dev-1, require_locked_memory: true,"))


def limited(device, *words):
    return device.start(*words, program=("-c", LIMITED))


def test_an_agent_that_may_swap_states_it_wherever_it_states_its_guarantee(
    device, broker, peer, root
):
    device.configure(broker.url)
    where = ("--root", str(swapping(root)))
    with peer(broker.url) as collector:
        agent = limited(device, "run", *where)
        assert agent.wait() == 0
    assert agent.output.count("running without protection of memory lock: NOT locked") == 1
    assert "swap is on" in agent.output
    for status in collector.statuses:
        assert status.streams["air"].guarantee.endswith(EXCEPT)
    assert {health.memory_protected for _, health in collector.healths} == {False}
    check = limited(device, "check", "--json", *where)
    assert check.wait() == 0
    found = {each["subject"]: each for each in json.load(check.process.stdout)}
    assert found["memory lock"]["state"] == "refused"
    assert "NOT locked" in found["memory lock"]["text"]
    valid = limited(device, "validate", *where)
    assert valid.wait() == 0
    said = valid.process.stdout.read()
    assert "memory  NOT locked (the limit on locked memory is too low) and swap is on" in said
    assert "not covered" in said


def test_without_swap_nothing_is_taken_from_the_guarantee(device, broker, peer, root):
    """Negative control, with the same limits."""
    device.configure(broker.url)
    with peer(broker.url) as collector:
        agent = limited(device, "run", "--root", str(root(SWAPS)))
        assert agent.wait() == 0
    assert "not locked (the limit on locked memory is too low), and no swap is on" in agent.output
    guarantees = {status.streams["air"].guarantee for status in collector.statuses}
    assert guarantees == {str(load_agent(device.config, {}).streams[0].spec.guarantee)}
    assert {health.memory_protected for _, health in collector.healths} == {True}


def test_where_the_lock_is_required_swap_ends_it_before_any_sketch(device, root):
    required(device)
    agent = limited(device, "run", "--root", str(swapping(root)))
    assert agent.wait() == 1
    (line,) = agent.output.splitlines()
    assert "agent.require_locked_memory is true and memory is NOT locked" in line
    assert "LimitMEMLOCK=infinity" in line
    assert not device.state.exists()
    check = limited(device, "check", "--json", "--root", str(device.folder / "root"))
    check.wait()
    found = {each["subject"]: each["state"] for each in json.load(check.process.stdout)}
    assert found["memory lock"] == "wrong"


def test_swap_of_which_nothing_is_known_ends_it_as_well(device, root):
    required(device)
    agent = limited(device, "run", "--root", str(root(None)))
    assert agent.wait() == 1
    assert "whether swap is on is unknown" in agent.output


def test_where_it_is_required_no_swap_will_do(device, broker, peer, root):
    required(device, broker)
    with peer(broker.url):
        agent = limited(device, "run", "--root", str(root(SWAPS)))
        assert agent.wait() == 0, agent.output


def test_a_lock_suffices_with_any_swap(device, broker, peer, root):
    """Of a host that allows none, like an ordinary user's, the refusal is the right answer."""
    required(device, broker)
    with peer(broker.url):
        agent = device.start("run", "--root", str(swapping(root)))
        assert agent.wait() == (0 if may_lock() else 1), agent.output


def test_swap_that_is_turned_on_later_ends_an_agent_that_requires_none(device, root, monkeypatch):
    monkeypatch.setattr("pansketch_agent.runtime.control.MEMORY_SECONDS", 0.0)
    required(device)
    memory = MemoryProtection("too little", root(SWAPS))
    assert memory.protected
    (memory.root / "proc/swaps").write_text(FILE)
    with pytest.raises(ExposedMemoryError, match="swap is on"):
        agent_loop.run(
            load_agent(device.config, {}),
            RunOptions(drain_seconds=60.0),
            system_clock(),
            {"air": os_entropy()},
            "session",
            Signals(),
            Notifier({}),
            memory,
        )


def test_the_longest_guarantee_and_its_exception_fit_a_status():
    silent = Privacy(99.999999, "key", "silent")
    key = Guarantee(silent.unit, "silent", 98_437_499, 1_562_500)
    span = Guarantee.of_linear_counters(Privacy(99.9, Span(316_224_000, 1_000_000), "announced"))
    for guarantee in (key, span):
        StreamBirth("00ff" * 4, f"{guarantee}{EXCEPT}", 1)


def test_a_status_states_it_of_every_stream(device):
    config = device.configure()
    for protected, ends in ((True, False), (False, True), (None, True)):
        for status in statuses(config, "session", Facts(protected, {}, {}, {})):
            assert status.streams["air"].guarantee.endswith(EXCEPT) == ends
