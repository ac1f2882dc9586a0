"""Hostile bytes: only documented errors are raised, and every message has an outcome."""

import json
import random
from importlib import import_module
from itertools import islice
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pansketch_collector.validation.validation import Rules, validate
from pansketch_collector.validation.verdicts import Accepted, DeviceStatus, Rejected
from pansketch_fleet.config.loader import ConfigError, load_collector
from pansketch_fleet.protocol import topics
from pansketch_fleet.protocol.messages import Ack, Status, StreamBirth
from testbed.local_fleet import CONFIG

ACK = Ack("air", 7, "0" * 32, "refused", "a reason").encode()
BIRTH = Status("online", "s1", {"air": StreamBirth("0" * 16, "epsilon 1", 60)}).encode()
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=9), inner),
    max_leaves=12,
)


@pytest.fixture(scope="module")
def garbage():
    """The benchmark's module, which is not installed."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(Path(__file__).resolve().parents[3])
        yield import_module("benchmarks.performance.garbage")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("fuzz")


def test_generated_messages_are_all_acknowledged_and_stored_or_counted(garbage, tmp_path):
    many = 3_000
    assert garbage.taken(tmp_path, many, 7, lambda: None) == {"answered": many, "kept": many}


def test_a_message_is_judged_alike_alone_and_among_others(garbage):
    rules = Rules.of(load_collector(CONFIG, {}))
    messages = list(garbage.made(600, random.Random(3)))
    together = validate(messages, rules)
    assert together == [validate([message], rules)[0] for message in messages]
    assert {type(outcome) for outcome in together} == {Accepted, DeviceStatus, Rejected}


@pytest.mark.parametrize(("kind", "whole"), [(Ack, ACK), (Status, BIRTH)])
@settings(max_examples=300)
@given(data=st.data())
def test_small_messages_raise_nothing_but_value_errors(kind, whole, data):
    junk = data.draw(
        st.binary(max_size=90)
        | JSON.map(lambda value: json.dumps(value).encode())
        | st.builds(changed, st.just(whole), st.integers(0, len(whole) - 1), st.binary(max_size=3))
        | st.builds(replaced, st.just(whole), st.sampled_from(sorted(json.loads(whole))), JSON)
    )
    try:
        found = kind.decode(junk)
    except ValueError as error:
        said = str(error)
    else:
        said = ""
        assert kind.decode(found.encode()) == found
    assert "\n" not in said


def changed(whole, at, by):
    return whole[:at] + by + whole[at + 1 :]


def replaced(whole, key, value):
    return json.dumps({**json.loads(whole), key: value}).encode()


@pytest.mark.parametrize(
    "text",
    [
        b'{"state":"online","state":"offline","session":"s","streams":{}}',
        b'{"state":"online","session":"s","session":"s","streams":{}}',
        b'{"state":"online","session":"s","streams":{},"streams":{}}',
        b'{"state":"online","session":"s","streams":NaN}',
        b"[" * 100_000,
        b'{"state":"online","session":"s","streams":' + b'{"a":' * 9_000,
    ],
)
def test_repeated_keys_non_finite_numbers_and_deep_nesting_are_refused(text):
    with pytest.raises(ValueError, match="status"):
        Status.decode(text)


@settings(max_examples=300)
@given(st.text(max_size=80) | st.lists(st.sampled_from(["/", "pansketch", "v1", "a"])).map("".join))
def test_any_topic_is_taken_apart_or_is_none(topic):
    found = topics.parse(topic)
    assert found is None or topic.startswith("pansketch/v1/")


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_any_configuration_loads_or_is_one_line_of_what_is_wrong(folder, data):
    lines = CONFIG.read_text(encoding="utf-8").splitlines()
    at = data.draw(st.integers(0, len(lines) - 1))
    junk = data.draw(st.text(alphabet="{}[]:,-&*!|>'\"%@`#\t \n\\x0a9.e", max_size=20))
    lines[at] = data.draw(st.sampled_from([junk, lines[at] + junk, junk + lines[at], ""]))
    path = folder / "changed.yaml"
    path.write_text("\n".join(lines), encoding="utf-8")
    said = ""
    try:
        load_collector(path, {})
    except ConfigError as error:
        said = str(error)
    assert "\n" not in said


def test_the_stream_of_generated_messages_has_every_kind(garbage):
    some = list(islice(garbage.made(300, random.Random(1)), 300))
    assert {bool(topics.parse(m.topic)) for m in some} == {True, False}
    assert max(m.size for m in some) > 60_000
