"""A reference is an error only for a program that uses its value, and a secret is only there."""

import pytest

from pansketch_fleet.config.loader import ConfigError, describe, load_reader
from tests.configurations import LOADERS
from tests.fleet.conftest import VALID, assert_refused

# No reference of these is set.
BROKER = (
    ' mqtt://broker.example:1884\n  username: "${WHO}"',
    ' "mqtts://${BROKER}"\n  username: "${WHO}"\n  password: "${file:none/password}"\n'
    "  ca_file: none/ca.pem\n  protocol: ${VERSION}",
)
SOURCE = (
    "      type: replay\n      path: air.csv",
    '      {type: mqtt, topic: "${TOPIC}", url: "mqtt://${LOCAL}", username: me,'
    ' password: "${file:none/local}", ca_file: "${CA}", paths: {temp: "${A}.b"}}',
)
COLLECTOR = (
    "database: kept/releases.sqlite",
    'database: "${VAR}/fleet.sqlite"\n  http: "127.0.0.1:${PORT}"\n  token: "${file:none/token}"\n'
    "  public: ${PUBLIC}",
)
AGENT = (
    "device: post-7\n  profile: pi-zero-2w",
    'device: "${DEVICE}"\n  profile: "${PROFILE}"\n  require_locked_memory: ${LOCKED}',
)


def text(*changes: tuple[str, str]) -> str:
    found = VALID.replace("broker.example:1884", 'broker.example:1884\n  username: "${WHO}"')
    for old, new in changes:
        assert found.count(old) == 1
        found = found.replace(old, new)
    return found


def test_a_reader_of_the_database_needs_neither_broker_nor_device_nor_token(load_text):
    token = ("kept/releases.sqlite", 'a.sqlite\n  http: ":1"\n  token: "${file:none/token}"')
    changes = BROKER, SOURCE, AGENT, (token[0], token[1].replace(":1", "127.0.0.1:80"))
    config = load_text(text(*changes), "reader")
    assert not hasattr(config, "mqtt")
    assert [stream.name for stream in config.streams] == ["air"]
    assert config.collector.http is not None
    assert "mqtt.url" not in [each.path for each in describe(config)]


@pytest.mark.parametrize("program", ["agent", "collector"])
def test_who_connects_needs_the_broker_s_references(load_text, program):
    with pytest.raises(ConfigError) as refused:
        load_text(text(BROKER), program)
    says = "the environment variable BROKER is not set, or empty; set BROKER, or write"
    assert_refused(refused.value, 3, "mqtt.url", says)


def test_all_missing_references_are_one_error(load_text):
    with pytest.raises(ConfigError) as refused:
        load_text(text(BROKER, AGENT), "agent")
    rest = "mqtt.username (line 4), mqtt.password (line 5), mqtt.protocol (line 7), agent.device"
    assert f"the same is wrong with {rest} (line 9), agent.profile" in str(refused.value)


def test_the_collector_needs_nothing_of_a_device(load_text):
    config = load_text(text(SOURCE, AGENT), "collector", {"WHO": "me"})
    assert (config.profile.name, config.mqtt.username) == ("generic-linux", "me")
    sensors = 'source: {type: hwmon, sensors: {temp: "${CHIP}/temp1"}, interval: 5s}'
    changed = VALID.replace("source:\n      type: replay\n      path: air.csv", sensors)
    changed = changed.replace("[[pm25, temp]]", "[[temp]]")
    changed = changed.replace("      pm25: {low: 0, high: 1000, scale: log}\n", "")
    changed = changed.replace("      wind:\n        categories: [N, NO, E, off]\n", "")
    (stream,) = load_text(changed, "collector").streams
    assert stream.source.interval_seconds == 5.0


def test_an_interval_is_used_by_every_program(load_text):
    """It bounds the readings of a window, so the collector has to know it."""
    source = (
        "      type: replay\n      path: air.csv",
        '      {type: system, interval: "${EVERY}"}',
    )
    for program in LOADERS:
        with pytest.raises(ConfigError, match=r"streams.air.source.interval: .* EVERY is not set"):
            load_text(text(source), program, {"WHO": "me"})


def test_the_agent_needs_nothing_of_the_collector(load_text):
    assert load_text(text(COLLECTOR), "agent", {"WHO": "me"}).collector.http is None
    for program in ("collector", "reader"):
        with pytest.raises(ConfigError, match=r"collector.database: .* VAR is not set"):
            load_text(text(COLLECTOR), program, {"WHO": "me"})


def test_the_agent_still_refuses_a_mistake_of_the_collector_s_section(load_text):
    wrong = ("database: kept/releases.sqlite", "http: nonsense")
    with pytest.raises(ConfigError, match=r"collector.http: 'nonsense' is no address"):
        load_text(text(wrong), "agent", {"WHO": "me"})


def test_a_secret_is_read_only_by_the_program_that_uses_it(load_text, tmp_path):
    """The files exist: a program that read one of them would have its text."""
    (tmp_path / "none").mkdir()
    secrets = {name: f"the-secret-of-{name}" for name in ("password", "local", "token")}
    for name, secret in secrets.items():
        (tmp_path / "none" / name).write_text(secret)
    whole = text(
        ('username: "${WHO}"', 'username: me\n  password: "${file:none/password}"'),
        (SOURCE[0], '      {type: mqtt, topic: a, username: me, password: "${file:none/local}"}'),
        (COLLECTOR[0], 'http: "127.0.0.1:80"\n  token: "${file:none/token}"'),
    )
    uses = {"agent": {"password", "local"}, "collector": {"password", "token"}, "reader": set()}
    for program, wanted in uses.items():
        held = str(load_text(whole, program).document.value)
        assert {name for name, secret in secrets.items() if secret in held} == wanted
    held = str(load_reader(tmp_path / "config.yaml", {}, serves_http=True).document.value)
    assert {name for name, secret in secrets.items() if secret in held} == {"token"}


def test_what_the_service_has_for_a_missing_secret_is_named_so(load_text, valid, tmp_path):
    """The units write `none` where /etc/pansketch/credentials lacks a file."""
    (tmp_path / "password").write_text("none")
    url = "  url: mqtt://broker.example:1884\n"
    more = f'  username: me\n  password: "${{file:{tmp_path}/password}}"\n'
    with pytest.raises(ConfigError, match="put password into /etc/pansketch/credentials"):
        load_text(valid.replace(url, url + more))
    (tmp_path / "password").write_text("none at all")
    assert load_text(valid.replace(url, url + more)).mqtt.password == "none at all"
