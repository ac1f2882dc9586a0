"""Keepers in the fleet view, the interface and the metrics."""

import pytest

from testbed.embedded_broker import free_port
from tests.collector.asking.blinded_fleet import BEGIN, HOUR, BlindedFleet, Collector
from tests.collector.asking.test_asking import all_of, take

SAYS = (
    "Keepers",
    "tower",
    "unknown",
    "masked",
    "3 windows rejected: the sum is outside of what readings and noise can make",
)
FIGURES = (
    'pansketch_keeper_online{keeper="tower"} 1',
    'pansketch_keeper_online{keeper="well"} 0',
    'pansketch_keeper_questions_open{keeper="tower"} 0',
    'pansketch_keeper_questions_open{keeper="well"} 1',
    'pansketch_answers{stream="air"} 1',
    'pansketch_answers_set_aside{stream="air"} 1',
    'pansketch_unasked_windows{stream="air"} 3',
    'pansketch_lost_windows{stream="air"} 0',
)


@pytest.fixture
def site(tmp_path):
    """One answer, one that is rejected, a keeper that is offline, and windows that wait."""
    fleet = BlindedFleet(tmp_path, port=free_port())
    with Collector(fleet) as collector:
        collector.presence("tower", "online")
        take(collector, all_of([0]))
        collector.turns(24)
        fleet.keepers["well"].broken = True
        take(collector, all_of([1]))
        collector.turns(24)
        fleet.outlet.offline.add("well")
        take(collector, all_of([2]))
        collector.turns(24)
        now = BEGIN + 10**6 * HOUR
        take(collector, all_of([3]), at=now)
        collector.asker._waiting.note_releases("air", ["1h"], 0)
    return fleet


def test_open_and_rejected_questions_are_shown(site, serve, tab, shoot):
    with serve(site) as server:
        for width in (1280, 400):
            tab.emulate(width, 900, "light")
            tab.open(f"{server.url}/#fleet")
            text = tab.text()
            for words in SAYS:
                assert words in text, words
            assert tab.run("document.documentElement.scrollWidth <= innerWidth")
            assert tab.errors == []
            assert shoot(f"keepers-{width}").stat().st_size > 5000
        with server.client() as client:
            part = client.get("/v1/devices").json()
            figures = client.get("/metrics").text.splitlines()
        assert server.program.stop() == 0
    assert [each["keeper"] for each in part["keepers"]] == ["tower", "well"]
    assert part["keepers"][1]["asked"] == 1
    assert part["keepers"][0]["last_answer_at"] is not None
    assert set(FIGURES) <= set(figures)
