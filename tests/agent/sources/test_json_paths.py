"""Paths into JSON: the values, and the keys, of readings."""

import json
from math import nan

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pansketch import Attribute, Domain, key_words
from pansketch_agent.sources.decoders import KeyDecoder, ReadingDecoder
from pansketch_agent.sources.readings import NO_KEY

DOMAIN = Domain((Attribute("temp", -40, 60), Attribute("wind", categories=("calm", "N", "NO"))))


def line_of(decoder, text: str, count: int = 1):
    rows = decoder.empty(count)
    rows.fill(7)
    return decoder.decode_line(memoryview(text.encode()), rows, 0), rows


@pytest.mark.parametrize(
    ("paths", "text", "values"),
    [
        ({"temp": ("s", "t")}, '{"s": {"t": 4}, "wind": "N"}', [4, 1]),
        ({"temp": ("s", "1")}, '{"s": [3, 5], "wind": "NO"}', [5, 2]),
        ({"temp": ("s", "2")}, '{"s": [3, 5], "wind": "NO"}', [nan, 2]),
        ({"temp": ("s", "²")}, '{"s": [3, 5], "wind": "NO"}', [nan, 2]),
        ({"temp": ("s", "t")}, '{"s": 8, "wind": "NO"}', [nan, 2]),
        ({"temp": ("s", "t")}, '{"s": null, "temp": 3}', [nan, nan]),
        ({"wind": ("0", "w"), "temp": ("1",)}, '[{"w": "calm"}, 2.5]', [nan, nan]),
    ],
)
def test_a_path_leads_to_a_value(paths, text, values):
    taken, rows = line_of(ReadingDecoder(DOMAIN, paths), text)
    if text.startswith("["):
        assert not taken
        return
    assert taken
    assert np.array_equal(rows, [values], equal_nan=True)


def test_the_whole_message_may_be_the_value():
    decoder = ReadingDecoder(Domain((Attribute("temp", -40, 60),)), {"temp": ()})
    assert line_of(decoder, "21.5")[1].tolist() == [[21.5]]
    assert np.isnan(line_of(decoder, "nan")[1]).all()
    assert line_of(decoder, " ")[0] is False
    assert line_of(decoder, "x" * 257)[0] is False
    assert np.isnan(line_of(decoder, '"21.5"')[1]).all()


@pytest.mark.parametrize(
    ("path", "text", "key"),
    [
        (("a", "b"), '{"a": {"b": "x1"}}', b"x1"),
        (("a", "1", "b"), '{"a": [0, {"b": 17}]}', b"17"),
        ((), '"x1"', b"x1"),
        ((), "17", b"17"),
        (("a", "b"), '{"a": {"c": "x1"}}', None),
        (("a", "b"), '{"a": "x1"}', None),
        (("a", "b"), '{"a": ["x1"]}', None),
    ],
)
def test_a_path_leads_to_a_key(path, text, key):
    taken, rows = line_of(KeyDecoder("badge", None, path), text)
    assert taken
    assert rows[0] == (NO_KEY if key is None else key_words((key,))[0])


@pytest.mark.parametrize("text", ["[1]", "7", '"x"', "{", ""])
def test_what_is_no_object_has_no_key(text):
    taken, rows = line_of(KeyDecoder("badge", None, ("a", "b")), text)
    assert not taken
    assert rows[0] == 7


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc01"), inner),
    max_leaves=8,
)
STEPS = st.lists(st.sampled_from(["a", "b", "0", "1", "-1", "٣"]), max_size=4).map(tuple)


@given(JSON.map(json.dumps) | st.text(max_size=40), STEPS)
def test_no_line_and_no_path_breaks_a_form(text, steps):
    for decoder in (ReadingDecoder(DOMAIN, {"temp": steps}), KeyDecoder("badge", None, steps)):
        taken, rows = line_of(decoder, text.encode(errors="replace").decode())
        assert isinstance(taken, bool)
        assert taken or (rows == 7).all()
