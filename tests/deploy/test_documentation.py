"""The pages of devices and of the broker: their configurations load, their commands run."""

import re
import subprocess
from pathlib import Path

import pytest

from pansketch_fleet.config.loader import load_agent
from tests.waiting import SECONDS

REPOSITORY = Path(__file__).parents[2]
DEVICE, BROKER, CAUSES = (
    (REPOSITORY / f"docs/how-to/{page}.md").read_text()
    for page in ("deploy-a-device", "secure-the-broker", "troubleshoot")
)
STREAMS = """
streams:
  air:
    source: {type: stdin}
    window: 1h
    privacy: {epsilon: 1, unit: reading}
    attributes: {temp: {low: 0, high: 1}}
"""


@pytest.mark.parametrize("body", re.findall(r"```text\n(mqtt:.*?)```", DEVICE, re.S))
def test_configurations_load_with_the_files_in_their_places(body, tmp_path, ca):
    credentials = tmp_path / "credentials"
    credentials.mkdir()
    for source, name in (
        ("ca.crt", "ca.crt"),
        ("dev-1.crt", "device.crt"),
        ("dev-1.key", "device.key"),
    ):
        (credentials / name).write_bytes((ca / source).read_bytes())
    (credentials / "password").write_text("secret\n")
    body = body.replace("/etc/pansketch/ca.crt", str(credentials / "ca.crt"))
    if "agent:" not in body:
        body += 'agent: {device: "${DEVICE}"}\n'
    file = tmp_path / "config.yaml"
    file.write_text(f"fleet: greenhouse\n{body}{STREAMS}")
    variables = {"DEVICE": "bench-1", "CREDENTIALS_DIRECTORY": str(credentials)}
    config = load_agent(file, variables)
    assert config.mqtt.tls
    assert config.agent.require_locked_memory or "password" in body, "the service's configuration"
    assert (config.mqtt.cert_file is None) == (config.mqtt.password == "secret")


@pytest.mark.needs("openssl")
def test_the_broker_s_commands_make_and_revoke_certificates(tmp_path):
    """Every line with certificates.sh of the page, in order, in another folder."""
    lines = re.findall(r"^deploy/certificates.sh .*$", BROKER, re.M)
    assert len(lines) == 5
    for line in lines:
        command = line.partition("#")[0].replace("/root/fleet-ca", str(tmp_path / "ca"))
        subprocess.run(
            command.split(), cwd=REPOSITORY, check=True, timeout=SECONDS, capture_output=True
        )
    assert {"broker.crt", "bench-2.key", "ca.crl"} <= {
        path.name for path in (tmp_path / "ca").iterdir()
    }


def test_every_file_that_the_pages_name_is_there():
    for page in (DEVICE, BROKER):
        for name in re.findall(r"\bdeploy/[\w./-]*\w", page):
            assert (REPOSITORY / name).exists(), name


def test_what_the_pages_quote_is_what_the_programs_say():
    """The texts in the table of causes, piece by piece, against the source."""
    source = "".join(
        (REPOSITORY / name).read_text()
        for name in (
            "fleet/pansketch_fleet/mqtt/tls.py",
            "agent/pansketch_agent/diagnostics/broker_reachability.py",
            "agent/pansketch_agent/mqtt/client.py",
            "agent/pansketch_agent/mqtt/problem_log.py",
        )
    )
    rows = re.findall(
        r"^\| (?:DNS|TCP|TLS|credentials|access rules|MQTT) \| (.*?) \|", CAUSES, re.M
    )
    assert len(rows) >= 10
    for quoted in re.findall(r"`([^`]+)`", " ".join(rows)):
        pieces = re.split(
            r" ?(?:HOST:PORT|HOST|\(Not authorized\)|…|this host's certificate) ?", quoted
        )
        for piece in pieces:
            text = piece.removeprefix("the broker's certificate ").removeprefix("it ").strip()
            assert text in source, (quoted, text)
