"""A stream that the configuration gives to some devices: other devices' releases are refused."""

import json

import pytest

from pansketch_collector.commands import quarantine
from pansketch_collector.ingest import ingest_loop
from pansketch_collector.reports import devices
from pansketch_collector.reports.broker_acl import as_text
from pansketch_collector.storage import writer as store
from pansketch_collector.storage.reader import reading
from pansketch_collector.validation.validation import Rules
from pansketch_collector.validation.verdicts import Accepted, DeviceStatus, Rejected
from pansketch_fleet.config.loader import load_reader
from pansketch_fleet.protocol.messages import Status, StreamBirth
from tests.collector.messages import validate_one
from tests.collector.small_fleet import incoming

NOW = 40 * 86_400


@pytest.fixture
def given_to(small_fleet):
    """Gives the stream `air` to these devices."""

    def give(patterns):
        text = small_fleet.path.read_text()
        before, air, rest = text.partition("  air:\n")
        rest = "\n".join(line for line in rest.split("\n") if not line.startswith("    devices:"))
        small_fleet.path.write_text(f"{before}{air}    devices: {patterns}\n{rest}")
        return small_fleet

    return give


def test_it_is_refused_for_now_with_the_reason(given_to):
    fleet = given_to('["on*", third]')
    for name, accepted in (("one", True), ("third", True), ("two", False), ("third-2", False)):
        outcome = validate_one(fleet.topic(name), fleet.release(name), fleet.rules)
        assert isinstance(outcome, Accepted) == accepted, name
    assert isinstance(outcome, Rejected)
    assert (outcome.reason, outcome.final, outcome.plausible) == ("device", False, True)
    assert outcome.text == "the configuration gives air to other devices; see its devices"


def test_devices_shows_it_and_a_new_configuration_takes_it(given_to):
    fleet = given_to("[one]")
    birth = StreamBirth(fleet.specs("air")[0].fingerprint.hex(), "epsilon 1", 86_400)
    message = Status("online", "0" * 16, {"air": birth}).encode()
    topic = f"pansketch/v1/{fleet.fleet}/two/status"
    with store.opened(fleet.database) as opened:
        opened.serve_settings(fleet.config, NOW)
        batch = incoming(topic, message), incoming(fleet.topic("two"), fleet.release("two"))
        outcomes = ingest_loop.commit_batch(opened, batch, fleet.rules, NOW)
        assert [type(each) for each in outcomes] == [DeviceStatus, Rejected]
        with reading(fleet.database) as reader:
            table = devices.table(reader, fleet.config)
            (two,) = json.loads("".join(devices.as_json(reader, fleet.config)))["devices"]
        assert "in quarantine: two air: 1 by device (the configuration gives air" in table
        assert "other settings: two air: the configuration gives it to other devices" in table
        assert two["quarantine"][0]["reason"] == "device"
        assert quarantine.retry(opened, fleet.rules, NOW) == 0
        given_to('["*"]')
        assert quarantine.retry(opened, Rules.of(load_reader(fleet.path, {})), NOW) == 1
    assert len(fleet.stored()) == 1


def lines(fleet, *names):
    text = as_text(load_reader(fleet.path, {}), names)
    return [line for line in text.split("\n") if "release/" in line and "+" not in line]


def test_the_broker_s_rules_follow(given_to):
    fleet = given_to("[one, two]")
    assert lines(fleet)[-2:] == [
        "topic write pansketch/v1/testing/one/release/air",
        "topic write pansketch/v1/testing/two/release/air",
    ]
    assert "pattern write pansketch/v1/testing/%u/release/air" not in lines(fleet)
    assert "pattern write pansketch/v1/testing/%u/release/fine" in lines(fleet)
    given_to('["on*"]')
    # mosquitto has no pattern of user names, so all may write it and the collector refuses it.
    assert "pattern write pansketch/v1/testing/%u/release/air" in lines(fleet)
    own = lines(fleet, "one", "two")
    assert "topic write pansketch/v1/testing/one/release/air" in own
    assert "topic write pansketch/v1/testing/two/release/air" not in own
    assert "topic write pansketch/v1/testing/two/release/fine" in own
