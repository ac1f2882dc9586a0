"""Run tests and parts of the audit on one mutant, in a process forked for it.

The parent has loaded third-party libraries, but nothing of this repository. So a child loads the
repository from a copy that holds the mutant. Programs that the child starts use the copy too.
"""

import os
import resource
import shutil
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from importlib import import_module
from math import ceil
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Literal

import pytest

from testbed.mutation.mutants import ROOT, Mutant
from testbed.mutation.targets import Target

Outcome = Literal["killed", "survived", "timeout", "stillborn"]
OUTCOMES: dict[int, Outcome] = {0: "survived", 77: "stillborn"}
STILLBORN = 77
MAX_TEST_SECONDS = 0.4  # of the processor, and of a test
PATIENCE = 10, 2.0  # A test of a mutant has so many times its time, and so many seconds more.
AUDIT_SECONDS = 30.0
TIMEOUTS = (signal.SIGPROF, signal.SIGXCPU, signal.SIGKILL)
FOLDERS = ("pansketch", "agent", "keeper", "fleet", "audit", "collector", "cli")
BESIDE = ("testbed", "tests", "proofs", "docs", "config.yaml", "pyproject.toml")
PROFILES = "fleet/pansketch_fleet/firmware_profiles"  # As pyproject.toml installs them.
OURS = ("pansketch", "testbed", "tests", "demo", "benchmarks", "proofs")
LIBRARIES = (
    "numpy.random", "hypothesis.strategies", "msgpack", "msgspec", "yaml", "paho.mqtt.client",
    "mpmath", "nacl.bindings", "scipy.stats", "amqtt.broker",
)  # fmt: skip


class Runner:
    """A copy of the repository, and the tests of one target after the other.

    Args:
        tree: where the copy is made; what is there is removed.
    """

    def __init__(self, tree: Path) -> None:
        shutil.rmtree(tree, ignore_errors=True)
        tree.mkdir(parents=True)
        for name in (*FOLDERS, *BESIDE):
            copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
            copy(ROOT / name, tree / name)
        shutil.copytree(ROOT / "firmware_profiles", tree / PROFILES)
        for library in LIBRARIES:
            import_module(library)
        self._tree = tree.resolve()

    def times(self, target: Target) -> dict[str, float]:
        """Seconds of the processor of each test that is fast enough. Raises RuntimeError if a test
        or a part of the audit fails where nothing is mutated."""
        found = self._tree / "times"
        found.unlink(missing_ok=True)

        def measured() -> int:
            clock = _Clock()
            code = _tested(target, clock, []) or _audited(target)
            found.write_text("\n".join(f"{each:.3f} {name}" for name, each in clock.took.items()))
            return code

        if self._apart(measured, 600) != 0:
            raise RuntimeError(f"the tests of {target.module} fail without a mutation")
        pairs = (line.split(" ", 1) for line in found.read_text().splitlines())
        took = {name: float(seconds) for seconds, name in pairs}
        return {name: each for name, each in took.items() if each <= MAX_TEST_SECONDS}

    def outcome(self, target: Target, mutant: Mutant, times: dict[str, float]) -> Outcome:
        """The outcome of a mutant under the tests that `times` chose, and the audit."""
        file = self._tree / target.module
        seconds = ceil(PATIENCE[0] * sum(times.values()) + AUDIT_SECONDS)
        file.write_text(mutant.source)
        try:
            return _named(self._apart(lambda: _attempt(target, times), seconds))
        finally:
            shutil.copy(ROOT / target.module, file)

    def _apart(self, work: Callable[[], int], seconds: int) -> int:
        """Exit status of a process that does `work` in the copy, with so much processor time. The
        clock on the wall allows ten times as much, for a mutant that waits."""
        child = get_context("fork").Process(target=_inside, args=(self._tree, work, seconds))
        child.start()
        child.join(10 * seconds)
        if child.is_alive():
            child.kill()
            child.join()
        return child.exitcode or 0


def _named(status: int) -> Outcome:
    if status < 0:
        return "timeout" if -status in TIMEOUTS else "killed"
    return OUTCOMES.get(status, "killed")


def _inside(tree: Path, work: Callable[[], int], seconds: int) -> None:
    """The work of a child, which exits here, also if a test left threads."""
    status = 1
    try:
        _enter(tree)
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 1))
        status = work()
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush(), sys.stderr.flush()
        os._exit(status)


def _enter(tree: Path) -> None:
    """Everything of this repository is loaded from the copy, here and in programs."""
    os.chdir(tree)
    output = os.open(tree / "output", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    os.dup2(output, 1)
    os.dup2(output, 2)
    for name in [name for name in sys.modules if name.split(".")[0].startswith(OURS)]:
        del sys.modules[name]
    paths = [str(tree), *(str(tree / folder) for folder in FOLDERS[1:])]
    sys.path[:0] = paths
    # An editable installation would find the tree that is being worked on.
    sys.meta_path[:] = [each for each in sys.meta_path if "Editable" not in repr(each)]
    sys.dont_write_bytecode = True  # Of two mutants made in one second.
    os.environ.update(PYTHONPATH=os.pathsep.join(paths), PYTHONDONTWRITEBYTECODE="1")


def _attempt(target: Target, times: dict[str, float]) -> int:
    try:
        import_module(_dotted(target.module))
    except Exception:
        return STILLBORN
    failed = _tested(target, _Order(times), ["-x"])
    signal.setitimer(signal.ITIMER_PROF, AUDIT_SECONDS)
    return failed or _audited(target)


def _dotted(module: str) -> str:
    parts = Path(module).with_suffix("").parts
    return ".".join(parts[1:] if parts[0] in FOLDERS[1:] else parts)


def _tested(target: Target, plugin: object, options: list[str]) -> int:
    quiet = ["-p", "no:cacheprovider", "-p", "no:xdist", "-p", "no:rerunfailures", "--tb=line"]
    # Hypothesis is loaded already.
    quiet += ["-W", "ignore::pytest.PytestAssertRewriteWarning"]
    return int(pytest.main([*options, *quiet, *target.tests], plugins=[plugin]))


def _audited(target: Target) -> int:
    """1 if a part of the audit that the target names fails."""
    if not target.audit:
        return 0
    report: Any = import_module("pansketch_audit.report")
    missed = set(target.audit)
    for named, task in _tasks(report):
        asked = {each for each in target.audit if named.startswith(each)}
        if asked and not all(finding.holds for finding in report.perform(task)):
            return 1
        missed -= asked
    return int(bool(missed))


def _tasks(report: Any) -> Iterator[tuple[str, Any]]:
    """Those of the exact part, each with the beginning of what its findings are named."""
    for which, (name, _) in enumerate(report.sampler_findings(True)):
        yield name, report.Task("sampler", which, True)
    for which, scenario in enumerate(report.SCENARIOS):
        yield f"blinded, {scenario.name}", report.Task("blinded", which, True)
    for which, subject in enumerate(report.subjects()):
        views = report.views_of(subject)
        for some in [views] if subject.unit == "key" else [(view,) for view in views]:
            yield f"{report.named(subject)}, {some[0]}", report.Task("exact", which, True, some)


class _Clock:
    """A plugin: what each test takes, with its fixtures."""

    def __init__(self) -> None:
        self.took: dict[str, float] = {}

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[Any]:
        begun = time.process_time()
        done = yield
        self.took[item.nodeid] = time.process_time() - begun
        return done


class _Order:
    """A plugin: the fastest tests first, the slowest not at all, and the kernel's SIGPROF for one
    that takes much longer than without a mutation."""

    def __init__(self, times: dict[str, float]) -> None:
        self._times = times

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        items[:] = [item for item in items if item.nodeid in self._times]
        items.sort(key=lambda item: self._times[item.nodeid])

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logstart(self, nodeid: str) -> None:
        usual = self._times.get(nodeid, 0.0)
        signal.setitimer(signal.ITIMER_PROF, PATIENCE[0] * usual + PATIENCE[1])
