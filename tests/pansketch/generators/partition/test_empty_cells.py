"""Cells without a point of an attribute's step are empty, unless they show readings."""

from dataclasses import replace

import numpy as np
import pytest

from pansketch import Attribute, Domain, Privacy, View, ViewsSpec, WindowId
from pansketch.generators import pairwise
from pansketch.generators.pairwise import contingency_tables
from pansketch_audit.mechanisms.zero_noise import NoNoise
from tests.seeded_noise import seeded_noise

READINGS, FLEETS = 20_000, 12
DOMAIN = Domain([Attribute("fill", low=0, high=100, step=5), Attribute("weight", low=0, high=300)])
SETS = ((("fill",), (9,)), (("weight",), (6,)), (("fill", "weight"), (6, 4)))
PARTS = (300_000, 300_000, 400_000)
POINTS = np.arange(0, 100, 5.0)


def readings(step):
    """Multiples of it, and what goes with them, of a fixed seed."""
    rng = np.random.default_rng(3)
    fill = np.rint(rng.beta(2, 2, READINGS) * 100 / step) * step
    return np.column_stack([fill, 20 + 2 * fill + rng.normal(0, 20, READINGS)])


def released(rows, seed):
    views = [View(*each, part) for each, part in zip(SETS, PARTS, strict=True)]
    return released_by(ViewsSpec(DOMAIN, Privacy(1), views), rows, seed)


def released_by(spec, rows, seed):
    noise = seeded_noise(seed)
    sketch = spec.start(noise)
    sketch.update_many(rows)
    return sketch.release(noise, WindowId("a", "s", seed))


def released_before(spec, rows, seed):
    """As by an agent that does not bring readings to the points of a step."""
    stepless = Domain([replace(each, step=None) for each in spec.domain.attributes])
    release = released_by(replace(spec, domain=stepless), rows, seed)
    return replace(release, spec=spec)


@pytest.fixture(scope="module")
def fleets():
    """Releases of readings with the stated step."""
    return [released(readings(5.0), seed) for seed in range(FLEETS)]


def answers(release):
    """Errors of shares up to each point, and the standard errors."""
    model, rows = pairwise(release), readings(5.0)
    found = [model.cdf("fill", each) for each in POINTS.tolist()]
    truth = (rows[:, :1] <= POINTS).mean(axis=0)
    return [np.array([each.value for each in found]) - truth, [e.standard_error for e in found]]


def test_noise_where_no_reading_can_be_is_in_no_answer(fleets, monkeypatch):
    """21 of 512 cells have a point. In the control all cells count: its errors are 1.4 times as
    large, and its standard errors 2.5 times."""
    known = np.sqrt(np.mean(np.square([answers(each) for each in fleets]), axis=(0, 2)))
    monkeypatch.setattr(contingency_tables, "_reach", lambda *_, **__: None)
    every = np.sqrt(np.mean(np.square([answers(each) for each in fleets]), axis=(0, 2)))
    assert (known < 0.8 * every).all()


def test_two_attributes_of_which_one_has_empty_cells_go_together(fleets):
    rows = readings(5.0)
    truth = np.cov(rows.T)[0, 1]
    for release in fleets[:3]:
        found = pairwise(release).covariance()[0, 1]
        assert abs(found.value - truth) < 5 * found.standard_error < truth


def test_readings_between_the_points_are_counted_at_the_nearest():
    """Three in a hundred are no multiples, such as means of two readings. The control counts them
    where they are: its errors are twice as large."""
    rng, rows = np.random.default_rng(5), readings(5.0)
    rows[:, 0] += rng.choice([-0.8, 0.0, 0.8], READINGS, p=(0.015, 0.97, 0.015))
    spec = ViewsSpec(DOMAIN, Privacy(1), [View(*e, p) for e, p in zip(SETS, PARTS, strict=True)])
    edges = POINTS + 2.5
    truth = (rows[:, :1] <= edges).mean(axis=0)

    def error(made):
        models = [pairwise(made(spec, rows, seed)) for seed in range(FLEETS)]
        found = [[each.cdf("fill", edge).value for edge in edges.tolist()] for each in models]
        return np.sqrt(np.mean((np.array(found) - truth) ** 2))

    assert error(released_by) < 0.6 * error(released_before)


def test_readings_between_the_points_of_a_wrong_step_were_not_lost(monkeypatch):
    """Releases of earlier agents have them in cells of their own. Half of them are no multiples.
    The control drops these."""
    spec = ViewsSpec(DOMAIN, Privacy(1), [View(*e, p) for e, p in zip(SETS, PARTS, strict=True)])
    release = released_before(spec, readings(2.5), 1)
    found = pairwise(release).readings
    assert abs(found.value - READINGS) < 5 * found.standard_error
    rows = pairwise(release).sample(1000, np.random.default_rng(0))
    assert set(rows[:, 0]) <= set(np.arange(0, 101, 5.0).tolist())
    monkeypatch.setattr(contingency_tables, "_off_points", lambda *_: False)
    found = pairwise(release).readings
    assert not abs(found.value - READINGS) < 5 * found.standard_error


def test_no_reading_is_in_a_cell_that_is_taken_to_be_empty():
    """Points of a step, atoms, missing values and readings beyond the bounds."""
    rng = np.random.default_rng(8)
    empty = 0
    for _ in range(150):
        step, low = float(rng.choice([0.1, 0.3, 0.5, 1, 7])), float(np.round(rng.uniform(-50, 50)))
        high = low + float(np.round(rng.uniform(20, 300), 1))
        points = np.arange(np.ceil(low / step), np.floor(high / step) + 1) * step
        points = np.round(points, 6)
        inside = rng.choice(points[1:-1:5], rng.integers(0, 2)).tolist()
        atoms = (*inside, *[low - 30] * rng.integers(0, 2), *["missing"] * rng.integers(0, 2))
        scale = str(rng.choice(["linear", "log"]))
        attribute = Attribute("x", low, high, scale=scale, step=step, atoms=atoms)
        bits = int(rng.integers(max(attribute.least_bits, 5), 11))
        spec = ViewsSpec(Domain([attribute]), Privacy(1), (View(("x",), (bits,), 1_000_000),))
        sketch = spec.start(NoNoise())
        others = [low - 10, high + 10, *(np.nan if each == "missing" else each for each in atoms)]
        sketch.update_many(np.concatenate([points, others])[:, None])
        (counts,) = sketch.release(NoNoise(), WindowId("a", "s", 1)).split()
        reach = contingency_tables._reach(attribute, 1 << bits)
        if reach is not None:
            assert not counts[~reach].any(), attribute
            empty += 1
    assert empty > 50


def test_readings_between_the_points_of_a_wrong_step_stayed_beside_atoms_too(monkeypatch):
    """The control takes them for noise: half of the readings with a value are lost."""
    (fill,) = (replace(each, atoms=("missing",)) for each in DOMAIN.attributes[:1])
    spec = ViewsSpec(Domain([fill]), Privacy(1), (View(("fill",), (9,), 1_000_000),))
    rows = np.concatenate([readings(2.5)[:, :1], np.full((READINGS // 2, 1), np.nan)])
    release = released_before(spec, rows, 1)

    def missing():
        return pairwise(release).share("fill = missing").value

    assert missing() == pytest.approx(1 / 3, abs=0.01)
    monkeypatch.setattr(contingency_tables, "_off_points", lambda *_: False)
    assert missing() > 0.4
