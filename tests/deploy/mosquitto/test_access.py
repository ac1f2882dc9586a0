"""Access rules that reject: a single-line log with the topic, and an error of `check`.

MQTT does not report every rejection.
"""

import json
import re
from pathlib import Path

import pytest

from pansketch_agent.diagnostics.broker_reachability import check_broker
from pansketch_agent.host.clock import system_clock
from pansketch_fleet.config.loader import load_agent
from pansketch_fleet.protocol import topics

pytestmark = pytest.mark.needs("mosquitto")

USER = "the broker's access rules must allow its topics to this device's user, who is to be named"


def found(path):
    config = load_agent(path, {})
    return check_broker(config.mqtt, config.fleet, config.agent.device, system_clock())


def rules_of_another_fleet(site):
    text = (site.folder / "acl").read_text()
    (site.folder / "acl").write_text(text.replace(site.fleet, "glasshouse"))


@pytest.mark.parametrize(
    ("fault", "device", "identity"),
    [("a name that is not the user's", "dev-2", "dev-1"), ("another fleet", "dev-1", "dev-1")],
)
def test_over_mqtt_5_each_denied_topic_is_said_once_with_the_fix(site, fault, device, identity):
    site.install_broker()
    if fault == "another fleet":
        rules_of_another_fleet(site)
    site.start_broker()
    path = site.configure(site.certified(identity), device)
    agent = site.agent(path)
    release = topics.release(site.fleet, device, "air")
    for topic in (release, topics.status(site.fleet, device)):
        agent.wait_for_output(
            f"does not authorize this device to write to {topic} (Not authorized); {USER} {device}"
        )
    assert found(path).state == "wrong"
    assert found(path).text.startswith("access rules: ")
    assert f"{USER} {device}" in found(path).text
    assert agent.output.count(f"write to {release}") == 1
    assert agent.stop() == 0


def test_over_mqtt_3_1_1_it_cannot_be_seen_and_check_says_so(site):
    site.install_broker()
    rules_of_another_fleet(site)
    site.start_broker()
    broker = found(site.configure(site.certified("dev-1", protocol="3.1.1")))
    assert broker.state == "note"
    assert "a probe did not come back: MQTT 3.1.1 does not show why" in broker.text
    assert USER in broker.text


@pytest.mark.parametrize("version", ["5", "3.1.1"])
@pytest.mark.parametrize("proof", ["certificate", "password"])
def test_the_shipped_rules_know_a_device_by_either_proof(site, version, proof):
    """The probe reaches only the device."""
    site.install_broker(optional=True)
    site.start_broker()
    heard = []
    collector = site.client("collector", version=version)
    collector.on_message = lambda _c, _u, message: heard.append(message.topic)
    collector.subscribe([("#", 1), (topics.probe(site.fleet, "dev-1"), 1)])
    mqtt = site.certified("dev-1") if proof == "certificate" else site.with_password("dev-1")
    broker = found(site.configure({**mqtt, "protocol": version}))
    assert (broker.state, broker.text.partition(" ")[2]) == (
        "ok",
        f"accepts the device over TLS, MQTT {version}, and its access rules know the device",
    )
    say = site.client("dev-2", version=version)
    say.publish(topics.status(site.fleet, "dev-2"), b"x", 1)
    site.until(lambda: heard, lambda: "what dev-2 says after it")
    assert heard == [topics.status(site.fleet, "dev-2")]


def deny_subscriptions(site):
    """Settings of mosquitto that let every client write everything and subscribe to nothing."""
    plugin = next(Path("/usr/lib").glob("*/mosquitto_dynamic_security.so"))
    access = {"publishClientSend": True, "publishClientReceive": True, "subscribe": False}
    file = site.folder / "dynamic.json"
    file.write_text(json.dumps({"defaultACLAccess": {**access, "unsubscribe": True}}))
    return f"plugin {plugin}\nplugin_opt_config_file {file}"


@pytest.mark.parametrize(
    ("version", "failure"), [("5", "Not authorized"), ("3.1.1", "Unspecified error")]
)
def test_a_denied_subscription_is_said_on_either_version(site, version, failure):
    site.start_plain_broker(deny_subscriptions(site))
    path = site.configure(site.plain(protocol=version), source="{type: stdin}")
    agent, collector = site.agent(path), site.collector(path)
    ack = topics.ack(site.fleet, "dev-1")
    text = f"the broker does not authorize this device to read {ack} ({failure}); {USER} dev-1"
    agent.wait_for_output(text)
    collector.wait_for_output(
        "broker does not authorize reading pansketch/v1/greenhouse/+/release/+: allow it in"
    )
    broker = found(path)
    assert broker.state == "wrong"
    assert re.fullmatch(rf"access rules: [\d.:]+: {re.escape(text)}", broker.text)
    assert agent.stop() == 0
    assert agent.output.count(text) == 1
    assert agent.output.count("does not authorize this device") == 2, (
        "once for the ack, once for the mark"
    )
