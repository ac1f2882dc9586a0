"""What the page says of guarantees: its sentences, from the very module that a browser loads."""

import json

import pytest

READING = {"unit": "reading", "epsilon": 1, "intrusion": "silent", "delta": 0}
SPAN = {**READING, "unit": {"span": {"seconds": 3600, "max_readings": 60}}, "epsilon": 3}
KEY = {**READING, "unit": "key", "epsilon": 2, "window_seconds": 21_600}


@pytest.fixture
def say(shared, tab):
    """Calls a function of promises.js in the page."""
    tab.open(f"{shared.url}/page/#privacy")

    def call(name, promise):
        return tab.run(f"import('./promises.js').then(m => m.{name}({json.dumps(promise)}))")

    return call


def test_what_a_reading_costs(say):
    costs = dict(say("costs", READING))
    assert costs["A reading"].startswith("1, once")
    assert "n × 1" in costs["A day"]


def test_what_a_span_costs(say):
    """A reading its share; a day all the spans that fit into it, 24 of an hour."""
    costs = dict(say("costs", SPAN))
    assert costs["A reading"] == "at most 0.05"
    assert costs["A day"].startswith("at most 72, ")
    assert say("unit", SPAN) == "up to 60 readings of one source within 1 h"


def test_what_a_key_costs(say):
    costs = dict(say("costs", KEY))
    assert costs["A key"] == "2 in each window of each device that it appears in"
    assert costs["A day"].startswith("at most 8, ")


def test_the_factor_is_said_and_so_is_one_that_protects_nobody(say):
    assert "e^1 = 2.718" in say("meaning", READING)
    assert "protects nobody" not in say("meaning", READING)
    assert "protects nobody" in say("meaning", {**READING, "epsilon": 100})


def test_each_intrusion_model_says_what_it_does_not_cover(say):
    silent, announced = (
        say("intrusion", {**READING, "intrusion": model}) for model in ("silent", "announced")
    )
    assert "two such looks within one window" in silent[1]
    assert "goes on publishing" in announced[1]
    assert "with this probability" in say("delta", {**READING, "delta": 1e-9})
