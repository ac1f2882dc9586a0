"""Topic names: what is built is what is parsed, and nothing else is."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pansketch_fleet.protocol import topics
from pansketch_fleet.protocol.topics import Topic

IDS = st.from_regex(r"[a-z0-9-]{1,64}", fullmatch=True)


def test_the_names_are_fixed():
    assert topics.status("meadow", "post-7") == "pansketch/v1/meadow/post-7/status"
    assert topics.release("meadow", "post-7", "air") == "pansketch/v1/meadow/post-7/release/air"
    assert topics.health("meadow", "post-7") == "pansketch/v1/meadow/post-7/health"
    assert topics.ack("meadow", "post-7") == "pansketch/v1/meadow/post-7/ack"
    assert topics.fleet_filter("meadow") == (
        "pansketch/v1/meadow/+/status",
        "pansketch/v1/meadow/+/release/+",
        "pansketch/v1/meadow/+/health",
    )
    assert topics.keeper_ask("meadow", "tower") == "pansketch/v1/meadow/keeper.tower/ask"
    assert topics.keeper_answer("meadow", "tower") == "pansketch/v1/meadow/keeper.tower/answer"
    assert topics.keeper_status("meadow", "tower") == "pansketch/v1/meadow/keeper.tower/status"
    assert topics.keeper_filter("meadow") == ("pansketch/v1/meadow/+/answer",)


@given(fleet=IDS, device=IDS, stream=IDS)
def test_what_is_built_is_parsed(fleet, device, stream):
    assert topics.parse(topics.status(fleet, device)) == Topic(fleet, device, "status")
    assert topics.parse(topics.health(fleet, device)) == Topic(fleet, device, "health")
    assert topics.parse(topics.ack(fleet, device)) == Topic(fleet, device, "ack")
    name = topics.release(fleet, device, stream)
    assert topics.parse(name) == Topic(fleet, device, "release", stream)
    assert topics.parse(topics.keeper_ask(fleet, device)) == Topic(fleet, device, "ask")
    assert topics.parse(topics.keeper_answer(fleet, device)) == Topic(fleet, device, "answer")
    status = topics.keeper_status(fleet, device)
    assert topics.parse(status) == Topic(fleet, device, "keeper-status")
    assert topics.is_retained(status)
    assert not topics.is_id(status.split("/")[3]), "no device owns it"


@pytest.mark.parametrize(
    "name",
    [
        "",
        "pansketch/v1/meadow/post-7",
        "pansketch/v1/meadow/post-7/status/",
        "pansketch/v1/meadow/post-7/status/air",
        "pansketch/v1/meadow/post-7/release",
        "pansketch/v1/meadow/post-7/release/",
        "pansketch/v1/meadow/post-7/release/air/x",
        "pansketch/v1/meadow/post-7/release/Air",
        "pansketch/v1/meadow/post-7/health/",
        "pansketch/v1/meadow/post-7/health/air",
        "pansketch/v1/meadow/post-7/probe",
        "pansketch/v2/meadow/post-7/status",
        "/pansketch/v1/meadow/post-7/status",
        "meadow/post-7/status",
        "meadow/post-7/release/air",
        "pansketch/v1/meadow//status",
        "pansketch/v1/meadow/+/status",
        "pansketch/v1/#",
        "pansketch/v1/meadow/post-7/status\n",
        "pansketch/v1/meadow/post-7\n/status",
        "pansketch/v1/meadow/p\xf6st/status",
        "pansketch/v1/meadow/\u0665/status",
        "pansketch/v1/meadow/" + "a" * 65 + "/status",
        "pansketch/v1/meadow/tower/ask",
        "pansketch/v1/meadow/tower/answer",
        "pansketch/v1/meadow/keeper./ask",
        "pansketch/v1/meadow/keeper.tower.b/ask",
        "pansketch/v1/meadow/keeper.tower/health",
        "pansketch/v1/meadow/keeper.tower/ask/x",
        "pansketch/v1/meadow/keeper." + "a" * 65 + "/status",
    ],
)
def test_what_is_not_ours_is_none(name):
    assert topics.parse(name) is None


@given(name=st.text() | st.text("pansketch/v1az-+#/").map(lambda tail: f"pansketch/v1/{tail}"))
def test_a_parsed_topic_can_be_built_again(name):
    match topics.parse(name):
        case Topic(fleet, device, "release", str(stream)):
            assert topics.release(fleet, device, stream) == name
        case Topic(fleet, device, "status", None):
            assert topics.status(fleet, device) == name
        case Topic(fleet, device, "health", None):
            assert topics.health(fleet, device) == name
        case Topic(fleet, device, "ack", None):
            assert topics.ack(fleet, device) == name
        case Topic(fleet, device, "ask", None):
            assert topics.keeper_ask(fleet, device) == name
        case other:
            assert other is None


@pytest.mark.parametrize("name", ["", "+", "#", "a/b", "A", "a\n", "a" * 65])
def test_a_bad_name_builds_no_topic(name):
    for build in (
        lambda: topics.status(name, "a"),
        lambda: topics.status("a", name),
        lambda: topics.health(name, "a"),
        lambda: topics.ack("a", name),
        lambda: topics.release("a", "a", name),
        lambda: topics.fleet_filter(name),
        lambda: topics.keeper_ask("a", name),
        lambda: topics.keeper_answer(name, "a"),
        lambda: topics.keeper_status("a", name),
        lambda: topics.keeper_filter(name),
    ):
        with pytest.raises(ValueError, match="cannot stand in a topic; use 1 to 64 of"):
            build()
