"""deploy/prometheus, judged by Prometheus' own tool: what is valid, what fires, what does not."""

import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from tests.packages import needs
from tests.waiting import SECONDS

SHIPPED = Path(__file__).parents[3] / "deploy/prometheus"
SEVERITIES = {"critical", "warning", "info"}
FAILED = re.compile(r"^ *expr: .*\n *exp:(.*)\n *got:(.*)$", re.M)
ALERT = re.compile(r'alertname="(\w+)"')


@pytest.fixture
@needs("prometheus")
def promtool() -> Callable[..., subprocess.CompletedProcess[str]]:
    return lambda *words: subprocess.run(
        ["promtool", *map(str, words)], capture_output=True, text=True, timeout=SECONDS
    )


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """The shipped files with a token beside them, as in /etc/prometheus."""
    folder = Path(shutil.copytree(SHIPPED, tmp_path / "prometheus"))
    (folder / "pansketch.token").write_text("correct-horse-battery\n")
    return folder


def rules(folder: Path) -> list[dict]:
    (group,) = yaml.safe_load((folder / "alerts.yml").read_text())["groups"]
    return group["rules"]


def change(folder: Path, **keys: str) -> None:
    """Sets these keys of every rule."""
    changed = [
        rule | {key.strip("_"): text for key, text in keys.items()} for rule in rules(folder)
    ]
    groups = {"groups": [{"name": "changed", "rules": changed}]}
    (folder / "alerts.yml").write_text(yaml.safe_dump(groups))


def test_the_configuration_is_valid(promtool, installed):
    done = promtool("check", "config", installed / "prometheus.yml")
    assert done.returncode == 0, done.stderr
    assert f"{len(rules(installed))} rules found" in done.stdout


def test_without_its_token_the_configuration_is_refused(promtool, installed):
    (installed / "pansketch.token").unlink()
    done = promtool("check", "config", installed / "prometheus.yml")
    assert done.returncode != 0
    assert "pansketch.token" in done.stderr


def test_every_alert_waits_has_a_severity_and_says_what_to_do():
    names = [rule["alert"] for rule in rules(SHIPPED)]
    assert len(set(names)) == len(names)
    for rule in rules(SHIPPED):
        assert rule["alert"].startswith("Pansketch")
        assert re.fullmatch(r"[1-9]\d*[mh]", rule["for"]), rule["alert"]
        assert rule["labels"]["severity"] in SEVERITIES
        assert set(rule["annotations"]) == {"summary", "description"}
        assert "\n" not in rule["annotations"]["summary"]


def test_the_page_lists_every_alert_as_it_is():
    page = (SHIPPED.parents[1] / "docs/how-to/monitor.md").read_text()
    listed = re.findall(r"^\| `(Pansketch\w+)` \| .+ \| (\w+) \| (\w+) \|$", page, re.M)
    assert listed == [
        (rule["alert"], rule["for"], rule["labels"]["severity"]) for rule in rules(SHIPPED)
    ]


def test_alerts_fire_when_they_should_and_only_then(promtool, installed):
    done = promtool("test", "rules", installed / "alerts_test.yml")
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("change_to", "side"),
    [
        ({"expr": "vector(0) > 0"}, "expected"),  # never
        ({"expr": "vector(1)"}, "got"),  # always
        ({"for_": "0s"}, "got"),  # at once
    ],
    ids=["never", "always", "at once"],
)
def test_the_test_of_the_alerts_sees_each_of_them_broken(promtool, installed, change_to, side):
    """Of each alert some expectation fails: a missing one, or one too many."""
    change(installed, **change_to)
    done = promtool("test", "rules", installed / "alerts_test.yml")
    assert done.returncode != 0
    failures = FAILED.findall(done.stdout + done.stderr)
    unmet = {
        name
        for expected, got in failures
        for name in set(ALERT.findall(expected)) ^ set(ALERT.findall(got))
        if name in (expected if side == "expected" else got)
    }
    assert unmet == {rule["alert"] for rule in rules(SHIPPED)}
