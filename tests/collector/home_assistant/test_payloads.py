"""The announcement of a device: its form, what it shows of real healths, and what a hostile device
can make it show."""

import json
import re
from itertools import product

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from pansketch_collector.home_assistant import payloads
from pansketch_fleet.protocol import topics
from pansketch_fleet.protocol.messages import (
    HEALTH_LIMIT_BYTES,
    MAX_CLASSES,
    MAX_NUMBER,
    Health,
    Status,
)

FLEET, NAME = "greenhouse", "bench-1"
MESSAGE = json.loads(payloads.message(FLEET, NAME, "0.1.0"))
COMPONENTS = MESSAGE["components"]
NUMBERS = [key for key, entity in COMPONENTS.items() if entity["platform"] == "sensor"]
STATES = ("online", "offline", "stopped")
# All values of an entity, and of an availability.
SHOWN = re.compile(r"ON|OFF|None|0|[1-9][0-9]{0,15}")
THERE = {"online", "offline"}

numbers = st.integers(0, MAX_NUMBER)
healths = st.builds(
    lambda waiting, oldest, **rest: Health(
        waiting=waiting, oldest_waiting_seconds=oldest if waiting else None, **rest
    ),
    session=st.from_regex(r"[A-Za-z0-9-]{1,64}", fullmatch=True),
    version=st.from_regex(r"[A-Za-z0-9.+-]{1,64}", fullmatch=True),
    uptime_seconds=numbers,
    clock_synchronised=st.sampled_from([True, False, None]),
    waiting=numbers,
    oldest=st.none() | numbers,
    dropped=numbers,
    set_aside=numbers,
    written_today_bytes=numbers,
    deferred=st.dictionaries(
        st.from_regex(r"[a-z][a-z-]{0,31}", fullmatch=True),
        st.integers(1, 2**50),  # the sum of the most classes stays in bounds
        max_size=MAX_CLASSES,
    ),
    refused_dropped=numbers,
    name_conflicts=numbers,
    memory_protected=st.sampled_from([True, False, None]),
)
anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=40),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=8,
)
fields = st.sampled_from(["state", *Health.__struct_fields__])
hostile = st.one_of(
    st.binary(max_size=200),
    anything.map(lambda value: json.dumps(value).encode()),
    st.dictionaries(fields, anything).map(lambda value: json.dumps(value).encode()),
)


def test_home_assistant_takes_all_of_it(faults):
    assert faults(MESSAGE) == []
    assert faults(json.loads(payloads.message(FLEET, NAME, None))) == []
    assert MESSAGE["device"]["sw_version"] == "0.1.0"


@pytest.mark.parametrize(
    "spoil",
    [
        lambda m: m.pop("origin"),
        lambda m: m["origin"].pop("name"),
        lambda m: m["device"].pop("identifiers"),
        lambda m: m["components"]["waiting"].pop("platform"),
        lambda m: m["components"]["waiting"].pop("unique_id"),
        lambda m: m["components"]["waiting"].pop("state_topic"),
        lambda m: m["components"]["waiting"].update(unit="releases"),
        lambda m: m["components"]["waiting"].update(state_class="counter"),
        lambda m: m["components"]["waiting"].update(entity_category="config"),
        lambda m: m["components"]["uptime_seconds"].update(unit_of_measurement="seconds"),
        lambda m: m["components"]["clock"].update(device_class="clock"),
        lambda m: m["components"]["clock"].update(
            unique_id=m["components"]["waiting"]["unique_id"]
        ),
        lambda m: m.update(readings=1),
    ],
)
def test_the_check_of_the_form_would_notice(faults, spoil):
    """Negative control."""
    message = json.loads(json.dumps(MESSAGE))
    spoil(message)
    assert faults(message) != []


def test_it_is_about_the_health_and_nothing_of_readings():
    """Every topic in it is the device's own status or health, and every field one of a health."""
    allowed = {topics.status(FLEET, NAME), topics.health(FLEET, NAME)}
    texts = [text for entity in COMPONENTS.values() for text in entity.items()]
    assert {text for key, text in texts if key.endswith("topic")} == allowed
    assert "release/" not in json.dumps(MESSAGE)
    read = {name for _, text in texts for name in re.findall(r"value_json\.(\w+)", str(text))}
    assert read - {"state"} == set(Health.__struct_fields__) - {"session", "version"}
    assert {entity["entity_category"] for entity in COMPONENTS.values()} == {"diagnostic"}
    assert not {"command_topic", "json_attributes_topic"} & {key for key, _ in texts}


def test_no_two_devices_have_one_identity():
    """Ids hold hyphens, so that one would not do between fleet and device."""
    names = ["a", "b", "a-b", "a-b-c", "b-c", "c"]
    places = {payloads.topic("p", fleet, name) for fleet, name in product(names, names)}
    assert len(places) == len(names) ** 2
    pattern = re.compile(r"p/device/[a-zA-Z0-9_-]+/config")  # what Home Assistant listens to
    assert all(map(pattern.fullmatch, places))
    ids = {
        entity["unique_id"]
        for fleet, name in product(names, names)
        for entity in json.loads(payloads.message(fleet, name, None))["components"].values()
    }
    assert len(ids) == len(names) ** 2 * len(COMPONENTS)


def test_it_is_small_for_the_longest_names():
    assert len(payloads.message("f" * 64, "d" * 64, "1" * 64)) < 13_000


@settings(deadline=None)
@given(health=healths)
def test_the_values_of_a_health_message_are_shown(render, health):
    payload = health.encode()
    for key in NUMBERS:
        said = getattr(health, key)
        said = sum(said.values()) if key == "deferred" else said
        assert render(COMPONENTS[key]["value_template"], payload) == str(said)
    problem = {True: "OFF", False: "ON", None: "None"}
    for key, said in (("clock", health.clock_synchronised), ("memory", health.memory_protected)):
        assert render(COMPONENTS[key]["value_template"], payload) == problem[said]


@pytest.mark.parametrize("state", STATES)
def test_a_device_is_connected_while_its_status_is_online(render, state):
    """And while it is not, its figures are not shown, but that it is gone is."""
    payload = Status(state, "s1", {}).encode()
    connected = "ON" if state == "online" else "OFF"
    assert render(COMPONENTS["connection"]["value_template"], payload) == connected
    assert "availability_topic" not in COMPONENTS["connection"]
    for key, entity in COMPONENTS.items():
        if key != "connection":
            assert entity["availability_topic"] == topics.status(FLEET, NAME)
            there = "online" if state == "online" else "offline"
            assert render(entity["availability_template"], payload) == there
            assert entity["expire_after"] == 180


def shown_of(render, payload):
    templates = {entity["value_template"] for entity in COMPONENTS.values()}
    return {render(template, payload) for template in templates}


@settings(deadline=None, max_examples=150)
@given(payload=hostile)
@example(payload=b"ON")
@example(payload=b'"online"')
@example(payload=b"")
@example(payload=b"[" * 5000)
@example(payload=b'{"waiting": true, "state": ["online"], "clock_synchronised": 1}')
@example(payload=b'{"waiting": "{{ 7 * 7 }}", "dropped": "<b>1</b>", "state": "ON"}')
@example(payload=b'{"deferred": {"a": 1e400, "b": "<b>", "c": -7, "d": [true]}}')
@example(payload=b'{"deferred": {"a": 9007199254740992}, "name_conflicts": null}')
@example(payload=b'{"deferred": [1], "refused_dropped": {"a": 1}}')
@example(payload=b'{"waiting": 9007199254740992, "dropped": -1, "set_aside": 1e400}')
def test_a_hostile_device_can_make_nothing_else_of_it(render, payload):
    """No template raises, none shows anything but a fixed word or a whole number in bounds."""
    assert all(map(SHOWN.fullmatch, shown_of(render, payload)))
    for entity in COMPONENTS.values():
        if "availability_template" in entity:
            assert render(entity["availability_template"], payload) in THERE
    shown = {render(COMPONENTS[key]["value_template"], payload) for key in NUMBERS} - {"None"}
    assert all(0 <= int(number) <= MAX_NUMBER for number in shown)


@pytest.mark.parametrize(
    ("template", "payload"),
    [
        ("{{ value_json.waiting }}", b'{"waiting": "<b>1</b>"}'),
        ("{{ value_json.waiting | int(0) }}", b'{"waiting": -1}'),
        ("{{ value_json.waiting | int(0) }}", b'{"waiting": 1e40}'),
    ],
)
def test_the_check_of_what_is_shown_would_notice(render, template, payload):
    """Negative control: templates as they are usually written."""
    assert not SHOWN.fullmatch(render(template, payload))


def test_what_the_collector_refuses_as_a_health_may_still_be_shown_within_bounds(render):
    """Home Assistant knows nothing of sessions and unknown keys; the figures stay figures."""
    payload = msgspec.json.encode({"waiting": 3, "readings": "x" * HEALTH_LIMIT_BYTES})
    with pytest.raises(ValueError, match="larger"):
        Health.decode(payload)
    assert render(COMPONENTS["waiting"]["value_template"], payload) == "3"
