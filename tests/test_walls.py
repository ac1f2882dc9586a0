"""The walls between the rooms, read from the imports."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
ROOMS = {
    "pansketch": {"pansketch"},
    "fleet": {"fleet", "pansketch", "firmware_profiles"},
    "agent": {"agent", "fleet", "pansketch"},
    "collector": {"collector", "fleet", "pansketch"},
    "command": {"command", "fleet", "pansketch"},
    "demo": {"demo", "agent", "collector", "fleet", "pansketch", "firmware_profiles"},
    "chaos": {"chaos", "agent", "collector", "fleet", "pansketch", "firmware_profiles"},
}
OWN = set(ROOMS) | {"firmware_profiles", "benchmarks", "fuzz", "tests"}
# Who may import what from outside; a room that is not named may import it nowhere.
ONLY_IN = {
    "paho": {"agent/mqtt.py", "agent/sources/mqtt.py", "collector/mqtt.py"},
    "msgpack": {"pansketch/wire.py"},
    "sqlite3": {"collector/", "chaos/"},
    "rich": {"collector/", "demo/", "chaos/"},
    "matplotlib": {"demo/"},
    "amqtt": {"demo/"},
    "websockets": {"demo/"},
    "fastapi": {"collector/web/"},
    "starlette": {"collector/web/"},
    "uvicorn": {"collector/web/"},
    "pyarrow": {"collector/web/"},
    "yaml": {"fleet/"},
    "msgspec": {"fleet/", "agent/sources/"},
}
LIBRARY_NEVER = {
    "asyncio", "logging", "socket", "threading", "time", "random", "secrets", "subprocess",
}  # fmt: skip
AGENT_THIRD_PARTY = {"numpy", "paho", "msgpack", "yaml", "msgspec"}


def imports_of(file):
    """(top-level package, full name) of every import of a file."""
    for node in ast.walk(ast.parse(file.read_text())):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            names = [node.module]
        yield from ((name.split(".")[0], name) for name in names)


def files():
    for room in ROOMS:
        for file in sorted((ROOT / room).rglob("*.py")):
            yield pytest.param(file, id=str(file.relative_to(ROOT)))


def violations(room, path, imports):
    """Every import of a file (its room, its path in the repository) that goes through a wall."""
    for top, name in imports:
        if top in OWN and top not in ROOMS[room]:
            yield f"{path} imports {name}"
        allowed = ONLY_IN.get(top)
        if allowed is not None and not any(path.startswith(place) for place in allowed):
            yield f"{path} imports {name}"
        audit = path.startswith("pansketch/audit/")
        if room == "pansketch" and not audit and top in LIBRARY_NEVER:
            yield f"{path} imports {name}"


@pytest.mark.parametrize("file", list(files()))
def test_no_import_goes_through_a_wall(file):
    path = file.relative_to(ROOT).as_posix()
    assert list(violations(path.split("/")[0], path, imports_of(file))) == []


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("pansketch/noise.py", "agent.clock"),
        ("pansketch/noise.py", "time"),
        ("pansketch/view_planning.py", "fleet.config"),
        ("command/planning.py", "agent.report"),
        ("agent/window.py", "collector.store"),
        ("collector/store.py", "agent.ledger"),
        ("agent/outbox.py", "msgpack"),
        ("fleet/topics.py", "paho.mqtt.client"),
        ("agent/ledger.py", "sqlite3"),
        ("agent/delivery.py", "chaos.proxy"),
    ],
)
def test_the_wall_test_would_notice(path, name):
    """Negative control."""
    assert list(violations(path.split("/")[0], path, [(name.split(".")[0], name)]))


def test_the_library_does_not_lean_on_its_audit():
    """What runs on a device loads nothing that starts processes or reads memory."""
    for file in sorted((ROOT / "pansketch").rglob("*.py")):
        path = file.relative_to(ROOT).as_posix()
        if not path.startswith("pansketch/audit/"):
            assert not [n for _, n in imports_of(file) if n.startswith("pansketch.audit")], path


def calls_of(file):
    """Every function a file calls, as (what stands before the last dot, name)."""
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Call):
            *before, name = ast.unparse(node.func).split(".")
            yield ".".join(before), name


def test_each_program_creates_its_randomness_in_one_place():
    makers = {
        file.relative_to(ROOT).as_posix()
        for room in ("fleet", "agent", "collector")
        for file in sorted((ROOT / room).rglob("*.py"))
        if "os_entropy" in {name for _, name in calls_of(file)}
    }
    assert makers == {"agent/__main__.py"}


@pytest.mark.parametrize("room", ["agent", "collector"])
def test_only_the_clock_module_reads_the_clock(room):
    readers = {
        file.name
        for file in sorted((ROOT / room).rglob("*.py"))
        if any(top == "time" for top, _ in imports_of(file))
        or {("datetime", "now"), ("datetime", "utcnow"), ("date", "today")} & set(calls_of(file))
    }
    assert readers <= {"clock.py"}


def test_a_device_loads_four_dependencies_and_the_validator():
    program = """
import sys, agent.__main__
installed = [m for m in sys.modules.values() if "site-packages" in str(getattr(m, "__file__", ""))]
print(*sorted({m.__name__.split(".")[0] for m in installed}))
"""
    found = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
        cwd=ROOT,
    ).stdout.split()
    # msgspec uses typing_extensions where another package has installed it, and does without.
    third_party = {n for n in found if not n.startswith("_")} - OWN - {"typing_extensions"}
    assert third_party == AGENT_THIRD_PARTY
