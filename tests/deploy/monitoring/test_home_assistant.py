"""Devices announced to Home Assistant through the shipped broker.

Home Assistant receives them from the broker or over a bridge, and no device can announce anything.
"""

import json
import os
import pwd
import re
from pathlib import Path

import pytest
from jinja2.sandbox import ImmutableSandboxedEnvironment
from paho.mqtt.client import Client
from paho.mqtt.enums import CallbackAPIVersion

from pansketch_fleet.protocol import topics
from pansketch_fleet.protocol.messages import Status
from testbed.embedded_broker import free_port

pytestmark = pytest.mark.needs("mosquitto")

PAGE = (Path(__file__).parents[3] / "docs/how-to/secure-the-broker.md").read_text()
HOME = "home.assistant"
# The topics of Home Assistant before it knows any device.
DISCOVERY = ("homeassistant/+/+/config", "homeassistant/+/+/+/config")
CONFIG = "homeassistant/device/pansketch_greenhouse_dev-1/config"
STDIN = "{type: stdin}"


@pytest.fixture
def announcing(site):
    """The shipped broker, and a collector that announces; with the rules or without them."""

    def run(rules=True):
        site.install_broker(optional=True)
        site.install_acl(home_assistant=True)
        if not rules:
            acl = site.folder / "acl"
            acl.write_text(acl.read_text().partition("topic write homeassistant/")[0])
        site.start_broker()
        path = site.configure(site.certified("collector"))
        text = path.read_text().replace("{database:", "{home_assistant: true, database:")
        path.write_text(text)
        collector = site.collector(path)
        collector.wait_until_connected()
        return collector

    return run


@pytest.fixture
def listener(site):
    """A client that records messages: topic and payload, and whether the broker retained them."""

    def run(client, *filters):
        heard = {}

        def keep(_client, _userdata, message):
            heard[message.topic] = (message.payload, message.retain)

        client.on_message = keep
        client.subscribe([(name, 1) for name in filters])
        return heard

    return run


def home(site):
    return site.client(HOME, proof="password")


def render(template, payload):
    known = {"value_json": json.loads(payload)}
    return ImmutableSandboxedEnvironment().from_string(template).render(known)


def assert_shown(site, heard):
    """The states of entities after a real agent's own status and health."""
    components = json.loads(heard[CONFIG][0])["components"]
    places = {entity["state_topic"] for entity in components.values()}
    site.until(lambda: places <= heard.keys(), lambda: f"{places} among {heard.keys()}")
    shown = {
        key: render(entity["value_template"], heard[entity["state_topic"]][0])
        for key, entity in components.items()
    }
    assert (shown["connection"], shown["waiting"], shown["dropped"]) == ("ON", "0", "0")
    assert {shown["clock"], shown["memory"]} <= {"ON", "OFF", "None"}
    assert 0 <= int(shown["uptime_seconds"]) < 600
    assert int(shown["written_today_bytes"]) >= 0


def test_home_assistant_hears_how_a_real_device_is(site, announcing, listener):
    announcing()
    heard = listener(home(site), *DISCOVERY, "pansketch/v1/greenhouse/dev-1/+")
    agent = site.agent(site.configure(site.certified("dev-1"), source=STDIN))
    site.until(lambda: CONFIG in heard, lambda: f"{CONFIG} among {heard.keys()}")
    assert_shown(site, heard)
    status = topics.status(site.fleet, "dev-1")
    later = listener(home(site), *DISCOVERY, status)
    site.until(lambda: len(later) == 2, lambda: "what the broker has kept")
    assert all(retained for _, retained in later.values())
    connection = json.loads(later[CONFIG][0])["components"]["connection"]["value_template"]
    assert render(connection, later[status][0]) == "ON"
    assert agent.stop() == 0
    site.until(lambda: render(connection, later[status][0]) == "OFF", lambda: "the farewell")


def test_home_assistant_hears_nothing_else_and_may_say_nothing(site, announcing, listener):
    """Of a device that releases: its releases and acknowledgements stay between those two."""
    announcing()
    heard = listener(home(site), "#")
    assert site.agent(site.configure(site.certified("dev-1"))).wait() == 0
    assert site.stored() == 2
    site.until(lambda: CONFIG in heard, lambda: f"{CONFIG} among {heard.keys()}")
    mine = {topics.status(site.fleet, "dev-1"), topics.health(site.fleet, "dev-1")}
    assert set(heard) == {CONFIG, *mine}
    for place in (CONFIG, *mine, topics.ack(site.fleet, "dev-1")):
        assert refused(site, HOME, "password", place)


@pytest.mark.parametrize("proof", ["certificate", "password"])
def test_no_device_can_announce_anything(site, announcing, listener, proof):
    """With that right a device could add entities to a home."""
    announcing()
    heard = listener(home(site), *DISCOVERY)
    for place in (
        CONFIG,
        "homeassistant/device/dev-1/config",
        "homeassistant/sensor/dev-1/x/config",
        "homeassistant/lock/dev-1/config",
    ):
        assert refused(site, "dev-1", proof, place)
    assert not refused(site, "dev-1", proof, topics.health(site.fleet, "dev-1"))
    born(site, "dev-2", proof)
    site.until(lambda: heard, lambda: "the announcement after them")
    assert set(heard) == {CONFIG.replace("dev-1", "dev-2")}


def born(site, device, proof="certificate"):
    """A device publishes its birth message, so that the collector announces it."""
    status = Status("online", "s1", {}).encode()
    site.client(device, proof=proof).publish(topics.status(site.fleet, device), status, 1, True)


def refused(site, name, proof, place):
    """True if the broker rejects this client's message over MQTT 5 as not authorized."""
    reasons = []
    client = site.client(name, version="5", proof=proof)
    client.on_publish = lambda _c, _u, _m, reason, _p: reasons.append(reason)
    client.publish(place, b'{"name": "planted"}', 1)
    site.until(lambda: reasons, lambda: f"the answer to {place}")
    client.disconnect()
    return str(reasons[0]) == "Not authorized"


def test_as_shipped_nobody_is_announced_anything(site, announcing, listener):
    """The rules are off: not even the collector may announce, and its devices do not notice."""
    collector = announcing(rules=False)
    heard = listener(home(site), "#")
    assert refused(site, "collector", "certificate", CONFIG)
    assert site.agent(site.configure(site.certified("dev-1"))).wait() == 0
    assert site.stored() == 2
    assert heard == {}
    collector.wait_for_output(
        f"broker does not authorize writing {CONFIG}: allow it in the broker's ACL"
    )
    assert collector.stop() == 0


def start_bridge(site):
    """The lines of the page in the configuration of a second mosquitto; a client of that one."""
    (lines,) = re.findall(r"```text\n(connection .*?)```", PAGE, re.S)
    site.with_password(HOME)
    password = (site.folder / f"password-{HOME}").read_text().strip()
    lines = lines.replace("broker.example:8884", f"127.0.0.1:{site.ports['8884']}")
    lines = lines.replace("/etc/mosquitto/pansketch", str(site.ca))
    lines = lines.replace("the-password", password)
    port, conf = free_port(), site.folder / "home.conf"
    user = pwd.getpwuid(os.geteuid()).pw_name
    conf.write_text(f"user {user}\nlistener {port} 127.0.0.1\nallow_anonymous true\n{lines}")
    site.ports["home"] = port
    broker = site.start("home", "mosquitto", "-c", str(conf))
    site.until(lambda: site.listens("home") or broker.ended(), lambda: broker.output)
    client = Client(CallbackAPIVersion.VERSION2)
    client.connect("127.0.0.1", port)
    client.loop_start()
    site.clients.append(("home", client))
    return client


def test_a_bridge_brings_it_to_a_broker_of_its_own(site, announcing, listener):
    announcing()
    born(site, "dev-2")
    first = CONFIG.replace("dev-1", "dev-2")
    heard = listener(start_bridge(site), *DISCOVERY, "pansketch/#")
    site.until(lambda: first in heard, lambda: "the bridge")
    site.agent(site.configure(site.certified("dev-1"), source=STDIN))
    site.until(lambda: CONFIG in heard, lambda: f"{CONFIG} among {heard.keys()}")
    assert_shown(site, heard)
    mine = {topics.status(site.fleet, "dev-1"), topics.health(site.fleet, "dev-1")}
    assert set(heard) == {first, topics.status(site.fleet, "dev-2"), CONFIG, *mine}
