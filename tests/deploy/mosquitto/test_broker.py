"""The shipped mosquitto configuration and ACL, with a real broker: who gets through to what."""

import re
import signal
import threading
from pathlib import Path

import pytest
from paho.mqtt.client import Client
from paho.mqtt.enums import CallbackAPIVersion

from pansketch_collector.reports.broker_acl import largest_packet
from pansketch_fleet.config.loader import load_collector
from pansketch_fleet.protocol import topics
from tests.deploy.site import PASSWORDS
from tests.waiting import SECONDS

pytestmark = pytest.mark.needs("mosquitto")

CONF = Path(__file__).parents[3] / "deploy/mosquitto/mosquitto.conf"
COLLECTOR = "pansketch.collector"
KINDS = ("status", "health", "release/air", "ack", "probe")


def own(device: str) -> list[str]:
    return [f"pansketch/v1/greenhouse/{device}/{kind}" for kind in KINDS]


class Listener:
    """Records the messages to one client, and waits until all its subscriptions are granted."""

    def __init__(self, site, client, *filters: str) -> None:
        self.messages: list[tuple[str, bytes]] = []
        answered = threading.Event()
        client.on_message = lambda _c, _u, m: self.messages.append((m.topic, bytes(m.payload)))
        client.on_subscribe = lambda *_: answered.set()
        client.subscribe([(name, 1) for name in filters])
        site.until(answered.is_set, lambda: "the answer to a subscription")

    def topics(self) -> list[str]:
        return sorted({topic for topic, _ in self.messages})


def publish(site, client, topic: str, payload: bytes = b"x") -> None:
    """Publish with QoS 1 and wait for the PUBACK, which the broker sends for a forbidden topic
    too."""
    sent = client.publish(topic, payload, 1)
    site.until(sent.is_published, lambda: f"the broker's answer to {topic}")


def open_acl(site) -> None:
    """The negative control: the same broker with an ACL that allows every client everything."""
    (site.folder / "acl").write_text("pattern readwrite #\n")


def test_a_device_with_its_certificate_publishes_and_is_acknowledged(site):
    """A replay ends with 0 when the collector has acknowledged all of it, and not before."""
    site.install_broker()
    site.start_broker()
    collector = site.collector(site.configure(site.certified("collector")))
    collector.wait_until_connected()
    agent = site.agent(site.configure(site.certified("dev-1")))
    assert agent.wait() == 0, agent.output
    assert site.stored() == 2
    assert collector.stop() == 0
    assert "denies" not in collector.output


def test_a_device_with_its_password_and_a_collector_on_the_broker_s_host(site):
    site.install_broker(optional=True)
    site.start_broker()
    local = f"mqtt://127.0.0.1:{site.ports['1883']}"
    mqtt = site.with_password(COLLECTOR, url=local, ca_file="")
    site.collector(site.configure(mqtt)).wait_until_connected()
    agent = site.agent(site.configure(site.with_password("dev-1")))
    assert agent.wait() == 0, agent.output
    assert site.stored() == 2


EVERY_DEVICE = pytest.mark.parametrize(
    ("shut", "version", "proof"),
    [
        (True, "3.1.1", "certificate"),
        (True, "3.1.1", "password"),
        (True, "5", "certificate"),
        (True, "5", "password"),
        (False, "3.1.1", "certificate"),
        (False, "5", "password"),
    ],
)


@EVERY_DEVICE
def test_a_device_can_write_nowhere_but_below_its_own_name(site, shut, version, proof):
    """Received with the collector's rights; with an open ACL the same intruder's message
    arrives."""
    site.install_broker(optional=True)
    if not shut:
        open_acl(site)
    site.start_broker()
    collector = site.client("collector", version=version)
    listener = Listener(site, collector, "#")
    thief = site.client("dev-2", version=version, proof=proof)
    elsewhere = [*own("dev-1"), "pansketch/v1/other/dev-2/status", "any/thing", own("dev-2")[3]]
    for topic in (*elsewhere, *own("dev-2")[:3]):
        publish(site, thief, topic)
    # QoS 1 messages of one client come in order: what is not there by now does not come.
    site.until(lambda: own("dev-2")[2] in listener.topics(), lambda: str(listener.topics()))
    expected = own("dev-2")[:3] if shut else [*elsewhere, *own("dev-2")[:3]]
    assert listener.topics() == sorted(expected)


@EVERY_DEVICE
def test_a_device_can_read_nothing_but_its_own_acknowledgements(site, shut, version, proof):
    """The client subscribes to everything; with an open ACL the same intruder receives all."""
    site.install_broker(optional=True)
    if not shut:
        open_acl(site)
    site.start_broker()
    thief = site.client("dev-2", version=version, proof=proof)
    victim, collector = site.client("dev-1", version=version), site.client("collector")
    listener = Listener(site, thief, "#", "pansketch/v1/+/+/ack", *own("dev-1"))
    for topic in (*own("dev-1")[:3], *own("dev-1")[4:]):
        publish(site, victim, topic)
    for device in ("dev-1", "dev-2"):
        publish(site, collector, topics.ack(site.fleet, device))
    last = topics.ack(site.fleet, "dev-2")
    site.until(lambda: last in listener.topics(), lambda: str(listener.topics()))
    assert listener.topics() == ([last] if shut else sorted([*own("dev-1"), last]))


def test_a_retained_status_is_not_shown_to_another_device_either(site):
    site.install_broker()
    site.start_broker()
    status = topics.status(site.fleet, "dev-1")
    site.client("dev-1").publish(status, b"x", 1, retain=True).wait_for_publish(SECONDS)
    thief = site.client("dev-2")
    listener = Listener(site, thief, "#", status)
    publish(site, site.client("collector"), topics.ack(site.fleet, "dev-2"))
    site.until(lambda: listener.messages, lambda: "the own acknowledgement")
    assert listener.topics() == [topics.ack(site.fleet, "dev-2")]
    control = Listener(site, site.client("collector"), status)
    site.until(lambda: control.topics() == [status], lambda: "the retained status")


def test_nobody_ends_the_session_of_another_by_its_client_id(site):
    """The victim stays; the same certificate twice is the control, which does end it."""
    site.install_broker()
    broker = site.start_broker()
    lost = threading.Event()
    victim = site.client("dev-1", "pansketch-greenhouse-dev-1")
    victim.on_disconnect = lambda *_: lost.set()
    site.client("dev-2", "pansketch-greenhouse-dev-1")
    publish(site, victim, topics.status(site.fleet, "dev-1"))
    assert not lost.is_set()
    site.client("dev-1", "another-id", takes_over=True)
    site.until(lost.is_set, lambda: f"the end of the older session: {broker.output}")


def test_a_check_beside_the_running_agent_interrupts_it_and_it_comes_back(site):
    """The shipped broker knows one session a name."""
    site.install_broker()
    site.start_broker()
    agent = site.agent(site.configure(site.certified("dev-1"), source="{type: stdin}"))
    agent.wait_until_connected()
    check = site.agent(site.configure(site.certified("dev-1")), "check")
    check.wait_for_output("accepts the device over TLS, MQTT 5")
    assert check.wait() == 0
    agent.wait_until_connected(times=2)
    assert agent.stop() == 0


def test_what_waits_for_the_collector_survives_a_restart_of_the_broker(site):
    site.install_broker()
    broker = site.start_broker()
    config = site.configure(site.certified("collector"))
    collector = site.collector(config)
    collector.wait_until_connected()
    # The subscription stands when the broker has it: the first release proves it.
    first = site.agent(site.configure(site.certified("dev-1")))
    assert first.wait() == 0, first.output
    assert collector.stop() == 0
    second = site.agent(site.configure_later(site.certified("dev-1")), "run", "--drain", "10")
    assert second.wait() == 1, second.output
    assert broker.stop() == 0
    site.start_broker()
    site.collector(config)
    site.until(lambda: site.stored() == 4, lambda: f"what waited; there are {site.stored()}")


def test_the_shipped_limits_fit_the_demo_and_each_other():
    found = dict(re.findall(r"^(\w+) (\d+)$", CONF.read_text(), re.M))
    demo = load_collector(CONF.parents[2] / "config.yaml", {"DEVICE": "dongsi"})
    assert largest_packet(demo) <= int(found["max_packet_size"]) <= 2**18
    assert int(found["memory_limit"]) > int(found["max_queued_bytes"])


def test_every_listener_wants_a_proof_of_identity_and_has_the_acl():
    """Also those that are off in the file. Without per_listener_settings, the first part holds for
    every listener."""
    text = re.sub(r"^#(?=\S)", "", CONF.read_text(), flags=re.M)
    everywhere, *listeners = text.split("\nlistener ")
    access = re.findall(r"^((?:allow_|acl_|password_|per_).*)$", text, re.M)
    assert access == [
        "allow_anonymous false",
        "acl_file /etc/mosquitto/pansketch/acl",
        "password_file /etc/mosquitto/pansketch/passwords",
    ]
    assert all(line in everywhere for line in access)
    assert len(listeners) == 3
    for settings in listeners:
        assert ("require_certificate true" in settings) == settings.startswith("8883\n")
        assert ("use_identity_as_username" in settings) == settings.startswith("8883\n")
        assert ("certfile" in settings) or settings.startswith("1883 127.0.0.1\n")


@pytest.mark.parametrize("user", ["dev-1", COLLECTOR, ""])
def test_a_listener_for_passwords_lets_nobody_in_without_the_password_file(site, user):
    """One forgotten "#"; the same client with the file is the control."""
    site.install_broker(optional=True)
    conf = site.folder / "mosquitto.conf"
    whole = conf.read_text()
    conf.write_text(whole.replace("password_file", "#password_file"))
    broker = site.start_broker()
    assert answer(site, user) == "Not authorized"
    assert broker.stop() == 0
    conf.write_text(whole)
    site.start_broker()
    assert answer(site, user) == ("Success" if user else "Not authorized")


def answer(site, user: str) -> str:
    """The broker's answer to a connection without TLS and, with a user, the user's password."""
    answers: list[str] = []
    client = Client(CallbackAPIVersion.VERSION2)
    client.on_connect = lambda _c, _u, _f, reason, _p: answers.append(str(reason))
    if user:
        client.username_pw_set(user, PASSWORDS[user])
    client.connect("127.0.0.1", site.ports["1883"])
    client.loop_start()
    site.until(lambda: answers, lambda: "the broker's answer")
    client.disconnect()
    client.loop_stop()
    return answers[0]


def test_a_reload_takes_new_passwords_and_ends_no_session(site):
    site.install_broker(optional=True)
    passwords = site.folder / "passwords"
    known = passwords.read_text()
    passwords.write_text("".join(line for line in known.splitlines(True) if "dev-2" not in line))
    broker = site.start_broker()
    assert answer(site, "dev-2") == "Not authorized"
    lost = threading.Event()
    for proof in ("certificate", "password"):
        site.client("dev-1" if proof == "password" else "collector", proof=proof).on_disconnect = (
            lambda *_: lost.set()
        )
    passwords.write_text(known)
    broker.process.send_signal(signal.SIGHUP)
    site.until(lambda: answer(site, "dev-2") == "Success", lambda: broker.output)
    assert not lost.is_set()
