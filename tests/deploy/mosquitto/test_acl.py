"""`pansketch-collector acl`: rules of a fleet's own streams, at work in a real mosquitto."""

import re
from pathlib import Path

import pytest

from pansketch_collector.__main__ import main
from pansketch_fleet.protocol import topics
from tests.deploy.mosquitto.test_broker import COLLECTOR, Listener, open_acl, own, publish

pytestmark = pytest.mark.needs("mosquitto", "openssl")

FLOOD_BYTES, MAX_GROWTH_MIB = 16 << 20, 8


def stated_bytes(site) -> int:
    conf = (site.folder / "mosquitto.conf").read_text()
    return int(re.findall(r"^max_packet_size (\d+)$", conf, re.M)[0])


def resident_mib(broker) -> float:
    lines = Path(f"/proc/{broker.process.pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmRSS:"))


@pytest.mark.parametrize("shut", [True, False])
def test_releases_of_invented_streams_are_denied_and_fill_no_memory(site, shut):
    """All are retained, and each under a name of its own; with an open ACL they stay."""
    site.install_broker()
    if not shut:
        open_acl(site)
    broker = site.start_broker()
    thief = site.client("dev-1")
    before = resident_mib(broker)
    root = topics.release(site.fleet, "dev-1", "x")
    payload = bytes(stated_bytes(site) - 200)
    flood = FLOOD_BYTES // len(payload)
    for number in range(flood):
        thief.publish(f"{root}{number}", payload, 1, retain=True)
    publish(site, thief, topics.status(site.fleet, "dev-1"))
    assert (resident_mib(broker) - before < MAX_GROWTH_MIB) is shut
    listener = Listener(site, site.client("collector"), "pansketch/v1/+/+/release/+")
    publish(site, thief, topics.release(site.fleet, "dev-1", "air"))
    site.until(lambda: own("dev-1")[2] in listener.topics(), lambda: str(listener.topics()))
    assert len(listener.topics()) == (1 if shut else flood + 1)


def test_a_message_above_the_stated_size_never_gets_there(site):
    """Before it is whole: the sender is cut off."""
    site.install_broker()
    site.start_broker()
    size = stated_bytes(site)
    listener = Listener(site, site.client("collector"), "#")
    release = topics.release(site.fleet, "dev-1", "air")
    client = site.client("dev-1")
    client.on_disconnect = lambda *_: client.loop_stop()  # or paho retransmits it without end
    client.publish(release, bytes(size + 1), 1)
    site.until(lambda: not client.is_connected(), lambda: "the end of the connection")
    publish(site, site.client("dev-2"), topics.status(site.fleet, "dev-2"))
    site.until(lambda: listener.messages, lambda: "a status")
    assert listener.topics() == [topics.status(site.fleet, "dev-2")]


def test_a_device_reads_its_own_mark_alone_and_writes_none(site):
    site.install_broker()
    site.start_broker()
    marks = [f"pansketch/v1/{site.fleet}/{device}/mark" for device in ("dev-1", "dev-2")]
    collector, thief = site.client("collector"), site.client("dev-2")
    for mark in marks:
        collector.publish(mark, b"real", 1, retain=True).wait_for_publish(10)
        thief.publish(mark, b"forged", 1, retain=True).wait_for_publish(10)
    listener = Listener(site, thief, "#", *marks)
    site.until(lambda: listener.messages, lambda: "the own mark")
    publish(site, collector, topics.ack(site.fleet, "dev-2"))
    last = topics.ack(site.fleet, "dev-2")
    site.until(lambda: last in listener.topics(), lambda: str(listener.topics()))
    assert set(listener.messages) == {(marks[1], b"real"), (last, b"x")}


def test_devices_that_are_named_are_the_only_ones(site):
    site.install_broker()
    site.install_acl(devices=["dev-1"])
    site.start_broker()
    listener = Listener(site, site.client("collector"), "#")
    for device in ("dev-2", "dev-1"):
        publish(site, site.client(device), topics.status(site.fleet, device))
    site.until(lambda: listener.messages, lambda: "a status")
    assert listener.topics() == [topics.status(site.fleet, "dev-1")]


def test_the_collector_clears_a_release_that_was_retained(site):
    """It would come again with each of its connections. A status stays."""
    site.install_broker()
    site.start_broker()
    device = site.client("dev-1")
    status, release = own("dev-1")[0], own("dev-1")[2]
    for topic in (status, release):
        device.publish(topic, b"stray", 1, retain=True).wait_for_publish(10)
    assert retained(site) == [release, status]
    collector = site.collector(site.configure(site.certified("collector")))
    collector.wait_for_output("broker retains a message under")
    assert collector.stop() == 0
    assert retained(site) == [status]
    assert collector.output.count("broker retains a message") == 1
    assert "denies" not in collector.output


def retained(site) -> list[str]:
    """The messages that the broker retains, for a client with the collector's rights."""
    listener = Listener(site, site.client("collector"), "pansketch/#")
    probe = topics.health(site.fleet, "dev-1")
    publish(site, site.client("dev-1"), probe)
    site.until(lambda: probe in listener.topics(), lambda: str(listener.topics()))
    return [topic for topic in listener.topics() if topic != probe]


def test_the_command_writes_the_rules_of_a_configuration(site, capsys):
    path = site.configure(site.plain())
    assert main(["acl", "--config", str(path)]) == 0
    text = capsys.readouterr().out
    assert "pattern write pansketch/v1/greenhouse/%u/release/air\n" in text
    assert "release/+\n" not in text.partition(f"user {COLLECTOR}")[0]
    assert main(["acl", "--config", str(path), "--devices", "a,b", "--out", f"{path}.acl"]) == 0
    named = Path(f"{path}.acl").read_text()
    assert "%u/" not in named
    assert "user b\ntopic write pansketch/v1/greenhouse/b/status\n" in named
    assert main(["acl", "--config", str(path), "--devices", "a,../b"]) == 2
    assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.parametrize("joins", [True, False])
def test_a_device_that_knows_the_workers_group_reads_nothing_and_delays(site, joins):
    """mosquitto checks rules at delivery, not at a shared subscription. It drops a message whose
    turn is the device's. The next transmission has another turn, so each message gets through.
    The name of the group is secret: a device that guesses another name changes nothing."""
    site.install_broker()
    site.start_broker()
    releases = topics.fleet_filter(site.fleet)[1]
    wanted, guess = (topics.shared_filter(name, releases) for name in ("secret", "guess"))
    health = topics.health(site.fleet, "dev-1")
    collector = Listener(site, site.client("collector"), wanted, health)
    thief = Listener(site, site.client("dev-2"), wanted if joins else guess)
    device, release = site.client("dev-1"), topics.release(site.fleet, "dev-1", "air")
    sent = 0
    for number in range(10):
        payload = b"%d" % number
        while (release, payload) not in collector.messages:
            sent += 1
            publish(site, device, release, payload)
            # It follows on the same connection: when it arrives, the release arrived before or
            # never.
            mark = (health, b"%d" % sent)
            publish(site, device, *mark)
            site.until(
                lambda mark=mark: mark in collector.messages, lambda: "what follows a release"
            )
            assert sent < 100
    assert thief.messages == []
    assert (sent > 10) is joins
