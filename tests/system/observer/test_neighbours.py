"""Neighbouring inputs look alike from outside: the same topics, events, ledger and words."""

import json
import re
from dataclasses import replace

from pansketch import peek

HOURS = 5
MORE = (1704067200 + 3600 * 2 + 1800, 60.0, 1000.0)  # one reading, in the middle of the replay


def outside(house, listen, rows):
    """Everything that one replay shows to the world, apart from the releases' counters."""
    house.configure("dev-1", rows)
    house.start_broker()
    ear = listen(house)
    house.collector()
    agent = house.agent("dev-1")
    assert agent.ends() == 0
    house.until(lambda: b'"stopped"' in b"".join(ear.on("/status")), "the farewell")
    house.until(lambda: len(ear.on("/ack")) >= len(house.stored()), "the acknowledgements")
    state = house.folder / "var/agent/dev-1"
    return {
        "topics": sorted({place for place, _ in ear.heard}),
        # Without the ledger's random incarnation.
        "windows": [
            replace(window, incarnation=b"")
            for payload in unique(ear.on("/release/air"))
            for window in peek(payload).windows
        ],
        "settings": {peek(payload).fingerprint for payload in ear.on("/release/air")},
        "statuses": [without("session", payload) for payload in ear.on("/status")],
        "health": lasting(ear.on("/health")),
        "acks": first_acks(ear.on("/ack")),
        "ledger": (state / "ledger").read_text().partition("\n")[2],
        "files": sorted(str(path.relative_to(state)) for path in state.rglob("*")),
        "said": said(agent, house.port),
        "refused": house.quarantine(),
    }


def unique(payloads):
    """In their order. Where the collector takes long, the agent sends the same bytes again."""
    return list(dict.fromkeys(payloads))


def first_acks(payloads):
    """The first for each release; those of what was sent again follow the load of the machine."""
    found = {}
    for payload in payloads:
        ack = without("digest", payload)
        found.setdefault(ack["sequence"], ack)
    return found


def without(key, payload):
    message = json.loads(payload)
    assert message.pop(key)
    return message


def lasting(healths):
    """What the healths say, but for what is between the clock, the network and the disk."""
    passing = {"session", "uptime_seconds", "waiting", "written_today_bytes"}
    found = [json.loads(payload) for payload in healths]
    return {tuple(item for item in each.items() if item[0] not in passing) for each in found}


def said(agent, port):
    """The agent's lines, sorted: two threads speak. How long it waits depends on the collector."""
    lines = agent.said.replace(str(port), "PORT").splitlines()
    return sorted(line for line in lines if not re.search("waiting for the collector", line))


def test_one_reading_more_changes_nothing_but_counters(make_house, hourly, listen):
    # No reading at all in the third hour, so the one more is the first of its window.
    rows = [row for row in hourly(HOURS, 3) if not 7200 <= row[0] - 1704067200 < 10800]
    without_it = outside(make_house("without"), listen, rows)
    with_it = outside(make_house("with"), listen, sorted([*rows, MORE]))
    assert with_it == without_it
    assert len(without_it["windows"]) == HOURS
    assert len(without_it["health"]) == 1
    assert [status["state"] for status in without_it["statuses"]] == ["online", "stopped"]
    # The negative control: what may differ in public, one hour more, does show.
    longer = outside(make_house("longer"), listen, hourly(HOURS + 1, 3))
    differing = {what for what in longer if longer[what] != without_it[what]}
    assert differing == {"windows", "acks", "ledger", "said"}
