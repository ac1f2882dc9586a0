"""A stream that its device has stopped, and reading spans, in the collector's tables."""

import json
from dataclasses import replace

import pytest

from pansketch import Guarantee, Privacy, Span
from pansketch_collector.ingest.ingest_loop import commit_batch
from pansketch_collector.queries.answers import source
from pansketch_collector.queries.fleet_model import Model
from pansketch_collector.reports import devices
from pansketch_collector.reports.devices import as_json, table
from pansketch_collector.storage import writer as store
from pansketch_collector.storage.reader import reading
from pansketch_fleet.protocol import topics
from pansketch_fleet.protocol.messages import Status, StreamBirth
from tests.collector.small_fleet import DAY, incoming

PROBLEM = "air: stopped at its daily cap of epsilon 3, nothing more is released"
BIRTH = StreamBirth("0" * 16, "epsilon 1", 86_400)


def devices_after(small_fleet, arrive, *statuses):
    """The table and the object of the devices."""
    topic = topics.status(small_fleet.fleet, "one")
    with store.opened(small_fleet.database) as opened:
        commit_batch(
            opened, [arrive(topic, status.encode()) for status in statuses], small_fleet.rules, 1000
        )
    with reading(small_fleet.database) as reader:
        config = small_fleet.config
        return table(reader, config), json.loads("".join(as_json(reader, config)))


def test_devices_names_a_stopped_stream_and_its_problem(small_fleet, arrive):
    stopped = Status("online", "s1", {"air": replace_problem(PROBLEM), "fine": BIRTH})
    text, found = devices_after(small_fleet, arrive, stopped)
    assert f"stopped: one air: {PROBLEM}\n" in text
    assert text.count("stopped:") == 1
    reported = found["devices"][0]["reported"]
    assert (reported["air"]["problem"], reported["fine"]["problem"]) == (PROBLEM, "")


def test_a_problem_that_is_over_is_gone(small_fleet, arrive):
    stopped = Status("online", "s1", {"air": replace_problem(PROBLEM)})
    well = Status("online", "s2", {"air": BIRTH})
    assert "stopped:" not in devices_after(small_fleet, arrive, stopped, well)[0]


def replace_problem(problem: str) -> StreamBirth:
    return StreamBirth(BIRTH.fingerprint, BIRTH.guarantee, BIRTH.window_seconds, problem)


def test_a_span_reads_well_beside_an_answer():
    privacy = Privacy(0.6, Span(600, 60))
    promise = Guarantee.of_linear_counters(privacy)
    rests_on = {"windows": 1, "devices": 1, "span": (0, 1)}
    model = Model(generator="privhp", guarantee=promise, fitted=None, **rests_on)
    wanted = "epsilon 0.6 per span of 600 s with at most 60 readings (silent)"
    assert source(model) == f"1 release of 1 device, {wanted}"
    assert "per reading" in source(
        replace(model, guarantee=Guarantee.of_linear_counters(Privacy(1)))
    )


@pytest.fixture
def large(small_fleet, monkeypatch):
    """A fleet of more devices than a table shows: d3 has stopped, d4 and d5 are refused."""
    monkeypatch.setattr(devices, "MAX_SHOWN", 3)
    monkeypatch.setattr(devices, "PORTION", 2)
    names = [f"d{number}" for number in range(7)]
    fingerprint = small_fleet.specs("air")[0].fingerprint.hex()
    batch = []
    for name in names:
        birth = StreamBirth(fingerprint, "epsilon 1", DAY, PROBLEM if name == "d3" else "")
        status = Status("online", "s1", {"air": birth}).encode()
        batch.append(incoming(topics.status(small_fleet.fleet, name), status))
    batch += [incoming(small_fleet.topic(name), small_fleet.release(name)) for name in names[2:]]
    batch += [incoming(small_fleet.topic(name), b"no release") for name in ("d4", "d5")]
    with store.opened(small_fleet.database) as opened:
        commit_batch(opened, batch, small_fleet.rules, 40 * DAY)
    return small_fleet


def shown(text):
    """The devices of the first table."""
    return [line.split()[0] for line in text.partition("\n\n")[0].splitlines()[1:]]


def test_a_table_of_a_large_fleet_begins_with_problems_and_counts_all_devices(large, run):
    code, out, err = run("devices")
    assert (code, err) == (0, "")
    assert shown(out) == ["d3", "d4", "d5"]
    lines = out.splitlines()
    assert lines[-7:-3] == [
        "devices: 7 (online 7)",
        "with a problem: stopped 1, in quarantine 2",
        "stored of air: 5 windows of 5 devices, 0 gaps, 0 late, 0 disputed, 0 rolled back, "
        "0 unsynced",
        "refused: 2 (size 2)",
    ]
    assert lines[-1] == (
        "not shown: 4 of 7 devices; `devices --all` shows all, `devices NAME ...` those of these "
        "names"
    )
    assert sum(line.startswith("in quarantine: ") for line in lines) == 2


def test_all_devices_and_those_of_some_names(large, run, monkeypatch):
    every = run("devices", "--all")[1]
    assert shown(every) == [f"d{number}" for number in range(7)]
    assert "not shown" not in every
    some = run("devices", "d6", "?0", "d2*")[1]
    assert shown(some) == ["d0", "d2", "d6"]
    assert "not shown: 4 of 7 devices" in some
    assert shown(run("devices", "d?")[1]) == ["d3", "d4", "d5"]
    assert shown(run("devices", "d?", "--all")[1]) == shown(every)
    code, out, err = run("devices", "nobody", "x*")
    assert (code, out) == (2, "")
    assert err == "no device is called nobody or x*; see `devices`\n"
    monkeypatch.setattr(devices, "MAX_SHOWN", 7)
    assert run("devices")[1] == every, "a small fleet is shown as before"


def test_an_object_has_each_device_or_those_of_some_names(large, run):
    every = json.loads(run("devices", "--json")[1])
    assert [each["device"] for each in every["devices"]] == [f"d{number}" for number in range(7)]
    some = json.loads(run("devices", "--json", "d2", "d5")[1])
    assert some["devices"] == [every["devices"][2], every["devices"][5]]
    assert {**every, "devices": []} == {**some, "devices": []}
