"""Outcomes of masked releases: what belongs to the stream and to known keepers is taken."""

from dataclasses import replace

import pytest

from pansketch import Privacy, WindowId, encode
from pansketch.blinding import PrivateKey
from pansketch.wire import decode_blinded, encode_blinded
from pansketch_collector.storage.reader import reading
from pansketch_collector.storage.tables.records import Selection
from pansketch_collector.validation.validation import Rules
from pansketch_fleet.protocol import topics
from tests.collector.asking.blinded_fleet import BEGIN, FLEET, HOUR, Collector
from tests.collector.messages import validate_one
from tests.collector.small_fleet import SmallFleet, rows
from tests.seeded_noise import noise_of_test


@pytest.fixture
def fleet(make_fleet):
    return make_fleet()


def outcome(fleet, topic, payload):
    return validate_one(topic, payload, Rules.of(fleet.config))


def test_a_masked_release_is_taken_without_any_total(fleet):
    found = outcome(fleet, *fleet.release("one", 0))
    assert found.window.device == "one"
    assert found.total is None
    with Collector(fleet) as collector:
        collector.take(fleet.release("one", 0))
    assert rows(fleet.database, "SELECT count(*) FROM totals") == [(0,)]


def test_the_longest_release_that_a_device_may_make_is_taken(fleet):
    rules = Rules.of(fleet.config)
    topic, payload = fleet.release("one", 0)
    made = decode_blinded(payload, fleet.spec)
    longest = replace(made, epochs=made.epochs[:1] * 4096)
    assert type(validate_one(topic, encode_blinded(longest), rules)).__name__ == "Accepted"
    assert len(encode_blinded(longest)) <= rules.specs["air"].max_bytes


def test_masks_of_an_unknown_key_are_refused_until_the_configuration_knows_it(fleet, tmp_path):
    tower, well = fleet.keepers.values()
    other = PrivateKey.draw(noise_of_test())
    topic, payload = fleet.release("one", 0, keys=(tower.key.public, other.public))
    found = outcome(fleet, topic, payload)
    assert (found.reason, found.final) == ("keepers", False)
    text = fleet.path.read_text()
    well_is = well.key.public.hex()
    fleet.path.write_text(
        text.replace(
            f"well: {{key: {well_is}}}",
            f"well: {{key: {well_is}, previous: [{other.public.hex()}]}}",
        )
    )
    assert type(outcome(fleet, topic, payload)).__name__ == "Accepted"
    topic, payload = fleet.release("one", 1, keys=(well.key.public, other.public))
    assert outcome(fleet, topic, payload).reason == "keepers"  # One keeper, twice.


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"device": "two"}, "identity"),
        ({"stream": "water"}, "identity"),
        ({"start": BEGIN + 1}, "window"),
        ({"end": BEGIN + 9 * HOUR}, "window"),
        ({"sequence": -1}, "identity"),
        ({"sequence": 0}, "bounds"),
    ],
)
def test_labels_are_those_of_the_topic_and_the_schedule(fleet, change, reason):
    topic, payload = fleet.release("one", 0)
    made = decode_blinded(payload, fleet.spec)
    other = replace(made, window=replace(made.window, **change))
    assert outcome(fleet, topic, encode_blinded(other)).reason == reason


def test_a_label_that_is_ahead_is_refused_as_any_other(fleet):
    with Collector(fleet) as collector:
        collector.take(fleet.release("one", 0))
        (found,) = collector.take(fleet.release("one", 1, sequence=500))
        assert found.reason == "bounds"
        (found,) = collector.take(fleet.release("one", 24 * 9), at=BEGIN)
        assert found.reason == "future"
        (found,) = collector.take(fleet.release("one", 0))
        assert found.reason == "equivocation"


def test_counters_of_another_kind_or_settings_are_refused(fleet):
    topic, payload = fleet.release("one", 0)
    made = decode_blinded(payload, fleet.spec)
    plain = replace(fleet.spec, privacy=Privacy(epsilon=1.0))
    bare = encode(plain.start(noise_of_test()).release(noise_of_test(), made.window))
    assert outcome(fleet, topic, bare).reason == "fingerprint"
    assert outcome(fleet, topic, payload[:-1]).reason == "checksum"
    weaker = replace(fleet.spec, privacy=replace(fleet.spec.privacy, epsilon=2.0))
    other = encode_blinded(replace(made, spec=weaker))
    found = outcome(fleet, topic, other)
    assert (found.reason, found.final) == ("fingerprint", False)


def test_a_release_of_earlier_settings_is_taken_and_asked_about(fleet):
    earlier = fleet.release("one", 0)
    with Collector(fleet):
        pass
    fleet.path.write_text(fleet.path.read_text().replace("epsilon: 1.0", "epsilon: 2.0"))
    with Collector(fleet) as collector:
        (found,) = collector.take(earlier)
        assert type(found).__name__ == "Accepted"
        collector.take(fleet.release("two", 0))
        collector.turns(24)
    asked = fleet.keepers["tower"].listed().values()
    assert sorted(len(question.windows) for question in asked) == [1, 1]
    with reading(fleet.database) as reader:
        assert len(reader.fingerprints(Selection("air"))) == 2


def test_messages_of_no_keeper_are_refused(fleet):
    for topic in (topics.keeper_answer(FLEET, "tower"), topics.keeper_status(FLEET, "tower")):
        assert outcome(fleet, topic, b"x").reason == "keeper"
    assert outcome(fleet, topics.keeper_ask(FLEET, "tower"), b"x").reason == "topic"


def test_a_fleet_without_keepers_takes_no_masked_release(fleet, tmp_path):
    (tmp_path / "other").mkdir()
    plain = SmallFleet(tmp_path / "other")
    window = WindowId("one", "air", 1, 0, 86_400)
    made = decode_blinded(fleet.release("one", 0)[1], fleet.spec)
    masked = encode_blinded(replace(made, window=window))
    assert validate_one(plain.topic("one", "air"), masked, plain.rules).reason == "fingerprint"
