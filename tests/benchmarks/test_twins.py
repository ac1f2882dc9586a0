"""Twins of a stream: as far as noise hides, and no farther."""

import re
from dataclasses import replace

import numpy as np
import pytest

from benchmarks.streams import kinds, same_release, twins
from benchmarks.streams.streams import FACTOR
from pansketch import Attribute, Domain, Privacy, View, ViewsSpec

LOW, HIGH, READINGS, DRAWS = 0.0, 100.0, 20_000, 10


@pytest.fixture
def held():
    rng = np.random.default_rng(1)
    return np.clip(rng.normal(20, 3, (READINGS, 1)), LOW, HIGH)


def spec_of(epsilon):
    domain = Domain([Attribute("x", low=LOW, high=HIGH)])
    view = View(("x",), (5,), round(epsilon * 1_000_000))
    return ViewsSpec(domain, Privacy(epsilon), (view,))


def apart(held, spec, draws, windows=1):
    return twins.farthest(spec, held, 0, windows, draws, np.random.default_rng(2))


def test_a_twin_differs_in_as_many_counters_as_hide_it_best(held):
    """A few readings more in each of the farther cells, and the more the farther they are (Cauchy
    and Schwarz). Readings are in a few cells, where noise would show that some are missing."""
    spec = spec_of(1.0)
    noise = np.sqrt(DRAWS * spec.views[0].noise_variance)
    away = np.maximum((np.arange(32) + 0.5) * (HIGH - LOW) / 32 - held.mean(), 0.0)
    moments = np.linalg.norm(away), np.linalg.norm(np.maximum(away**2 - held.var(), 0.0))
    part = apart(held, spec, DRAWS) / (twins.APART * noise * np.array(moments) / READINGS)
    assert (part > 0.9).all()
    assert (part < 1.03).all()


def test_a_twin_has_a_step_too(held):
    """Of two values all others are none, and the number of the farther one differs."""
    domain = Domain([Attribute("x", low=LOW, high=HIGH, step=100)])
    spec = replace(spec_of(1.0), domain=domain)
    found = apart(np.where(held > 20, HIGH, LOW), spec, DRAWS)
    share = found[0] / (HIGH - LOW)
    noise = np.sqrt(2 * DRAWS * spec.views[0].noise_variance)
    assert share == pytest.approx(twins.APART * noise / READINGS / 2, rel=0.1)


def test_more_noise_hides_a_farther_twin_and_more_readings_a_nearer_one(held):
    plain = apart(held, spec_of(1.0), DRAWS)
    assert apart(held, spec_of(1.0), 4 * DRAWS) == pytest.approx(2 * plain, rel=0.1)
    assert (apart(held, spec_of(10.0), DRAWS) < plain / 5).all()
    # So many windows have as many times the readings, and the root of it as noise.
    assert apart(held, spec_of(1.0), 16 * DRAWS, 16) == pytest.approx(plain / 4, rel=0.1)


def test_each_stream_and_age_has_the_least_error_and_ours(monkeypatch):
    (kind,) = (each for each in kinds.KINDS if each.name == "-200 for missing")
    short = replace(kind.stream, devices=lambda: tuple(d[:500] for d in kind.stream.devices()))
    monkeypatch.setattr(twins, "streams", lambda: [short])
    monkeypatch.setattr(twins, "AGES", twins.AGES[1:2])
    monkeypatch.setattr(twins, "QUICK_FLEETS", 1)
    find, draws = twins.farthest, []

    def farthest(spec, held, place, windows, noise, rng):
        draws.append(noise)
        return find(spec, held, place, windows, noise, rng)

    monkeypatch.setattr(twins, "farthest", farthest)
    rows = twins.run(True)
    # A device has noise in its state, and as much again in what it publishes.
    assert draws == 4 * [2 * len(short.devices())]
    *rows, even, both, whole = rows
    assert even.name == "-200 for missing, 1 window: cdf of an even twin, in our s.e."
    assert both.name == f"-200 for missing, 1 window: {same_release.ANY}"
    assert whole.value == float(both.value > FACTOR)
    assert whole.note == "of 1"
    for row, moment in zip(rows, ("mean", "variance"), strict=True):
        assert row.name.startswith(f"-200 for missing, 1 window: least s.e. of a {moment} ")
        assert row.value > 0
        told = re.fullmatch(
            r"so ([01]\.\d{3}) of .*; median of 4 attributes; ours is [0-9.]+ x .*", row.note
        )
        assert told is not None
        assert 0 < float(told[1]) <= 1


def test_twins_are_so_near_that_the_best_test_errs_in_seven_per_cent():
    rng = np.random.default_rng(3)
    shown = rng.normal(0, 1, 100_000) + twins.APART * (which := rng.random(100_000) < 0.5)
    wrong = np.mean((shown > twins.APART / 2) != which)
    assert wrong == pytest.approx(1 - twins.LOWEST, abs=0.005)
