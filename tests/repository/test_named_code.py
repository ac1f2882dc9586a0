"""Modules, commands and definitions that pages and docstrings name exist."""

import ast
import re
from pathlib import Path

import pytest

from benchmarks.__main__ import BENCHMARKS
from pansketch_audit.planted_bugs.readings import bugs
from tests.repository.layers import ROOT
from tests.repository.pages import FOLDERS as SPEAKING
from tests.repository.pages import PAGES, named

FOLDERS = (*SPEAKING, "benchmarks")
SOURCES = [file for folder in FOLDERS for file in sorted((ROOT / folder).rglob("*.py"))]
# The possible beginnings of a path in a page or in the code: the root, or above a package.
STARTS = [
    ROOT,
    *(ROOT / name for name in ("agent", "audit", "cli", "collector", "fleet", "keeper", "tests")),
    *(ROOT / "pansketch" / name for name in (".", "generators")),
]
BUGS = {bug.name for bug in bugs()}
BROKER_USER = "pansketch.collector"  # has the form of a module's name
PACKAGES = (
    "pansketch|pansketch_(?:fleet|agent|collector|keeper|cli|audit)"
    "|testbed|benchmarks|demo|proofs|tests|deploy"
)
MODULE_PATH = re.compile(
    r"(?<![\w/.$:-])("
    r"(?:[\w-]+/)+[\w-]+\.py\b"  # agent/pansketch_agent/ledger/ledger.py
    rf"|(?:\w+/)?(?:{PACKAGES})/(?:\w+/)*(?=[`\s,;)])"  # pansketch_agent/ledger/
    r"|(?:\.\./)*docs/[\w/-]+\.md\b"
    r")"
)
MODULE_NAME = re.compile(
    r"(?<![\w/.$-])((?:pansketch(?:_fleet|_agent|_collector|_keeper|_cli|_audit)?|testbed|benchmarks|demo)"
    r"(?:\.\w+)+)(?![\w/(-])"
)


def paths_that_lead_nowhere(text):
    """Paths of modules, folders of packages and pages that do not exist."""
    for path in MODULE_PATH.findall(text):
        if not any((start / path).exists() for start in STARTS):
            yield path


def names_that_lead_nowhere(text):
    """Dotted names of modules, or of what is in one, that do not exist."""
    for name in MODULE_NAME.findall(text):
        if name == BROKER_USER:
            continue
        *folders, last = name.split(".")
        inner, outer = Path(*folders, last), Path(*folders)
        modules = [start / f"{path}.py" for path in (inner, outer) for start in STARTS]
        packages = [start / inner for start in STARTS]
        own = [start / outer / "__init__.py" for start in STARTS]
        in_package = any(file.exists() and last in file.read_text() for file in own)
        if not (in_package or any(path.exists() for path in (*modules, *packages))):
            yield name


def commands_that_do_nothing(text):
    """Names of benchmarks and of planted bugs in commands of a page that do not exist. Capital
    letters stand for any name."""
    for names in re.findall(r"--only ((?:[a-z0-9-]+(?: |\b))+)", text):
        yield from (name for name in names.split() if name not in BENCHMARKS)
    for name in re.findall(r"--plant ([a-z][a-z0-9-]*)", text):
        if name not in {*BUGS, "all"}:
            yield name


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_benchmarks_and_planted_bugs_named_in_a_page_exist(page):
    code = "\n".join(re.findall(r"`([^`\n]+)`", page.read_text()))
    assert list(commands_that_do_nothing(code)) == []


def test_a_command_that_does_nothing_would_be_found():
    """Negative control."""
    text = "`--only papers m2m gone` and `python -m benchmarks --quick --only seeds`"
    text += " or `pansketch audit --plant ppds-level`, `pansketch audit --plant ppds-nothing`"
    gone = ["gone", "seeds", "ppds-nothing"]
    code = "\n".join(re.findall(r"`([^`\n]+)`", text))
    assert list(commands_that_do_nothing(code)) == gone


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_modules_named_in_a_page_exist(page):
    code = " ".join(f"`{code}`" for code in re.findall(r"`([^`\n]+)`", page.read_text()))
    assert list(paths_that_lead_nowhere(code)) == []
    assert list(names_that_lead_nowhere(code)) == []


def definitions(files):
    """Arguments of everything that is defined, by name, and the text constants of the code."""
    arguments, texts = {}, set()
    for file in files:
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.FunctionDef):
                own = node.args
                names = {each.arg for each in own.posonlyargs + own.args + own.kwonlyargs}
                arguments.setdefault(node.name, set()).add(frozenset(names))
            elif isinstance(node, ast.ClassDef):
                arguments.setdefault(node.name, set())
            elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                arguments.setdefault(node.id, set())
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                texts.add(node.value)
    return arguments, texts


def undefined(page, arguments, texts):
    """Classes, constants and functions that a page names and no code defines.

    Other single words, such as threads and states, must be a text in the code.
    """
    for name, call in re.findall(r"`\.?([A-Za-z_]\w*)(\([\w, ]*\))?`", page):
        wanted = set(re.findall(r"\w+", call))
        known = name in arguments if name != name.lower() else name in {*arguments, *texts}
        if call:
            known = any(wanted <= given for given in arguments.get(name, ()))
        if not (known or (ROOT / name).is_dir() or (ROOT / name.split("_")[-1] / name).is_dir()):
            yield name + call


def test_what_the_architecture_names_is_defined():
    files = SOURCES + sorted((ROOT / "tests/pansketch").rglob("*.py"))
    page = (ROOT / "docs/explanation/architecture.md").read_text()
    defined = definitions(files)
    assert list(undefined(page, *defined)) == []
    control = "`Release` `Parcel` `release(rng)` `release(secret)` `MAX_GONE` `link` `nowhere_else`"
    gone = ["Parcel", "release(secret)", "MAX_GONE", "nowhere_else"]
    assert list(undefined(control, *defined)) == gone, "the control"


def test_paths_named_in_the_code_exist():
    found = [
        (file.relative_to(ROOT).as_posix(), path)
        for file in SOURCES
        for path in paths_that_lead_nowhere(file.read_text())
    ]
    assert found == []


def test_a_module_that_is_gone_would_be_found():
    """Negative control."""
    text = "`agent/outbox.py` `pansketch_agent/gone/` `docs/operations.md` `pansketch/domain/`"
    gone = ["agent/outbox.py", "pansketch_agent/gone/", "docs/operations.md"]
    assert list(paths_that_lead_nowhere(text)) == gone
    text = (
        "`pansketch.gone` `pansketch.generators` `pansketch.WireError` `pansketch_agent.ledger.x`"
    )
    assert list(names_that_lead_nowhere(text)) == ["pansketch.gone", "pansketch_agent.ledger.x"]
