"""Enrolled devices through the shipped broker: a password without the key adds nothing."""

import queue
import signal
from itertools import count
from pathlib import Path

import pytest

from pansketch import WindowId, encode, os_entropy
from pansketch_agent.diagnostics.broker_reachability import check_broker
from pansketch_agent.host.clock import system_clock
from pansketch_collector.__main__ import main
from pansketch_collector.storage.reader import reading
from pansketch_fleet.config.loader import load_collector
from pansketch_fleet.protocol import topics
from pansketch_fleet.protocol.messages import Ack, digest
from pansketch_fleet.protocol.signed_release import (
    ENVELOPE_BYTES,
    Credentials,
    read_credentials,
    release_in,
)
from pansketch_fleet.settings.device_spec import schedule_offset
from pansketch_fleet.settings.sources import Mqtt
from tests.deploy import site as places
from tests.waiting import SECONDS, until

pytestmark = pytest.mark.needs("mosquitto", "openssl")
HOUR = 3600


class Fleet:
    """A broker, a collector that requires signatures, and two enrolled devices."""

    def __init__(self, site, monkeypatch):
        self.site, self.monkeypatch = site, monkeypatch
        site.install_broker(optional=True)
        self.broker = site.start_broker()
        self.config = site.configure(site.with_password(places.COLLECTOR))
        text = self.config.read_text().replace("{database:", "{require_signature: true, database:")
        self.config.write_text(text)
        site.collector(self.config).wait_for_output("connected")
        self.devices = {name: self.enrolled(name) for name in ("dev-1", "dev-2")}

    def run(self, *words):
        assert main([*words, "--config", str(self.config)]) == 0

    def enrolled(self, device, command="enroll", file="") -> Credentials:
        path = self.path(device, file)
        passwords = str(self.site.folder / "passwords")
        self.run(command, device, "--out", str(path), "--passwords", passwords)
        self.broker.process.send_signal(signal.SIGHUP)
        made = read_credentials(path)
        self.monkeypatch.setitem(places.PASSWORDS, device, made.password)
        address = places.HOST, self.site.ports["8884"]
        broker = Mqtt(*address, True, self.site.ca / "ca.crt", device, made.password)
        found = (check_broker(broker, self.site.fleet, device, system_clock()) for _ in count())
        until(lambda: next(found).state == "ok", "a broker that has read its passwords again")
        return made

    def path(self, device, file="") -> Path:
        return self.site.folder / f"{device}{file}.json"

    def release(self, sequence, device="dev-1"):
        config = load_collector(self.config, {})
        spec = next(iter(config.specs(config.streams[0]).values()))
        start = 400_000 * HOUR + sequence * HOUR + schedule_offset(device, HOUR)
        window = WindowId(device, "air", sequence, start, start + HOUR)
        rng = os_entropy()
        return encode(spec.start(rng).release(rng, window))


@pytest.fixture
def fleet(site, monkeypatch):
    return Fleet(site, monkeypatch)


class Sender:
    """A client with a device's password, which may or may not have its key."""

    def __init__(self, site, device):
        self.topic = topics.release(site.fleet, device, "air")
        self.client = site.client(device, proof="password", version="5")
        self.acks: queue.Queue[Ack] = queue.Queue()
        heard = []
        self.client.on_subscribe = lambda *_: heard.append(True)
        self.client.on_message = lambda _c, _u, m: self.acks.put(Ack.decode(m.payload))
        self.client.subscribe(topics.ack(site.fleet, device))
        until(lambda: heard, "a subscription")

    def answer(self, payload):
        """The collector's answer to a message: its status, and its reason."""
        self.client.publish(self.topic, payload, 1)
        ack = self.acks.get(timeout=SECONDS)
        assert ack.digest == digest(release_in(payload))
        return ack.status, ack.reason


def test_nothing_but_the_device_s_own_key_adds_to_its_history(site, fleet):
    own, other = fleet.devices["dev-1"], fleet.devices["dev-2"]
    sender = Sender(site, "dev-1")
    first, second = fleet.release(1), fleet.release(2)
    of_other = Credentials(1, own.fleet, "dev-1", other.key, other.password)
    assert sender.answer(first) == (
        "later",
        "signature: the release is not signed; enroll dev-1 and set agent.credentials there",
    )
    status, reason = sender.answer(own.seal("air", first)[:ENVELOPE_BYTES] + second)
    assert (status, "the signature is not that of dev-1" in reason) == ("later", True)
    status, reason = sender.answer(of_other.seal("air", first))
    assert (status, "is no key of dev-1 here" in reason) == ("later", True)
    assert site.stored() == 0
    assert sender.answer(own.seal("air", first))[0] == "stored"
    assert sender.answer(own.seal("air", first))[0] == "duplicate"
    fleet.run("revoke", "dev-1")
    status, reason = sender.answer(own.seal("air", second))
    assert (status, "dev-1 is revoked" in reason) == ("later", True)
    assert site.stored() == 1


def test_an_agent_without_its_key_keeps_its_releases_and_signs_them_later(site, fleet):
    """The password alone first, in the same configuration; then the file of `enroll`."""
    mqtt = site.with_password("dev-1")
    agent = site.agent(site.configure(mqtt))
    until(lambda: quarantined(fleet) == 2, "both releases in quarantine")
    assert agent.stop() == 0
    assert site.stored() == 0
    signing = site.configure({name: mqtt[name] for name in ("url", "ca_file")})
    text = signing.read_text().replace("device: dev-1,", "device: dev-1, credentials: dev-1.json,")
    signing.write_text(text)
    agent = site.agent(signing)
    until(lambda: site.stored() == 2, lambda: agent.output)
    assert agent.wait() == 0
    assert quarantined(fleet) == 0


def test_an_enrolled_device_whose_password_the_broker_lacks_learns_the_fix(site, fleet):
    fleet.run("enroll", "dev-1", "--out", str(fleet.path("dev-1")))
    unknown = site.folder / "dev-9.json"
    fleet.run("enroll", "dev-9", "--out", str(unknown))
    mqtt = site.with_password("dev-9")
    path = site.configure({name: mqtt[name] for name in ("url", "ca_file")}, device="dev-9")
    text = path.read_text().replace("device: dev-9,", "device: dev-9, credentials: dev-9.json,")
    path.write_text(text)
    agent = site.agent(path)
    agent.wait_for_output("pansketch-collector enroll with --passwords, then reload the broker")


def quarantined(fleet):
    with reading(fleet.site.folder / "var/collector.sqlite") as reader:
        return sum(row.reason == "signature" for row in reader.in_quarantine(None, None))


def test_rotation_takes_the_old_password_away_and_the_new_file_goes_on(site, fleet):
    old = fleet.devices["dev-1"]
    new = fleet.enrolled("dev-1", "rotate", "-new")
    sender = Sender(site, "dev-1")
    # Its window was over long before.
    assert sender.answer(old.seal("air", fleet.release(1)))[0] == "stored"
    assert sender.answer(new.seal("air", fleet.release(2)))[0] == "stored"
    assert old.password != new.password
