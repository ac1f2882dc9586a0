"""Which settings were served, and which device runs which other ones."""

import json

import pytest

from pansketch_collector.ingest.ingest_loop import commit_batch
from pansketch_collector.storage import writer as store
from pansketch_collector.validation.validation import Rules
from pansketch_fleet.protocol import topics
from pansketch_fleet.protocol.messages import Status, StreamBirth

DAY = 86_400


def change(small_fleet, old, new):
    text = small_fleet.path.read_text()
    assert old in text
    small_fleet.path.write_text(text.replace(old, new, 1))


def birth(small_fleet, stream="air"):
    """The birth message of a device with the present configuration."""
    spec = small_fleet.specs(stream)[0]
    seconds = next(s.window_seconds for s in small_fleet.config.streams if s.name == stream)
    found = StreamBirth(spec.fingerprint.hex(), str(spec.guarantee), seconds)
    return Status("online", "s1", {stream: found}).encode()


@pytest.fixture
def reports(small_fleet, arrive):
    def go(**statuses):
        with store.opened(small_fleet.database) as opened:
            rules = Rules.of(small_fleet.config, opened.serve_settings(small_fleet.config, 9000))
            batch = [arrive(topics.status(small_fleet.fleet, d), s) for d, s in statuses.items()]
            commit_batch(opened, batch, rules, 9000)

    return go


def said(run):
    text = run("devices")[1]
    found = {d["device"]: d for d in json.loads(run("devices", "--json")[1])["devices"]}
    return text, found


def test_a_device_that_was_not_updated_is_named_with_what_differs(small_fleet, serve, reports, run):
    serve(at=100)
    old = birth(small_fleet)
    change(small_fleet, "epsilon: 1.0, unit", "epsilon: 2.0, unit")
    change(small_fleet, "{low: -40, high: 60, unit: degC}", "{low: -50, high: 60, unit: degC}")
    reports(attic=old, cellar=birth(small_fleet))
    text, found = said(run)
    line = (
        "other settings: attic air: settings of the start at 1970-01-01T00:01:40Z: "
        "domain.attributes.temp.low -40 and -50; privacy.epsilon 1 and 2 here"
    )
    assert line in text.splitlines()
    assert "cellar air" not in text
    assert found["cellar"]["other_settings"] == {}
    assert list(found["attic"]["other_settings"]) == ["air"]


def test_a_device_that_is_ahead_is_named_as_far_as_it_tells(small_fleet, serve, reports, run):
    before = small_fleet.path.read_text()
    change(small_fleet, "epsilon: 1.0, unit", "epsilon: 2.0, unit")
    ahead = birth(small_fleet)
    small_fleet.path.write_text(before)
    change(small_fleet, "depth: 4", "depth: 6")
    finer = birth(small_fleet)
    small_fleet.path.write_text(before)
    change(small_fleet, "    window: 1d\n", "    window: 12h\n")
    shorter = birth(small_fleet)
    small_fleet.path.write_text(before.replace("  air:", "  water:", 1))
    other = birth(small_fleet, "water")
    small_fleet.path.write_text(before)
    reports(ahead=ahead, finer=finer, shorter=shorter, other=other)
    _, found = said(run)
    told = {name: next(iter(each["other_settings"].values())) for name, each in found.items()}
    assert told.pop("ahead").startswith("epsilon 2 per reading")
    assert told == {
        "finer": "other attributes, bounds or sizes than here: its releases are deferred",
        "shorter": "windows of 12h there, of 1d here",
        "other": "the configuration has no such stream",
    }


def test_refused_messages_name_device_stream_and_cause(small_fleet, serve, run):
    late = small_fleet.release("attic", 1)
    change(small_fleet, "epsilon: 1.0, unit", "epsilon: 2.0, unit")
    serve(("attic", "air", late), ("kitchen", "air", b"x"))
    text, found = said(run)
    assert (
        any(
            line.startswith("in quarantine: attic air: 1 by fingerprint (made with other settings")
            for line in text.splitlines()
        )
        or "attic" not in found
    )
    assert "in quarantine: attic air: 1 by fingerprint" in text
    assert "in quarantine: kitchen air: 1 by " in text


def test_settings_are_listed_with_since_when_releases_and_changes(small_fleet, serve, run):
    serve(("one", "air", small_fleet.release("one", 1)), at=100)
    change(small_fleet, "epsilon: 1.0, unit", "epsilon: 2.0, unit")
    serve(
        ("one", "air", small_fleet.release("one", 2)),
        ("one", "air", small_fleet.release("one", 3)),
        at=500,
    )
    code, out, err = run("settings")
    assert (code, err) == (0, "")
    assert (
        "served since          last start  " in out
    )  # no end: they are in force until another start
    rows = [line.split() for line in out.splitlines() if line.startswith("air ")]
    assert rows[0][1:] == [
        "1970-01-01T00:08:20Z", "1970-01-01T00:08:20Z", "1d", "2", "hierarchy", "2", "yes"
    ]  # fmt: skip
    assert rows[1][1:] == [
        "1970-01-01T00:01:40Z", "1970-01-01T00:01:40Z", "1d", "1", "hierarchy", "1"
    ]  # fmt: skip
    assert "air, since 1970-01-01T00:01:40Z, and now: privacy.epsilon 1 and 2" in out
    found = json.loads(run("settings", "--json")[1])["settings"]
    first, second = [each for each in found if each["stream"] == "air"]
    assert (first["now"], first["releases"], first["changes"]) == (True, 2, [])
    assert (second["now"], second["releases"]) == (False, 1)
    assert second["specs"][0]["family"] == "hierarchy"
