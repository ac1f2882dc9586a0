"""Releases of a hostile or broken device beyond its schedule and its readings are rejected."""

from dataclasses import replace

import pytest

from pansketch import Release, WindowId, encode
from pansketch_collector.ingest.ingest_loop import commit_batch
from pansketch_collector.storage import writer as store
from pansketch_collector.storage.reader import reading
from pansketch_collector.storage.tables.records import Selection
from pansketch_collector.validation import decision
from pansketch_collector.validation.verdicts import Accepted, Rejected
from pansketch_fleet.settings.device_spec import schedule_offset
from tests.collector.messages import validate_one
from tests.seeded_noise import noise_of_test

DAY, NOW = 86_400, 20_000 * 86_400
OFFSET = schedule_offset("one", DAY)


@pytest.fixture
def arrive_all(small_fleet, arrive):
    """Settles releases of device one at NOW: outcomes."""

    def run(*payloads, stream="air", at=NOW):
        messages = [arrive(small_fleet.topic(stream=stream), payload) for payload in payloads]
        with store.opened(small_fleet.database) as opened:
            return commit_batch(opened, messages, small_fleet.rules, at)

    return run


def window(sequence=1, start=5 * DAY + OFFSET, seconds=DAY, incarnation=b"12345678"):
    return WindowId("one", "air", sequence, start, start + seconds, None, incarnation)


def forged(small_fleet, stream, change):
    """An honest, empty release whose counters and draws were changed."""
    (spec, *_) = small_fleet.specs(stream)
    start = 5 * DAY + OFFSET
    label = WindowId("one", stream, 1, start, start + DAY)
    made = spec.start(noise_of_test()).release(noise_of_test(), label)
    counters, draws = made.counters.copy(), made.draws
    draws = change(counters, draws) or draws
    return encode(Release(spec, (label,), draws, counters))


@pytest.mark.parametrize(
    ("label", "reason", "final"),
    [
        (window(sequence=0), "bounds", True),
        (window(seconds=7777), "window", False),
        (window(seconds=2 * DAY), "window", False),
        (window(start=5 * DAY + OFFSET + 1), "window", False),
        (window(start=5 * DAY + DAY // 2), "window", False),
        (window(start=NOW + DAY + OFFSET), "future", False),
        (window(start=2_932_000 * DAY + OFFSET), "future", False),
    ],
)
def test_windows_off_the_schedule_are_refused(small_fleet, arrive_all, label, reason, final):
    (outcome,) = arrive_all(small_fleet.release(window=label))
    assert isinstance(outcome, Rejected)
    assert (outcome.reason, outcome.final) == (reason, final)
    assert isinstance(arrive_all(small_fleet.release(window=window()))[0], Accepted)


def test_a_window_of_the_near_future_is_taken_now_and_of_the_far_one_then(small_fleet, arrive_all):
    soon = small_fleet.release(window=window(start=NOW + OFFSET - DAY))
    assert isinstance(arrive_all(soon)[0], Accepted)
    later = small_fleet.release(window=window(sequence=2, start=NOW + DAY + OFFSET))
    assert arrive_all(later)[0].reason == "future"
    assert isinstance(arrive_all(later, at=NOW + 3 * DAY)[0], Accepted)


@pytest.mark.parametrize("stream", ["air", "fine", "heavy", "sums", "bars"])
def test_invented_readings_and_noise_are_refused_for_good(small_fleet, arrive_all, stream):
    bound = small_fleet.rules.specs[stream].most_readings

    def readings(counters, draws):
        counters[0] += 2 * bound + (1 << 40)

    def draws_beyond(counters, draws):
        return draws + 17

    def draws_below(counters, draws):
        return draws - 1

    payloads = [forged(small_fleet, stream, c) for c in (readings, draws_beyond, draws_below)]
    for outcome in arrive_all(*payloads, stream=stream):
        assert isinstance(outcome, Rejected)
        assert (outcome.reason, outcome.final) == ("bounds", True)
    assert isinstance(
        arrive_all(forged(small_fleet, stream, lambda *_: None), stream=stream)[0], Accepted
    )


@pytest.mark.parametrize("stream", ["fine", "heavy", "sums"])
def test_more_readings_than_configured_are_refused_until_the_configuration_has_them(
    small_fleet, arrive_all, stream
):
    """The agent keeps what is refused so: an operator who states too few loses no window."""
    rules = small_fleet.rules.specs[stream]

    def change(counters, draws):
        counters[0] += 2 * rules.most_readings + 100_000

    payload = forged(small_fleet, stream, change)
    (refused,) = arrive_all(payload, stream=stream)
    assert (refused.reason, refused.final) == ("readings", False)
    assert "expect.max_readings" in refused.text
    more = replace(rules, most_readings=3 * rules.most_readings + 200_000, _bounds={})
    specs = {**small_fleet.rules.specs, stream: more}
    topic = small_fleet.topic(stream=stream)
    assert isinstance(
        validate_one(topic, payload, replace(small_fleet.rules, specs=specs)), Accepted
    )


def test_one_forged_release_does_not_take_others_of_its_batch_with_it(small_fleet, arrive_all):
    def change(counters, draws):
        counters += 1 << 33

    honest = [small_fleet.release(sequence=n) for n in range(2, 12)]
    outcomes = arrive_all(*honest[:5], forged(small_fleet, "air", change), *honest[5:])
    assert [isinstance(v, Accepted) for v in outcomes] == [True] * 5 + [False] + [True] * 5


def test_a_sequence_does_not_run_ahead_of_its_windows(small_fleet, arrive_all):
    """So that missing windows stay meaningful; a rolled back ledger's numbers are taken."""
    first = small_fleet.release(window=window(3, 5 * DAY + OFFSET))
    assert isinstance(arrive_all(first)[0], Accepted)
    for number in (2**63 - 1, 40):
        (outcome,) = arrive_all(small_fleet.release(window=window(number, 6 * DAY + OFFSET)))
        assert (outcome.reason, outcome.final) == ("bounds", True)
    again = small_fleet.release(window=window(3, 60 * DAY + OFFSET))
    late = small_fleet.release(window=window(57, 59 * DAY + OFFSET))
    assert all(isinstance(v, Accepted) for v in arrive_all(again, late))
    fresh = small_fleet.release(window=window(20_100, 70 * DAY + OFFSET, incarnation=b"another!"))
    assert arrive_all(fresh)[0].reason == "bounds"
    with reading(small_fleet.database) as reader:
        (holding,) = reader.holdings()
    assert holding.gaps < 60


def test_a_device_cannot_fill_the_disk(small_fleet, arrive_all, monkeypatch):
    monkeypatch.setattr(decision, "MAX_RELEASES", 4)
    payloads = [small_fleet.release(sequence=n) for n in range(1, 8)]
    outcomes = arrive_all(*payloads)
    assert [isinstance(v, Accepted) for v in outcomes] == [True] * 4 + [False] * 3
    assert {(v.reason, v.final) for v in outcomes[4:]} == {("full", False)}
    # A stored release is acknowledged again, even at the limit.
    assert type(arrive_all(payloads[0])[0]).__name__ == "Duplicate"
    with reading(small_fleet.database) as reader:
        assert len(list(reader.releases(Selection("air")))) == 4


def test_the_stored_total_is_that_of_the_readings(small_fleet, arrive_all):
    (outcome,) = arrive_all(
        small_fleet.release(stream="fine", readings=[(1.0, 1.0)] * 900), stream="fine"
    )
    total = outcome.total
    assert abs(total.value - 900) < 12 * total.variance**0.5 + 1
