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
from pansketch_collector.validation.verdicts import DeviceStatus, HealthReport, Rejected
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
        self.published = []

    def announce(self, topic, payload):
        device = topic.split("/")[-2].removeprefix("pansketch_testing_")
        version = json.loads(payload)["device"].get("sw_version") if payload else "gone"
        self.published.append((device, version))


class Turns:
    """A Discovery with a clock that is set by hand."""

    def __init__(self, versions=None, remove=False):
        self.broker, self.uptime = Broker(), 1000.0
        wanted = HomeAssistant(remove=remove)
        self.discovery = Discovery(wanted, "testing", versions or {}, self.broker)

    def receive(self, arrive, outcome, connection=1):
        self.discovery.on_committed(arrive("x", b"")._replace(connection=connection), outcome)

    def run_turns(self, seconds=PAUSE_SECONDS, step=0.5):
        """The announcements of turns every half second, during `seconds`."""
        before = len(self.broker.published)
        for _ in range(int(seconds / step)):
            self.discovery.step(self.uptime)
            self.uptime += step
        return self.broker.published[before:]


@pytest.fixture
def receive(arrive):
    return lambda turns, *outcomes, connection=1: [
        turns.receive(arrive, outcome, connection) for outcome in outcomes
    ]


def test_a_device_is_announced_once_on_a_connection(receive):
    turns = Turns()
    receive(turns, DeviceStatus("one", ONLINE))
    assert turns.run_turns() == [("one", None)]
    receive(turns, DeviceStatus("one", ONLINE), DeviceStatus("one", Status("offline", "s1", {})))
    assert turns.run_turns(60) == []
    receive(turns, DeviceStatus("one", ONLINE), DeviceStatus("two", ONLINE), connection=2)
    assert turns.run_turns() == [("one", None), ("two", None)]


def test_only_devices_with_a_status_are_announced(receive):
    turns = Turns({"one": "0.1.0"})
    receive(turns, HealthReport("one", health("0.2.0")), Rejected("size", "x", "three"))
    assert turns.run_turns(2 * AGAIN_SECONDS) == []


def test_what_is_known_of_versions_is_in_the_first_announcement(receive):
    turns = Turns({"one": "0.1.0"})
    receive(turns, DeviceStatus("one", ONLINE), DeviceStatus("two", ONLINE))
    receive(turns, HealthReport("two", health("0.2.0")), HealthReport("one", health("0.1.0")))
    assert turns.run_turns(2 * AGAIN_SECONDS) == [("one", "0.1.0"), ("two", "0.2.0")]


def test_a_version_that_changes_all_the_time_is_followed_slowly(receive):
    """A device with another version in each of 6,000 health messages causes 10 more
    announcements."""
    turns = Turns()
    receive(turns, DeviceStatus("one", ONLINE))
    published = turns.run_turns()
    for number in range(6000):
        receive(turns, HealthReport("one", health(f"0.{number}")))
        published += turns.run_turns(1.0)
    assert published[:3] == [("one", None), ("one", "0.599"), ("one", "0.1199")]
    assert len(published) == 1 + 6000 / AGAIN_SECONDS
    receive(turns, DeviceStatus("one", ONLINE), connection=2)
    assert len(turns.run_turns(2 * AGAIN_SECONDS)) == 1


def test_a_thousand_devices_are_announced_a_few_at_a_time(receive):
    turns = Turns()
    receive(turns, *(DeviceStatus(f"dev-{n}", ONLINE) for n in range(1000)))
    assert len(turns.run_turns(1.0)) == MAX_AT_ONCE
    published = {device for device, _ in turns.run_turns(1000 / MAX_AT_ONCE * PAUSE_SECONDS)}
    assert len(published) == 1000 - MAX_AT_ONCE
    assert turns.run_turns(60) == []


def test_devices_that_wait_for_their_version_delay_no_others(receive):
    turns = Turns()
    receive(turns, *(DeviceStatus(f"dev-{n}", ONLINE) for n in range(50)))
    turns.run_turns(10)
    receive(turns, *(HealthReport(f"dev-{n}", health("9")) for n in range(50)))
    receive(turns, DeviceStatus("new", ONLINE))
    assert turns.run_turns() == [("new", None)]
    assert len(turns.run_turns(AGAIN_SECONDS + 20)) == 50


def test_nothing_is_announced_while_disconnected(receive):
    """A due announcement waits while disconnected, and is published once on the next connection."""
    turns = Turns()
    turns.broker.connected = False
    receive(turns, DeviceStatus("one", ONLINE))
    assert turns.run_turns(60) == []
    turns.broker.connected = True
    receive(turns, DeviceStatus("one", ONLINE), connection=2)
    assert turns.run_turns(60) == [("one", None)]


def test_devices_are_removed_with_or_without_a_status(receive, caplog):
    caplog.set_level("INFO", "collector")
    turns = Turns({f"dev-{n}": "1" for n in range(25)}, remove=True)
    receive(turns, DeviceStatus("new", ONLINE), HealthReport("new", health("2")))
    published = turns.run_turns(10)
    assert dict(published) == {"new": "gone", **{f"dev-{n}": "gone" for n in range(25)}}
    assert len(published) == 26
    receive(turns, DeviceStatus("new", ONLINE), connection=2)
    assert turns.run_turns(10) == [("new", "gone")]
    (line,) = caplog.messages
    assert line.startswith("26 devices are removed")


def test_nothing_is_announced_unless_configured(small_fleet):
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
    assert broker.published == ([("one", "gone"), ("two", "gone")] if remove else [])
    for message, outcome in zip(messages, outcomes, strict=True):
        found.on_committed(message._replace(connection=1), outcome)
    found.step(PAUSE_SECONDS)
    if not remove:
        assert broker.published == [("one", "0.3.0"), ("two", None)]
