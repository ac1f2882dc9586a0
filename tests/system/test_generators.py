"""Readings go into sketches of cells and of moments on devices of several classes, and the
collector answers from both."""

import csv
import io
import json

import numpy as np
import pytest

NEW_YEAR = 1704067200
HOURS = 3
EACH = 800  # readings of a device in an hour
HEAD = """\
fleet: home
mqtt: {{url: "mqtt://127.0.0.1:{port}"}}
agent: {{device: {device}, state: var/agent/{device}, profile: {profile}}}
collector: {{database: var/collector.sqlite}}
streams:
"""
STREAM = """\
  {name}:
    source: {{type: replay, path: {device}.csv}}
    window: 1h
    privacy: {{epsilon: 100}}
    attributes:
      temp: {{low: -40, high: 60, unit: degC}}
      humid: {{low: 0, high: 100}}
    sketches: [{{type: {kind}}}]
"""
KINDS = {"heavy": "cells", "sums": "moments"}
DEVICES = {
    "dev-1": ("generic-linux", ("heavy", "sums")),
    "dev-2": ("pi-zero-w", ("heavy",)),
    "dev-3": ("pi-5", ("sums",)),
}


def weather(seed):
    """Readings (temp, humid) of all hours of a device; the damper the colder."""
    rng = np.random.default_rng(seed)
    first, second = rng.normal(size=(2, HOURS * EACH))
    temp, humid = 15 + 8 * first, 50 + 12 * (0.8 * second - 0.6 * first)
    return np.clip(np.column_stack([temp, humid]), 0, 60)


READINGS = {device: weather(seed) for seed, device in enumerate(DEVICES)}


def configure(fleet, device):
    profile, streams = DEVICES[device]
    text = HEAD.format(port=fleet.port, device=device, profile=profile)
    for name in streams:
        text += STREAM.format(name=name, device=device, kind=KINDS[name])
    (fleet.folder / f"{device}.yaml").write_text(text)
    lines = ["time,temp,humid"]
    for place, (temp, humid) in enumerate(READINGS[device]):
        at = NEW_YEAR + 3600 * (place // EACH) + 600 + place % EACH
        lines.append(f"{at},{temp:.3f},{humid:.3f}")
    (fleet.folder / f"{device}.csv").write_text("\n".join([*lines, ""]))


@pytest.fixture
def settled(fleet):
    """A fleet whose devices have replayed everything."""
    for device in DEVICES:
        configure(fleet, device)
    fleet.start_broker()
    collector = fleet.collector()
    agents = [fleet.agent(device) for device in DEVICES]
    assert [agent.wait() for agent in agents] == [0, 0, 0]
    assert collector.stop() == 0
    return fleet


def test_cells_and_moments_from_devices_to_answers(settled):
    """At epsilon 100 noise moves the answers by less than a tenth of the limits."""
    fleet = settled
    assert fleet.quarantine() == []
    found = fleet.rows(
        "SELECT stream, count(*), count(DISTINCT fingerprint), count(DISTINCT device)"
        " FROM releases GROUP BY stream ORDER BY stream"
    )
    assert found == [("heavy", 2 * HOURS, 1, 2), ("sums", 2 * HOURS, 1, 2)]

    def asked(stream, *words):
        points = ["--points", "5000"] if stream == "sums" else []
        answer = json.loads(fleet.ask("query", "--stream", stream, *points, *words, "--json"))
        assert (answer["releases"], answer["devices"]) == (2 * HOURS, 2)
        return answer

    for stream, generator, others in (
        ("heavy", "density", ("dev-1", "dev-2")),
        ("sums", "m2m", ("dev-1", "dev-3")),
    ):
        truth = np.concatenate([READINGS[device] for device in others])
        temp, humid = truth.T
        mean = asked(stream, "mean", "temp")
        assert mean["generator"] == generator
        assert abs(mean["value"] - temp.mean()) < 0.5
        warm = asked(stream, "count", "temp>20 & humid<50")
        assert abs(warm["share"] - np.mean((temp > 20) & (humid < 50))) < 0.1
        assert abs(warm["value"] - warm["share"] * len(truth)) < 0.01 * len(truth)
        covariance = asked(stream, "covariance")
        expected = np.cov(temp, humid, bias=True)
        assert abs(covariance["value"][0][1] - expected[0, 1]) < 20
        assert covariance["value"][0][1] < 0
        words = ["sample", "--stream", stream, "--rows", "200", "--out", "-"]
        header, *rows = csv.reader(io.StringIO(fleet.ask(*words)))
        assert (header, len(rows)) == (["temp", "humid"], 200)
    median = asked("heavy", "quantile", "temp", "0.5")
    assert abs(median["value"] - 15) < 2
    table = fleet.ask("query", "--stream", "heavy", "covariance")
    assert table.startswith("covariance")
    assert "6 releases of 2 devices, epsilon 100 per reading (silent)" in table.splitlines()[-1]
