"""Healths: validated like other messages, the newest stored, none acknowledged, and reported."""

import json

import pytest

from pansketch_collector.ingest.ingest_loop import _acknowledge, commit_batch
from pansketch_collector.storage import device_reports
from pansketch_collector.storage import writer as store
from pansketch_collector.validation.verdicts import DeviceStatus, HealthReport, Rejected
from pansketch_fleet.protocol import topics
from pansketch_fleet.protocol.messages import HEALTH_LIMIT_BYTES, Health, Status
from tests.collector.messages import validate_one

HEALTH = Health("s1", "0.1.0", 200_000, True, 3, 7205, 1, 2, 40_960, memory_protected=True)
HEADER = "device  heard                 waiting  oldest  deferred  dropped  set aside  written"


def changed(**changes):
    """HEALTH with other figures, as bytes."""
    return json.dumps(json.loads(HEALTH.encode()) | changes).encode()


def test_a_health_is_of_the_device_whose_topic_it_comes_on(small_fleet):
    outcome = validate_one(
        topics.health(small_fleet.fleet, "one"), HEALTH.encode(), small_fleet.rules
    )
    assert outcome == HealthReport("one", HEALTH)


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        b"{}",
        b"\xff",
        b"[" * 5000,
        HEALTH.encode()[:-1],
        HEALTH.encode() + b" " * HEALTH_LIMIT_BYTES,
        Status("online", "s1", {}).encode(),
        changed(device="two"),
        changed(waiting=-1),
        changed(uptime_seconds=True),
        changed(readings=7),
    ],
)
def test_an_invalid_health_message_is_quarantined_without_acknowledgement(
    small_fleet, commit, payload
):
    (outcome,) = commit((topics.health(small_fleet.fleet, "one"), payload))
    assert isinstance(outcome, Rejected)
    assert (outcome.reason, outcome.device, outcome.stream) == ("health", "one", None)
    recorder = AckRecorder()
    _acknowledge(recorder, None, outcome)
    assert recorder.answers == []


def test_a_health_of_another_fleet_is_refused(small_fleet):
    assert (
        validate_one(topics.health("elsewhere", "one"), HEALTH.encode(), small_fleet.rules).reason
        == "fleet"
    )


class AckRecorder:
    """Collects acknowledgements."""

    def __init__(self):
        self.answers = []

    def receive(self, limit, timeout_seconds):
        return []

    def ack_broker(self, message):
        pass

    def send_ack(self, device, ack):
        self.answers.append((device, ack))

    def flush(self):
        pass


def test_a_health_message_is_not_acknowledged():
    recorder = AckRecorder()
    _acknowledge(recorder, None, HealthReport("one", HEALTH))
    assert recorder.answers == []


def test_only_the_newest_health_of_a_device_is_kept(small_fleet, commit, run):
    topic = topics.health(small_fleet.fleet, "one")
    for minute in range(5):
        commit((topic, changed(waiting=minute + 1)), at=60 * minute)
    said = json.loads(run("devices", "--json")[1])
    (one,) = said["devices"]
    assert one["health"] == {
        "heard_at": "1970-01-01T00:04:00Z",
        **json.loads(changed(waiting=5)),
        "name_conflicts": 0,
    }
    assert (one["state"], one["streams"]) == ("unknown", {})


def test_the_table_of_healths_is_bounded_and_apart_from_that_of_devices(
    small_fleet, commit, monkeypatch
):
    monkeypatch.setattr(device_reports, "MAX_DEVICES", 2)
    names = ["one", "two", "three", "one"]
    outcomes = commit(
        *((topics.health(small_fleet.fleet, name), HEALTH.encode()) for name in names)
    )
    assert [type(v) for v in outcomes] == [HealthReport, HealthReport, Rejected, HealthReport]
    birth = Status("online", "s1", {}).encode()
    (outcome,) = commit((topics.status(small_fleet.fleet, "four"), birth))
    assert isinstance(outcome, DeviceStatus)


def test_devices_shows_the_healths_in_a_table_of_their_own(small_fleet, commit, run):
    commit(
        (topics.status(small_fleet.fleet, "one"), Status("online", "s1", {}).encode()),
        (topics.health(small_fleet.fleet, "one"), HEALTH.encode()),
        (
            topics.health(small_fleet.fleet, "two"),
            changed(
                clock_synchronised=False,
                waiting=0,
                oldest_waiting_seconds=None,
                memory_protected=None,
            ),
        ),
        (
            topics.health(small_fleet.fleet, "six"),
            changed(clock_synchronised=None, uptime_seconds=9, memory_protected=False),
        ),
    )
    code, out, err = run("devices")
    assert (code, err) == (0, "")
    lines = out.splitlines()
    place = next(number for number, line in enumerate(lines) if line.startswith(HEADER))
    found = [line.split() for line in lines[place + 1 : place + 4]]
    heard = "2001-09-09T02:03:20Z"
    first = (heard, "3", "2h", "-", "1", "2", "40KiB")
    second = (heard, "0", "-", "-", "1", "2", "40KiB")
    assert found == [
        ["one", *first, "synchronised", "protected", "2d", "0.1.0"],
        ["six", *first, "unknown", "MAY", "BE", "SWAPPED", "9s", "0.1.0"],
        ["two", *second, "NOT", "synchronised", "unknown", "2d", "0.1.0"],
    ]
    assert [line.split()[:3] for line in lines[1:4]] == [
        ["one", "online", "-"],
        ["six", "unknown", "-"],
        ["two", "unknown", "-"],
    ]


def test_states_are_distinguished_and_a_stale_last_will_changes_none(small_fleet, commit, run):
    """Online, offline, stopped by the device; a status of an earlier session is outdated."""

    def report_status(state, session):
        commit((topics.status(small_fleet.fleet, "one"), Status(state, session, {}).encode()))
        return json.loads(run("devices", "--json")[1])["devices"][0]["state"]

    assert report_status("online", "s1") == "online"
    assert report_status("offline", "s1") == "offline"
    assert report_status("online", "s2") == "online"
    assert report_status("offline", "s1") == "online"
    assert report_status("stopped", "s1") == "online"
    assert report_status("stopped", "s2") == "stopped"
    assert report_status("offline", "s1") == "stopped"
    assert report_status("online", "s3") == "online"


def test_the_newest_health_survives_a_restart(small_fleet, arrive, run):
    message = arrive(topics.health(small_fleet.fleet, "one"), HEALTH.encode())
    with store.opened(small_fleet.database) as opened:
        commit_batch(opened, [message], small_fleet.rules, 5)
    with store.opened(small_fleet.database) as opened:
        later = message._replace(payload=changed(dropped=9))
        commit_batch(opened, [later], small_fleet.rules, 6)
    assert json.loads(run("devices", "--json")[1])["devices"][0]["health"]["dropped"] == 9
