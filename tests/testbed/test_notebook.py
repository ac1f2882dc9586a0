"""docs/notebooks/quickstart.ipynb: what is stored runs as it is on a fleet, and shows no
machine."""

import os
import re
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_notebook

from tests.waiting import SECONDS

ROOT = Path(__file__).parents[2]
STORED = ROOT / "docs/notebooks/quickstart.ipynb"
MAX_BYTES = 400_000
PICTURES = 5
NOBODY = "http://127.0.0.1:1"
# Paths, temporary files, addresses that change, and the colours of a terminal.
OF_A_MACHINE = re.compile(r"/(?:home|root|tmp|usr|var|work|Users|opt)/|ipykernel_|:\d{4,5}\b|\x1b")


def execute(*words: object, **variables: str) -> subprocess.CompletedProcess[str]:
    """`python -m testbed.notebook_runner`, as `make notebook` runs it."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PANSKETCH_")}
    return subprocess.run(
        [sys.executable, "-m", "testbed.notebook_runner", *map(str, words)],
        cwd=ROOT,
        env=environment | {"PYTHONPATH": str(ROOT)} | variables,
        capture_output=True,
        text=True,
        timeout=10 * SECONDS,
    )


def code(notebook: nbformat.NotebookNode) -> list[nbformat.NotebookNode]:
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def shown(notebook: nbformat.NotebookNode) -> str:
    """All text of the outputs."""
    outputs = [output for cell in code(notebook) for output in cell.outputs]
    assert {output.output_type for output in outputs} <= {"stream", "display_data"}
    return "".join(output.get("text", "") for output in outputs)


def check(notebook: nbformat.NotebookNode, path: Path) -> None:
    """It ran from top to bottom in a fresh kernel, and holds what a reader needs and no more."""
    cells = code(notebook)
    assert [cell.execution_count for cell in cells] == list(range(1, len(cells) + 1))
    outputs = [output for cell in cells for output in cell.outputs]
    assert sum("image/png" in output.get("data", {}) for output in outputs) == PICTURES
    assert all(output.get("name", "stdout") == "stdout" for output in outputs)
    assert OF_A_MACHINE.findall(shown(notebook)) == []
    assert all(cell.metadata == {} for cell in notebook.cells)
    assert notebook.metadata == {
        "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
        "language_info": {"name": "python"},
    }
    assert path.stat().st_size <= MAX_BYTES


def test_what_is_stored_ran_from_top_to_bottom():
    stored = nbformat.read(STORED, as_version=4)
    nbformat.validate(stored)
    check(stored, STORED)


def test_what_is_stored_runs_against_a_fleet(tmp_path):
    """A few devices, a broker and a collector of its own, as `make notebook` makes twelve."""
    fresh = tmp_path / "fresh.ipynb"
    done = execute("--short", "--out", fresh)
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    notebook, stored = nbformat.read(fresh, as_version=4), nbformat.read(STORED, as_version=4)
    check(notebook, fresh)
    assert [cell.source for cell in notebook.cells] == [cell.source for cell in stored.cells]
    text = shown(notebook)
    here, there = re.findall(r"^(?:here|HTTP) (\S+ ± \S+)$", text, re.M)
    assert here == there
    assert "100,000 rows" in text
    assert "a second release of a window: this sketch has been released" in text


@pytest.mark.parametrize(
    ("source", "says"),
    [("1 / 0", "ZeroDivisionError: division by zero"), (None, "no collector answers at")],
    ids=["a cell that fails", "no collector"],
)
def test_a_failure_is_one_line_and_nothing_is_stored(source, says, tmp_path):
    """None: the quickstart itself, without a collector."""
    notebook, out = STORED, tmp_path / "out.ipynb"
    if source is not None:
        notebook = tmp_path / "broken.ipynb"
        nbformat.write(new_notebook(cells=[new_code_cell(source)]), notebook)
    done = execute("--notebook", notebook, "--out", out, PANSKETCH_ADDRESS=NOBODY)
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert says in line
    assert not out.exists()


@pytest.mark.parametrize("text", ["/tmp/x", "/home/me/", "ipykernel_17", "http://127.0.0.1:43099"])
def test_what_belongs_to_a_machine_is_seen(text):
    assert OF_A_MACHINE.search(text)
