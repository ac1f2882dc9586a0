"""The page shows the last audit, and makes a failed one conspicuous."""

import json
from pathlib import Path

import pytest

from pansketch import __version__
from pansketch.version import sources_digest
from pansketch_fleet.protocol.audit_record import AuditRecord

AXE = (Path(__file__).with_name("axe") / "axe.min.js").read_text(encoding="utf-8")
NOW = "Date.parse('2026-02-01T12:00:00Z')"
RENEWAL = "document.dispatchEvent(new Event('visibilitychange'))"  # as when a tab comes back
HELD = {
    "at": "2026-01-31T12:00:00Z",
    "version": __version__,
    "sources": sources_digest(),
    "extent": "full",
    "claims": 3,
    "held": 3,
    "broken": (),
    "planted": {"init-only": True, "pcg64": True},
    "holds": True,
}
BROKEN = HELD | {"held": 2, "broken": ("exact: two counters, silent",), "holds": False}
MISSED = HELD | {"planted": {"init-only": True, "pcg64": False}, "holds": False}


@pytest.fixture
def say(shared, tab):
    """The section as a text, for an answer of the API."""
    tab.open(f"{shared.url}/#privacy")

    def call(record, problem=None):
        answer = {"version": __version__, "sources": sources_digest(), "problem": problem}
        answer["audit"] = None if record is None else AuditRecord(**record).as_object()
        script = f"import('./page/audit.js').then(m => m.audit({json.dumps(answer)}, {NOW})"
        return tab.run(f"{script}.textContent)")

    return call


def test_one_that_held(say):
    text = say(HELD)
    assert "Passed. 2026-01-31 12:00 UTC, the full audit, of pansketch" in text
    assert "all 3 claims held, and all 2 bugs that were planted to test the audit were" in text
    for doubt in ("FAILED", "another version", "other sources", "days old", "future"):
        assert doubt not in text
    assert "fewer runs" in say(HELD | {"extent": "quick"})


def test_one_that_failed(say):
    text = say(BROKEN)
    assert "FAILED. 2026-01-31" in text
    assert "1 of 3 claims did not hold, and all 2 bugs" in text
    assert "exact: two counters, silent" in text
    assert "Do not rely on the guarantees below" in text
    assert "Passed" not in text
    text = say(MISSED)
    assert "FAILED" in text
    assert "all 3 claims held, but 1 of 2 bugs that were planted" in text
    assert "were not caught: pcg64" in text


def test_one_that_is_old_or_of_other_code(say):
    assert "It is 91 days old" in say(HELD | {"at": "2025-11-02T00:00:00Z"})
    assert "days old" not in say(HELD | {"at": "2025-11-03T12:00:00Z"})
    other = say(HELD | {"version": "0.0.1"})
    assert f"another version: this collector is pansketch {__version__}" in other
    assert "other sources" in say(HELD | {"sources": "00ff00ff00ff00ff"})
    assert "lies in the future" in say(HELD | {"at": "2027-01-01T00:00:00Z"})


def test_none_and_one_that_is_damaged(say):
    text = say(None)
    assert "None is recorded here." in text
    assert "pansketch audit --record FILE" in text
    assert "collector.audit" in text
    assert "No audit can be shown: it is damaged." in say(None, "it is damaged")


def test_a_failed_one_is_seen_on_the_view_and_soon_the_next_one(make_site, serve, tab, shoot):
    site = make_site(collector="audit: audit.json")
    site.fill()
    file = site.folder / "audit.json"
    file.write_bytes(AuditRecord(**BROKEN).encode())
    with serve(site) as server:
        tab.open(f"{server.url}/#privacy")
        assert "FAILED." in tab.text()
        tab.run(AXE)
        found = tab.run("axe.run(document).then(r => r.violations)")
        assert [v["id"] for v in found if v["impact"] in ("serious", "critical")] == []
        box = "getComputedStyle(document.querySelector('.failed'))"
        assert tab.run(f"{box}.borderTopWidth") == "3px"
        assert tab.run(
            "document.querySelector('.failed').getBoundingClientRect().top < innerHeight"
        )
        shoot("audit-failed")
        file.write_bytes(AuditRecord(**HELD).encode())
        tab.run(RENEWAL)
        tab.until("document.querySelector('.audit').textContent.includes('Passed.')")
        assert tab.run("document.querySelector('.failed')") is None
        assert tab.errors == []
        assert server.program.stop() == 0
