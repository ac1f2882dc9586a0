"""Releases of streams of keys: a collector takes those of their own window, and no others."""

import numpy as np
import pytest

from pansketch import Release, WindowId, encode
from pansketch_collector.ingest.ingest_loop import commit_batch
from pansketch_collector.storage import writer as store
from pansketch_collector.validation.accepted_specs import MAX_WINDOWS, StreamSpecs, _derived
from pansketch_collector.validation.validation import Rules
from pansketch_collector.validation.verdicts import Accepted, Rejected
from pansketch_fleet.protocol import topics
from pansketch_fleet.settings.device_spec import schedule_offset
from tests.collector.key_site import DAY, ENTROPY, keys, outcome

OFFSET = schedule_offset("one", DAY)


def test_a_release_of_its_own_window_is_taken(site):
    taken = outcome(site, site.release("one", 7, keys((5,))))
    assert isinstance(taken, Accepted)
    assert taken.fingerprint == site.spec("doors").for_window(7).fingerprint


def with_window(site, spec, day):
    start = day * DAY + schedule_offset("one", DAY)
    window = WindowId("one", "doors", day, start, start + DAY)
    return encode(spec.start(ENTROPY).release(ENTROPY, window))


@pytest.mark.parametrize("made_for", [6, 8, 0, None])
def test_a_release_made_for_another_window_is_refused(site, made_for):
    """`None`: under the base of all windows, which no window has."""
    spec = site.spec("doors")
    refused = outcome(
        site, with_window(site, spec if made_for is None else spec.for_window(made_for), 7)
    )
    assert isinstance(refused, Rejected)
    assert (refused.reason, refused.sequence) == ("fingerprint", 7)


def test_a_bitmap_with_other_numbers_than_bits_is_refused(site):
    """It would take the union from the whole fleet."""
    window = WindowId("one", "doors", 7, 7 * DAY + OFFSET, 8 * DAY + OFFSET)
    spec = site.spec("doors").for_window(7)
    for number in (2, -1, 2**40):
        refused = outcome(site, bitmap(spec, window, number))
        assert isinstance(refused, Rejected)
        assert refused.reason == "bounds"
    assert isinstance(outcome(site, bitmap(spec, window, 1)), Accepted)


def bitmap(spec, window, number):
    counters = np.zeros(sum(spec.blocks), np.int64)
    counters[17] = number
    return encode(Release(spec, (window,), spec.guarantee.draws, counters))


def test_derived_specs_are_remembered_within_a_bound(site):
    stream = next(s for s in site.config.streams if s.name == "doors")
    specs = StreamSpecs.of(site.config, stream)
    for day in range(MAX_WINDOWS + 50):
        (fingerprint,) = specs.at(day * DAY)
        assert fingerprint == stream.spec.for_window(day).fingerprint
    assert _derived.cache_info().currsize <= MAX_WINDOWS
    assert specs.at(5 * DAY) == specs.at(6 * DAY - 1)


def test_a_stream_of_readings_has_the_same_specs_in_every_window(site):
    air = site.config.streams[0]
    specs = StreamSpecs.of(site.config, air)
    assert dict(specs.at(0)) == dict(specs.at(99 * DAY)) == dict(site.config.specs(air))


def test_a_release_that_comes_again_is_a_duplicate(site, arrive):
    payload = site.release("one", 3, keys((5,)))
    message = arrive(topics.release("testing", "one", "doors"), payload)
    with store.opened(site.config.collector.database) as opened:
        rules = Rules.of(site.config)
        kinds = [
            type(v).__name__
            for _ in range(2)
            for v in commit_batch(opened, [message], rules, 1_000_000_001)
        ]
    assert kinds == ["Accepted", "Duplicate"]
