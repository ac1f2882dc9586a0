"""`pansketch audit --record`: the record of an audit, with any result."""

import os
import stat

import pytest

from pansketch import __version__
from pansketch.version import code_version
from pansketch_audit import report
from pansketch_audit.findings import Finding
from pansketch_audit.planted_bugs.readings import bugs
from pansketch_cli.__main__ import main
from pansketch_fleet.protocol.audit_record import MAX_NAMED, AuditRecord

HELD = [
    Finding("exact", "two counters, reading, silent", "loss <= 1", "1", True),
    Finding("seizure", "a running agent", "at most the reading in flight", "none", True),
]
CAUGHT = [
    Finding("planted", f"{bug.name}: {bug.what}", "is caught", "found", True) for bug in bugs()
]
BROKEN = Finding("exact", "another,\nof two lines", "loss <= 1", "2", False)
MISSED = Finding("planted", "init-only: no fresh noise", "is caught", "nothing", False)


@pytest.fixture
def audit(monkeypatch, tmp_path):
    """Runs the command over findings that are given; that findings are right is shown elsewhere."""
    file = tmp_path / "audit.json"

    def run(findings, *options):
        monkeypatch.setattr(report, "run_audit", lambda *_: findings)
        code = main(["audit", "--record", str(file), *options])
        return code, AuditRecord.decode(file.read_bytes())

    return run


def test_what_held_is_recorded(audit):
    code, record = audit([*HELD, *CAUGHT], "--quick")
    assert (code, record.holds) == (0, True)
    assert (record.extent, record.claims, record.held, record.broken) == ("quick", 2, 2, ())
    assert record.planted == {bug.name: True for bug in bugs()}
    assert code_version() == f"pansketch {record.version}, sources {record.sources}"
    assert record.version == __version__


def test_what_failed_is_recorded_as_well(audit, capsys):
    code, record = audit([*HELD, BROKEN, *CAUGHT, MISSED])
    assert (code, record.holds) == (1, False)
    assert (record.extent, record.claims, record.held) == ("full", 3, 2)
    assert len(record.broken) == 1
    assert record.broken[0].startswith("exact: another,")
    assert record.planted["init-only"] is False
    assert record.planted["pcg64"] is True
    assert "findings FAIL" in capsys.readouterr().out


def test_however_many_fail(audit):
    code, record = audit([BROKEN] * 100 + CAUGHT)
    assert (code, record.claims, record.held, len(record.broken)) == (1, 100, 0, MAX_NAMED)


def test_a_record_takes_the_place_of_the_one_before_as_a_whole(audit, tmp_path):
    audit([*HELD, BROKEN, *CAUGHT])
    _, record = audit([*HELD, *CAUGHT])
    assert record.holds
    assert [file.name for file in tmp_path.iterdir()] == ["audit.json"]
    assert stat.S_IMODE((tmp_path / "audit.json").stat().st_mode) == 0o644


def test_an_unusable_folder_is_reported_before_the_audit_begins(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(report, "run_audit", None)
    for place in (tmp_path, tmp_path / "nowhere" / "audit.json"):
        assert main(["audit", "--record", str(place)]) == 2
        said = capsys.readouterr().err
        assert "cannot write" in said
        assert said.count("\n") == 1


def test_a_full_disk_at_the_end_is_reported_and_the_old_record_stays(
    audit, monkeypatch, tmp_path, capsys
):
    _, before = audit([*HELD, *CAUGHT])

    def full(*_):
        raise OSError(28, os.strerror(28))

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        code, after = audit([*HELD, BROKEN, *CAUGHT])
    assert (code, after) == (1, before)
    assert "No space left" in capsys.readouterr().err
    assert [file.name for file in tmp_path.iterdir()] == ["audit.json"]


def test_the_audit_of_a_planted_bug_is_no_record_of_the_product(tmp_path, capsys):
    with pytest.raises(SystemExit) as ended:
        main(["audit", "--plant", "init-only", "--record", str(tmp_path / "audit.json")])
    assert ended.value.code == 2
    assert "not allowed with" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []
