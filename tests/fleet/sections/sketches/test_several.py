"""Several sketches of one stream: how they share epsilon, what they are called, what is refused."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pansketch import MomentsSpec, ViewsSpec
from pansketch_fleet.config.loader import ConfigError, describe
from pansketch_fleet.config.privacy_cost import shared

TEXT = """\
fleet: site
mqtt: {{url: "mqtt://broker.example"}}
agent: {{device: post-7, profile: pi-zero-2w}}
streams:
  air:
    source: {{type: stdin}}
    window: 1h
    expect: {{windows: 24}}
    privacy: {{epsilon: {epsilon}, daily_cap: 2400{unit}}}
    attributes:
      temp: {{low: -40, high: 60}}
      hum: {{low: 0, high: 100}}
      wind: {{categories: [N, NO, E]}}
    sketches: [{sketches}]
"""
TWO = "{type: views, share: 0.75}, {type: moments, share: 0.25}"


def text(sketches=TWO, epsilon="1", unit=""):
    return TEXT.format(sketches=sketches, epsilon=epsilon, unit=unit)


def test_each_sketch_is_a_stream_of_the_same_source_with_its_part_of_epsilon(load_text):
    config = load_text(text())
    views, moments = config.streams
    assert (views.name, views.part_of, moments.name, moments.part_of) == (
        "air",
        "",
        "air-moments",
        "air",
    )
    assert isinstance(views.spec, ViewsSpec)
    assert isinstance(moments.spec, MomentsSpec)
    assert [each.spec.guarantee.epsilon_micro for each in config.streams] == [750_000, 250_000]
    assert views.source is moments.source
    assert config.parts(views) == config.parts(moments) == (views, moments)
    cost = shared(moments, config.streams)
    assert (cost.record_micro, cost.unit_micro) == (1_000_000, 1_000_000)


def test_the_spec_of_a_sketch_is_that_of_a_stream_that_has_its_part_alone(load_text):
    alone = load_text(text("{type: views}", "0.75")).streams[0]
    assert load_text(text()).streams[0].spec.fingerprint == alone.spec.fingerprint


def test_print_config_shows_the_source_once_and_every_sketch(load_text):
    shown = {each.path: each.value_text for each in describe(load_text(text()))}
    assert shown["streams.air.privacy.epsilon"] == "1"
    assert shown["streams.air.sketches[0].share"] == "epsilon 0.75"
    assert shown["streams.air.sketches[1].stream"] == "air-moments"
    assert shown["streams.air.sketches[1].type"] == "moments"
    assert not [path for path in shown if path.startswith("streams.air-moments")]


@settings(
    max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.integers(100_000, 100_000_000), st.integers(50, 950))
def test_parts_sum_to_epsilon_exactly(load_text, micro, thousandths):
    sketches = f"{{type: cells}}, {{type: moments, share: 0.{thousandths:03}}}"
    config = load_text(text(sketches, f"{micro / 10**6:.6f}"))
    assert sum(each.plan.privacy.epsilon_micro for each in config.streams) == micro


def test_what_is_not_stated_is_divided_equally(load_text):
    config = load_text(text("{type: views, share: 0.5}, {type: cells}, {type: moments}"))
    assert [s.plan.privacy.epsilon_micro for s in config.streams] == [500_000, 250_000, 250_000]
    assert [s.name for s in config.streams] == ["air", "air-cells", "air-moments"]


def test_a_span_spends_for_all_sketches_no_more_than_epsilon(load_text):
    unit = ", unit: {span: 10m, max_readings: 7, open: 30s}"
    config = load_text(text(unit=unit))
    total = sum(each.spec.guarantee.epsilon_micro for each in config.streams)
    assert 1_000_000 - 2 * 7 < total <= 1_000_000
    assert shared(config.streams[0], config.streams).unit_micro == total


REFUSED = [
    ("{type: views}, {type: views}", ".sketches[1].type", "is views like an entry before it"),
    ("{type: views, share: 0.5}, {type: cells, share: 0.4}", ".sketches[0].share", "sum to 0.9"),
    ("{type: views, share: 1}, {type: cells}", ".sketches[0].share", "leave room for those"),
    ("{type: views, share: 0.6}, {type: cells, share: 0.6}", ".sketches[0].share", "sum to 1.2"),
    ("{type: views, share: 0}, {type: cells}", ".sketches[0].share", "above 0 and at most 1"),
    ("{type: views, share: much}, {type: cells}", ".sketches[0].share", "write a number"),
    ("{type: views, share: 0.5}", ".sketches[0].share", "sum to 0.5; correct them"),
    ("{type: views}, {type: distinct}", ".sketches[1].type", "counts keys"),
]


@pytest.mark.parametrize(("sketches", "key", "problem"), REFUSED)
def test_a_division_that_cannot_be_is_refused_at_its_key(load_text, sketches, key, problem):
    with pytest.raises(ConfigError) as refused:
        load_text(text(sketches))
    assert f"streams.air{key}" in str(refused.value)
    assert problem in str(refused.value)


def test_a_stream_that_is_called_like_a_sketch_is_refused(load_text):
    other = "  air-moments: {source: {type: replay, path: air.csv}, window: 1h, privacy: "
    other += "{epsilon: 1}, attributes: {x: {low: 0, high: 1}}}\n"
    with pytest.raises(ConfigError, match=r"streams\.air-moments: is also what"):
        load_text(text() + other)
