"""Moment sketches: what a reading adds, what it may add at most, and what protects it."""

import numpy as np
import pytest

from pansketch import Attribute, Domain, MomentsSpec, Privacy
from pansketch.domain.fixed_point import MAX_POSITIONS
from pansketch_audit.mechanisms.mechanism import (
    memory_of,
)
from tests.pansketch.sketches.moments.specs import UNIT, counters_of, readings, spec_of


def test_readings_that_are_not_finite_are_dropped(spec, no_noise):
    rows = readings(40)
    broken = np.insert(rows, [0, 7, 40], [[np.nan, 1, 1], [1, np.inf, 1], [1, 1, -np.inf]], axis=0)
    assert (counters_of(spec, broken, no_noise) == counters_of(spec, rows, no_noise)).all()


def test_one_at_a_time_or_many_at_once_is_the_same(spec, no_noise):
    rows = readings(5000)
    sketch = spec.start(no_noise)
    for part in np.split(rows, [1, 2, 30, 4100]):
        sketch.update_many(part)
    assert (sketch.release(no_noise).counters == counters_of(spec, rows, no_noise)).all()


def test_nothing_of_a_reading_stays_beside_the_counters(spec, no_noise):
    sketch = spec.start(no_noise)
    before = memory_of(sketch)
    for rows in (readings(1), readings(4000)):
        sketch.update_many(rows)
    sketch._counters.fill(0)
    assert memory_of(sketch) == before
    # The control: the counters themselves would have been seen.
    sketch._counters[0] = 1
    assert memory_of(sketch) != before


def test_a_list_of_readings_is_copied_into_memory_that_is_zeroed(no_noise, monkeypatch):
    made = []
    asarray = np.asarray

    def watched(*arguments):
        made.append(asarray(*arguments))
        return made[-1]

    sketch, rows = spec_of("hist").start(no_noise), readings(3).tolist()
    monkeypatch.setattr(np, "asarray", watched)
    sketch.update_many(rows)
    monkeypatch.undo()
    assert len(made) == 1
    assert not any(each.any() for each in made)


def test_fingerprints_cover_what_counters_mean():
    specs = [
        spec_of("rff"),
        spec_of("rff", hash_key=1),
        spec_of("rff", sigma=0.5),
        spec_of("rff", m=22),
        spec_of("rff", count_share=0.03),
        spec_of("rff", privacy=Privacy(epsilon=2.0)),
        spec_of("rff", privacy=Privacy(epsilon=1.0, intrusion="announced")),
        spec_of("rff", domain=UNIT),
        spec_of("race"),
        spec_of("race", width=11),
        spec_of("hist"),
        spec_of("hist", bins=13),
    ]
    assert len({spec.fingerprint for spec in specs}) == len(specs)
    assert spec_of("hist", m=40, sigma=9).fingerprint == spec_of("hist").fingerprint


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"m": 7}, "must be even, not 7"),
        ({"m": 0}, "m must lie between 2 and 4096"),
        ({"m": 20.0}, "m must be a whole number, not float"),
        ({"rows": True}, "rows must be a whole number, not bool"),
        ({"width": 1}, "width must lie between"),
        ({"bins": 1}, "bins must lie between"),
        ({"hash_key": -1}, "hash_key must lie between"),
        ({"sigma": 0.0}, "sigma must lie between"),
        ({"sigma": float("nan")}, "sigma must lie between"),
        ({"sigma": "1"}, "sigma must be a number, not str"),
        ({"count_share": 1.0}, "count_share must lie between"),
        ({"privacy": Privacy(epsilon=1e-6), "m": 4000}, "epsilon is too small"),
        ({"privacy": Privacy(epsilon=1.0, unit="key")}, "counts readings, not keys"),
    ],
)
def test_a_spec_that_cannot_be_is_refused_in_one_line(changes, text):
    with pytest.raises(ValueError, match=text) as caught:
        spec_of("rff", **changes)
    assert "\n" not in str(caught.value)


def test_unknown_features_and_too_many_categories_are_refused():
    with pytest.raises(ValueError, match="one of rff, race, hist, not 'pca'"):
        MomentsSpec(UNIT, Privacy(epsilon=1.0), features="pca")
    many = Domain([Attribute("id", categories=tuple(map(str, range(MAX_POSITIONS + 1))))])
    with pytest.raises(ValueError, match="id: at most 65536 categories"):
        MomentsSpec(many, Privacy(epsilon=1.0))


def test_readings_of_another_shape_are_refused_without_their_values(spec, no_noise):
    sketch = spec.start(no_noise)
    for wrong in (np.full((2, 2), 123.5), np.full(3, 123.5), np.full((1, 1, 3), 123.5)):
        with pytest.raises(ValueError, match="readings must have shape") as caught:
            sketch.update_many(wrong)
        assert "123" not in str(caught.value)
