"""What the documentation shows is run: Python blocks, YAML blocks, commands and links."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from agent.__main__ import main as agent_main
from collector.__main__ import main as collector_main
from command.__main__ import main as library_main
from fleet.config import load

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").rglob("*.md"))]
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
        timeout=60,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "±" in done.stdout


@pytest.mark.parametrize("body", list(blocks("yaml")))
def test_configurations_load(body, tmp_path):
    (tmp_path / "config.yaml").write_text(body.replace("${file:/etc/pansketch/password}", "secret"))
    for program in ("agent", "collector"):
        assert load(tmp_path / "config.yaml", program, {}).streams


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


def test_tests_named_in_the_documentation_exist():
    """Every `path/test_x.py` or `test_x.py::test_y` that a page names is there."""
    sources = {file.name: file.read_text() for file in (ROOT / "tests").rglob("test_*.py")}
    for page in PAGES:
        for file, test in re.findall(r"(test_\w+\.py)(?:::(test_\w+))?", page.read_text()):
            assert file in sources, (page.name, file)
            assert f"def {test}(" in sources[file] if test else True, (page.name, test)
