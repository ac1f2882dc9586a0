"""From stored releases to answers: near the truth, with honest numbers beside them."""

import json
import sqlite3
from contextlib import closing
from dataclasses import replace
from math import sqrt

import numpy as np
import pytest

from pansketch import Attribute
from pansketch_collector.errors import CommandError
from pansketch_collector.ingest.ingest_loop import commit_batch
from pansketch_collector.queries import answers
from pansketch_collector.queries.fleet_model import build
from pansketch_collector.queries.questions import answer
from pansketch_collector.queries.sample import decimals
from pansketch_collector.storage import writer as store
from pansketch_collector.storage.reader import Reader, reading
from pansketch_collector.storage.tables.records import Selection
from pansketch_collector.validation.verdicts import Accepted
from pansketch_fleet.settings.device_spec import schedule_offset

DAY = 86_400
OFFSET = schedule_offset("one", DAY)
FINE = Selection("fine")
TRUTH = np.random.default_rng(7)


@pytest.fixture
def load(small_fleet, arrive):
    """Stores releases, each given as keywords of `SmallFleet.release`; all must be accepted."""

    def run(*releases):
        messages = [
            arrive(
                small_fleet.topic(r.get("device", "one"), r.get("stream", "fine")),
                small_fleet.release(**r),
            )
            for r in releases
        ]
        with store.opened(small_fleet.database) as opened:
            outcomes = commit_batch(opened, messages, small_fleet.rules, 1_000_001_000)
        assert all(isinstance(v, Accepted) for v in outcomes), outcomes

    return run


@pytest.fixture
def model(small_fleet):
    def run(selection=FINE):
        with reading(small_fleet.database) as reader:
            return build(reader, small_fleet.config, selection)

    return run


def weather(n, spread=8.0):
    """Readings (temp, wind): wind is calm, north-east or south with shares 1/2, 1/4, 1/4."""
    temp = np.clip(TRUTH.normal(15, spread, n), -40, 60)
    return np.column_stack([temp, TRUTH.choice([0, 0, 1, 2], n)])


def test_answers_are_near_the_truth_on_a_stream_of_large_epsilon(small_fleet, load, model):
    truth = weather(20_000)
    parts = np.split(truth, 10)
    load(*({"sequence": n + 1, "stream": "fine", "readings": p} for n, p in enumerate(parts)))
    found = model()
    temp = truth[:, 0]
    # A count of a level has the noise of 10 releases at the deepest shares of epsilon 100. Its
    # standard deviation is below 100 readings of 20,000. A box around the mass is at most 100/256
    # degC wide. So 0.5 degC, and 2 % of the readings, are more than five standard deviations.
    for q in (0.1, 0.5, 0.9):
        got = answer(found, "quantile", ["temp", str(q)])
        assert abs(got.value - np.quantile(temp, q)) < 0.5
        assert got.unit == "degC"
        assert 0 < got.standard_error < 0.5
    assert abs(answer(found, "mean", ["temp"]).value - temp.mean()) < 0.5
    assert abs(answer(found, "cdf", ["temp", "20"]).value - (temp <= 20).mean()) < 0.02
    got = answer(found, "range", ["temp", "10", "20", "wind", "south"])
    inside = (temp >= 10) & (temp <= 20) & (truth[:, 1] == 2)
    assert abs(got.value - inside.sum()) < 0.02 * len(truth)
    assert abs(got.share - inside.mean()) < 0.02
    # The control: other readings give other answers, so the tolerances above can be missed.
    assert abs(np.quantile(temp, 0.5) - np.quantile(temp, 0.6)) > 0.5


def test_mixed_sketch_sizes_add_up_to_what_each_class_holds(small_fleet, load, model):
    small, large = small_fleet.specs("fine")[:2]
    assert small.fingerprint != large.fingerprint
    weather(1000)
    load(
        {"device": "one", "stream": "fine", "spec": small, "readings": weather(3000)},
        {"device": "two", "stream": "fine", "spec": large, "readings": weather(5000)},
        {
            "device": "two",
            "stream": "fine",
            "sequence": 2,
            "spec": large,
            "readings": weather(1000),
        },
    )
    both = model()
    assert both.devices == 2
    assert both.windows == 3
    apart = [model(replace(FINE, devices=frozenset([d]))).fitted.total for d in ("one", "two")]
    assert both.fitted.total == pytest.approx(sum(apart), rel=1e-12)
    # The root's noise bounds that of the total: least squares only lowers it.
    variance = small.levels[0].noise_variance * 2 + large.levels[0].noise_variance * 2 * 2
    assert abs(both.fitted.total - 9000) < 6 * sqrt(variance) + 1
    # Consistency keeps masses non-negative, so halves must add up to the whole.
    halves = [answer(both, "range", ["temp", *ends]).value for ends in (("-40", "9"), ("9", "60"))]
    assert sum(halves) == pytest.approx(both.fitted.total, rel=1e-9)


def test_a_selection_takes_windows_by_their_start(small_fleet, load, model):
    load(*({"sequence": n, "stream": "fine", "readings": weather(50)} for n in range(1, 6)))
    for since, until, expected in [
        (None, None, [1, 2, 3, 4, 5]),
        (2 * DAY + OFFSET, None, [2, 3, 4, 5]),
        (2 * DAY + OFFSET + 1, 4 * DAY + OFFSET, [3]),
        (None, 2 * DAY + OFFSET, [1]),
    ]:
        found = model(Selection("fine", since, until))
        first, last = expected[0] * DAY + OFFSET, (expected[-1] + 1) * DAY + OFFSET
        assert (found.windows, found.span) == (len(expected), (first, last))


def test_an_empty_range_names_the_stored_range(small_fleet, load, model):
    load({"sequence": 1, "stream": "fine", "readings": weather(50)})
    with pytest.raises(CommandError, match="02T00:08:09Z to 1970-01-03T00:08:09Z") as caught:
        model(Selection("fine", since=5 * DAY + OFFSET))
    assert caught.value.code == 2
    with pytest.raises(CommandError, match="fine from device 'nobody'; there are one"):
        model(Selection("fine", devices=frozenset(["nobody", "one"])))


def test_releases_of_settings_that_are_gone_are_left_out_and_counted(small_fleet, load, model):
    many = [[20.0]] * 2000  # the noisy total of epsilon 1 is a hundred standard deviations from 0
    load({"stream": "air"}, {"stream": "air", "device": "two"})
    with reading(small_fleet.database) as reader:
        stored = list(reader.releases(Selection("air")))
    assert len(stored) == 2
    changed = small_fleet.path.read_text().replace("width: 8", "width: 16")
    small_fleet.path.write_text(changed)
    with pytest.raises(CommandError, match="other settings") as caught:
        model(Selection("air"))
    assert caught.value.code == 1
    load({"stream": "air", "device": "three", "readings": many})
    found = model(Selection("air"))
    assert (found.devices, found.left_out) == (1, 2)


def test_damaged_stored_bytes_are_reported_as_a_single_line(small_fleet, load, model):
    load({"stream": "air"})
    with closing(sqlite3.connect(small_fleet.database)) as connection, connection:
        connection.execute("UPDATE releases SET payload = substr(payload, 1, 60)")
    with pytest.raises(CommandError, match="damaged"):
        model(Selection("air", devices=frozenset(["one"])))


def test_the_line_shows_two_digits_of_the_error_and_its_basis(small_fleet, load, model):
    load(
        {"stream": "fine", "readings": weather(900)},
        {"stream": "fine", "device": "two", "readings": weather(900)},
    )
    found = model()
    line = answers.as_line(answers.Answer(12.3129, 0.1249, "degC"), found)
    assert line == (
        "12.31 degC ± 0.12 (standard error), 2 releases of 2 devices, "
        "epsilon 100 per reading (silent), "
        "301 for one record in fine, heavy, sums and bars together"
    )
    assert answers.as_line(answers.Answer(1234.5, 56.7, "readings", 0.25), found).startswith(
        "1234 readings ± 57 (standard error), 25 % of the readings, "
    )
    assert answers.as_line(answers.Answer(3.0, 0.0, ""), found).startswith(
        "3 ± 0 (standard error), "
    )
    said = json.loads(answers.as_json(answers.Answer(1.5, float("nan"), "degC"), found))
    assert said["value"] == 1.5
    assert said["standard_error"] is None
    assert (said["releases"], said["devices"]) == (2, 2)
    assert said["windows"] == {"from": "1970-01-02T00:06:11Z", "to": "1970-01-03T00:08:09Z"}
    assert "epsilon 100 per reading" in said["guarantee"]


def test_decimals_follow_the_range_and_the_scale():
    assert decimals(Attribute("t", -40, 60)) == 2
    assert decimals(Attribute("p", 0, 1000, scale="log")) == 2
    assert decimals(Attribute("big", 0, 1e9)) == 0
    assert decimals(Attribute("tiny", 0, 1e-3)) == 7


def test_a_model_that_noise_has_emptied_is_a_failure_of_the_run(make_small_fleet, arrive):
    small_fleet = make_small_fleet(epsilon=0.001)
    window_numbers = range(1, 61)
    messages = [
        arrive(small_fleet.topic(), small_fleet.release(sequence=n, readings=np.empty((0, 1))))
        for n in window_numbers
    ]
    with store.opened(small_fleet.database) as opened:
        commit_batch(opened, messages, small_fleet.rules, 1_000_000_001)
    totals, failures = [], []
    with reading(small_fleet.database) as reader:
        for n in window_numbers:
            try:
                found = build(reader, small_fleet.config, Selection("air", n * DAY, (n + 1) * DAY))
                totals.append(found.fitted.total)
            except CommandError as error:
                failures.append(error)
    # A noisy total is four deviations above zero with probability below 0.01: more than ten of 60
    # happen by chance with probability below 1e-11.
    assert len(totals) <= 10
    assert {error.code for error in failures} == {1}
    assert all("noise outweighs" in str(error) for error in failures)


def test_gaps_are_sequence_numbers_that_are_missing(small_fleet, load):
    load(*({"stream": "air", "sequence": n} for n in (2, 3, 6)))
    with reading(small_fleet.database) as reader:
        assert isinstance(reader, Reader)
        (holding,) = reader.holdings()
    assert (holding.windows, holding.gaps) == (3, 3)  # 1, 4 and 5
