"""A stream that its device has stopped, and reading spans, in the collector's tables."""

import json
from dataclasses import replace

from pansketch import Guarantee, Privacy, Span
from pansketch_collector.ingest.ingest_loop import commit_batch
from pansketch_collector.queries.answers import source
from pansketch_collector.queries.fleet_model import Model
from pansketch_collector.reports.devices import as_json, table
from pansketch_collector.storage import writer as store
from pansketch_collector.storage.reader import reading
from pansketch_fleet.protocol import topics
from pansketch_fleet.protocol.messages import Status, StreamBirth

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
        return table(reader, config), json.loads(as_json(reader, config))


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
