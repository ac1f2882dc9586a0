"""Published scales: each refusal, and that neither state, release nor guarantee grows."""

import numpy as np
import pytest

from pansketch import Attribute
from pansketch_fleet.config.loader import load_collector
from pansketch_fleet.config.published_scales import domain_name, rescaled, with_knots
from pansketch_fleet.errors import ConfigError
from pansketch_fleet.protocol.scale_message import Scales
from pansketch_fleet.settings.profiles import every

CONFIG = """
fleet: house
mqtt: {url: "mqtt://127.0.0.1:1"}
streams:
  air:
    source: {type: stdin}
    window: 1h
    scales: {every: 30d}
    privacy: {epsilon: 1}
    attributes:
      temp: {low: -4000, high: 6000, step: 0.5}
      pm25: {low: 0, high: 1000, scale: log}
      wind: {categories: [calm, N]}
      course: {low: 0, high: 360, cyclic: true}
"""
# A quarter of the parts is narrow, and none is wider than a quarter of the scale.
KNOTS = (-4000.0, -1999.75, 0.25, 9.75, 10.25, 1999.75, 3999.75, 4999.75, 6000.0)


def load(folder, text=CONFIG):
    path = folder / "config.yaml"
    path.write_text(text)
    return load_collector(path, {})


@pytest.fixture
def config(tmp_path):
    return load(tmp_path)


@pytest.fixture
def stream(config):
    return config.streams[0]


@pytest.fixture
def scales(stream):
    return Scales(1, "air", domain_name(stream), 7200, {"temp": KNOTS})


def changed(scales, **fields):
    names = scales.__struct_fields__
    return Scales(**{name: fields.get(name, getattr(scales, name)) for name in names})


def test_a_stream_on_published_scales(config, stream, scales):
    found = rescaled(stream, scales, config.profile)
    temp = found.domain.attributes[0]
    assert (temp.scale, temp.knots) == ("learned", KNOTS)
    assert found.domain.attributes[1:] == stream.domain.attributes[1:]
    assert found.spec.fingerprint != stream.spec.fingerprint
    assert found.spec.guarantee == stream.spec.guarantee
    old, new = config.specs(stream).values(), config.specs(found).values()
    assert max(spec.nbytes for spec in new) <= max(spec.nbytes for spec in old)
    longest = [max(spec.max_release_nbytes for spec in each) for each in (new, old)]
    assert longest[0] <= longest[1]


@pytest.mark.parametrize("sketch", ["hierarchy", "views"])
@pytest.mark.parametrize("epsilon", [0.1, 1, 30])
def test_no_device_class_gets_a_larger_state_or_release(tmp_path, sketch, epsilon):
    text = CONFIG.replace("epsilon: 1", f"epsilon: {epsilon}")
    text += f"    sketches: [{{type: {sketch}}}]\n"
    config = load(tmp_path, text)
    stream = config.streams[0]
    found = rescaled(
        stream, Scales(1, "air", domain_name(stream), 0, {"temp": KNOTS}), config.profile
    )
    for profile in every():
        old, new = stream.plan.spec(profile), found.plan.spec(profile)
        assert new.nbytes <= old.nbytes
        assert new.max_release_nbytes <= old.max_release_nbytes
        assert new.guarantee == old.guarantee


def test_without_knots_it_is_the_configured_stream(config, stream, scales):
    assert rescaled(stream, changed(scales, knots={}), config.profile) is stream


def inner(*knots):
    return (KNOTS[0], *knots, KNOTS[-1])


FEW = (-1999.75, 0.25, 9.75, 10.25, 1999.75, 3999.75)


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"stream": "water"}, "other attributes or windows"),
        ({"domain": "0" * 16}, "other attributes or windows"),
        ({"begins": 7201}, "multiple of 3600"),
        ({"knots": {"other": KNOTS}}, "not in this stream"),
        ({"knots": {"wind": KNOTS}}, "only a number"),
        ({"knots": {"course": KNOTS}}, "only a number"),
        ({"knots": {"temp": inner(*FEW)}}, "power of two"),
        ({"knots": {"temp": (*KNOTS[:-1], 5999.0)}}, "last one high"),
        ({"knots": {"temp": (-4001.0, *KNOTS[1:])}}, "first knot must be low"),
        ({"knots": {"temp": inner(*FEW, 3000.25)}}, "must rise"),
        ({"knots": {"temp": inner(*FEW, 3999.75)}}, "must rise"),
        ({"knots": {"temp": inner(*FEW, 3999.75 + 1e-6)}}, "must rise"),
        ({"knots": {"temp": inner(*FEW, 3999.9)}}, "holds none of the values"),
        ({"knots": {"temp": inner(*FEW, 4500.5)}}, "lies on a value"),
        ({"knots": {"temp": inner(*FEW, 4500.50001)}}, "lies on a value"),
        ({"knots": {"temp": inner(1.75, 2.75, 3.75, 4.75, 5.75, 6.75, 7.75)}}, "than a quarter"),
    ],
)
def test_refusals(config, stream, scales, fields, says):
    wrong = changed(scales, **fields)
    with pytest.raises(ValueError, match=says) as refusal:
        rescaled(stream, wrong, config.profile)
    assert len(str(refusal.value).splitlines()) == 1


def test_a_scale_of_other_bounds_or_steps_or_windows_has_another_name(tmp_path, stream):
    name = domain_name(stream)
    for old, new in (("6000", "6001"), ("step: 0.5", "step: 0.25"), ("window: 1h", "window: 2h")):
        other = load(tmp_path, CONFIG.replace(old, new)).streams[0]
        assert domain_name(other) != name
    cheaper = load(tmp_path, CONFIG.replace("epsilon: 1", "epsilon: 2")).streams[0]
    assert domain_name(cheaper) == name


def test_a_part_as_wide_as_one_step_is_allowed():
    """On a log scale one step may be more than a quarter of the scale."""
    rain = Attribute("rain", 0, 8, scale="log", resolution=1e-6, step=1)
    assert with_knots(rain, (0, 0.75, 1.75, 2.75, 8)).knots


def test_every_value_of_a_step_keeps_its_part(stream):
    """A sensor's values lie inside the parts, for any last digit of a knot."""
    found = with_knots(stream.domain.attributes[0], KNOTS)
    points = np.arange(-8000, 12001) * 0.5
    places = found.scaling.positions(points) * (len(KNOTS) - 1)
    parts = np.searchsorted(KNOTS[1:-1], points, side="right")
    assert np.array_equal(np.clip(np.floor(places), 0, len(KNOTS) - 2), parts)


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("every: 30d", "every: 23h", "scales.every: 23h is impossible"),
        ("every: 30d", "every: 100000.5s", "not whole"),
        ("every: 30d", "publish: sometimes", "'sometimes' is unknown"),
        ("every: 30d", "often: 1d", "often"),
        ("    privacy", "    sketches: [{type: moments}]\n    privacy", "views and hierarchy only"),
        (
            "    privacy",
            "    sketches: [{type: views, share: 0.5}, {type: moments, share: 0.5}]\n    privacy",
            "goes with one sketch",
        ),
    ],
)
def test_configurations_that_are_refused(tmp_path, old, new, says):
    with pytest.raises(ConfigError, match=says):
        load(tmp_path, CONFIG.replace(old, new))


def test_keys_have_no_scales(tmp_path):
    text = (
        CONFIG[: CONFIG.index("    attributes:")]
        + "    key: badge\n    sketches: [{type: distinct}]\n"
    )
    with pytest.raises(ConfigError, match="does not go with a key"):
        load(tmp_path, text)


def test_defaults(tmp_path):
    found = load(tmp_path, CONFIG.replace("{every: 30d}", "{}")).streams[0].scales
    assert (found.every_seconds, found.learned) == (7 * 86_400, True)
    assert (
        load(tmp_path, CONFIG.replace("    scales: {every: 30d}\n", "")).streams[0].scales is None
    )
