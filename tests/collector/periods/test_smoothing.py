"""The smoother's input: rows that noise outweighs alone, asked together with their neighbours."""

import json

import numpy as np
import pytest

from pansketch import Estimate
from pansketch_collector.ingest.ingest_loop import commit_batch
from pansketch_collector.periods.smoothing import pooled, smoothed
from pansketch_collector.queries.answers import Answer
from pansketch_collector.storage import writer as store
from pansketch_collector.validation.verdicts import Accepted

ASK = ("query", "--stream", "air")


def together_from(length, asked):
    """Answers of so many rows and more; every question is noted."""

    def ask(first, last):
        asked.append((first, last))
        return Answer(100.0 + first, 1.0, "") if last - first + 1 >= length else None

    return ask


@pytest.mark.parametrize("length", [2, 3, 4, 8])
@pytest.mark.parametrize("holes", [range(8), range(3, 7), (0, 1, 2, 5, 6), (1, 3, 5), ()])
def test_neighbours_are_asked_together_until_they_answer_and_each_row_once(length, holes):
    known = Answer(5.0, 1.0, "")
    answers = [None if at in holes else known for at in range(8)]
    asked = []
    found = pooled(answers, together_from(length, asked))
    assert len(asked) < max(1, len(holes))
    for first, last in asked:
        assert set(range(first, last + 1)) <= set(holes)
    answered = [each for each in asked if each[1] - each[0] + 1 >= length]
    covered = [at for first, last in answered for at in range(first, last + 1)]
    assert len(covered) == len(set(covered))
    assert [at for at, each in enumerate(found) if each not in (None, known)] == [
        (first + last) // 2 for first, last in sorted(answered)
    ]
    assert all(found[at] is known for at in range(8) if at not in holes)


def test_a_number_of_readings_of_several_rows_is_that_of_one():
    whole = Answer(120.0, 8.0, "readings", 0.25)
    found = pooled([None] * 4, lambda first, last: whole if last - first == 3 else None)
    assert found[1] == Answer(30.0, 2.0, "readings", 0.25)


def test_without_an_answer_there_is_no_level():
    assert smoothed([None, None], [0.0, 1.0], (0.0, 1.0)) is None


@pytest.mark.parametrize("answered", [1, 2, 3, 12])
@pytest.mark.parametrize("value", [-29.0, 10.0])
def test_a_level_has_an_error_below_that_of_any_number_inside_the_bounds_or_is_refused(
    answered, value
):
    """One answer does not tell how far the level moves; twelve equal ones do."""
    bounds = -30.0, 50.0
    answers = [Answer(value, 2.0, "degC")] * answered + [None]
    levels, _ = smoothed(answers, [float(at) for at in range(answered + 1)], bounds)
    assert all(each is not None for each in levels[:-1])
    assert answered in (2, 3) or (levels[-1] is None) == (answered == 1)
    given = [each for each in levels if each is not None]
    assert all(bounds[0] <= each.value <= bounds[1] for each in given)
    assert all(each.standard_error < 80 / 12**0.5 for each in given)


def test_an_answer_outside_the_bounds_has_a_level_inside():
    levels, _ = smoothed([Answer(1.2, 0.3, "")] * 2, [0.0, 1.0], (0.0, 1.0))
    assert [each.value for each in levels] == [1.0, 1.0]


@pytest.fixture
def sparse(small_fleet, arrive):
    """64 days of twelve readings each at 10 degrees: noise outweighs nearly every day, not all.

    Noise also outweighs sixteen days together once in 40 (1 of 40 fleets). It outweighs all four
    sixteens below once in a million. Their pairs and the whole are asked after that.
    """
    rng = np.random.default_rng(3)
    readings = {day: np.clip(rng.normal(10, 3, (12, 1)), -40, 60) for day in range(1, 65)}
    messages = [
        arrive(small_fleet.topic(), small_fleet.release("one", day, "air", rows))
        for day, rows in readings.items()
    ]
    with store.opened(small_fleet.database) as opened:
        outcomes = commit_batch(opened, messages, small_fleet.rules, 1_005_000_000)
    assert all(isinstance(outcome, Accepted) for outcome in outcomes), outcomes


def test_rows_that_are_too_noisy_have_a_level_from_all_of_them(sparse, run):
    """The noise of a day is 12 readings or more, so most days have no value; all have 768."""
    _, out, _ = run(*ASK, "mean", "temp", "--by", "day", "--smooth", "--json")
    rows = json.loads(out)["rows"]
    assert sum(row["value"] is None for row in rows) > 32
    # One answer stands for all rows here. Rows far from it have no level.
    given = [row["level"] for row in rows if row["level"] is not None]
    assert given
    bands = [level.pop("band") for level in given]
    levels = [Estimate(**level) for level in given]
    assert all(-40 <= low <= high <= 60 for low, high in bands)
    assert all(low <= each.value <= high for (low, high), each in zip(bands, levels, strict=True))
    assert all(abs(each.value - 10) < 6 * each.standard_error for each in levels)
