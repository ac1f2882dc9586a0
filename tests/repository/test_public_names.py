"""Programs and documents use the library by its documented names only."""

import ast
import json
import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterable
from importlib import import_module
from inspect import isclass, isfunction
from pathlib import Path

import pytest

from tests.pansketch.docstrings import gaps
from tests.repository.layers import MODULES
from tests.waiting import SECONDS

ROOT = Path(__file__).parents[2]
NAMESPACES = [
    "pansketch",
    "pansketch.blinding",
    "pansketch.domain",
    "pansketch.generators",
    "pansketch.planning",
    "pansketch.privacy",
    "pansketch.randomness",
    "pansketch.sketches",
    "pansketch.version",
    "pansketch.wire",
]
PROGRAMS = [
    "fleet",
    "agent",
    "collector",
    "keeper",
    "cli",
    "audit",
    "demo",
    "testbed",
    "benchmarks",
    "proofs",
]
# Modules that are themselves what is measured, audited or fuzzed there.
EXAMINED = {
    "audit": {
        "pansketch.domain.cell_paths",
        "pansketch.randomness.exact_noise",
        "pansketch.randomness.geometric",
        "pansketch.randomness.random_words",
    },
    "testbed": {"pansketch.wire.counter_blocks"},
    "benchmarks": {
        "pansketch.generators.density.cell_counts",
        "pansketch.generators.hierarchy.cell_counts",
        "pansketch.generators.hierarchy.growth",
        "pansketch.generators.moments.design_matrix",
        "pansketch.generators.moments.marginal",
        "pansketch.generators.moments.ridge",
        "pansketch.generators.moments.training_points",
        "pansketch.generators.pairwise.contingency_tables",
        "pansketch.generators.pairwise.fit",
        "pansketch.generators.pairwise.marginals",
        "pansketch.generators.pairwise.particles",
        "pansketch.generators.simplex",
        "pansketch.sketches.hierarchy_levels",
    },
}
MAX_NAMES = 35  # of `pansketch` itself


def undocumented(source, examined=frozenset()):
    """Everything that is imported from the library and is no public name of a namespace."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.split(".")[0] == "pansketch" and alias.name not in NAMESPACES:
                    yield alias.name
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "pansketch":
            for alias in node.names:
                full = f"{node.module}.{alias.name}"
                public = node.module in NAMESPACES and alias.name in names_of(node.module)
                if not public and not {node.module, full} & examined:
                    yield full


def names_of(namespace):
    return import_module(namespace).__all__


@pytest.mark.parametrize("program", PROGRAMS)
def test_programs_import_documented_names_only(program):
    files = sorted((ROOT / program).rglob("*.py"))
    assert files
    examined = EXAMINED.get(program, set())
    found = {
        str(file.relative_to(ROOT)): names
        for file in files
        if (names := list(undocumented(file.read_text(), examined)))
    }
    assert found == {}


def test_what_is_examined_is_imported_there():
    for program, modules in EXAMINED.items():
        text = "".join(file.read_text() for file in (ROOT / program).rglob("*.py"))
        for module in modules:
            parent, _, name = module.rpartition(".")
            assert f"from {module} import" in text or re.search(
                rf"from {re.escape(parent)} import .*\b{name}\b", text
            ), module


def test_documents_import_documented_names_only():
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")]
    blocks = [
        block
        for page in pages
        for block in re.findall(r"```python\n(.*?)```", page.read_text(), re.S)
    ]
    for notebook in (ROOT / "docs").rglob("*.ipynb"):
        cells = json.loads(notebook.read_text())["cells"]
        blocks += ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    assert sum("from pansketch" in block for block in blocks) > 3
    assert [name for block in blocks for name in undocumented(block)] == []


def test_an_undocumented_name_would_be_noticed():
    """Negative control."""
    for source in (
        "from pansketch.sketches.views import ViewsSpec",
        "from pansketch import privhp",
        "from pansketch.generators import hierarchy",
        "import pansketch.wire.codec",
    ):
        assert list(undocumented(source))
    assert not list(undocumented("from pansketch.generators import privhp"))


def test_every_public_name_is_in_the_reference():
    page = (ROOT / "docs/reference/library.md").read_text()
    sections = dict(re.findall(r"^## `([a-z_.]+)`\n(.*?)(?=^## |\Z)", page, re.M | re.S))
    assert list(sections) == NAMESPACES
    for namespace, text in sections.items():
        named = re.findall(r"`([A-Za-z_]\w*)`", "".join(re.findall(r"^\|.*$", text, re.M)))
        assert sorted(named) == sorted(names_of(namespace)), namespace
        for name in names_of(namespace):
            getattr(import_module(namespace), name)


def test_every_class_and_function_has_its_docstring_in_the_reference_once():
    page = (ROOT / "docs/reference/library.md").read_text()
    wanted: dict[int, str] = {}
    for namespace in NAMESPACES:
        for name in names_of(namespace):
            found = getattr(import_module(namespace), name)
            if isclass(found) or isfunction(found):
                assert found.__doc__, name
                wanted.setdefault(id(found), f"{namespace}.{name}")
    assert sorted(re.findall(r"^::: (\S+)$", page, re.M)) == sorted(wanted.values())


def public_names():
    """Every class and function of the documented namespaces, by its name there."""
    for namespace in NAMESPACES:
        for name in names_of(namespace):
            found = getattr(import_module(namespace), name)
            if isclass(found) or isfunction(found):
                yield name, found


def test_docstrings_describe_arguments_results_and_exceptions():
    names = dict(public_names())
    assert {name: left for name, found in names.items() if (left := list(gaps(found, names)))} == {}


class Described:
    """A class of the control, less what each test below leaves out.

    Args:
        width: columns.

    Raises:
        ValueError: there is no column.
    """

    def __init__(self, width: int) -> None:
        self.width = _checked(width)

    def halved(self) -> int:
        """See `Described`."""
        return _checked(self.width // 2)

    def doubled(self) -> int:
        """Nothing that it raises leaves it."""
        try:
            return _checked(2 * self.width)
        except ValueError:
            return 0


def _checked(width):
    if width < 1:
        raise ValueError("there must be a column")
    return width


def narrow(width: int) -> int:
    """Half of the columns."""
    return _checked(width) // 2


def test_a_gap_in_a_docstring_would_be_found(monkeypatch):
    """Negative control: an argument, a result, exceptions of helpers, of a constructor, of a
    method; and no exception that is caught."""
    names = {"Described": Described}
    assert list(gaps(Described, names)) == []
    assert list(gaps(narrow, names)) == ["argument width", "result", "raises ValueError"]
    monkeypatch.setattr(Described, "__doc__", "Args:\n    height: rows.")
    assert list(gaps(Described, names)) == [
        "argument width",
        "raises ValueError",
        "halved: raises ValueError",
    ]


def test_the_library_itself_has_few_names():
    assert len(names_of("pansketch")) <= MAX_NAMES


def loaded_by(module):
    """The modules of the library that a program loads."""
    program = f"import sys, {module}; print(*sys.modules)"
    found = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=True,
        timeout=SECONDS,
        cwd=ROOT,
    ).stdout.split()
    return {name for name in found if name.split(".")[0] == "pansketch"}


def test_a_device_loads_no_generator():
    assert not [m for m in loaded_by("pansketch_agent.__main__") if "generators" in m]
    assert "pansketch.generators.significance" in loaded_by("pansketch.generators"), "the control"
    assert not [m for m in loaded_by("pansketch") if "generators" in m or "planning" in m]


def classes(module: str, source: str) -> set[tuple[str, str]]:
    """Name and module of each public class that a module defines at its top level."""
    return {
        (node.name, module)
        for node in ast.parse(source).body
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    }


def shared(found: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    """The modules of each name that several modules define."""
    modules = defaultdict(list)
    for name, module in found:
        modules[name].append(module)
    return {name: sorted(where) for name, where in modules.items() if len(where) > 1}


def test_no_two_classes_share_a_name():
    found = [
        each
        for module, file in MODULES.items()
        if module.startswith("pansketch")
        for each in classes(module, file.read_text())
    ]
    assert len(found) > 200
    assert shared(found) == {}


def test_a_shared_name_would_be_found():
    """Negative control; private classes and functions are left alone."""
    one = classes("pansketch_a", "class Row: ...\nclass _State: ...\ndef Total(): ...")
    other = classes("pansketch_b", "class Row: ...\nclass _State: ...\nclass Total: ...")
    assert shared([*one, *other]) == {"Row": ["pansketch_a", "pansketch_b"]}
