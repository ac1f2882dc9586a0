"""The agent's first lines: when releases follow, and when an answer is usable."""

import re
import time

import pytest

from pansketch_agent.host.clock import utc_text
from pansketch_agent.runtime.stream_builder import YEAR_SECONDS, outlook
from pansketch_agent.windows.window import schedule_for
from pansketch_fleet.config.sketch_summary import first_answer_windows

HOUR = 3600
LIVE = "{type: stdin}"
LONG_AGO = (
    "import sys, time; now = time.time; time.time = lambda: now() % 3e7 + 1.14e9;"
    "from pansketch_agent.__main__ import main; sys.exit(main(sys.argv[1:]))"
)
LINE = re.compile(
    r"air: the first release follows at (\S+), then one every 1h; this device alone makes an "
    r"answer usable after about (\d+) of them, at about (\S+)"
)


def first_end():
    schedule = schedule_for("dev-1", HOUR)
    return utc_text(schedule.span(schedule.index(time.time())).end)


def test_a_live_stream_starts_with_the_times_of_release_and_answer(device, broker):
    device.configure(broker.url, source=LIVE)
    before = first_end()
    agent = device.start("run")
    agent.wait_for_output("usable")
    found = LINE.search(agent.output)
    assert found, agent.output
    assert found[1] in (before, first_end())
    assert agent.stop() == 0


@pytest.mark.parametrize("source", [LIVE, "{type: replay, path: rows.csv}"])
def test_a_clock_with_an_impossible_year_is_reported_where_it_labels_windows(device, source):
    """`check` alone reported it, and windows of 2006 are of no use."""
    device.configure(source=source)
    agent = device.start("run", program=("-c", LONG_AGO))
    agent.wait_for_output("usable")
    says = "WARNING pansketch-agent: the clock shows the year 2006; set it, windows are labelled"
    assert (says in agent.output) == (source == LIVE)
    agent.stop()


def test_a_replay_starts_with_the_number_of_its_releases(device, broker, peer):
    config = device.configure(broker.url)
    needed = first_answer_windows(config.streams[0])
    with peer(broker.url):
        agent = device.start("run")
        assert agent.wait() == 0
    assert f"air: a replay, with a release for each window of 1h; {usable(needed)}" in agent.output


def usable(needed):
    return f"this device alone makes an answer usable after about {needed} of them"


def test_a_window_that_is_almost_over_counts_little(device):
    stream = device.configure(source=LIVE, privacy="{epsilon: 20}").streams[0]
    assert "after about 1 of them, at about 1970-01-01T02:00:00Z" in outlook(stream, HOUR, HOUR)
    late = outlook(stream, HOUR, 2 * HOUR - 1)
    assert "follows at 1970-01-01T02:00:00Z" in late
    assert "after about 2 of them, at about 1970-01-01T03:00:00Z" in late


def test_a_window_that_has_not_begun_counts_as_a_whole(device):
    stream = device.configure(source=LIVE, privacy="{epsilon: 20}").streams[0]
    assert "after about 1 of them, at about 1970-01-01T02:00:00Z" in outlook(stream, HOUR, 0)


def test_windows_ahead_of_the_clock_are_labels_and_no_times(device):
    """A clock that was ahead once: elapsed time ends the windows, for years."""
    stream = device.configure(source=LIVE, privacy="{epsilon: 20}").streams[0]
    text = outlook(stream, 3 * YEAR_SECONDS, 0)
    assert text == (
        f"the first release follows in 1h, labelled {utc_text(3 * YEAR_SECONDS + HOUR)}, then one "
        "each; this device alone makes an answer usable after about 1 of them"
    )


@pytest.mark.parametrize(("readings", "within"), [(100_000, True), (1, False)])
def test_an_answer_in_years_is_stated_as_none(device, readings, within):
    expect = f"{{readings: {readings}, max_readings: 100000}}"
    settings = device.configure(source=LIVE, privacy="{epsilon: 0.01}", expect=expect)
    stream = settings.streams[0]
    assert (first_answer_windows(stream) * HOUR < YEAR_SECONDS) == within
    text = outlook(stream, 0, 0)
    assert ("no answer usable within a year; raise epsilon" in text) == (not within)


def test_a_blinded_stream_waits_for_late_releases(device, keepers):
    keys = [keeper.public for keeper in keepers]
    stream = device.configure_blinded(keys, source=LIVE, epsilon=20).streams[0]
    lateness = stream.blinded.lateness_seconds
    at = first_answer_windows(stream) * HOUR + lateness
    assert lateness > 0
    assert outlook(stream, 0, 0).endswith(f"at about {utc_text(at)}")
