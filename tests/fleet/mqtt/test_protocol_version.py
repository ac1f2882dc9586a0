"""The version of MQTT: what is configured, and what follows from a broker's answers."""

import pytest

from pansketch_fleet.config.loader import describe
from pansketch_fleet.mqtt.protocol_version import SILENT_ENDS, Dialect


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


@pytest.mark.parametrize("said", [True, False])
def test_a_broker_that_never_spoke_5_is_asked_once(said):
    dialect = Dialect("auto")
    assert (dialect.version, dialect.open_question) == ("5", True)
    assert dialect.not_understood(said)
    assert (dialect.version, dialect.open_question) == ("3.1.1", False)
    assert dialect.understood(), "it is news"
    for _ in range(10):
        assert not dialect.not_understood(said=False)
        assert not dialect.understood()
    assert dialect.version == "3.1.1"


def test_a_server_that_takes_neither_is_asked_for_both_in_turns():
    """A pause comes after each second one."""
    dialect = Dialect("auto")
    seen = [(dialect.version, dialect.not_understood(said=False)) for _ in range(6)]
    assert seen == [("5", True), ("3.1.1", False)] * 3


def test_a_broker_that_spoke_5_may_hang_up_a_few_times():
    dialect = Dialect("auto")
    assert not dialect.understood()
    for _ in range(SILENT_ENDS - 1):
        assert not dialect.not_understood(said=False)
        assert dialect.version == "5"
    assert dialect.not_understood(said=False)
    assert dialect.version == "3.1.1"


def test_an_answer_starts_the_count_anew():
    dialect = Dialect("auto")
    dialect.understood()
    for _ in range(10):
        dialect.not_understood(said=False)
        dialect.understood()
    assert dialect.version == "5"


def test_a_broker_that_spoke_5_and_says_that_it_does_not_is_believed():
    dialect = Dialect("auto")
    dialect.understood()
    assert dialect.not_understood(said=True)
    assert dialect.version == "3.1.1"


@pytest.mark.parametrize("version", ["5", "3.1.1"])
def test_a_version_that_is_set_stays(version):
    dialect = Dialect(version)
    for said in (True, False, True):
        assert not dialect.not_understood(said)
        assert dialect.version == version
    assert not dialect.understood()
    assert not dialect.open_question
