"""What the documentation shows is run: Python blocks, YAML blocks, commands and links."""

import ast
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.__main__ import BENCHMARKS
from pansketch_agent.__main__ import main as agent_main
from pansketch_audit.planted_bugs.readings import bugs
from pansketch_cli.__main__ import main as library_main
from pansketch_collector.__main__ import COMMANDS
from pansketch_collector.__main__ import main as collector_main
from pansketch_collector.http.endpoints.metrics import REASONS
from pansketch_collector.validation.verdicts import FINAL
from pansketch_fleet.config.loader import load_agent, load_collector
from tests.waiting import SECONDS

ROOT = Path(__file__).parents[2]
PAGES = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
    *sorted((ROOT / "data").rglob("*.md")),
]
PROGRAMS = {
    "pansketch": library_main,
    "pansketch-agent": agent_main,
    "pansketch-collector": collector_main,
}


def blocks(language):
    for page in PAGES:
        for number, body in enumerate(
            re.findall(rf"```{language}\n(.*?)```", page.read_text(), re.S)
        ):
            yield pytest.param(body, id=f"{page.name}-{number}")


def commands():
    """Every command of ours in a shell block or in code marks."""
    for page in PAGES:
        for line in re.findall(
            r"^(pansketch[a-z-]* .*)$|`(pansketch[a-z-]* [^`]*)`", page.read_text(), re.M
        ):
            words = shlex.split("".join(line), comments=True)
            if words[0] in PROGRAMS:
                yield pytest.param(words, id=" ".join(words)[:60])


@pytest.mark.parametrize("body", list(blocks("python")))
def test_python_runs_as_written(body, tmp_path):
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", body],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=SECONDS,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "±" in done.stdout


@pytest.mark.parametrize("body", list(blocks("yaml")))
def test_configurations_load(body, tmp_path):
    (tmp_path / "config.yaml").write_text(body.replace("${file:/etc/pansketch/password}", "secret"))
    for load in (load_agent, load_collector):
        assert load(tmp_path / "config.yaml", {}).streams


@pytest.mark.parametrize("words", list(commands()))
def test_commands_exist(words, capsys):
    program, command, *rest = words
    assert PROGRAMS[program]([command, "--help"]) == 0 if program != "pansketch" else True
    options = {word for word in rest if word.startswith("--")}
    if program == "pansketch":
        with pytest.raises(SystemExit):
            library_main([command, "--help"])
    text = capsys.readouterr().out
    assert all(option in text for option in options)


def test_links_lead_somewhere():
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#]+)\)", page.read_text()):
            assert target.startswith("http") or (page.parent / target).exists(), (page.name, target)


def headings(page):
    """The anchors of a page: its own, and those that GitHub and MkDocs make of its headings."""
    yield from re.findall(r'<a id="([^"]+)"></a>', page.read_text())
    text = re.sub(r"```.*?```", "", page.read_text(), flags=re.S)
    for title in re.findall(r"^#+ (.*)$", text, re.M):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)|`", r"\1", title)
        yield re.sub(r"\s", "-", re.sub(r"[^\w\s-]", "", plain.strip().lower()))


def test_anchors_lead_to_a_heading():
    for page in PAGES:
        for target in re.findall(r"\]\(((?!http)[^)]*#[^)]+)\)", page.read_text()):
            name, _, anchor = target.partition("#")
            goal = (page.parent / name).resolve() if name else page
            assert goal.suffix != ".md" or anchor in set(headings(goal)), (page.name, target)


def test_tests_named_in_the_documentation_exist():
    """Every `path/test_x.py` and `path/test_x.py::test_y` that a page names is there."""
    folder = ROOT / "tests"
    sources = {
        file.relative_to(folder).as_posix(): file.read_text() for file in folder.rglob("test_*.py")
    }
    for page in PAGES:
        for file, test in re.findall(r"((?:\w+/)*test_\w+\.py)(?:::(test_\w+))?", page.read_text()):
            file = file.removeprefix("tests/")
            assert file in sources, (page.name, file)
            assert f"def {test}(" in sources[file] if test else True, (page.name, test)


def test_every_command_of_the_collector_is_in_the_list():
    text = (ROOT / "docs/reference/cli.md").read_text()
    listed = set(re.findall(r"^### `pansketch-collector ([a-z]+)`", text, re.M))
    assert listed == set(COMMANDS)


def test_every_reason_for_a_refusal_is_in_the_wire_format_with_its_status():
    text = (ROOT / "docs/reference/mqtt.md").read_text()
    rows = re.findall(r"^\| (`[^|]*) \| (`later`|`refused`|none) \|", text, re.M)
    status = {reason: said for cell, said in rows for reason in re.findall(r"`(\w+)`", cell)}
    assert status.keys() == set(REASONS)
    assert {reason for reason, said in status.items() if said == "`refused`"} == FINAL


# Where a path in a page or in the code may begin: at the root, or above a package.
STARTS = [
    ROOT,
    *(ROOT / name for name in ("agent", "audit", "cli", "collector", "fleet", "tests")),
    *(ROOT / "pansketch" / name for name in (".", "generators")),
]
BROKER_USER = "pansketch.collector"  # has the form of a module's name
PACKAGES = (
    "pansketch|pansketch_(?:fleet|agent|collector|cli|audit)|testbed|benchmarks|demo|tests|deploy"
)
MODULE_PATH = re.compile(
    r"(?<![\w/.$:-])("
    r"(?:[\w-]+/)+[\w-]+\.py\b"  # agent/pansketch_agent/ledger/ledger.py
    rf"|(?:\w+/)?(?:{PACKAGES})/(?:\w+/)*(?=[`\s,;)])"  # pansketch_agent/ledger/
    r"|(?:\.\./)*docs/[\w/-]+\.md\b"
    r")"
)
MODULE_NAME = re.compile(
    r"(?<![\w/.$-])((?:pansketch(?:_fleet|_agent|_collector|_cli|_audit)?|testbed|benchmarks|demo)"
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
    bugs_of_the_audit = {bug.name for bug in bugs()}
    for names in re.findall(r"--only ((?:[a-z0-9-]+(?: |\b))+)", text):
        yield from (name for name in names.split() if name not in BENCHMARKS)
    for name in re.findall(r"--plant ([a-z][a-z0-9-]*)", text):
        if name not in bugs_of_the_audit:
            yield name


@pytest.mark.parametrize("page", PAGES, ids=lambda page: f"{page.parent.name}-{page.stem}")
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


STATUSES = {"reproduced", "better", "false", "vacuous", "not reproduced", "deviation"}


def unfinished_claims(text):
    """Rows of a claim with another status than those, or with neither a command nor a reason."""
    for line in re.findall(r"^\| .* \|$", text, re.M):
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        if len(cells) != 5 or cells[0] == "claim":
            continue
        status, _, reason = cells[4].partition(":")
        if status not in STATUSES or not ("`" in cells[3] or reason.strip()):
            yield cells[0]


def test_every_claim_of_the_papers_has_a_status_and_a_command_or_a_reason():
    text = (ROOT / "docs/explanation/papers.md").read_text()
    assert len(re.findall(r"^\| ", text, re.M)) > 60
    assert list(unfinished_claims(text)) == []


def test_a_claim_without_a_command_would_be_found():
    """Negative control."""
    text = (
        "| claim | the paper | here | command | status |\n|---|---|---|---|---|\n"
        "| A | x | y | `--only papers` | better |\n"
        "| B | x | y | none | not reproduced: no data |\n"
        "| C | x | y | none | reproduced |\n| D | x | y | `--only papers` | fine |\n"
    )
    assert list(unfinished_claims(text)) == ["C", "D"]


SOURCES = [
    file
    for folder in ("agent", "audit", "benchmarks", "cli", "collector", "demo", "fleet", "pansketch")
    for file in sorted((ROOT / folder).rglob("*.py"))
] + sorted((ROOT / "testbed").rglob("*.py"))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: f"{page.parent.name}-{page.stem}")
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
    """Classes, constants and functions named in a page that no code defines, and other single
    words, such as threads and states, that no code has as a text."""
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
