"""The tests run the documentation: Python blocks, YAML blocks, commands and links."""

import os
import re
import shlex
import subprocess
import sys

import pytest

from pansketch_agent.__main__ import main as agent_main
from pansketch_cli.__main__ import main as library_main
from pansketch_collector.__main__ import COMMANDS, WITH_BROKER
from pansketch_collector.__main__ import main as collector_main
from pansketch_collector.http.endpoints.metrics import REASONS
from pansketch_collector.validation.verdicts import FINAL
from pansketch_fleet.config.loader import load_agent, load_collector
from pansketch_keeper.__main__ import main as keeper_main
from tests.repository.layers import ROOT
from tests.repository.pages import PAGES
from tests.waiting import SECONDS

PROGRAMS = {
    "pansketch": library_main,
    "pansketch-agent": agent_main,
    "pansketch-collector": collector_main,
    "pansketch-keeper": keeper_main,
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
    """Every `path/test_x.py` and `path/test_x.py::test_y` that a page names exists."""
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
    assert listed == {*COMMANDS, *WITH_BROKER}


def test_every_reason_for_a_refusal_is_in_the_wire_format_with_its_status():
    text = (ROOT / "docs/reference/mqtt.md").read_text()
    rows = re.findall(r"^\| (`[^|]*) \| (`later`|`refused`|none) \|", text, re.M)
    status = {reason: said for cell, said in rows for reason in re.findall(r"`(\w+)`", cell)}
    assert status.keys() == set(REASONS)
    assert {reason for reason, said in status.items() if said == "`refused`"} == FINAL


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
