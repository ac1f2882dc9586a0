"""A device's status: its streams, what holds of them on this device, and which have stopped."""

from dataclasses import replace

import pytest

from pansketch_agent.status.health import EXCEPT, Facts, statuses, stopped_status
from pansketch_fleet.protocol.messages import Status, StreamBirth
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
