"""Settings of a local topic: what is shown, refused and checked."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from paho.mqtt.client import Client
from paho.mqtt.enums import CallbackAPIVersion

from pansketch_agent.__main__ import main
from pansketch_agent.diagnostics.check import check
from pansketch_agent.host.clock import system_clock
from pansketch_fleet.config.loader import ConfigError, load_collector
from pansketch_fleet.sections.sources.mqtt_topic import is_topic_filter
from testbed.embedded_broker import free_port
from tests.agent.sources.local_topic import source


def test_without_a_url_it_is_this_hosts_broker_and_not_the_fleets(device):
    config = device.configure("mqtt://fleet.example:1884", source="{type: mqtt, topic: a}")
    broker = config.streams[0].source.broker
    assert (broker.host, broker.port, broker.username) == ("localhost", 1883, None)
    assert config.mqtt.host == "fleet.example"


def test_its_settings_are_shown_without_the_password(device, capsys):
    more = ", username: me, password: s3cret, paths: {temp: s.t}"
    config = device.configure(source=source("mqtt://hub:1884", more=more))
    assert "s3cret" not in repr(config)
    assert main(["print-config", "--config", str(device.config)]) == 0
    assert main(["validate", "--config", str(device.config)]) == 0
    out = capsys.readouterr().out
    for words in ("source.topic", "mqtt://hub:1884", "source.paths.temp", "source.password"):
        assert words in out
    assert "messages of home/air at hub:1884" in out
    assert "s3cret" not in out


def test_the_collector_needs_neither_its_files_nor_its_password(device):
    more = ', username: me, password: "${file:/no/such/file}", ca_file: no.pem'
    with pytest.raises(ConfigError, match=r"streams\.air\.source\."):
        device.configure(source=source("mqtts://hub", more=more))
    found = load_collector(device.config, {}).streams[0].source
    assert found.broker.tls
    assert found.broker.ca_file is None


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (", topik: x", "source.topik: unknown key; did you mean topic?"),
        (", password: x", "source.password: has no username beside it; add streams.air.source.us"),
        (", ca_file: x.pem", "source.ca_file: has no effect without TLS"),
        (", paths: {temp: .a}", "paths.temp: is no path"),
        (", paths: {hum: a}", "paths.hum: is not what this stream is about"),
    ],
)
def test_what_cannot_be_is_refused_where_it_stands(device, more, words):
    with pytest.raises(ConfigError) as refused:
        device.configure(source=source("mqtt://hub", more=more))
    assert words in str(refused.value)


@pytest.mark.parametrize("url", ["http://hub", "mqtt://me:s3cret@hub", "mqtt://", "mqtt://hub:0"])
def test_an_impossible_broker_is_refused_without_its_credentials(device, url):
    with pytest.raises(ConfigError, match=r"streams\.air\.source\.url") as refused:
        device.configure(source=source(url))
    assert "s3cret" not in str(refused.value)


@pytest.mark.parametrize("topic", ["", "a+/b", "#/a", "a#", "a/b+"])
def test_an_impossible_topic_is_refused(device, topic):
    with pytest.raises(ConfigError, match=r"source\.topic: .* is no topic; write one such as"):
        device.configure(source=source("mqtt://hub", topic))


@given(st.text(alphabet="ab/+#", max_size=6))
def test_a_topic_is_judged_as_the_client_does(topic):
    client = Client(CallbackAPIVersion.VERSION2)
    try:
        client.subscribe(topic)
        taken = True
    except ValueError:
        taken = False
    assert is_topic_filter(topic) == taken


def test_a_missing_file_for_tls_is_named(device):
    more = ", ca_file: config.yaml"
    config = device.configure(source=source("mqtts://hub", more=more))
    state, text = finding(config)
    assert state == "wrong"
    assert "streams.air.source.ca_file" in text


def test_check_states_whether_the_topics_broker_is_available(device, broker):
    config = device.configure(source=source(broker.url))
    assert finding(config) == ("ok", f"127.0.0.1:{broker.port} takes connections for home/air")
    port = free_port()
    state, text = finding(device.configure(source=source(f"mqtt://127.0.0.1:{port}")))
    assert state == "wrong"
    assert text.startswith(f"no connection to 127.0.0.1:{port} (Connection refused); start that")
    assert text.endswith("or correct streams.air.source.url")


def finding(config) -> tuple[str, str]:
    found = check(config, Path("/"), system_clock())
    (of_source,) = [each for each in found if each.subject == "source air"]
    return of_source.state, of_source.text
