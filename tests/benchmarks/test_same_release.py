"""Twins with one release: no counter differs, and what none of them tells differs much."""

import re

import numpy as np
import pytest

from benchmarks.error_bars.short_streams import exact, noisy
from benchmarks.streams import same_release
from benchmarks.streams.same_release import loose, tied
from benchmarks.streams.streams import model_of
from pansketch import Attribute, Domain, Privacy, View, ViewsSpec

READINGS, DRAWS = 20_000, 10
TWO = Domain(
    [Attribute("x", low=0.0, high=100.0), Attribute("y", low=0.0, high=50.0, step=0.1)],
)
SPEC = ViewsSpec(
    TWO,
    Privacy(3.0),
    tuple(
        View(names, bits, 1_000_000)
        for names, bits in ((("x",), (5,)), (("y",), (5,)), (("x", "y"), (3, 3)))
    ),
)
ONE = ViewsSpec(Domain([TWO.attributes[0]]), Privacy(1.0), (View(("x",), (5,), 1_000_000),))


@pytest.fixture
def held():
    return np.random.default_rng(1).normal((20, 12), (3, 2), (READINGS, 2))


def modelled(spec, held, rng):
    release = noisy(exact(spec, held), DRAWS, rng)
    return release, model_of(release)


def test_an_even_twin_has_the_counters_of_its_stream(held, monkeypatch):
    """Half of the readings have one value inside a cell, and share it with others. The
    control: a twin whose readings are one cell farther is told apart, so it is in no row."""
    held = held[:, :1]
    held[::2] = 20.4
    monkeypatch.setattr(same_release, "ASKED", np.array([0.5]))
    rng = np.random.default_rng(4)
    _, model = modelled(ONE, held, rng)
    (row,) = same_release.even_rows("crowd", ONE, held, model, rng)
    assert row.name == "crowd: cdf of an even twin, in our s.e."
    told = re.fullmatch(r"(0\.\d{3}), up to (\S+) of x; no counter differs", row.note)
    assert told is not None
    # Of the cell from 18.75 to 21.875 even readings have 53 % up to there.
    assert 0.2 < float(told[1]) < 0.3
    assert float(told[2]) == pytest.approx(20.4, abs=0.1)
    assert 0.5 < row.value < 1  # Our error holds one value that stands out.
    monkeypatch.setattr(same_release, "inside", lambda attribute, column, *_: column + 3.125)
    assert list(same_release.even_rows("crowd", ONE, held, model, rng)) == []


@pytest.mark.parametrize("twin", [loose, tied])
def test_a_twin_has_all_counters_and_other_readings(held, twin, monkeypatch):
    """The control: exchanged over the whole range, values give other counters."""
    rng = np.random.default_rng(5)
    counters = exact(SPEC, held).counters
    assert (exact(SPEC, found := twin(SPEC, held, rng)).counters == counters).all()
    assert np.mean(found != held) > 0.9
    monkeypatch.setattr(same_release, "finest", lambda *_, several=False: 0 if several else 5)
    assert (exact(SPEC, twin(SPEC, held, rng)).counters != counters).any()


def test_a_prediction_errs_about_one_of_two_twins(held):
    """The two attributes of the stream do not depend on each other: records are near the loose
    twin, and the tied one has a line in each cell."""
    rng = np.random.default_rng(6)
    release, model = modelled(SPEC, held, rng)
    (row,) = (
        each
        for each in same_release.rows_of("bells", release, held, model, rng)
        if each.name == f"bells: {same_release.ANY}"
    )
    number = r"(\d\.\d{3})"
    told = re.fullmatch(
        f"records are {number} from the stream, {number} from a loose twin, "
        f"{number} from a tied one; predicted {number}",
        row.note,
    )
    assert told is not None
    _, near, far, predicted = map(float, told.groups())
    assert near < predicted < far
    assert row.value == pytest.approx((far / near) ** 0.5, rel=0.05)
    assert row.value > 2
