"""The judgement of one message."""

from dataclasses import replace
from itertools import product

import msgpack
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pansketch import HierarchySpec, WindowId, decode, encode, merge
from pansketch.randomness.keyed_hash import digest as checksum
from pansketch_collector.validation.decision import compare, supersedes
from pansketch_collector.validation.verdicts import (
    LATEST_SECOND,
    Accepted,
    DeviceStatus,
    Duplicate,
    Rejected,
    StoredWindow,
)
from pansketch_fleet.protocol import topics
from pansketch_fleet.protocol.messages import Status, StreamBirth, digest
from pansketch_fleet.settings.device_spec import schedule_offset
from tests.collector.messages import validate_one

DAY = 86_400
OFFSET = schedule_offset("one", DAY)


def refusal(topic, payload, rules):
    outcome = validate_one(topic, payload, rules)
    assert isinstance(outcome, Rejected), outcome
    assert outcome.text
    assert "\n" not in outcome.text
    return outcome


def test_a_release_on_its_own_topic_is_accepted_with_its_exact_bytes(small_fleet):
    payload = small_fleet.release("one", 7)
    outcome = validate_one(small_fleet.topic("one"), payload, small_fleet.rules)
    assert isinstance(outcome, Accepted)
    assert outcome.window == WindowId("one", "air", 7, 7 * DAY + OFFSET, 8 * DAY + OFFSET)
    assert outcome.payload == payload
    assert outcome.digest == digest(payload)
    assert outcome.fingerprint == small_fleet.specs("air")[0].fingerprint


@pytest.mark.parametrize("flip", [0x01, 0x80, 0xFF])
def test_a_flipped_byte_is_refused_wherever_it_is(small_fleet, flip):
    payload, rules, topic = small_fleet.release(), small_fleet.rules, small_fleet.topic()
    reasons = []
    for position in range(len(payload)):
        damaged = bytearray(payload)
        damaged[position] ^= flip
        reasons.append(refusal(topic, bytes(damaged), rules).reason)
    assert reasons[:4] == ["magic"] * 4
    assert reasons[4] == "version"
    assert set(reasons[5:]) == {"checksum"}


def test_every_truncation_and_every_tail_is_refused(small_fleet):
    payload, rules, topic = small_fleet.release(), small_fleet.rules, small_fleet.topic()
    for length in range(len(payload)):
        refusal(topic, payload[:length], rules)
    refusal(topic, payload + b"\0", rules)


WATER = WindowId("one", "water", 9, 0, 86_400)


@pytest.mark.parametrize("version", [1, 2, 4])
def test_another_version_is_named(small_fleet, version):
    payload = bytearray(small_fleet.release())
    payload[4] = version
    outcome = refusal(small_fleet.topic(), bytes(payload), small_fleet.rules)
    assert outcome.reason == "version"
    assert not outcome.final, "a collector of that version takes it"


@pytest.mark.parametrize(
    ("topic", "reason"),
    [
        ("pansketch/v1/elsewhere/one/release/air", "fleet"),
        ("pansketch/v1/testing/one/release/water", "identity"),
        ("pansketch/v1/testing/two/release/air", "identity"),
        ("pansketch/v1/testing/one/release/fine", "identity"),
        ("pansketch/v1/testing/one/ack", "topic"),
        ("pansketch/v2/testing/one/release/air", "topic"),
        ("pansketch/v1/testing/One/release/air", "topic"),
        ("somewhere", "topic"),
        ("", "topic"),
    ],
)
def test_a_release_on_another_topic_is_refused(small_fleet, topic, reason):
    assert refusal(topic, small_fleet.release("one"), small_fleet.rules).reason == reason


def test_what_is_longer_than_anything_configured_is_not_read(small_fleet):
    most = small_fleet.rules.largest
    outcome = refusal(small_fleet.topic(), b"\0" * (most + 1), small_fleet.rules)
    assert outcome.reason == "length"
    assert str(most) in outcome.text
    assert not outcome.final, "another configuration may have larger sketches"
    assert refusal(small_fleet.topic(), b"\0" * most, small_fleet.rules).reason == "magic"


def test_what_is_longer_than_its_own_settings_allow_is_refused_for_good(small_fleet, monkeypatch):
    payload, rules = small_fleet.release(), small_fleet.rules
    monkeypatch.setattr(HierarchySpec, "max_release_nbytes", len(payload) - 1)
    outcome = refusal(small_fleet.topic(), payload, rules)
    assert (outcome.reason, outcome.sequence, outcome.final) == ("size", 1, True)


def test_what_another_configuration_would_take_is_not_refused_for_good(small_fleet):
    """Also where the other configuration has smaller sketches, or fewer streams."""
    large = replace(small_fleet.specs("air")[0], depth=8, width=512, rows=3)
    payload = small_fleet.release(spec=large)
    assert len(payload) > small_fleet.rules.specs["air"].max_bytes
    outcomes = [
        refusal(small_fleet.topic(), payload, small_fleet.rules),
        refusal(
            small_fleet.topic(stream="water"), small_fleet.release(window=WATER), small_fleet.rules
        ),
    ]
    assert [outcome.reason for outcome in outcomes] == ["fingerprint", "stream"]
    assert [outcome.sequence for outcome in outcomes] == [1, 9]
    assert not any(outcome.final for outcome in outcomes)


def test_a_release_made_with_other_settings_is_refused_by_its_fingerprint(small_fleet):
    other = replace(small_fleet.specs("air")[0], hash_key=99)
    outcome = refusal(small_fleet.topic(), small_fleet.release(spec=other), small_fleet.rules)
    assert outcome.reason == "fingerprint"
    assert outcome.sequence == 1


def test_a_merged_release_is_refused_because_it_holds_two_windows(small_fleet):
    spec = small_fleet.specs("air")[0]
    both = merge(decode(small_fleet.release(sequence=n), spec) for n in (1, 2))
    assert refusal(small_fleet.topic(), encode(both), small_fleet.rules).reason == "identity"


@pytest.mark.parametrize(
    ("sequence", "start", "end"),
    [(1, 10, 10), (1, 10, 9), (-1, 0, 10), (1, -5, 10), (1, 0, LATEST_SECOND + 1)],
)
def test_an_impossible_window_is_refused(small_fleet, sequence, start, end):
    window = WindowId("one", "air", sequence, start, end)
    outcome = refusal(small_fleet.topic(), small_fleet.release(window=window), small_fleet.rules)
    assert outcome.reason == "identity"


@pytest.mark.parametrize("reason", ["stream", "fingerprint", "version", "length", "window", "new"])
def test_a_reason_that_is_not_listed_as_final_is_temporary(reason):
    assert not Rejected(reason, "text").final


def test_every_device_class_of_the_fleet_is_accepted(small_fleet):
    for spec in small_fleet.specs("fine"):
        payload = small_fleet.release(stream="fine", spec=spec, readings=((20.0, 1.0),))
        outcome = validate_one(small_fleet.topic(stream="fine"), payload, small_fleet.rules)
        assert isinstance(outcome, Accepted)
        assert outcome.fingerprint == spec.fingerprint


@settings(max_examples=200)
@given(st.text(max_size=60), st.binary(max_size=200))
def test_arbitrary_messages_are_refused_and_never_raise(shared_rules, topic, payload):
    for place in (topic, "pansketch/v1/testing/one/release/air", "pansketch/v1/testing/one/status"):
        assert isinstance(validate_one(place, payload, shared_rules), Rejected)


JUNK = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.binary(max_size=9)
    | st.text(max_size=9)
    | st.floats(),
    lambda inner: st.lists(inner, max_size=5),
    max_leaves=20,
)


@settings(max_examples=300)
@given(st.binary(max_size=64), JUNK, st.integers(0, 3))
def test_hostile_bodies_with_a_right_checksum_are_refused_and_never_raise(
    shared_rules, noise, junk, place
):
    fingerprint = next(iter(shared_rules.specs["air"].at(0)))
    body = ["hierarchy", fingerprint, [["one", "air", 1, 0, 10]], [[0, b"", noise]]]
    body[place] = junk
    later = ([0], [noise[:1]], [0, noise[:8]], [0, junk])
    newer = ([*body[:2], [["one", "air", 1, 0, 10, *each]], *body[3:]] for each in later)
    bodies = (*map(msgpack.packb, (body, junk, *newer)), noise)
    for version, packed in product((1, 2, 3), bodies):
        payload = b"PANS" + bytes([version]) + checksum(packed, 8) + packed
        outcome = validate_one("pansketch/v1/testing/one/release/air", payload, shared_rules)
        assert isinstance(outcome, Rejected)


def test_the_same_bytes_again_are_a_duplicate(small_fleet):
    accepted = validate_one(small_fleet.topic(), small_fleet.release(), small_fleet.rules)
    assert isinstance(compare(accepted, StoredWindow(accepted.digest, 1, b"")), Duplicate)


@pytest.mark.parametrize("incarnation", [b"", b"another!"])
def test_a_second_release_of_a_stored_window_is_an_equivocation(small_fleet, incarnation):
    accepted = validate_one(small_fleet.topic(), small_fleet.release(), small_fleet.rules)
    outcome = compare(accepted, StoredWindow("0" * 32, 9, incarnation))
    assert (outcome.reason, outcome.sequence, outcome.final) == ("equivocation", 1, True)
    assert "sequence 9" in outcome.text
    assert ("another ledger" in outcome.text) == bool(incarnation)


def test_a_status_is_accepted_and_a_malformed_one_rejected(small_fleet):
    birth = Status("online", "s1", {"air": StreamBirth("0" * 16, "epsilon 1", DAY)})
    topic = topics.status(small_fleet.fleet, "one")
    assert validate_one(topic, birth.encode(), small_fleet.rules) == DeviceStatus("one", birth)
    for garbage in (b"", b"{}", b"\xff", b"[" * 5000, birth.encode()[:-1]):
        assert refusal(topic, garbage, small_fleet.rules).reason == "status"


def test_the_last_will_of_an_older_session_is_outdated():
    will = Status("offline", "s1", {})
    assert supersedes(will, None)
    assert supersedes(will, "s1")
    assert not supersedes(will, "s2")
    assert supersedes(Status("online", "s3", {}), "s2")
