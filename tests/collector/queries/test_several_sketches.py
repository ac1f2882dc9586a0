"""A stream with two sketches: which of them answers, and what M2M learns from the other."""

import json

import numpy as np
import pytest

from pansketch import WindowId, encode
from pansketch_collector.__main__ import main
from pansketch_collector.ingest.ingest_loop import commit_batch
from pansketch_collector.queries import fleet_model
from pansketch_collector.storage import writer as store
from pansketch_collector.storage.reader import reading
from pansketch_collector.storage.tables.records import Selection
from pansketch_collector.validation.validation import Rules
from pansketch_collector.validation.verdicts import Accepted
from pansketch_fleet.config.loader import load_collector
from pansketch_fleet.protocol import topics
from pansketch_fleet.settings.device_spec import schedule_offset
from tests.collector.small_fleet import incoming
from tests.seeded_noise import noise_of_test

HOUR = 3600
CONFIG = """\
fleet: testing
mqtt: {url: "mqtt://127.0.0.1:1"}
streams:
  air:
    source: {type: stdin}
    window: 1h
    expect: {readings: 2000, devices: 2, windows: 1}
    privacy: {epsilon: 20}
    attributes:
      temp: {low: -40, high: 60, unit: degC}
      humid: {low: 0, high: 100}
    sketches:
      - {type: views, share: 0.75}
      - {type: moments, share: 0.25, m: 60}
collector: {database: fleet.sqlite}
"""
TRUTH = np.random.default_rng(16)


@pytest.fixture
def ask(tmp_path, capsys):
    """Stores a window of two devices, and asks the collector: exit code, answer, error."""
    path = tmp_path / "config.yaml"
    path.write_text(CONFIG)
    config = load_collector(path, {})
    rows = np.column_stack([TRUTH.normal(12, 2, 2000), TRUTH.normal(70, 4, 2000)])
    messages = []
    for device in ("one", "two"):
        start = HOUR + schedule_offset(device, HOUR)
        for stream in config.streams:
            sketch = stream.spec.start(noise_of_test())
            sketch.update_many(rows)
            label = WindowId(device, stream.name, 1, start, start + HOUR)
            payload = encode(sketch.release(noise_of_test(), label))
            messages.append(incoming(topics.release("testing", device, stream.name), payload))
    with store.opened(config.collector.database) as opened:
        outcomes = commit_batch(opened, messages, Rules.of(config), 1_000_000)
    assert all(isinstance(outcome, Accepted) for outcome in outcomes), outcomes

    def run(*words):
        code = main(["query", "--json", *words, "--config", str(path)])
        said = capsys.readouterr()
        return code, json.loads(said.out) if said.out else None, said.err

    run.config, run.words = config, ["--config", str(path)]
    return run


def test_the_first_sketch_that_can_answer_does(ask):
    code, answer, _ = ask("--stream", "air", "mean", "temp")
    assert code == 0
    assert answer["generator"] == "pairwise"
    assert abs(answer["value"] - 12) < 6 * answer["standard_error"] + 0.3


def test_an_answer_states_the_epsilon_of_a_reading_in_all_sketches(ask, capsys):
    for words in (["--stream", "air"], ["--stream", "air-moments", "--by", "window"]):
        _, answer, _ = ask(*words, "mean", "temp")
        assert answer["shared"]["record_epsilon"] == 20
    _, answer, _ = ask("--stream", "air-moments", "mean", "temp")
    assert "epsilon 5 per reading" in answer["guarantee"]
    assert answer["shared"]["streams"] == ["air"]
    assert main(["query", *ask.words, "--stream", "air", "mean", "temp"]) == 0
    assert "20 for one record in air and air-moments together" in capsys.readouterr().out


def test_a_named_sketch_answers_by_its_type_or_by_its_own_name(ask):
    _, by_type, _ = ask("--stream", "air", "--sketch", "moments", "mean", "temp")
    _, by_name, _ = ask("--stream", "air-moments", "mean", "temp")
    _, by_generator, _ = ask("--stream", "air", "--generator", "m2m", "mean", "temp")
    assert by_type == by_name == by_generator
    assert by_type["generator"] == "m2m"
    assert abs(by_type["value"] - 12) < 6 * by_type["standard_error"] + 0.3


def test_a_question_that_the_named_sketch_has_no_answer_to_is_refused(ask):
    code, _, said = ask("--stream", "air", "--sketch", "moments", "quantile", "temp", "0.5")
    assert code == 2
    assert "quantile needs one of type" in said
    code, _, said = ask("--stream", "air", "--sketch", "cells", "mean", "temp")
    assert code == 2
    assert "has no sketch of type cells: it has views and moments" in said


def test_m2m_trains_on_the_records_of_the_views(ask):
    """Readings fill a fiftieth of the bounds. Evenly spread points would have a deviation of 29."""
    with reading(ask.config.collector.database) as reader:
        model = fleet_model.build(reader, ask.config, Selection("air-moments"))
    assert model.training
    spread = model.fitted.rows.std(axis=0)
    assert (spread < 10).all()
    assert abs(model.fitted.rows[:, 0].mean() - 12) < 2


def test_without_releases_of_the_views_it_trains_on_even_points(ask):
    with reading(ask.config.collector.database) as reader:
        fleet_model_of = fleet_model.merged(reader, ask.config, Selection("air-moments"))
    alone = fleet_model.model_of(type(fleet_model_of)(**{**vars(fleet_model_of), "training": ()}))
    assert (alone.fitted.rows.std(axis=0) > 25).all()
