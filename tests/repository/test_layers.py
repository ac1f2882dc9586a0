"""Layers: every module keeps the rules of tests/repository/layers.py."""

import ast
import subprocess
import sys
import tomllib

import pytest

from tests.repository.layers import (
    AGENT_THIRD_PARTY,
    CALLED_IN,
    CLOCK_IN,
    LAYERS,
    MAX_INSTALLED,
    MAX_LINES,
    MAX_MODULES,
    MODULES,
    ORDER,
    ROOT,
    STARTS,
    calls_of,
    folder,
    folder_of,
    imports_of,
    started,
    starts_of,
    violations,
)
from tests.waiting import SECONDS

SOURCES = {module: file.read_text() for module, file in MODULES.items()}


@pytest.mark.parametrize("module", list(MODULES))
def test_imports_go_down(module):
    tree = ast.parse(MODULES[module].read_text())
    assert list(violations(module, imports_of(tree))) == []


@pytest.mark.parametrize(
    ("module", "name"),
    [
        ("pansketch.randomness.exact_noise", "pansketch_agent.host.clock"),
        ("pansketch.randomness.exact_noise", "time"),
        ("pansketch.randomness.exact_noise", "pansketch.sketches.views"),
        ("pansketch.planning.view_planner", "pansketch_fleet.config.loader"),
        ("pansketch.planning.view_planner", "pansketch.wire.encode"),
        ("pansketch.planning.view_planner", "pansketch.sketches.Form"),
        ("pansketch.generators", "pansketch_fleet.config.loader"),
        ("pansketch_cli.plan", "pansketch_agent.diagnostics.validate_report"),
        ("pansketch_agent.windows.window", "pansketch_collector.storage.writer"),
        ("pansketch_agent.ledger.ledger", "pansketch_agent.runtime.agent_loop"),
        ("pansketch_agent.ledger.ledger", "pansketch_agent.outbox.outbox"),
        ("pansketch_agent.ledger.ledger", "sqlite3"),
        ("pansketch_agent.outbox.outbox", "msgpack"),
        ("pansketch_agent.outbox.outbox", "secrets"),
        ("pansketch_agent.delivery.delivery", "testbed.tcp_proxy"),
        ("pansketch_agent.runtime.agent_loop", "pansketch_agent.__main__"),
        ("pansketch_collector.storage.writer", "pansketch_agent.ledger.ledger"),
        ("pansketch_collector.http.app", "tests.waiting"),
        ("pansketch_fleet.protocol.topics", "paho.mqtt.client"),
        ("pansketch_audit.report", "pansketch_collector.storage.writer"),
        ("pansketch_audit.coupling.agent_runs", "pansketch_audit.exact.readings"),
    ],
)
def test_a_wrong_import_would_be_noticed(module, name):
    """Negative control."""
    assert module in MODULES
    assert list(violations(module, [name]))


def test_the_order_names_every_folder_once():
    for package, levels in ORDER.items():
        named = [name for level in levels for name in level.split("|")]
        there = {folder(m) for m in MODULES if m.split(".")[0] == package}
        there -= {m for m in there if MODULES.get(m, ROOT).name == "__init__.py"} - {
            folder(m) for m in MODULES if MODULES[m].name != "__init__.py"
        }
        found = {f.removeprefix(package).strip(".") or "." for f in there}
        assert sorted(named) == sorted(found), package


def test_no_folder_has_too_many_modules():
    inside = [m.rpartition(".")[0] for m in MODULES if MODULES[m].name != "__init__.py"]
    assert {name for name in inside if inside.count(name) > MAX_MODULES} == set()
    tests = [file.parent for file in (ROOT / "tests").rglob("test_*.py")]
    assert {name for name in tests if tests.count(name) > MAX_MODULES} == set()


def test_the_installed_packages_have_few_modules():
    """A fragment with one caller belongs into its caller."""
    own = {name for name in MODULES if MODULES[name].name != "__init__.py"}
    assert len({name for name in own if name.startswith("pansketch")}) <= MAX_INSTALLED


def too_long(files):
    return [file for file in files if len(file.read_text().splitlines()) > MAX_LINES]


def test_modules_and_tests_are_short(tmp_path):
    assert too_long([*MODULES.values(), *(ROOT / "tests").rglob("*.py")]) == []
    planted = tmp_path / "long.py"
    planted.write_text("pass\n" * (MAX_LINES + 1))
    assert too_long([planted]) == [planted], "the control"


def test_what_is_installed_is_what_is_there():
    tool = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]
    packages = {name for name in MODULES if MODULES[name].name == "__init__.py"}
    installed = {name for name in packages if name.startswith("pansketch")}
    profiles = "pansketch_fleet.firmware_profiles"
    assert sorted(tool["packages"]) == sorted(installed | {profiles})
    assert {name: ROOT / where for name, where in tool["package-dir"].items()} == {
        **{name: folder_of(name) for name in installed if "." not in name},
        profiles: ROOT / "firmware_profiles",
    }
    shipped = {file for patterns in tool["data-files"].values() for file in patterns}
    files = {file for pattern in shipped for file in ROOT.glob(pattern)}
    wanted = {file for file in (ROOT / "deploy").rglob("*") if file.is_file()}
    schema = ROOT / "docs/reference/config.schema.json"
    assert files == wanted | {ROOT / "config.yaml", schema}


def test_programs_start_only_what_is_theirs():
    found: dict[str, set[str]] = {}
    for module, file in MODULES.items():
        package = module.split(".")[0]
        if package.startswith("pansketch"):
            found.setdefault(package, set()).update(started(ast.parse(file.read_text())))
    assert {package: names for package, names in found.items() if names} == STARTS
    assert list(started(ast.parse('f(["x", "-m", "pansketch_agent"])'))) == ["pansketch_agent"]


def callers(called, package, modules):
    """The modules of a package that call a function, by its name or its last part."""
    return {
        module
        for module, source in modules.items()
        if module.split(".")[0] == package
        and any(
            called in (name, f"{before}.{name}") for before, name in calls_of(ast.parse(source))
        )
    }


@pytest.mark.parametrize(
    ("called", "package"), [(call, package) for call in CALLED_IN for package in CALLED_IN[call]]
)
def test_secrets_are_made_in_one_place(called, package):
    place = CALLED_IN[called][package]
    assert callers(called, package, SOURCES) == ({place} if place else set())
    planted = {f"{package}.planted": f"def f():\n    return {called}(8)"}
    assert callers(called, package, planted) == {f"{package}.planted"}, "the control"


def reads_clock(source):
    """True if a module reads a clock."""
    tree = ast.parse(source)
    reads = {("datetime", "now"), ("datetime", "utcnow"), ("date", "today")}
    imported = {name.split(".")[0] for name in imports_of(tree)}
    return "time" in imported or bool(reads & set(calls_of(tree)))


@pytest.mark.parametrize(("package", "clock"), CLOCK_IN.items())
def test_only_the_clock_module_reads_the_clock(package, clock):
    own = {module for module in SOURCES if module.split(".")[0] == package}
    assert {module for module in own if reads_clock(SOURCES[module])} == {clock}
    assert reads_clock("import time")
    assert reads_clock("from datetime import datetime\ndatetime.now()"), "the control"


def test_whoever_starts_a_program_ends_it_with_itself():
    """tests/conftest.py sees to the tests."""
    found = {
        module: calls
        for module, file in MODULES.items()
        if (calls := list(starts_of(file.read_text())))
    }
    assert found == {}
    assert list(starts_of("subprocess.run(['x'])")) == ["subprocess.run"], "the control"


def test_a_device_loads_four_dependencies_and_the_validator():
    program = """
import sys, pansketch_agent.__main__
installed = [m for m in sys.modules.values() if "site-packages" in str(getattr(m, "__file__", ""))]
print(*sorted({m.__name__.split(".")[0] for m in installed}))
"""
    found = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=True,
        timeout=SECONDS,
        cwd=ROOT,
    ).stdout.split()
    # msgspec uses typing_extensions where another package has installed it, and does without.
    ours = {*LAYERS, "typing_extensions"}
    assert {n for n in found if not n.startswith("_")} - ours == AGENT_THIRD_PARTY


def test_names_of_our_folders_are_no_packages():
    """`import agent` finds nothing but in this very folder."""
    for name in (
        "agent",
        "collector",
        "keeper",
        "fleet",
        "cli",
        "audit",
        "demo",
        "testbed",
        "benchmarks",
        "proofs",
    ):
        program = f"import {name}"
        done = subprocess.run(
            [sys.executable, "-c", program],
            capture_output=True,
            text=True,
            timeout=SECONDS,
            cwd="/",
            env={},
        )
        assert "ModuleNotFoundError" in done.stderr, name
