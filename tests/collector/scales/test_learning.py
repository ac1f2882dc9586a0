"""`scales`: knots that a configuration takes, and that make the next window sharper."""

import json

import numpy as np
import pytest
import yaml

from pansketch_collector.validation.verdicts import Accepted
from tests.collector.small_fleet import ENTROPY
from tests.seeded_noise import seeded_noise

STREAM = """
  loose:
    source: {type: system, interval: 10s}
    window: 1d
    privacy: {epsilon: 50}
    attributes:
      temp: {low: -1000, high: 1000, unit: degC, step: 0.25}
      wind: {categories: [calm, north]}
    sketch: {depth: 12, k: 4096, width: 64}
collector:"""
EACH = 20_000
KNOTS = "temp: {low: -1000, high: 1000, unit: degC, step: 0.25"


def readings(seed, mean=17.0):
    rng = np.random.default_rng(seed)
    temp = np.round(4 * rng.normal(mean, 4, EACH)) / 4
    return np.column_stack([temp, temp > mean]).astype(float)


def ingest(serve, small_fleet, sequences, mean=17.0, at=1000, entropy=ENTROPY):
    """By a collector of its own, which notes the settings that it serves."""
    given = [
        ("one", "loose", small_fleet.release("one", n, "loose", readings(n, mean), entropy=entropy))
        for n in sequences
    ]
    assert all(isinstance(outcome, Accepted) for outcome in serve(*given, at=at))


@pytest.fixture
def fleet(small_fleet, serve):
    small_fleet.path.write_text(small_fleet.path.read_text().replace("\ncollector:", STREAM))
    ingest(serve, small_fleet, (1, 2))
    return small_fleet


def learn(run):
    code, out, err = run("scales", "--stream", "loose")
    assert code == 0, err
    assert err == "wind keeps its scale: it has categories\n"
    return out


def test_printed_keys_go_into_the_configuration_as_they_are(fleet, run, serve):
    out = learn(run)
    assert out.startswith("# Learned from 2 releases")
    printed = yaml.safe_load(out)
    assert list(printed) == ["temp"]
    knots = printed["temp"]["knots"]
    near = np.mean((np.array(knots) > 0) & (np.array(knots) < 34))
    assert near > 0.4  # of the linear scale's cells: 0.017
    text = fleet.path.read_text()
    fleet.path.write_text(text.replace(KNOTS, f"{KNOTS}, scale: learned, knots: {knots}"))
    ingest(serve, fleet, (3, 4), mean=19.0, at=9000)
    truth = np.concatenate(
        [readings(n, 17.0) for n in (1, 2)] + [readings(n, 19.0) for n in (3, 4)]
    )

    def asked(*words):
        code, out, err = run("query", "--stream", "loose", *words)
        assert code == 0, err
        return out

    answer = json.loads(asked("quantile", "temp", "0.5", "--json"))
    assert (answer["releases"], answer["left_out"], len(answer["epochs"])) == (4, 0, 2)
    # On the linear scale alone a cell is 31 degC wide.
    assert answer["value"] == pytest.approx(np.median(truth[:, 0]), abs=1.5)


def test_a_file_is_written_whole(fleet, run, tmp_path):
    path = tmp_path / "scales.yaml"
    code, out, _ = run("scales", "--stream", "loose", "--out", str(path))
    assert (code, out) == (0, "")
    assert yaml.safe_load(path.read_text())["temp"]["scale"] == "learned"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--stream", "gone"), "gone"),
        (("--stream", "loose", "--from", "2035-01-01"), "no window of loose starts"),
        (("--stream", "loose", "--generator", "m2m"), "m2m"),
    ],
)
def test_an_unusable_selection_is_rejected_with_a_single_line(fleet, run, words, said):
    code, out, err = run("scales", *words)
    assert code != 0
    assert out == ""
    assert said in err
    assert len(err.strip().splitlines()) == 1


def test_noise_gives_no_scale(small_fleet, serve, run):
    """At a five-thousandth of the epsilon 16 parts cannot be distinguished. Of all noise some is
    like a sharp distribution, so this noise is seeded."""
    text = STREAM.replace("epsilon: 50", "epsilon: 0.01")
    small_fleet.path.write_text(small_fleet.path.read_text().replace("\ncollector:", text))
    ingest(serve, small_fleet, (1, 2), entropy=seeded_noise(2))
    code, out, err = run("scales", "--stream", "loose")
    assert (code, out) == (1, "")
    assert "no scale to learn yet: temp: its releases do not tell 16 parts of it apart" in err
