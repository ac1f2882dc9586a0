"""The version of MQTT: what is configured, and what follows from a broker's answers."""

import pytest

from pansketch_fleet.config.loader import describe
from pansketch_fleet.mqtt.reconnect import MAX_SILENT_FAILURES, VersionNegotiation


@pytest.mark.parametrize("written", ["auto", "5", '"5"', "3.1.1", '"3.1.1"', "${VERSION:-5}"])
def test_a_version_is_taken_as_written(load_text, valid, written):
    config = load_text(valid.replace("1884", "1884\n  protocol: " + written))
    wanted = {"${VERSION:-5}": "5"}.get(written, written.strip('"'))
    assert config.mqtt.protocol == wanted
    shown = {each.path: each for each in describe(config)}["mqtt.protocol"]
    assert shown.value_text == wanted


def test_without_one_it_is_the_broker_s_best(load_text):
    assert load_text().mqtt.protocol == "auto"


@pytest.mark.parametrize(
    ("written", "text"),
    [
        ("4", "'4' is no version of MQTT; use one of auto, 5, 3.1.1"),
        ("3.1", "'3.1' is no version of MQTT; did you mean 3.1.1?"),
        ("auto5", "did you mean auto?"),
        ("[5]", "is a list; write text"),
    ],
)
def test_anything_else_is_refused_with_its_line(refusal, written, text):
    error = str(refusal("1884", f"1884\n  protocol: {written}"))
    assert "config.yaml:4: mqtt.protocol: " in error
    assert text in error


def test_a_local_topic_s_broker_has_no_such_setting(refusal):
    source = "type: mqtt\n      topic: a/b\n      protocol: 5"
    error = str(refusal("type: replay\n      path: air.csv", source))
    assert "unknown key" in error


@pytest.mark.parametrize("reported", [True, False])
def test_a_broker_that_never_spoke_5_is_asked_once(reported):
    negotiation = VersionNegotiation("auto")
    assert (negotiation.version, negotiation.may_be_unsupported) == ("5", True)
    assert negotiation.rejected(reported)
    assert (negotiation.version, negotiation.may_be_unsupported) == ("3.1.1", False)
    assert negotiation.accepted(), "it is news"
    for _ in range(10):
        assert not negotiation.rejected(reported=False)
        assert not negotiation.accepted()
    assert negotiation.version == "3.1.1"


def test_a_server_that_takes_neither_is_asked_for_both_in_turns():
    """A pause comes after each second one."""
    negotiation = VersionNegotiation("auto")
    seen = [(negotiation.version, negotiation.rejected(reported=False)) for _ in range(6)]
    assert seen == [("5", True), ("3.1.1", False)] * 3


def test_a_broker_that_spoke_5_may_hang_up_a_few_times():
    negotiation = VersionNegotiation("auto")
    assert not negotiation.accepted()
    for _ in range(MAX_SILENT_FAILURES - 1):
        assert not negotiation.rejected(reported=False)
        assert negotiation.version == "5"
    assert negotiation.rejected(reported=False)
    assert negotiation.version == "3.1.1"


def test_an_answer_starts_the_count_again():
    negotiation = VersionNegotiation("auto")
    negotiation.accepted()
    for _ in range(10):
        negotiation.rejected(reported=False)
        negotiation.accepted()
    assert negotiation.version == "5"


def test_a_broker_that_spoke_5_and_states_that_it_does_not_is_believed():
    negotiation = VersionNegotiation("auto")
    negotiation.accepted()
    assert negotiation.rejected(reported=True)
    assert negotiation.version == "3.1.1"


@pytest.mark.parametrize("version", ["5", "3.1.1"])
def test_a_version_that_is_set_stays(version):
    negotiation = VersionNegotiation(version)
    for reported in (True, False, True):
        assert not negotiation.rejected(reported)
        assert negotiation.version == version
    assert not negotiation.accepted()
    assert not negotiation.may_be_unsupported
