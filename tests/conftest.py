"""Tests that need a program of another Debian package: `@pytest.mark.needs("mosquitto")`.

A fixture that needs one is marked the same way, below `@pytest.fixture`, for all tests that use it.
A test without its package is skipped. The summary counts such tests and prints the command that
installs the package. If CI is set, no package may be missing. No test may skip for another reason.
A test finds only the programs of the packages that it names, also if all are installed. So a
forgotten mark fails everywhere.

No program that a test starts outlives the process that runs the test.
"""

import logging
import os
import subprocess
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from pansketch_fleet.child_process import Child
from tests.packages import PACKAGES, PATH, command, missing

# Also behind subprocess.run, so that a run of pytest killed by SIGKILL leaves nothing behind.
subprocess.Popen = Child  # type: ignore[misc]

PROPERTY = "needs"  # of the reports of skipped tests
STUB = """\
#!/bin/sh
echo "this test does not say that it needs {package}: mark it with pytest.mark.needs" >&2
exit 127
"""
# A busy machine is no fault of a property's.
settings.register_profile("patient", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("patient")
# An agent refuses a state folder that a group may write, and Debian's umask for users makes such.
os.umask(0o022)
# Folders of the longest tests come first, so that all processes end together.
LONGEST = (
    "benchmarks",
    "testbed",
    "system",
    "audit",
    "collector/queries",
    "pansketch/generators",
    "deploy",
    "collector",
    "agent",
)
MISSING, STUBS = pytest.StashKey[list[str]](), pytest.StashKey[dict[str, Path]]()


@pytest.fixture(autouse=True)
def log_of_the_test() -> Iterator[None]:
    """A program that runs inside a test sets up the log: a later test has its own stream."""
    root = logging.root
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)


def pytest_configure(config: pytest.Config) -> None:
    line = "needs(*packages): Debian packages, of tests/packages.py, without which it is left out"
    config.addinivalue_line("markers", line)
    config.stash[MISSING] = missing()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    def place(item: pytest.Item) -> int:
        starts = enumerate(f"tests/{folder}/" for folder in LONGEST)
        return next((n for n, each in starts if item.nodeid.startswith(each)), len(LONGEST))

    items.sort(key=place)


@pytest.hookimpl(trylast=True)
def pytest_sessionstart(session: pytest.Session) -> None:
    config = session.config
    config.stash[STUBS] = _stubs(config)
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    if config.stash[MISSING] and reporter is not None and not hasattr(config, "workerinput"):
        lacking = " ".join(config.stash[MISSING])
        if os.environ.get("CI"):
            raise pytest.UsageError(f"missing: {lacking}; {command(config.stash[MISSING])}")
        reporter.write_line(f"missing: {lacking}; the tests that need them are left out")


def _stubs(config: pytest.Config) -> dict[str, Path]:
    """A folder for each package, whose programs of the same names only print an error."""
    factory: pytest.TempPathFactory = config._tmp_path_factory  # type: ignore[attr-defined]
    folder = factory.mktemp("stubs")
    for package, alternatives in PACKAGES.items():
        (folder / package).mkdir()
        for name in {name for names in alternatives for name in names if "/" not in name}:
            (folder / package / name).write_text(STUB.format(package=package))
            (folder / package / name).chmod(0o700)
    return {package: folder / package for package in PACKAGES}


def _needs(item: pytest.Item) -> set[str]:
    """The packages that marks of the test, or of its fixtures, require."""
    found = {name for mark in item.iter_markers("needs") for name in mark.args}
    fixtures = getattr(item, "_fixtureinfo", None)
    for definitions in fixtures.name2fixturedefs.values() if fixtures else ():
        for definition in definitions:
            found.update(getattr(definition.func, "needs", ()))
    return found


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    needs = _needs(item)
    unknown = needs - set(PACKAGES)
    assert not unknown, f"not in tests/packages.py: {unknown}"
    lacking = sorted(needs & set(item.config.stash[MISSING]))
    if lacking:
        item.user_properties.append((PROPERTY, " ".join(lacking)))
        pytest.skip(f"needs {' '.join(lacking)}")
    stubs = item.config.stash[STUBS]
    os.environ["PATH"] = ":".join([*(str(stubs[name]) for name in set(stubs) - needs), PATH])


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.skipped and PROPERTY not in dict(item.user_properties):
        report.outcome = "failed"
        report.longrepr = f"{item.nodeid} is skipped: only a missing package is a reason to"
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    report = yield
    if report.outcome == "skipped":
        report.outcome = "failed"
        report.longrepr = f"{report.nodeid} is skipped: only a missing package is a reason to"
    return report


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    skipped = terminalreporter.stats.get("skipped", [])
    left_out = [dict(report.user_properties) for report in skipped]
    lacking = sorted({name for each in left_out for name in each.get(PROPERTY, "").split()})
    if lacking:
        tests = f"{len(left_out)} test{'s' * (len(left_out) > 1)}"
        terminalreporter.write_line(f"left out: {tests}; to run all: {command(lacking)}")
