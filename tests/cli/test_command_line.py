"""`pansketch`: what it prints and how it ends."""

import json

import pytest

from pansketch import Attribute, Domain, HierarchySpec, Privacy, WindowId, encode
from pansketch_audit import report
from pansketch_audit.findings import Finding
from pansketch_cli.__main__ import main
from tests.seeded_noise import noise_of_test

SPEC = HierarchySpec(Domain([Attribute("temp", low=-40, high=60)]), Privacy(1.0), depth=6, k=64)


@pytest.fixture
def release_file(tmp_path):
    window = WindowId("dev-1", "air", 7, 0, 3600)
    release = SPEC.start(noise_of_test()).release(noise_of_test(), window)
    file = tmp_path / "7.release"
    file.write_bytes(encode(release))
    return file


def test_inspect_states_what_a_release_is(release_file, capsys):
    assert main(["inspect", str(release_file)]) == 0
    said = capsys.readouterr().out
    assert SPEC.fingerprint.hex() in said
    assert "dev-1/air 7: 1970-01-01T00:00:00+00:00 to 1970-01-01T01:00:00+00:00" in said
    assert "draws        2" in said


def test_inspect_refuses_a_damaged_release_by_a_single_line(release_file, capsys):
    data = bytearray(release_file.read_bytes())
    data[-1] ^= 1
    release_file.write_bytes(data)
    assert main(["inspect", str(release_file)]) == 2
    said = capsys.readouterr().err
    assert "checksum" in said
    assert said.count("\n") == 1


def test_inspect_refuses_a_missing_file_by_a_single_line(tmp_path, capsys):
    assert main(["inspect", str(tmp_path / "none")]) == 2
    assert "No such file" in capsys.readouterr().err


def test_an_audit_of_a_planted_bug_ends_with_1_and_states_why(capsys):
    assert main(["audit", "--plant", "init-only", "--json"]) == 1
    said = json.loads(capsys.readouterr().out)
    assert said["holds"] is False
    assert said["findings"][0]["measured"] == "exact loss inf times the claim"
    assert said["not_shown"]


@pytest.mark.parametrize(
    ("words", "says"),
    [([], "required: COMMAND"), (["dance"], "invalid choice"), (["plan", "-x"], "")],
)
def test_a_wrong_command_line_is_refused_by_a_single_line(words, says, capsys):
    with pytest.raises(SystemExit, match="2"):
        main(words)
    said = capsys.readouterr().err
    assert said.startswith("pansketch")
    assert says in said
    assert said.endswith("--help\n")
    assert said.count("\n") == 1


def test_an_unknown_bug_ends_with_2(capsys):
    assert main(["audit", "--plant", "none"]) == 2
    assert "half-scale" in capsys.readouterr().err


@pytest.mark.parametrize("bad", [True, False])
def test_the_audit_ends_with_0_only_if_everything_holds(bad, monkeypatch, capsys):
    """The exit code follows the findings; that the findings are right is shown elsewhere."""
    finding = Finding("exact", "something", "loss <= 1", "1", True)
    failing = Finding("exact", "another", "loss <= 1", "2", False)
    monkeypatch.setattr(report, "run_audit", lambda *_: [finding, failing] if bad else [finding])
    assert main(["audit"]) == int(bad)
    said = capsys.readouterr().out
    assert ("1 of 2 findings FAIL" in said) == bad
    assert ("every claim holds" in said) != bad
