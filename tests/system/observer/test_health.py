"""What `devices` says of a device that runs, stops, is killed, starts again, or falls behind."""

import json
import re
import signal
import subprocess

from pansketch import __version__
from pansketch_fleet.protocol import topics
from pansketch_fleet.protocol.messages import Health, Status

LIVE = {"source": "{type: stdin}", "window": "1s"}


def shown(house, device="dev-1"):
    """A device as `devices --json` has it; nothing before it has reported."""
    found = json.loads(house.ask("devices", "--json"))["devices"]
    return next((each for each in found if each["device"] == device), {"state": None})


def until_shown(house, state, device="dev-1"):
    query = "SELECT state FROM devices WHERE device = ?"
    house.until(lambda: house.rows(query, device) == [(state,)], f"{device} {state}")


def sessions(house):
    return house.rows("SELECT session FROM devices")


def test_online_gone_and_stopped_are_told_apart(house):
    """A clean stop is the device's own word; a kill is its will's."""
    house.configure("dev-1", [], **LIVE)
    house.start_broker()
    house.collector()
    first = house.agent("dev-1", stdin=subprocess.PIPE)
    until_shown(house, "online")
    house.until(lambda: house.rows("SELECT 1 FROM healths") and house.stored(), "its first words")
    first.stop(signal.SIGKILL)
    until_shown(house, "offline")
    before = sessions(house)
    second = house.agent("dev-1", stdin=subprocess.PIPE)
    until_shown(house, "online")
    assert sessions(house) != before
    assert second.stop() == 0
    until_shown(house, "stopped")
    said = shown(house)
    assert said["health"]["session"] == said["session"]
    table = house.ask("devices")
    assert re.search(r"^dev-1 +stopped +air ", table, re.M)
    assert re.search(rf"^dev-1 +\S+Z +\d+ .* {re.escape(__version__)}$", table, re.M)


def test_the_will_of_an_earlier_session_takes_nobody_offline(house, listen):
    """As after a cut: the device is back, and then the broker notices that the old connection
    has ended."""
    house.configure("dev-1", [], **LIVE)
    house.start_broker()
    ear = listen(house)
    house.collector()
    house.agent("dev-1", stdin=subprocess.PIPE)
    until_shown(house, "online")
    (current,) = sessions(house)
    stale = Status("offline", "an-earlier-one", {})
    ear.say(topics.status("house", "dev-1"), stale.encode())
    # Later messages of one client: when this device is shown, the will has been looked at.
    ear.say(topics.status("house", "dev-2"), Status("online", "s", {}).encode())
    until_shown(house, "online", "dev-2")
    assert (shown(house)["state"], sessions(house)[0]) == ("online", current)
    # The negative control: the will of its own session does.
    ear.say(topics.status("house", "dev-1"), Status("offline", *current, {}).encode())
    until_shown(house, "offline")


def test_a_backlog_is_reported_and_garbage_is_refused_unanswered(house, listen, hourly):
    house.configure("dev-1", hourly(5))
    agent = house.agent("dev-1", "--drain", "0")
    assert agent.ends() == 1
    house.start_broker()
    ear = listen(house)
    house.agent("dev-1")
    house.until(lambda: ear.on("/health"), "the first health")
    first = Health.decode(ear.on("/health")[0])
    assert (first.waiting, first.dropped, first.oldest_waiting_seconds) == (5, 0, None)
    house.collector()
    house.until(lambda: len(house.stored()) == 5, "the backlog")
    ear.say(topics.health("house", "dev-2"), b'{"waiting": 3}')
    ear.say(topics.health("house", "dev-3"), first.encode())
    house.until(lambda: house.rows("SELECT 1 FROM healths WHERE device = 'dev-3'"), "dev-3")
    assert house.quarantine() == [(topics.health("house", "dev-2"), "health")]
    assert shown(house, "dev-3")["health"]["waiting"] == 5
    assert not [place for place, _ in ear.heard if place.endswith(("dev-2/ack", "dev-3/ack"))]
