"""Wrong passwords, certificates, names and ports: one line with the error and the remedy.

Each fault is met twice: by the running agent, and by `pansketch-agent check`, which names the step.
"""

import json
import os
import shutil
import socket
import subprocess
from pathlib import Path

import pytest

from pansketch_agent.__main__ import main
from pansketch_agent.diagnostics.broker_reachability import check_broker
from pansketch_agent.host.clock import system_clock
from pansketch_fleet.config.loader import ConfigError, load_agent
from tests.waiting import SECONDS

pytestmark = pytest.mark.needs("mosquitto")

CLOCK = "or set this host's clock"
OWN = "this host's certificate (mqtt.cert_file)"

# name: (certificate of the broker, keys of mqtt:, step, text of the line)
FAULTS = {
    "an unknown CA": (
        "broker",
        lambda site, foreign: site.certified("dev-1", ca_file=f"{foreign}/ca.crt"),
        "TLS",
        "the broker's certificate is of no CA that this host trusts; name the CA's certificate as "
        "mqtt.ca_file",
    ),
    "no CA of one's own": (
        "broker",
        lambda site, foreign: site.certified("dev-1", ca_file=""),
        "TLS",
        "the broker's certificate is of no CA that this host trusts; name the CA's",
    ),
    "a broker that has expired": (
        "broker-expired",
        lambda site, foreign: site.certified("dev-1"),
        "TLS",
        f"the broker's certificate has expired; make the broker a new one, {CLOCK}",
    ),
    "a broker that is not valid yet": (
        "broker-tomorrow",
        lambda site, foreign: site.certified("dev-1"),
        "TLS",
        f"the broker's certificate is not valid yet; wait for its first day, {CLOCK}",
    ),
    "a broker by another name": (
        "broker-elsewhere",
        lambda site, foreign: site.certified("dev-1"),
        "TLS",
        "the broker's certificate is not for 127.0.0.1; write a name that it has in mqtt.url, or",
    ),
    "a device that plays the broker": (
        "dev-2",
        lambda site, foreign: site.certified("dev-1"),
        "TLS",
        "the broker's certificate is not one for a server; make the broker one of its own",
    ),
    "no certificate": (
        "broker",
        lambda site, foreign: site.certified("dev-1", cert_file="", key_file=""),
        "TLS",
        "it requires a certificate; set mqtt.cert_file and mqtt.key_file",
    ),
    "an own certificate that has expired": (
        "broker",
        lambda site, foreign: site.certified("dev-expired"),
        "TLS",
        f"it reports that {OWN} has expired; make a new one, {CLOCK}",
    ),
    "an own certificate that is revoked": (
        "broker",
        lambda site, foreign: site.certified("dev-revoked"),
        "TLS",
        f"it reports that {OWN} is revoked; make a new one",
    ),
    "an own certificate of another CA": (
        "broker",
        lambda site, foreign: site.certified(
            "dev-1", cert_file=f"{foreign}/dev-1.crt", key_file=f"{foreign}/dev-1.key"
        ),
        "TLS",
        f"it does not trust the CA of {OWN}; have it signed by the broker's CA",
    ),
    "a server's certificate for a device": (
        "broker",
        lambda site, foreign: site.certified("broker"),
        "TLS",
        f"it reports that {OWN} is not one for a client; make a new one",
    ),
    "a wrong password": (
        "broker",
        lambda site, foreign: site.with_password("dev-1", password="guessed"),
        "credentials",
        "it refuses this device (Not authorized); check mqtt.username and mqtt.password",
    ),
    "no password": (
        "broker",
        lambda site, foreign: site.with_password("dev-1", username="", password=""),
        "credentials",
        "it refuses this device (Not authorized); set mqtt.username and mqtt.password",
    ),
    "a certificate at the port for passwords": (
        "broker",
        lambda site, foreign: site.certified(
            "dev-1", url=f"mqtts://127.0.0.1:{site.ports['8884']}"
        ),
        "credentials",
        "it refuses this device (Not authorized); correct the port in mqtt.url to one for "
        "certificates, or set mqtt.username and mqtt.password",
    ),
    "plain MQTT to a port for TLS": (
        "broker",
        lambda site, foreign: {"url": f"mqtt://127.0.0.1:{site.ports['8884']}"},
        "MQTT",
        "for a port with TLS write mqtts://",
    ),
    "TLS to a port without": (
        "broker",
        lambda site, foreign: site.certified(
            "dev-1", url=f"mqtts://127.0.0.1:{site.ports['1883']}"
        ),
        "TLS",
        "it offers no TLS on that port; correct the port in mqtt.url, or write mqtt://",
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_named_by_the_agent_and_by_its_check(site, foreign_ca, fault):
    broker, mqtt, step, text = FAULTS[fault]
    site.install_broker(optional=True, broker=broker)
    site.start_broker()
    path = site.configure(mqtt(site, foreign_ca), source="{type: stdin}")
    agent = site.agent(path)
    config = load_agent(path, os.environ)
    found = check_broker(config.mqtt, site.fleet, "dev-1", system_clock())
    assert (found.state, found.text.partition(":")[0]) == ("wrong", step)
    assert text in found.text
    place = f"rejected by the broker at {config.mqtt.host}:{config.mqtt.port}: "
    agent.wait_for_output(text)
    lines = [line for line in agent.output.splitlines() if place in line]
    assert len(lines) == 1, agent.output
    assert lines[0].endswith("; retrying")
    assert "Traceback" not in agent.output
    assert not agent.ended(), "it tries on"


@pytest.mark.parametrize(
    ("fault", "text"),
    [
        ("an unknown CA", "is of no use: the broker's certificate is of no CA"),
        ("an own certificate of another CA", "closed the connection: it does not trust the CA of"),
        ("a wrong password", "check mqtt.username and mqtt.password"),
        ("a certificate at the port for passwords", "correct the port in mqtt.url to one for"),
    ],
)
def test_the_collector_names_it_too(site, foreign_ca, fault, text):
    broker, mqtt, _, _ = FAULTS[fault]
    site.install_broker(optional=True, broker=broker)
    site.start_broker()
    collector = site.collector(site.configure(mqtt(site, foreign_ca)))
    collector.wait_for_output(text)
    assert collector.output.count("retrying with exponential backoff") == 1
    assert not collector.ended(), "it tries on"


def test_a_fault_that_is_mended_needs_no_restart_and_is_news_again(site):
    site.install_broker(broker="broker-expired")
    broker = site.start_broker()
    agent = site.agent(site.configure(site.certified("dev-1"), source="{type: stdin}"))
    agent.wait_for_output("has expired")
    for ending in ("crt", "key"):
        shutil.copy(site.ca / f"broker.{ending}", site.folder / f"broker.{ending}")
    assert broker.stop() == 0
    site.start_broker()
    agent.wait_until_connected()
    assert agent.output.count("has expired") == 1
    assert agent.stop() == 0


def test_what_check_prints_is_one_line_with_exit_code_1(site):
    site.install_broker(optional=True)
    site.start_broker()
    mqtt = site.with_password("dev-1", password="guessed")
    check = site.agent(site.configure(mqtt), "check", "--json")
    assert check.wait() == 1
    (broker,) = [each for each in json.loads(check.output) if each["subject"] == "broker"]
    assert broker["text"].startswith("credentials: 127.0.0.1:")
    assert "guessed" not in check.output
    check = site.agent(site.configure(site.with_password("dev-1")), "check", "--json")
    assert check.wait() == 0
    (broker,) = [each for each in json.loads(check.output) if each["subject"] == "broker"]
    assert " accepts the device over TLS, MQTT 5" in broker["text"]


def test_a_server_that_takes_the_connection_and_is_silent_in_the_handshake(site, monkeypatch):
    monkeypatch.setattr("pansketch_agent.diagnostics.broker_reachability.MAX_SECONDS", 0.5)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"mqtts://127.0.0.1:{silent.getsockname()[1]}"
        config = load_agent(site.configure(site.certified("dev-1", url=url)), {})
        found = check_broker(config.mqtt, site.fleet, "dev-1", system_clock())
    assert found.state == "wrong"
    assert found.text.startswith("TLS: ")
    assert "does not answer" in found.text


BROKEN = {
    "a CA that is none": ("ca_file", "rows.csv", "is no PEM certificate"),
    "a CA that is empty": ("ca_file", "empty", "is no PEM certificate"),
    "a key of another": ("key_file", "dev-2.key", "is not the key of"),
    "a key that is none": ("key_file", "rows.csv", "is no plain PEM file; name a key without"),
    "no file for the service": ("key_file", "stand-in", "stands for a missing file; put stand-in"),
    "a certificate that is none": ("cert_file", "rows.csv", "is no plain PEM file"),
    "a key with a passphrase": ("key_file", "locked.key", "name a key without passphrase"),
}


@pytest.fixture
def files(site) -> Path:
    for name in ("dev-1.crt", "dev-1.key", "dev-2.key", "ca.crt"):
        shutil.copy(site.ca / name, site.folder / name)
    (site.folder / "empty").write_text("")
    (site.folder / "stand-in").write_text("none")
    words = "openssl pkey -in dev-1.key -aes256 -passout pass:secret -out locked.key"
    subprocess.run(words.split(), cwd=site.folder, check=True, timeout=SECONDS)
    return site.folder


@pytest.mark.parametrize("fault", BROKEN)
def test_a_file_that_cannot_be_used_is_refused_at_once_with_its_line(site, files, fault, capsys):
    key, name, text = BROKEN[fault]
    path = site.configure(site.certified("dev-1", **{key: f"{files}/{name}"}))
    assert main(["run", "--config", str(path)]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    place = "key_file" if key == "cert_file" else key
    assert f"{path}:2: mqtt.{place}: " in line
    assert text in line
    assert not (site.folder / "var/dev-1").exists(), "refused before anything was begun"


def test_the_collector_refuses_such_a_file_too(site, files):
    mqtt = site.certified("collector", ca_file=f"{files}/rows.csv")
    collector = site.collector(site.configure(mqtt))
    assert collector.wait() == 2, collector.output
    (line,) = collector.output.splitlines()
    assert "mqtt.ca_file" in line
    assert "is no PEM certificate; name the one of the broker's CA" in line


def test_print_config_shows_where_certificate_and_key_are(site, capsys):
    path = site.configure(site.certified("dev-1"))
    assert main(["print-config", "--config", str(path)]) == 0
    shown = {line.split()[0]: line.split()[1] for line in capsys.readouterr().out.splitlines()}
    assert shown["mqtt.cert_file"] == str(site.ca / "dev-1.crt")
    assert shown["mqtt.key_file"] == str(site.ca / "dev-1.key")


WRONG = [
    ({"cert_file": "dev-1.crt"}, "mqtt.cert_file: has no key_file beside it; add mqtt.key_file"),
    ({"key_file": "dev-1.key"}, "mqtt.key_file: has no cert_file beside it; add mqtt.cert_file"),
    ({"cert_file": "no.crt", "key_file": "dev-1.key"}, "mqtt.cert_file: there is no file"),
    ({"cert_file": "dev-1.crt", "key_file": "no.key"}, "put the key of its certificate there"),
    ({"url": "mqtt://b", "cert_file": "dev-1.crt", "key_file": "dev-1.key"}, "no effect without"),
]


@pytest.mark.parametrize(("keys", "text"), WRONG)
def test_wrong_keys_of_the_configuration(site, files, keys, text):
    with pytest.raises(ConfigError) as found:
        load_agent(site.configure({"url": "mqtts://b", **keys}), {})
    assert text in str(found.value)
