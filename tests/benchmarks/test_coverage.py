"""Coverage of answers: questions with known answers, and the share of errors that hold these."""

import pickle

import numpy as np
import pytest

from benchmarks.datasets import drawn_streams
from benchmarks.streams import coverage, events, questions, sensors
from pansketch.estimate import Estimates
from pansketch.generators import Partition


class Oracle:
    """Answers with the truth and an error; or refuses. `asked`: all questions, in their order."""

    def __init__(self, asked, off, refuses=False):
        self.asked, self.off, self.refuses = iter(asked), off, refuses

    def answer(self, *args, **named):
        if self.refuses:
            raise coverage.TooFewReadings(10.0, 100.0, 10)
        each = next(self.asked)
        scale = each.scale * np.ones(np.shape(each.truth))
        return Estimates(each.truth + self.off * scale, scale)


def drawn(stream, rows, seed=0):
    """Questions of one attribute and of two, whose answers an Oracle gives as they are asked."""
    rng = np.random.default_rng(seed)
    return [*questions.alone(stream, rows, rng), *questions.together(stream, rows, 1, rng)]


@pytest.mark.parametrize(("off", "share"), [(0.0, 1.0), (1.9, 1.0), (2.1, 0.0), (4.0, 0.0)])
def test_coverage_counts_answers_within_two_standard_errors(off, share):
    found = {}
    known = drawn(sensors.WITH_SENTINEL, sensors.WITH_SENTINEL.truth)
    asked = [each._replace(ask=Oracle.answer) for each in known]
    coverage.tallied(Oracle(asked, off), asked, found)
    assert set(found) == {*questions.ALONE, *questions.TOGETHER}
    for each in found.values():
        assert each.within == share
        assert not each.refused
        assert off == 0 or each.ratio == pytest.approx(1 / off)


def test_coverage_leaves_refused_answers_out():
    found = {}
    known = drawn(sensors.WITH_SENTINEL, sensors.WITH_SENTINEL.truth)
    asked = [each._replace(ask=Oracle.answer) for each in known]
    coverage.tallied(Oracle(asked, 0.0, refuses=True), asked, found)
    assert not any(each.given for each in found.values())
    assert sum(each.refused for each in found.values()) == sum(np.size(q.truth) for q in known)
    rows = list(coverage._rows("a stream", found))
    assert all(row.note == "all were refused" and row.meets is None for row in rows)


def test_pairs_in_no_view_have_kinds_of_their_own():
    """What margins alone allow is a bound, and may be true more often than an estimate is."""
    found = {}
    stream, rng = sensors.WITH_SENTINEL, np.random.default_rng(0)
    viewed = {tuple(sorted(stream.domain.names[:2]))}
    drawn = list(questions.together(stream, stream.truth, 1, rng, viewed))
    assert {q.kind.removeprefix(questions.BOUND) for q in drawn} == {*questions.TOGETHER}
    asked = [each._replace(ask=Oracle.answer) for each in drawn]
    coverage.tallied(Oracle(asked, 0.0), asked, found)
    covariances = {each.kind: np.size(each.truth) for each in drawn if "covariance" in each.kind}
    assert covariances == {"covariance": 1, questions.BOUND + "covariance": 5}
    rows = list(coverage._rows("a stream", found))
    assert {(row.bar, row.meets) for row in rows if questions.BOUND in row.name} == {
        (">= 0.93", True)
    }
    assert {row.bar for row in rows if questions.BOUND not in row.name} == {"0.93 to 0.99"}


def test_a_pair_is_asked_for_counts_of_several_ranges():
    """Few answers cannot tell a share of 0.97 from one of 1."""
    asked = drawn(sensors.WITH_SENTINEL, sensors.WITH_SENTINEL.truth)
    counts = [each.truth for each in asked if each.kind == "count"]
    assert len(counts) == questions.PAIRS * questions.AGAIN
    # Most readings have one value, so some ranges hold the same readings.
    assert len(set(counts)) > questions.PAIRS


@pytest.mark.parametrize("seed", range(8))
def test_true_answers_are_those_of_an_exact_model(seed):
    """A box for every reading answers what the questions take for true."""
    stream = events.TEN_FEATURES
    rows = stream.truth[:400]
    points = rows / events.TOO_LARGE
    model = Partition(stream.domain, points, points + 1e-12, np.ones(len(rows)))
    for each in drawn(stream, rows, seed):
        found = np.asarray(each.ask(model).value)
        close = 0.05 if each.kind == "quantile" else 1e-3
        assert np.abs((found - each.truth) / each.scale).max() <= close, each.kind


def test_a_run_of_answers_has_a_row_for_each_kind_and_age(monkeypatch):
    monkeypatch.setattr(coverage, "streams", lambda: [sensors.WITH_SENTINEL])
    monkeypatch.setattr(coverage, "AGES", coverage.AGES[1:2])
    monkeypatch.setattr(coverage, "QUICK_RUNS", 1)
    rows = coverage.run(True)
    kinds = {row.name.rpartition(" ")[2] for row in rows}
    assert kinds == {*questions.ALONE, *questions.TOGETHER}
    one, every = rows[: len(rows) // 2], rows[len(rows) // 2 :]
    assert [row.detail for row in one] == [row.detail for row in every]
    assert all(row.name.startswith("all streams and ages: ") for row in every)
    for row in rows:  # A plan may leave pairs out.
        assert row.bar == (">= 0.93" if questions.BOUND in row.name else "0.93 to 0.99")
        assert 0 <= row.value <= 1
    assert all(row.detail["ratio"] > 0 and row.detail["answers"] for row in rows)


def test_a_stream_is_asked_on_the_scales_that_a_first_window_taught(monkeypatch):
    """The first window is on the configured scales, whose releases the learned ones follow."""
    (age,) = (each for each in coverage.AGES if each.learned)
    told = []

    def counted(stream, *others):
        told.append([bool(each.knots) for each in stream.domain.attributes])
        return coverage_of(stream, *others)

    coverage_of = coverage.counted
    monkeypatch.setattr(coverage, "counted", counted)
    found = coverage.asked(sensors.WITH_SENTINEL, age, 1, 0)
    assert told[0] == [False] * 4
    assert sum(told[1]) >= 3
    assert set(found) == {*questions.ALONE}


def test_every_stream_can_be_asked_in_another_process():
    """A run hands each stream to a process of its own, and collects all of them at the end."""
    for stream in coverage.streams():
        assert pickle.loads(pickle.dumps(stream)).name == stream.name


def test_rows_of_drawn_streams_are_those_of_an_age_and_a_size(monkeypatch):
    """Control: answers about more than two attributes are four standard errors off at one age."""
    jobs = []

    def all_asked(asked, *_):
        jobs.extend(asked)
        off = [4.0 * (s.domain.dimension > 2 and age is coverage.AGES[1]) for s, age in asked]
        return [{"mean": coverage.Tally([np.array([each])], [np.ones(1)])} for each in off]

    monkeypatch.setattr(coverage, "_all_asked", all_asked)
    seed, *rows = coverage.run_drawn(quick=True, seed=5)
    assert seed.value == 5
    assert [s.name for s, _ in jobs[:: len(coverage.AGES)]] == [
        each.name for each in drawn_streams.streams(5, coverage.QUICK_DRAWN)
    ]
    assert len(rows) == len(coverage.AGES) * len(coverage.SIZES)
    assert {row.bar for row in rows} == {">= 0.93"}
    assert [row.meets for row in rows] == [True, True, True, False, True, True, True, True]
    assert coverage.run_drawn(quick=True)[0].value != coverage.run_drawn(quick=True)[0].value
