"""A device's status: its streams, what holds of them on this device, and which have stopped."""

from dataclasses import replace

import pytest

from pansketch import Guarantee, Privacy, Span
from pansketch_agent.diagnostics.check import check_config
from pansketch_agent.status.health import (
    EXCEPT,
    SEE_LOG,
    Facts,
    fits_status,
    statuses,
    stopped_status,
)
from pansketch_fleet.config.loader import ConfigError
from pansketch_fleet.protocol.messages import STATUS_LIMIT_BYTES, Status, StreamBirth
from pansketch_fleet.protocol.strict_json import MAX_LINE


@pytest.mark.parametrize("protected", [True, False, None])
def test_a_guarantee_holds_for_all_memory_only_where_no_swap_may_have_it(device, protected):
    config = device.configure()
    (stream,) = config.streams
    text = str(stream.spec.guarantee) + ("" if protected else EXCEPT)
    birth = StreamBirth(stream.spec.fingerprint.hex(), text, 3600)
    facts = Facts(protected, {}, {}, {})
    expected = [Status(state, "s1", {"air": birth}) for state in ("online", "offline", "stopped")]
    found = [*statuses(config, "s1", facts), stopped_status(config, "s1", facts)]
    assert found == expected
    assert [Status.decode(each.encode()) for each in found] == expected


def test_a_status_names_the_open_window_s_spec_and_the_problems_of_its_stream(device):
    config = device.configure()
    scaled = replace(config.streams[0].spec, depth=3)
    facts = Facts(True, {"air": "stopped\nhere " + "x" * MAX_LINE}, {"air": scaled}, {"air": "old"})
    birth = stopped_status(config, "s1", facts).streams["air"]
    assert birth.fingerprint == scaled.fingerprint.hex()
    assert (len(birth.problem), birth.problem[:7]) == (MAX_LINE, "stopped")
    assert "\n" not in birth.problem
    assert birth.scale_problem == "old"
    assert stopped_status(config, "s1", replace(facts, problems={})).streams["air"].problem == ""


LONGEST = Span(3660 * 86400, 99_999)


@pytest.mark.parametrize(
    "privacy",
    [
        Privacy(12.345678, LONGEST, "silent", "blinded", 99.123456),
        Privacy(12.345678, LONGEST, "silent", "blinded"),
        Privacy(12.345678, LONGEST, "announced"),
        Privacy(12.345678, "reading", "silent", "blinded", 99.123456),
    ],
    ids=str,
)
def test_a_status_has_room_for_every_guarantee(device, privacy):
    """That of a blinded stream was too long, and `run` ended: with a span, or with swap on."""
    config = device.configure()
    (stream,) = config.streams
    long = replace(config, streams=(replace(stream, spec=replace(stream.spec, privacy=privacy)),))
    for protected in (True, False):
        online, _ = statuses(long, "s1", Facts(protected, {}, {}, {}))
        text = online.streams["air"].guarantee
        assert text.startswith(str(Guarantee.of_linear_counters(privacy)))
        assert text.endswith(EXCEPT) is not protected


def many(device, count):
    """A device with so many streams, whose names are as long as they may be."""
    config = device.configure(source="{type: system, interval: 1d}")
    (stream,) = config.streams
    names = [f"{number:064}" for number in range(count)]
    return replace(config, streams=tuple(replace(stream, name=name) for name in names))


def test_problems_of_many_streams_are_shortened_until_the_status_fits(device):
    """A status beyond its limit could not be published, and would end the agent."""
    for count, shown in ((20, "x" * MAX_LINE), (100, "x" * 100), (150, SEE_LOG)):
        config = many(device, count)
        assert fits_status(config)
        every = dict.fromkeys((stream.name for stream in config.streams), "x" * 2 * MAX_LINE)
        online, offline = statuses(config, "s" * 64, Facts(False, every, {}, every))
        assert {birth.problem for birth in online.streams.values()} == {shown}
        assert {birth.scale_problem for birth in online.streams.values()} == {shown}
        assert len(offline.encode()) <= STATUS_LIMIT_BYTES
        few = Facts(False, {config.streams[0].name: "x" * MAX_LINE}, {}, {})
        (text, *others) = [b.problem for b in statuses(config, "s", few)[0].streams.values()]
        assert (text, set(others)) == ("x" * MAX_LINE, {""})


def test_more_streams_than_a_status_holds_are_refused_before_a_run(device):
    config = many(device, 400)
    assert not fits_status(config)
    with pytest.raises(ConfigError, match=r"streams: are 400, too many for the status message"):
        check_config(config)
