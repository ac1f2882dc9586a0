"""The report of `devices` about a device that runs, stops, is killed, restarts, or falls behind."""

import json
import re
import signal
import subprocess

from pansketch import __version__
from pansketch_fleet.protocol import topics
from pansketch_fleet.protocol.messages import Health, Status

LIVE = {"source": "{type: stdin}", "window": "1s"}


def shown(fleet, device="dev-1"):
    """A device as `devices --json` has it; nothing before it has reported."""
    found = json.loads(fleet.ask("devices", "--json"))["devices"]
    return next((each for each in found if each["device"] == device), {"state": None})


def until_shown(fleet, state, device="dev-1"):
    query = "SELECT state FROM devices WHERE device = ?"
    fleet.until(lambda: fleet.rows(query, device) == [(state,)], f"{device} {state}")


def sessions(fleet):
    return fleet.rows("SELECT session FROM devices")


def test_online_gone_and_stopped_are_told_apart(fleet):
    """A clean stop is the device's own word; a kill is its will's."""
    fleet.configure("dev-1", [], **LIVE)
    fleet.start_broker()
    fleet.collector()
    first = fleet.agent("dev-1", stdin=subprocess.PIPE)
    until_shown(fleet, "online")
    fleet.until(lambda: fleet.rows("SELECT 1 FROM healths") and fleet.stored(), "its first words")
    first.stop(signal.SIGKILL)
    until_shown(fleet, "offline")
    before = sessions(fleet)
    second = fleet.agent("dev-1", stdin=subprocess.PIPE)
    until_shown(fleet, "online")
    assert sessions(fleet) != before
    assert second.stop() == 0
    until_shown(fleet, "stopped")
    said = shown(fleet)
    assert said["health"]["session"] == said["session"]
    table = fleet.ask("devices")
    assert re.search(r"^dev-1 +stopped +air ", table, re.M)
    assert re.search(rf"^dev-1 +\S+Z +\d+ .* {re.escape(__version__)}$", table, re.M)


def test_the_will_of_an_earlier_session_takes_nobody_offline(fleet, listen):
    """As after a cut: the device is back, and then the broker notices that the old connection
    has ended."""
    fleet.configure("dev-1", [], **LIVE)
    fleet.start_broker()
    listener = listen(fleet)
    fleet.collector()
    fleet.agent("dev-1", stdin=subprocess.PIPE)
    until_shown(fleet, "online")
    (current,) = sessions(fleet)
    stale = Status("offline", "an-earlier-one", {})
    listener.publish(topics.status("home", "dev-1"), stale.encode())
    # Later messages of one client: once this device is shown, the last will was processed.
    listener.publish(topics.status("home", "dev-2"), Status("online", "s", {}).encode())
    until_shown(fleet, "online", "dev-2")
    assert (shown(fleet)["state"], sessions(fleet)[0]) == ("online", current)
    # The negative control: the last will of its own session does.
    listener.publish(topics.status("home", "dev-1"), Status("offline", *current, {}).encode())
    until_shown(fleet, "offline")


def test_a_backlog_is_reported_and_garbage_is_refused_unanswered(fleet, listen, hourly):
    fleet.configure("dev-1", hourly(5))
    agent = fleet.agent("dev-1", "--drain", "0")
    assert agent.wait() == 1
    fleet.start_broker()
    listener = listen(fleet)
    fleet.agent("dev-1")
    fleet.until(lambda: listener.on("/health"), "the first health")
    first = Health.decode(listener.on("/health")[0])
    assert (first.waiting, first.dropped, first.oldest_waiting_seconds) == (5, 0, None)
    fleet.collector()
    fleet.until(lambda: len(fleet.stored()) == 5, "the backlog")
    listener.publish(topics.health("home", "dev-2"), b'{"waiting": 3}')
    listener.publish(topics.health("home", "dev-3"), first.encode())
    fleet.until(lambda: fleet.rows("SELECT 1 FROM healths WHERE device = 'dev-3'"), "dev-3")
    assert fleet.quarantine() == [(topics.health("home", "dev-2"), "health")]
    assert shown(fleet, "dev-3")["health"]["waiting"] == 5
    assert not [
        place for place, _ in listener.messages if place.endswith(("dev-2/ack", "dev-3/ack"))
    ]
