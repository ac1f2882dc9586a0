"""The quarantine lists rejected messages, keeps releases whole, and ingests them once accepted."""

import json

import pytest

from pansketch_collector.commands.quarantine import retry
from pansketch_collector.storage import quarantine
from pansketch_collector.storage import writer as store
from pansketch_collector.validation.validation import Rules
from pansketch_collector.validation.verdicts import Rejected


def change(small_fleet, old, new):
    text = small_fleet.path.read_text()
    assert old in text
    small_fleet.path.write_text(text.replace(old, new, 1))


@pytest.fixture
def misconfigured(small_fleet, serve, monkeypatch):
    """Releases of `heavy`, larger than the kept part of malformed messages, and malformed messages.

    They came while the collector had another epsilon.
    """
    releases = [small_fleet.release("attic", n, "heavy", [[20.0, 50.0, 1.0]]) for n in (1, 2, 3)]
    monkeypatch.setattr(quarantine, "MAX_BYTES", 100)
    assert min(map(len, releases)) > quarantine.MAX_BYTES
    change(small_fleet, "privacy: {epsilon: 100}\n", "privacy: {epsilon: 90}\n")
    outcomes = serve(
        *(("attic", "heavy", each) for each in releases), ("kitchen", "air", b"no release")
    )
    assert all(isinstance(outcome, Rejected) for outcome in outcomes)
    assert [outcome.reason for outcome in outcomes[:3]] == ["fingerprint"] * 3
    serve(("attic", "heavy", releases[0]), at=5000)
    return small_fleet, releases


def test_a_list_names_device_stream_reason_and_times(misconfigured, run):
    code, out, err = run("quarantine", "list")
    assert (code, err) == (0, "")
    header, *rows = out.splitlines()
    assert header.split()[:4] == ["device", "stream", "sequence", "reason"]
    assert [row.split()[:5] for row in rows[:3]] == [
        ["attic", "heavy", "1", "fingerprint", "2"],
        ["attic", "heavy", "2", "fingerprint", "1"],
        ["attic", "heavy", "3", "fingerprint", "1"],
    ]
    assert rows[0].split()[5:7] == ["1970-01-31T00:16:40Z", "1970-01-31T01:23:20Z"]
    assert rows[0].endswith("yes")
    assert rows[3].startswith("kitchen")
    assert rows[3].endswith("no")
    assert any("made with other settings than the configuration's stream heavy" in r for r in rows)


def test_each_text_of_a_reason_names_its_devices(small_fleet, serve, run):
    """Devices may be refused for one reason with different fixes."""
    change(small_fleet, "collector: {", "collector: {require_signature: true, ")
    payload = small_fleet.release("attic", 1, "heavy", [[20.0, 50.0, 1.0]])
    others = [small_fleet.release(d, 1, "heavy", [[20.0, 50.0, 1.0]]) for d in ("cellar", "shed")]
    serve(
        ("attic", "heavy", payload), *zip(("cellar", "shed"), ("heavy",) * 2, others, strict=True)
    )
    texts = run("quarantine", "list")[1].splitlines()[-3:]
    assert [text.rpartition(" (")[2] for text in texts] == ["attic)", "cellar)", "shed)"]
    assert all(text.startswith("signature: the release is not signed; enroll ") for text in texts)


def test_json_holds_the_same_and_can_be_of_one_stream(misconfigured, run):
    found = json.loads(run("quarantine", "list", "--json", "--device", "attic")[1])["quarantine"]
    assert [row["sequence"] for row in found] == [1, 2, 3]
    assert found[0]["whole"] is True
    assert found[0]["received_at"] == "1970-01-31T01:23:20Z"
    assert json.loads(run("quarantine", "list", "--json", "--stream", "none")[1]) == {
        "quarantine": []
    }
    assert run("quarantine", "retry", "--json")[0] == 2


def test_retry_ingests_accepted_releases_and_keeps_the_others(misconfigured, run):
    small_fleet, releases = misconfigured
    assert run("quarantine", "retry")[1] == "ingested from quarantine: 0\n"
    change(small_fleet, "privacy: {epsilon: 90}\n", "privacy: {epsilon: 100}\n")
    assert run("quarantine", "retry")[1] == "ingested from quarantine: 3\n"
    assert small_fleet.stored("heavy") == releases
    found = json.loads(run("quarantine", "list", "--json")[1])["quarantine"]
    assert [row["device"] for row in found] == ["kitchen"]
    assert run("quarantine", "retry")[1] == "ingested from quarantine: 0\n"


def test_retry_leaves_what_a_clock_refuses(misconfigured, run):
    """A release that fits the configuration may be refused by what the collector knows else."""
    small_fleet, releases = misconfigured
    change(small_fleet, "privacy: {epsilon: 90}\n", "privacy: {epsilon: 100}\n")
    with store.opened(small_fleet.database) as opened:
        assert (
            retry(
                opened,
                Rules.of(small_fleet.config, opened.serve_settings(small_fleet.config, 0)),
                0,
            )
            == 0
        )
    found = json.loads(run("quarantine", "list", "--json", "--device", "attic")[1])["quarantine"]
    assert [row["sequence"] for row in found] == [1, 2, 3]
    assert run("quarantine", "retry")[1] == "ingested from quarantine: 3\n"
    assert small_fleet.stored("heavy") == releases


def test_a_release_that_comes_again_and_fits_leaves_quarantine(misconfigured, serve, run):
    small_fleet, releases = misconfigured
    change(small_fleet, "privacy: {epsilon: 90}\n", "privacy: {epsilon: 100}\n")
    serve(("attic", "heavy", releases[1]))
    found = json.loads(run("quarantine", "list", "--json", "--device", "attic")[1])["quarantine"]
    assert [row["sequence"] for row in found] == [1, 3]


def test_no_flood_pushes_out_what_another_device_sent(small_fleet, serve, monkeypatch, run):
    """A flood of malformed messages, of releases, or of bytes."""
    honest = small_fleet.release("attic", 1)
    flood = [small_fleet.release("flooder", n) for n in range(1, 60)]
    change(small_fleet, "epsilon: 1.0, unit", "epsilon: 2.0, unit")
    usual = store.SqliteStore.__init__.__defaults__
    fewer = tuple(20 if each == quarantine.MAX_ROWS else each for each in usual)
    monkeypatch.setattr(store.SqliteStore.__init__, "__defaults__", fewer)
    serve(("attic", "air", honest))
    serve(*(("flooder", "air", b"%d" % n) for n in range(60)))
    serve(*(("flooder", "air", each) for each in flood))
    found = json.loads(run("quarantine", "list", "--json")[1])["quarantine"]
    assert len(found) == 20
    assert [row["sequence"] for row in found if row["device"] == "attic"] == [1]
    assert [row["sequence"] for row in found if row["device"] == "flooder"] == list(range(41, 60))
    monkeypatch.setattr(quarantine, "MAX_TOTAL_BYTES", 5 * len(honest))
    serve(("flooder", "air", b"one more"))
    found = json.loads(run("quarantine", "list", "--json")[1])["quarantine"]
    assert 2 <= len(found) <= 6
    assert [row["sequence"] for row in found if row["device"] == "attic"] == [1]
