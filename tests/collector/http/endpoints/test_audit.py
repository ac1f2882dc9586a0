"""`/v1/audit`: the record as it is, nothing where there is none, and a sentence where it is bad."""

import json
import os

import pytest

from pansketch import __version__
from pansketch.version import sources_digest
from pansketch_collector.http.endpoints.listing import audit_object
from pansketch_fleet.protocol.audit_record import LIMIT_BYTES, AuditRecord

RECORD = AuditRecord(
    at="2026-01-31T12:00:00Z",
    version="0.0.1",
    sources="00ff00ff00ff00ff",
    extent="quick",
    claims=3,
    held=2,
    broken=("exact: two counters",),
    planted={"init-only": True, "pcg64": False},
    holds=False,
)
OURS = {"version": __version__, "sources": sources_digest()}


@pytest.fixture
def file(tmp_path):
    return tmp_path / "audit.json"


def shown(file):
    found = audit_object(file, OURS["sources"])
    assert {name: found[name] for name in OURS} == OURS
    return found["audit"], found["problem"]


def test_without_a_record_the_audit_is_null(get, file):
    assert get("/v1/audit").json() == {"audit": None, "problem": None} | OURS
    assert shown(None) == shown(file) == (None, None)


def test_a_record_is_shown_unchanged_and_reread(make_site, serve):
    site = make_site(collector="audit: audit.json")
    site.fill()
    file = site.folder / "audit.json"
    with serve(site) as server, server.client() as client:
        assert client.get("/v1/audit").json()["audit"] is None
        file.write_bytes(RECORD.encode())
        first = client.get("/v1/audit")
        assert first.json()["audit"] == json.loads(RECORD.encode())
        assert first.json()["problem"] is None
        file.write_bytes(b"{}")
        damaged = client.get("/v1/audit", headers={"If-None-Match": first.headers["etag"]})
        assert damaged.status_code == 200
        assert damaged.json()["audit"] is None
        assert "damaged" in damaged.json()["problem"]
        assert str(site.folder) not in damaged.text
        assert server.program.stop() == 0
        assert "Traceback" not in server.program.output


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"no JSON",
        b"\xff\xfe",
        b"[" * 100_000,
        RECORD.encode()[:-3],
        RECORD.encode().replace(b'"held": 2', b'"held": 3'),
        RECORD.encode() + b" " * LIMIT_BYTES,
    ],
)
def test_a_damaged_file_is_a_sentence(file, data):
    file.write_bytes(data)
    audit, problem = shown(file)
    assert audit is None
    assert problem.startswith("the file of collector.audit is damaged (")
    assert "pansketch audit --record" in problem
    assert "\n" not in problem


def test_a_path_that_is_no_file_is_a_problem_without_waiting(file):
    os.mkfifo(file)
    assert "it is no file" in shown(file)[1]
    file.unlink()
    file.mkdir()
    assert "it is no file" in shown(file)[1]
    assert "cannot be read" in shown(file.parent / ("x" * 5000))[1]
