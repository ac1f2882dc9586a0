"""Neighbouring inputs look alike from outside: the same topics, events, ledger and words."""

import json
import re
from dataclasses import replace

from pansketch import peek

HOURS = 5
MORE = (1704067200 + 3600 * 2 + 1800, 60.0, 1000.0)  # one reading, in the middle of the replay


def outside(fleet, listen, rows):
    """Everything that one replay shows to the world, apart from the releases' counters."""
    fleet.configure("dev-1", rows)
    fleet.start_broker()
    listener = listen(fleet)
    fleet.collector()
    agent = fleet.agent("dev-1")
    assert agent.wait() == 0
    fleet.until(lambda: b'"stopped"' in b"".join(listener.on("/status")), "the farewell")
    fleet.until(lambda: len(listener.on("/ack")) >= len(fleet.stored()), "the acknowledgements")
    state = fleet.folder / "var/agent/dev-1"
    return {
        "topics": sorted({place for place, _ in listener.messages}),
        # Without the ledger's random incarnation.
        "windows": [
            replace(window, incarnation=b"")
            for payload in unique(listener.on("/release/air"))
            for window in peek(payload).windows
        ],
        "settings": {peek(payload).fingerprint for payload in listener.on("/release/air")},
        "statuses": [without("session", payload) for payload in listener.on("/status")],
        "health": lasting(listener.on("/health")),
        "acks": first_acks(listener.on("/ack")),
        "ledger": (state / "ledger").read_text().partition("\n")[2],
        "files": sorted(str(path.relative_to(state)) for path in state.rglob("*")),
        "said": said(agent, fleet.port),
        "refused": fleet.quarantine(),
    }


def unique(payloads):
    """In their order. A slow collector causes retransmissions of the same bytes."""
    return list(dict.fromkeys(payloads))


def first_acks(payloads):
    """The first for each release: the load of the machine determines retransmissions."""
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
    """The health messages, without fields that depend on clock, network and disk."""
    passing = {"session", "uptime_seconds", "waiting", "written_today_bytes"}
    found = [json.loads(payload) for payload in healths]
    return {tuple(item for item in each.items() if item[0] not in passing) for each in found}


def said(agent, port):
    """The agent's lines without their times, sorted, because two threads log.

    The collector determines the agent's waiting times.
    """
    lines = [re.sub(r"^\S+Z ", "", each) for each in agent.output.splitlines()]
    return sorted(
        line.replace(str(port), "PORT")
        for line in lines
        if not re.search("waiting for the collector", line)
    )


def test_one_reading_more_changes_nothing_but_counters(make_fleet, hourly, listen):
    # No reading at all in the third hour, so the one more is the first of its window.
    rows = [row for row in hourly(HOURS, 3) if not 7200 <= row[0] - 1704067200 < 10800]
    without_it = outside(make_fleet("without"), listen, rows)
    with_it = outside(make_fleet("with"), listen, sorted([*rows, MORE]))
    assert with_it == without_it
    assert len(without_it["windows"]) == HOURS
    assert len(without_it["health"]) == 1
    assert [status["state"] for status in without_it["statuses"]] == ["online", "stopped"]
    # The negative control: what may differ in public, one hour more, does show.
    longer = outside(make_fleet("longer"), listen, hourly(HOURS + 1, 3))
    differing = {what for what in longer if longer[what] != without_it[what]}
    assert differing == {"windows", "acks", "ledger", "said"}
