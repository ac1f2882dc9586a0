"""Mutants are made where they should be, run in a copy, and named by what a file keeps."""

import ast
from dataclasses import replace

import pytest

from testbed.mutation import mutants, report
from testbed.mutation.mutants import ROOT, Mutant, Name, mutants_of
from testbed.mutation.report import Result, as_page, reasons
from testbed.mutation.runner import Runner
from testbed.mutation.targets import TARGETS, Target

SOURCE = '''\
LIMIT = 3


class Counter:
    def add(self, by: int | None) -> int:
        """Adds 1."""
        if by is None:
            raise ValueError("1 < 2")
        self.total += by
        self.buffer.fill(0)
        return self.total
'''
EXP_BOUNDS = Target(
    "pansketch/randomness/exp_bounds.py", ("tests/pansketch/randomness/test_geometric.py",)
)
LAST = "    return max(0, low >> drop), (high >> drop) + 1\n"


@pytest.fixture
def names(tmp_path, monkeypatch):
    (tmp_path / "counter.py").write_text(SOURCE)
    monkeypatch.setattr(mutants, "ROOT", tmp_path)
    found = mutants_of("counter.py")
    for mutant in found:
        ast.parse(mutant.source)
    return {(each.name.where, each.name.was, each.name.becomes) for each in found}


def test_code_is_mutated_and_annotations_and_texts_are_not(names):
    changed = {(where, becomes) for where, _, becomes in names if becomes != "pass"}
    assert changed == {
        ("LIMIT", "LIMIT = 4"),
        ("LIMIT", "LIMIT = 2"),
        ("Counter.add", "if by is not None:"),
        ("Counter.add", "if not by is None:"),
        ("Counter.add", "self.buffer.fill( 1)"),
        ("Counter.add", "self.buffer.fill( -1)"),
    }


def test_a_deleted_statement_is_named_by_what_it_was(names):
    gone = {was for _, was, becomes in names if becomes == "pass"}
    assert gone == {'raise ValueError("1 < 2")', "self.total += by", "self.buffer.fill(0)"}


def test_every_mutant_that_the_file_names_still_exists():
    for module in {name.module for name in reasons()}:
        named = {name for name in reasons() if name.module == module}
        functions = frozenset(name.where for name in named)
        assert named <= {each.name for each in mutants_of(module, functions)}
        assert module in {target.module for target in TARGETS}


def test_every_target_and_its_tests_exist():
    for target in TARGETS:
        assert (ROOT / target.module).is_file()
        assert all((ROOT / each).exists() for each in target.tests)


def test_a_mutant_is_run_in_a_copy(tmp_path):
    runner = Runner(tmp_path / "tree")
    times = runner.times(EXP_BOUNDS)
    source = (ROOT / EXP_BOUNDS.module).read_text()
    assert source.endswith(LAST)
    name = Name(EXP_BOUNDS.module, "exp_bounds", "", "")
    wrong = {
        "survived": source + "\n",
        "killed": source.replace(LAST, LAST.replace("high >>", "high <<")),
        "timeout": source.replace(LAST, "    while True:\n        pass\n"),
        "stillborn": "import nothing.of.that.name\n" + source,
    }
    assert {
        outcome: runner.outcome(EXP_BOUNDS, Mutant(name, changed), times)
        for outcome, changed in wrong.items()
    } == {outcome: outcome for outcome in wrong}
    assert (ROOT / EXP_BOUNDS.module).read_text() == source


def test_a_score_counts_no_equivalent_mutant(monkeypatch):
    one = Name("m.py", "f", "a", "b")
    names = [replace(one, becomes=each) for each in "bcde"]
    monkeypatch.setattr(report, "reasons", lambda: {names[0]: (True, "the same")})
    outcomes = ("survived", "survived", "killed", "timeout")
    page = as_page([Result(*each) for each in zip(names, outcomes, strict=True)])
    assert "| `m.py` | 4 | 2 | 1 | 1 | 66.7 % |" in page
    assert "equivalent: the same" in page
    assert "not explained" in page
