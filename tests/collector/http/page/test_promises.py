"""The page's sentences on guarantees, from the module that a browser loads."""

import json

import pytest

READING = {"unit": "reading", "epsilon": 1, "intrusion": "silent", "delta": 0}
SPAN = {**READING, "unit": {"span": {"seconds": 3600, "max_readings": 60}}, "epsilon": 3}
KEY = {**READING, "unit": "key", "epsilon": 2, "window_seconds": 21_600}


@pytest.fixture
def say(shared, tab):
    """Calls a function of `promises.js` in the page."""
    tab.open(f"{shared.url}/#privacy")

    def call(name, promise):
        return tab.run(f"import('./page/promises.js').then(m => m.{name}({json.dumps(promise)}))")

    return call


def test_what_it_costs_is_the_servers_own_sentence(shared, tab, get):
    """The same that `pansketch-agent validate` prints."""
    tab.open(f"{shared.url}/#privacy")
    text = tab.text()
    for stream in ("air", "doors", "silent"):
        found = get(f"/v1/streams/{stream}/guarantee").json()
        assert {"a day", "a key" if found["unit"] == "key" else "a reading"} <= {
            row["of"] for row in found["costs"]
        }
        for row in found["costs"]:
            assert row["of"].capitalize() in text
            assert row["says"] in text


def test_what_is_protected(say):
    assert say("unit", READING) == "any one reading"
    assert say("unit", SPAN) == "up to 60 readings of one source within 1 h"
    assert say("unit", KEY) == "all that bears one key in one window, on one device"


def test_the_factor_is_stated_and_so_is_one_without_protection(say):
    assert "e^1 = 2.718" in say("meaning", READING)
    assert "protects nobody" not in say("meaning", READING)
    assert "protects nobody" in say("meaning", {**READING, "epsilon": 100})


def test_each_intrusion_model_states_its_limits(say):
    silent, announced = (
        say("intrusion", {**READING, "intrusion": model}) for model in ("silent", "announced")
    )
    assert "two such looks within one window" in silent[1]
    assert "goes on publishing" in announced[1]
    assert "with this probability" in say("delta", {**READING, "delta": 1e-9})
