"""Whose turn it is to be announced: once on a connection, a few at a time, never without end."""

import json

import pytest

from pansketch_collector.home_assistant import announcer
from pansketch_collector.home_assistant.announcer import (
    AGAIN_SECONDS,
    MAX_AT_ONCE,
    PAUSE_SECONDS,
    Discovery,
)
from pansketch_collector.ingest.ingest_loop import commit_batch
from pansketch_collector.storage import writer as store
from pansketch_collector.validation.verdicts import HealthReport, Rejected, StatusReport
from pansketch_fleet.protocol import topics
from pansketch_fleet.protocol.messages import Health, Status
from pansketch_fleet.settings.settings import HomeAssistant

ONLINE = Status("online", "s1", {})


def health(version):
    return Health("s1", version, 1, True, 0, None, 0, 0, 0)


class Broker:
    """Keeps what is announced: (device, version or None, payload)."""

    def __init__(self):
        self.connected = True
        self.said = []

    def announce(self, topic, payload):
        device = topic.split("/")[-2].removeprefix("pansketch_testing_")
        version = json.loads(payload)["device"].get("sw_version") if payload else "gone"
        self.said.append((device, version))


class Turns:
    """A Discovery with a clock that is set by hand."""

    def __init__(self, versions=None, remove=False):
        self.broker, self.uptime = Broker(), 1000.0
        wanted = HomeAssistant(remove=remove)
        self.discovery = Discovery(wanted, "testing", versions or {}, self.broker)

    def hears(self, arrive, outcome, connection=1):
        self.discovery.on_committed(arrive("x", b"")._replace(connection=connection), outcome)

    def passes(self, seconds=PAUSE_SECONDS, step=0.5):
        """What is announced in so many seconds of turns every half second."""
        before = len(self.broker.said)
        for _ in range(int(seconds / step)):
            self.discovery.step(self.uptime)
            self.uptime += step
        return self.broker.said[before:]


@pytest.fixture
def hears(arrive):
    return lambda turns, *outcomes, connection=1: [
        turns.hears(arrive, outcome, connection) for outcome in outcomes
    ]


def test_a_device_is_announced_once_on_a_connection(hears):
    turns = Turns()
    hears(turns, StatusReport("one", ONLINE))
    assert turns.passes() == [("one", None)]
    hears(turns, StatusReport("one", ONLINE), StatusReport("one", Status("offline", "s1", {})))
    assert turns.passes(60) == []
    hears(turns, StatusReport("one", ONLINE), StatusReport("two", ONLINE), connection=2)
    assert turns.passes() == [("one", None), ("two", None)]


def test_only_devices_with_a_status_are_announced(hears):
    turns = Turns({"one": "0.1.0"})
    hears(turns, HealthReport("one", health("0.2.0")), Rejected("size", "x", "three"))
    assert turns.passes(2 * AGAIN_SECONDS) == []


def test_what_is_known_of_versions_is_in_the_first_announcement(hears):
    turns = Turns({"one": "0.1.0"})
    hears(turns, StatusReport("one", ONLINE), StatusReport("two", ONLINE))
    hears(turns, HealthReport("two", health("0.2.0")), HealthReport("one", health("0.1.0")))
    assert turns.passes(2 * AGAIN_SECONDS) == [("one", "0.1.0"), ("two", "0.2.0")]


def test_a_version_that_changes_all_the_time_is_followed_slowly(hears):
    """A device that says another version in each of 6,000 healths makes 10 announcements more."""
    turns = Turns()
    hears(turns, StatusReport("one", ONLINE))
    said = turns.passes()
    for number in range(6000):
        hears(turns, HealthReport("one", health(f"0.{number}")))
        said += turns.passes(1.0)
    assert said[:3] == [("one", None), ("one", "0.599"), ("one", "0.1199")]
    assert len(said) == 1 + 6000 / AGAIN_SECONDS
    hears(turns, StatusReport("one", ONLINE), connection=2)
    assert len(turns.passes(2 * AGAIN_SECONDS)) == 1


def test_a_thousand_devices_are_announced_a_few_at_a_time(hears):
    turns = Turns()
    hears(turns, *(StatusReport(f"dev-{n}", ONLINE) for n in range(1000)))
    assert len(turns.passes(1.0)) == MAX_AT_ONCE
    said = {device for device, _ in turns.passes(1000 / MAX_AT_ONCE * PAUSE_SECONDS)}
    assert len(said) == 1000 - MAX_AT_ONCE
    assert turns.passes(60) == []


def test_many_that_wait_for_their_version_hold_up_nobody(hears):
    turns = Turns()
    hears(turns, *(StatusReport(f"dev-{n}", ONLINE) for n in range(50)))
    turns.passes(10)
    hears(turns, *(HealthReport(f"dev-{n}", health("9")) for n in range(50)))
    hears(turns, StatusReport("new", ONLINE))
    assert turns.passes() == [("new", None)]
    assert len(turns.passes(AGAIN_SECONDS + 20)) == 50


def test_nothing_is_said_to_nobody(hears):
    """What is due while offline waits, and is said once when the broker is there."""
    turns = Turns()
    turns.broker.connected = False
    hears(turns, StatusReport("one", ONLINE))
    assert turns.passes(60) == []
    turns.broker.connected = True
    hears(turns, StatusReport("one", ONLINE), connection=2)
    assert turns.passes(60) == [("one", None)]


def test_devices_are_taken_back_whether_they_say_something_or_not(hears, caplog):
    caplog.set_level("INFO", "collector")
    turns = Turns({f"dev-{n}": "1" for n in range(25)}, remove=True)
    hears(turns, StatusReport("new", ONLINE), HealthReport("new", health("2")))
    said = turns.passes(10)
    assert dict(said) == {"new": "gone", **{f"dev-{n}": "gone" for n in range(25)}}
    assert len(said) == 26
    hears(turns, StatusReport("new", ONLINE), connection=2)
    assert turns.passes(10) == [("new", "gone")]
    (line,) = caplog.messages
    assert line.startswith("26 devices are removed")


def test_nothing_is_there_where_it_is_not_wanted(small_fleet):
    assert announcer.discovery_of(small_fleet.config, Broker()) is None


@pytest.mark.parametrize("remove", [False, True])
def test_what_is_known_comes_from_the_database(small_fleet, arrive, remove):
    small_fleet.path.write_text(
        small_fleet.path.read_text().replace(
            "{database:", f"{{home_assistant: {{remove: {str(remove).lower()}}}, database:"
        )
    )
    messages = [
        arrive(topics.status(small_fleet.fleet, "one"), ONLINE.encode()),
        arrive(topics.status(small_fleet.fleet, "two"), ONLINE.encode()),
        arrive(topics.health(small_fleet.fleet, "one"), health("0.3.0").encode()),
        arrive(topics.health(small_fleet.fleet, "three"), health("0.3.0").encode()),
    ]
    with store.opened(small_fleet.database) as kept:
        outcomes = commit_batch(kept, messages, small_fleet.rules, 1_000_001_000)
    broker = Broker()
    found = announcer.discovery_of(small_fleet.config, broker)
    found.step(0.0)
    assert broker.said == ([("one", "gone"), ("two", "gone")] if remove else [])
    for message, outcome in zip(messages, outcomes, strict=True):
        found.on_committed(message._replace(connection=1), outcome)
    found.step(PAUSE_SECONDS)
    if not remove:
        assert broker.said == [("one", "0.3.0"), ("two", None)]
