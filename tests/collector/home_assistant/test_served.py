"""A serving collector, a real broker, devices, and a listener in the place of Home Assistant."""

import json
import time

import pytest

from pansketch_fleet.protocol import topics
from pansketch_fleet.protocol.messages import Health, Status
from testbed.embedded_broker import free_port
from tests.collector.serving import goes_on

HEALTH = Health(
    *("s1", "0.1.0", 200_000, True, 3, 7205, 1, 2, 40_960),
    deferred={"fingerprint": 2, "window": 1},
    memory_protected=False,
)
SHOWN = {
    "connection": "ON",
    "clock": "OFF",
    "memory": "ON",
    "uptime_seconds": "200000",
    "waiting": "3",
    "oldest_waiting_seconds": "7205",
    "deferred": "3",
    "dropped": "1",
    "set_aside": "2",
    "refused_dropped": "0",
    "name_conflicts": "0",
    "written_today_bytes": "40960",
}


def place(device):
    return f"homeassistant/device/pansketch_testing_{device}/config"


@pytest.fixture
def wanting(make_small_fleet):
    """A small_fleet whose collector has these settings for Home Assistant, on a broker's port."""

    def make(port, wanted):
        small_fleet = make_small_fleet(url=f"mqtt://127.0.0.1:{port}")
        text = small_fleet.path.read_text()
        if wanted is not None:
            text = text.replace("{database:", f"{{home_assistant: {wanted}, database:")
        small_fleet.path.write_text(text)
        return small_fleet

    return make


def born(peer, small_fleet, device, retain=True):
    status = Status("online", "s1", {}).encode()
    peer.publish(topics.status(small_fleet.fleet, device), status, retain=retain)


def test_devices_appear_with_their_reported_values(
    broker, wanting, start, until, connect, household, faults, render
):
    """Devices from before, with no health yet, and one that comes later."""
    with broker() as port, household(port) as home:
        small_fleet = wanting(port, "true")
        with connect(port, small_fleet.fleet, "one") as peer:
            born(peer, small_fleet, "one")
            serving = start(small_fleet.path)
            until(lambda: "one" in home.announced())
            assert place("one") in home.kept
            born(peer, small_fleet, "two")
            peer.publish(topics.health(small_fleet.fleet, "two"), HEALTH.encode())
            until(lambda: home.announced().get("two", {}).get("device", {}).get("sw_version"))
        two = home.announced()["two"]
        assert [faults(message) for message in home.announced().values()] == [[], []]
        for key, entity in two["components"].items():
            heard = home.kept[entity["state_topic"]]
            assert render(entity["value_template"], heard) == SHOWN[key], key
        assert "announcing devices to Home Assistant, below homeassistant/device" in serving.output
        with household(port) as restarted:
            until(lambda: restarted.announced().keys() == {"one", "two"})
            assert {place("one"), place("two")} <= restarted.retained
        assert serving.stop() == 0


def test_nothing_is_published_where_it_is_not_wanted(broker, wanting, start, connect, household):
    with broker() as port, household(port) as home:
        small_fleet = wanting(port, None)
        with connect(port, small_fleet.fleet, "one") as peer:
            born(peer, small_fleet, "one")
            serving = start(small_fleet.path)
            serving.wait_until_connected()
            peer.publish(topics.health(small_fleet.fleet, "one"), HEALTH.encode())
            peer.exchange(small_fleet.topic("one"), small_fleet.release("one", 1))
            goes_on(serving, 2.0)
        mine = f"pansketch/v1/{small_fleet.fleet}/one/"
        assert {topic.removeprefix(mine) for topic in home.kept} == {
            "status", "health", "release/air", "ack", "mark",
        }  # fmt: skip
        assert "Home Assistant" not in serving.output
        assert serving.stop() == 0


def test_a_broker_that_lost_its_state_receives_announcements_again(
    broker, wanting, start, until, connect, household
):
    port = free_port()
    small_fleet = wanting(port, "true")
    with broker(port), connect(port, small_fleet.fleet, "one") as peer, household(port) as home:
        serving = start(small_fleet.path)
        serving.wait_until_connected()
        born(peer, small_fleet, "one")
        until(lambda: "one" in home.announced())
    until(lambda: "closed the connection" in serving.output)
    with broker(port), household(port) as home, connect(port, small_fleet.fleet, "one") as peer:
        serving.wait_until_connected(times=2)
        assert home.announced() == {}
        born(peer, small_fleet, "one")
        until(lambda: "one" in home.announced())
    assert serving.stop() == 0


def test_what_was_announced_is_taken_back_and_stays_away(
    broker, wanting, start, until, connect, household
):
    """Also of a device whose status is at the broker no more; what others announced stays."""
    other = "homeassistant/device/somebody/config"
    with broker() as port, household(port) as home:
        small_fleet = wanting(port, "{prefix: homeassistant}")
        with connect(port, small_fleet.fleet, "one", "two") as peer:
            peer.publish(other, b'{"device": {"name": "other"}}', retain=True)
            born(peer, small_fleet, "one")
            born(peer, small_fleet, "two")
            serving = start(small_fleet.path)
            until(lambda: {"one", "two"} <= home.announced().keys())
            assert serving.stop() == 0
            peer.publish(topics.status(small_fleet.fleet, "two"), b"", retain=True)
        wanting(port, "{remove: true}")
        again = start(small_fleet.path)
        until(lambda: {place("one"), place("two")} <= home.emptied)
        until(lambda: "2 devices are removed from Home Assistant; now leave" in again.output)
        assert again.stop() == 0
        with household(port, "homeassistant/#") as fresh:
            until(lambda: other in fresh.kept)
            assert set(fresh.kept) == {other}


def test_a_fleet_is_announced_a_few_devices_at_a_time(
    broker, wanting, start, until, connect, household
):
    with broker() as port, household(port, "homeassistant/#") as home:
        small_fleet = wanting(port, "true")
        names = [f"dev-{number}" for number in range(25)]
        with connect(port, small_fleet.fleet, names[0]) as peer:
            for name in names:
                born(peer, small_fleet, name)
            serving = start(small_fleet.path)
            until(lambda: home.announced().keys() == set(names))
        assert home.announcements == len(names)  # each of them once
        assert serving.stop() == 0


def test_a_device_name_in_a_malformed_message_is_not_announced(
    broker, wanting, start, until, connect, household
):
    """Only what the collector has taken for a status counts."""
    with broker() as port, household(port) as home:
        small_fleet = wanting(port, "true")
        with connect(port, small_fleet.fleet, "one") as peer:
            serving = start(small_fleet.path)
            serving.wait_until_connected()
            for topic, payload in (
                ("pansketch/v1/elsewhere/two/status", Status("online", "s", {}).encode()),
                (topics.status(small_fleet.fleet, "three"), b"{}"),
                (topics.health(small_fleet.fleet, "four"), HEALTH.encode()),
                (f"pansketch/v1/{small_fleet.fleet}/Five/status", b"{}"),
            ):
                peer.publish(topic, payload)
            born(peer, small_fleet, "one")
            until(lambda: "one" in home.announced())
            deadline = time.monotonic() + 2.0
            while time.monotonic() < deadline:
                goes_on(serving, 0.2)
        assert home.announced().keys() == {"one"}
        assert {t for t in home.kept if t.startswith("homeassistant/")} == {place("one")}
        assert json.loads(home.kept[place("one")])["origin"]["name"] == "pansketch"
        assert serving.stop() == 0


def test_one_device_is_taken_back_for_good(broker, wanting, start, until, connect, household):
    """An empty status and an empty announcement, as docs/how-to/home-assistant.md has it."""
    with broker() as port, household(port) as home:
        small_fleet = wanting(port, "true")
        with connect(port, small_fleet.fleet, "one", "two") as peer:
            born(peer, small_fleet, "one")
            first = start(small_fleet.path)
            until(lambda: "one" in home.announced())
            peer.publish(topics.status(small_fleet.fleet, "one"), b"", retain=True)
            peer.publish(place("one"), b"", retain=True)
            assert first.stop() == 0
            second = start(small_fleet.path)
            second.wait_until_connected()
            born(peer, small_fleet, "two")
            until(lambda: "two" in home.announced())
        assert home.announced().keys() == {"two"}
        assert second.stop() == 0
