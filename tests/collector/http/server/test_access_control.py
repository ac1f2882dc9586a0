"""`collector.http` and its companions in the configuration: what is refused, and what is hidden."""

import pytest

from pansketch_fleet.config.loader import ConfigError, describe
from tests.configurations import LOADERS

CONFIG = """\
fleet: meadow
mqtt: {url: "mqtt://localhost"}
agent: {device: post-7}
streams:
  air:
    source: {type: stdin}
    window: 1h
    privacy: {epsilon: 1}
    attributes: {temp: {low: 0, high: 1}}
collector:
"""
TOKEN = "correct-horse-battery"


@pytest.fixture
def read(tmp_path):
    def load_it(*lines, program="collector"):
        path = tmp_path / "config.yaml"
        path.write_text(CONFIG + "".join(f"  {line}\n" for line in lines))
        return LOADERS[program](path, {})

    return load_it


@pytest.mark.parametrize(
    ("address", "host", "port", "loopback"),
    [
        ("127.0.0.1:8080", "127.0.0.1", 8080, True),
        ("localhost:80", "127.0.0.1", 80, True),
        ("'[::1]:8080'", "::1", 8080, True),
        ("127.8.9.1:65535", "127.8.9.1", 65535, True),
    ],
)
def test_addresses_of_loopback_need_nothing_else(read, address, host, port, loopback):
    http = read(f"http: {address}").collector.http
    assert (http.host, http.port, http.loopback, http.closed) == (host, port, loopback, False)


def test_without_an_address_there_is_no_server(read):
    assert read("database: a.sqlite").collector.http is None


@pytest.mark.parametrize(
    ("lines", "says"),
    [
        (["http: 0.0.0.0:8080"], "add collector.token, or collector.public: true"),
        (["http: '[::]:8080'"], "add collector.token"),
        (["http: 192.168.1.5:8080", "public: false"], "add collector.token"),
        (["http: 8080"], "no address"),
        (["http: example.org:8080"], "no address"),
        (["http: 127.0.0.1"], "no address"),
        (["http: 127.0.0.1:0"], "no address"),
        (["http: 127.0.0.1:65536"], "no address"),
        (["http: 999.0.0.1:80"], "no address"),
        (["http: http://127.0.0.1:80"], "no address"),
        (["http: 127.0.0.1:80", "token: short"], "at least 16"),
        (["http: 127.0.0.1:80", "token: 'correct horse battery'"], "without spaces"),
        (["http: 127.0.0.1:80", "hosts: ['a b']"], "no host name"),
        (["token: " + TOKEN], "collector.token: has no effect without an address"),
        (["public: true"], "collector.public: has no effect"),
        (["hosts: [a.example]"], "collector.hosts: has no effect"),
        (["http: 127.0.0.1:80", "tokn: x"], "did you mean token"),
    ],
)
def test_contradictory_settings_are_rejected_with_a_single_line(read, lines, says):
    with pytest.raises(ConfigError, match=r"config\.yaml:\d+: collector") as refusal:
        read(*lines)
    assert says in str(refusal.value)
    assert "\n" not in str(refusal.value)


def test_a_token_is_in_no_text(read):
    config = read("http: 0.0.0.0:8080", f"token: {TOKEN}")
    assert config.collector.http.token == TOKEN
    assert config.collector.http.closed
    assert TOKEN not in repr(config)
    assert all(TOKEN not in setting.value_text for setting in describe(config))
    shown = {setting.path: setting.value_text for setting in describe(config)}
    assert shown["collector.http"] == "0.0.0.0:8080"
    assert (shown["collector.token"], shown["collector.public"]) == ("***", "false")
    with pytest.raises(ConfigError) as refusal:
        read("http: 0.0.0.0:99999", f"token: {TOKEN}")
    assert TOKEN not in str(refusal.value)


def test_a_device_needs_no_file_with_the_token(read, tmp_path):
    lines = ["http: 0.0.0.0:8080", "token: '${file:only-there}'"]
    assert read(*lines, program="agent").collector.http.token is None
    with pytest.raises(ConfigError, match="there is no file"):
        read(*lines)
    (tmp_path / "only-there").write_text(TOKEN + "\n")
    assert read(*lines).collector.http.token == TOKEN


def test_the_record_of_the_audit_is_a_file_beside_the_configuration(read, tmp_path):
    config = read("http: 127.0.0.1:8080", "audit: var/audit.json")
    assert config.collector.audit == tmp_path / "var" / "audit.json"
    shown = {setting.path: setting.value_text for setting in describe(config)}
    assert shown["collector.audit"] == str(tmp_path / "var" / "audit.json")
    config = read("http: 127.0.0.1:8080")
    assert config.collector.audit is None
    shown = {setting.path: setting.value_text for setting in describe(config)}
    assert shown["collector.audit"] == "none"


@pytest.mark.parametrize(
    ("lines", "says"),
    [
        (["audit: a.json"], "collector.audit: has no effect without an address"),
        (["http: 127.0.0.1:80", "audit: [a.json]"], "collector.audit"),
        (
            ["http: 127.0.0.1:80", "audits: a.json"],
            "collector.audits: unknown key; did you mean audit?",
        ),
    ],
)
def test_the_key_of_the_audit_is_as_strict_as_the_others(read, lines, says):
    with pytest.raises(ConfigError) as refusal:
        read(*lines)
    assert says in str(refusal.value)
    assert "\n" not in str(refusal.value)
