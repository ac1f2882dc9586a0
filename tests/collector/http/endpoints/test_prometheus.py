"""A real Prometheus reads a real collector with the files of deploy/.

Each expression of the dashboard and of the alerts finds the metrics that it names.
"""

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

from pansketch_fleet.protocol import topics
from testbed.embedded_broker import EmbeddedBroker, free_port
from testbed.program import Program
from tests.waiting import SECONDS

DEPLOY = Path(__file__).parents[4] / "deploy"
DASHBOARD = json.loads((DEPLOY / "grafana/dashboard.json").read_text())
METRIC = re.compile(r"\b(?:pansketch_\w+|up)\b")
FILLED = {"$instance": ".*", "$__rate_interval": "1m"}
# Alerts that this fleet causes; none fires before its time. Its windows are of 1970.
PENDING = {"PansketchDevicesLag", "PansketchLag", "PansketchRefused", "PansketchSetAside"}


@dataclass
class Prometheus:
    """A process that listens on loopback, asked over its own interface."""

    folder: Path
    client: httpx.Client

    def ask(self, path: str, **parameters: str) -> object:
        answer = self.client.get(f"/api/v1/{path}", params=parameters).json()
        assert answer["status"] == "success", (parameters, answer)
        return answer["data"]

    def finds(self, expression: str) -> list[dict]:
        return self.ask("query", query=expression)["result"]

    def is_up(self) -> bool:
        try:
            return self.client.get("/-/ready").status_code == 200
        except httpx.TransportError:
            return False

    def has_target(self, health: str) -> bool:
        return [each["health"] for each in self.ask("targets")["activeTargets"]] == [health]

    @property
    def refusal(self) -> str:
        (target,) = self.ask("targets")["activeTargets"]
        return target["lastError"]

    @property
    def rules(self) -> list[dict]:
        (group,) = self.ask("rules")["groups"]
        return group["rules"]

    def give(self, token: str) -> None:
        (self.folder / "pansketch.token").write_text(f"{token}\n")


@contextmanager
def prometheus(folder: Path, collector: int) -> Iterator[Prometheus]:
    """The shipped configuration with another port and shorter intervals."""
    shutil.copytree(DEPLOY / "prometheus", folder)
    settings = folder / "prometheus.yml"
    text = settings.read_text().replace("127.0.0.1:8080", f"127.0.0.1:{collector}")
    settings.write_text(text.replace("_interval: 30s", "_interval: 1s"))
    address = f"127.0.0.1:{free_port()}"
    command = [
        "prometheus",
        f"--config.file={settings}",
        f"--storage.tsdb.path={folder / 'data'}",
        f"--web.listen-address={address}",
    ]
    program = Program(command, folder / "log", folder=folder, environment={"GOMAXPROCS": "1"})
    try:
        # Without TLS there are no certificates to read.
        with httpx.Client(base_url=f"http://{address}", timeout=SECONDS, verify=False) as client:
            yield Prometheus(folder, client)
    finally:
        program.close()


def expressions() -> dict[str, str]:
    """The expressions of the dashboard, by panel, with their variables filled in."""
    asked = {
        f"{panel['title']} {target['refId']}": target["expr"]
        for panel in DASHBOARD["panels"]
        for target in panel.get("targets", ())
    }
    for variable, text in FILLED.items():
        asked = {place: each.replace(variable, text) for place, each in asked.items()}
    return asked


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker() as running:
        yield running


@pytest.mark.needs("prometheus")
def test_every_question_and_every_alert_finds_its_metrics(
    broker, make_site, serve, until, connect, token, tmp_path
):
    site = make_site(url=broker.url, collector=f"token: {token}")
    site.fill()
    bad = topics.release("testing", "one", "air")
    with (
        serve(site) as server,
        prometheus(tmp_path / "prometheus", site.port) as found,
        connect(broker.port, "testing", "one") as peer,
    ):
        found.give("another-token-of-theirs")
        until(found.is_up)
        until(lambda: found.has_target("down"))
        assert "401" in found.refusal
        found.give(token)
        until(lambda: found.has_target("up"))
        assert peer.exchange(bad, b"no release").status == "refused"
        refused = 'increase(pansketch_refused_total{reason="size"}[1h]) > 0'
        until(lambda: found.finds(refused) and found.finds("pansketch_broker_connected == 1"))
        with server.client(headers={"Authorization": f"Bearer {token}"}) as client:
            exposed = client.get("/metrics").text
        exported = {*re.findall(r"^# TYPE (\w+)", exposed, re.M), "up"}

        for place, expression in expressions().items():
            assert set(METRIC.findall(expression)) <= exported, place
            assert found.finds(expression), place
        assert found.finds("pansketch_no_such_metric") == []
        assert found.ask("label/instance/values", **{"match[]": "pansketch_info"}) == [
            f"127.0.0.1:{site.port}"
        ]
        (annotation,) = DASHBOARD["annotations"]["list"]
        assert found.finds(annotation["expr"]) == []

        until(lambda: {each["name"] for each in found.rules if each["alerts"]} >= PENDING)
        for rule in found.rules:
            assert set(METRIC.findall(rule["query"])) <= exported, rule["name"]
            assert (rule["health"], rule.get("lastError", "")) == ("ok", ""), rule["name"]
        states = {rule["name"]: rule["state"] for rule in found.rules}
        assert {name for name, state in states.items() if state != "inactive"} == PENDING
        assert set(states.values()) == {"inactive", "pending"}
        (aside,) = (rule for rule in found.rules if rule["name"] == "PansketchSetAside")
        summary = aside["alerts"][0]["annotations"]["summary"]
        assert summary == "dead-lettered files on devices: 1"


def test_the_documentation_names_metrics_that_there_are(get):
    page = (DEPLOY.parent / "docs/reference/http-api.md").read_text()
    exported = set(re.findall(r"^# TYPE (\w+)", get("/metrics").text, re.M))
    named = set(re.findall(r"`(pansketch_\w+)", page))
    assert len(named) > 5
    assert named <= exported


def test_every_reason_for_a_refusal_is_counted_from_0_on(get):
    """Without it the first refusal of its kind is no increase. Reasons: as the source has them."""
    source = "".join(
        (DEPLOY.parent / file).read_text()
        for file in (
            *(
                "collector/pansketch_collector/validation/validation.py",
                "collector/pansketch_collector/validation/decision.py",
                "collector/pansketch_collector/validation/accepted_specs.py",
                "collector/pansketch_collector/validation/keeper_messages.py",
                "collector/pansketch_collector/validation/signatures.py",
                "collector/pansketch_collector/validation/window_labels.py",
            ),
            "pansketch/wire/codec.py",
        )
    )
    raised = (
        r'(?:Rejected|_?MismatchError|ImplausibleError|WireError)\(\s*"(\w+)"'
        r'|reject\(\w[\w.]*, "(\w+)"'
    )
    reasons = {first or second for first, second in re.findall(raised, source)}
    assert {"topic", "checksum", "equivocation", "identity", "devices"} <= reasons
    shown = re.findall(
        r'^pansketch_refused_total{reason="(\w+)"} (\d+)$', get("/metrics").text, re.M
    )
    assert {reason for reason, _ in shown} == reasons
    assert dict(shown)["topic"] == "2"


@pytest.mark.needs("prometheus")
def test_promtool_finds_no_fault_in_the_metrics(get):
    done = subprocess.run(
        ["promtool", "check", "metrics"],
        input=get("/metrics").text,
        capture_output=True,
        text=True,
        timeout=SECONDS,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
