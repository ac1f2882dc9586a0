"""Programs and tests need only their installed dependencies.

The agent and the collector start with the dependencies of a device alone. A test imports, also
through a module of ours, only packages that `make test` installs.
"""

import ast
import importlib.metadata
import re
import subprocess
import sys

import pytest

from benchmarks.__main__ import BENCHMARKS
from tests.repository.layers import MODULES, ROOT, imports_of, module_of
from tests.waiting import SECONDS

TESTS = {
    ".".join(file.relative_to(ROOT).with_suffix("").parts): file
    for file in (ROOT / "tests").rglob("*.py")
}
FILES = {**MODULES, **TESTS}
WITHOUT = """
import sys

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {packages!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Missing())
from {module} import main
sys.exit(main())
"""

FROZEN = """
import gc
import sys
from {module} import main

try:
    sys.exit(main({words}))
finally:
    print(gc.get_freeze_count())
"""


def on_import(tree):
    """The statements that run when the module is imported: none in a function, none for mypy."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            continue
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            continue
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield from imports_of(node)
        yield from on_import(node)


def ours(name):
    """Our module that this name is or is in, tests among them."""
    heads = (name.rsplit(".", count)[0] for count in range(name.count(".") + 1))
    return module_of(name) or next((head for head in heads if head in TESTS), None)


def reached(starts):
    """From module to module: what importing these imports. Yields (importer, package) of others."""
    seen, left = set(starts), list(starts)
    while left:
        module = left.pop()
        for name in on_import(ast.parse(FILES[module].read_text())):
            other = ours(name)
            if other is None:
                yield module, name.partition(".")[0]
                continue
            # The packages around a module are imported before it.
            around = (other.rsplit(".", up)[0] for up in range(other.count(".") + 1))
            fresh = {each for each in around if each in FILES} - seen
            seen |= fresh
            left += fresh


def installed_by(extra):
    """Distributions that this extra of ours brings, with what they need in turn."""
    found, left = set(), [("pansketch", {extra})]
    while left:
        name, extras = left.pop()
        try:
            needs = importlib.metadata.requires(name) or []
        except importlib.metadata.PackageNotFoundError:  # for other systems than this
            continue
        for need in needs:
            other, _, marker = need.partition(";")
            wanted = re.search(r"extra == ['\"]([^'\"]+)['\"]", marker)
            if wanted and wanted[1] not in extras:
                continue
            distribution = normal(re.match(r"[\w.-]+", other)[0])
            asked = re.search(r"\[(.*?)\]", other)
            step = distribution, frozenset(asked[1].split(",") if asked else ())
            if step not in found:
                found.add(step)
                left.append(step)
    return {name for name, _ in found}


def normal(name):
    return re.sub(r"[-_.]+", "-", name).lower()


def missing(starts, extra):
    """(importer, package) of what the extra does not bring."""
    brought = installed_by(extra)
    owners = importlib.metadata.packages_distributions()
    for module, package in reached(starts):
        if package in sys.stdlib_module_names or package == "__future__":
            continue
        if not brought & {normal(each) for each in owners.get(package, [])}:
            yield module, package


def test_tests_import_only_what_make_test_installs():
    assert sorted(missing(TESTS, "test")) == []


@pytest.mark.parametrize(
    ("start", "extra", "package"),
    [
        ("benchmarks.performance.peers", "test", "datasketches"),
        ("tests.collector.http.page.conftest", "demo", "httpx"),
    ],
)
def test_an_import_of_another_extra_is_found(start, extra, package):
    """Negative control: it is the same whether the package is installed here or not."""
    assert package in {name for _, name in missing([start], extra)}


@pytest.mark.parametrize("place", BENCHMARKS.values(), ids=BENCHMARKS)
def test_every_benchmark_is_a_function(place):
    module, _, function = place.partition(":")
    tree = ast.parse(MODULES[f"benchmarks.{module}"].read_text())
    assert function in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}


@pytest.mark.parametrize(
    ("module", "words"),
    [("pansketch_agent.__main__", ["validate"]), ("pansketch_collector.__main__", ["--help"])],
)
def test_what_a_device_installs_starts_both_programs(module, words):
    """All at once: so many programs need not be started, and a device lacks all of them."""
    others = ("rich", "amqtt", "matplotlib", "fastapi", "pyarrow", "opendp", "nacl")
    done = start(module, words, *others)
    assert done.returncode == 0, done.stderr


def test_what_is_missing_is_found_out():
    """The control: a package that every program needs."""
    done = start("pansketch_agent.__main__", ["validate"], "numpy")
    assert done.returncode != 0
    assert "No module named 'numpy'" in done.stderr


def start(module, words, *packages):
    program = WITHOUT.format(module=module, packages=packages)
    return subprocess.run(
        [sys.executable, "-c", program.replace("main()", f"main({words!r})")],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=SECONDS,
    )


@pytest.mark.parametrize("package", ["agent", "collector", "keeper", "cli"])
def test_what_a_program_imports_is_left_out_of_collections(package):
    """A collection that looks at all of it takes a tenth of a start or more. A caller of `main` in
    a process of its own has what it may collect."""
    module = f"pansketch_{package}.__main__"
    counts = []
    for words, given in (("", ["--help"]), ('["--help"]', [])):
        program = FROZEN.format(module=module, words=words)
        run = subprocess.run(
            [sys.executable, "-c", program, *given],
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=SECONDS,
        )
        assert run.returncode == 0, run.stderr
        counts.append(int(run.stdout.split()[-1]))
    assert counts[0] > 10_000
    assert counts[1] == 0
