"""Badges go in at the doors, and the number of different ones comes out at the collector."""

import json

import pytest

NEW_YEAR = 1704067200
HOURS = 4
UNIVERSE = 2000
CONFIG = """\
fleet: home
mqtt: {{url: "mqtt://127.0.0.1:{port}"}}
agent: {{device: {device}, state: var/agent/{device}}}
streams:
  doors:
    source: {{type: replay, path: {device}.csv}}
    window: 1h
    key: badge_id
    privacy: {{epsilon: {epsilon}, unit: key}}
    sketches: [{{type: distinct, universe: {universe}, release: bitmap}}]
  lockers:
    source: {{type: replay, path: {device}.csv}}
    window: 1h
    key: card_id
    privacy: {{epsilon: 100}}
    sketches: [{{type: distinct, expected_keys: 20000, memory: 16KiB}}]
collector: {{database: var/collector.sqlite}}
"""
# At epsilon 100, the maximum, bits and counts are right but with probability below 1e-14. All
# badges of the universe are tracked, so a union is exact.
BADGES = {
    "dev-1": lambda hour: range(300 + hour),
    "dev-2": lambda hour: range(200, 500),
    "dev-3": lambda hour: range(100 * hour),
}
CARDS = 40  # of each device, in every hour


def configure(fleet, device, epsilon=100, universe=UNIVERSE):
    text = CONFIG.format(port=fleet.port, device=device, epsilon=epsilon, universe=universe)
    (fleet.folder / f"{device}.yaml").write_text(text)
    rows = []
    for hour in range(HOURS):
        at = NEW_YEAR + 3600 * hour + 700
        rows += [f"{at + n},{badge}," for n, badge in enumerate([*BADGES[device](hour)] * 2)]
        rows += [f"{at + 1500 + n},,{device}/{n % CARDS}" for n in range(3 * CARDS)]
        rows.append(f"{at + 2000},,")
    (fleet.folder / f"{device}.csv").write_text("\n".join(["time,badge_id,card_id", *rows, ""]))


def figures(fleet, stream, *options):
    return json.loads(fleet.ask("query", "--stream", stream, "distinct", "--json", *options))


@pytest.fixture
def settled(fleet):
    """A fleet whose three devices have replayed everything."""
    for device in BADGES:
        configure(fleet, device)
    fleet.start_broker()
    collector = fleet.collector()
    agents = [fleet.agent(device) for device in BADGES]
    assert [agent.wait() for agent in agents] == [0, 0, 0]
    assert collector.stop() == 0
    return fleet


def test_the_union_of_doors_and_the_sum_of_lockers(settled):
    fleet = settled
    assert fleet.quarantine() == []
    query = "SELECT stream, count(*), count(DISTINCT fingerprint) FROM releases GROUP BY stream"
    assert fleet.rows(query) == [("doors", 12, HOURS), ("lockers", 12, HOURS)]
    found = figures(fleet, "doors")
    assert found["keys"] == "shared"
    truth = [len({b for of in BADGES.values() for b in of(hour)}) for hour in range(HOURS)]
    assert [round(figure["value"]) for figure in found["figures"]] == truth
    assert [figure["from"] for figure in found["figures"]] == [
        "2024-01-01", *(f"2024-01-01T{hour:02d}:00:00Z" for hour in range(1, HOURS)),
    ]  # fmt: skip
    for device, badges in BADGES.items():
        alone = figures(fleet, "doors", "--devices", device)["figures"]
        assert [round(figure["value"]) for figure in alone] == [
            len(badges(hour)) for hour in range(HOURS)
        ]
    # Two of 40 cards share one of 40,000 slots with probability below 2 %: six pairs on the three
    # devices of an hour below 1e-9.
    lockers = figures(fleet, "lockers")["figures"]
    assert [figure["value"] for figure in lockers] == pytest.approx([3 * CARDS] * HOURS, abs=5)
    assert fleet.ledger("dev-1")[-1][0] == HOURS
    table = fleet.ask("query", "--stream", "doors", "distinct")
    assert f"newest window: {truth[-1]} distinct keys ± 0" in table


def test_a_device_with_another_universe_is_deferred_and_the_others_count(fleet):
    """Its releases wait in its outbox for a configuration that knows them; its other stream's do
    not wait for them."""
    for device in ("dev-1", "dev-2"):
        configure(fleet, device)
    configure(fleet, "dev-3", universe=UNIVERSE + 1)
    fleet.start_broker()
    fleet.collector()
    agents = [fleet.agent(device) for device in BADGES]
    assert [agent.wait() for agent in agents[:2]] == [0, 0]
    agents[2].wait_for_output("the collector deferred release 1 (fingerprint")
    doors = [f"{hour:012d}.doors.release" for hour in range(1, HOURS + 1)]
    fleet.until(lambda: fleet.outbox("dev-3") == doors, lambda: str(fleet.outbox("dev-3")))
    fleet.until(lambda: len(fleet.quarantine()) == HOURS, lambda: str(fleet.quarantine()))
    assert not agents[2].ended(), agents[2].output
    assert agents[2].stop() == 0
    assert fleet.outbox("dev-3") == doors
    assert {reason for _, reason in fleet.quarantine()} == {"fingerprint"}
    (first, *_) = figures(fleet, "doors")["figures"]
    assert (first["devices"], round(first["value"])) == (["dev-1", "dev-2"], 500)
    (lockers, *_) = figures(fleet, "lockers")["figures"]
    assert lockers["devices"] == list(BADGES)
