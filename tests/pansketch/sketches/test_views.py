"""Views: every reading reaches one cell of each grid, with the noise of its share of epsilon."""

from fractions import Fraction
from itertools import pairwise, product

import numpy as np
import pytest

from pansketch import (
    Attribute,
    Domain,
    Privacy,
    SketchClosed,
    Span,
    View,
    ViewsSpec,
    merge,
    os_entropy,
)
from pansketch.sketches.views import FEW_READINGS
from pansketch_audit.mechanisms.zero_noise import NoNoise

WIND = ("N", "E", "S", "W", "calm")
DOMAIN = Domain(
    [
        Attribute("temp", low=-40, high=60),
        Attribute("pm25", low=0, high=1000, scale="log"),
        Attribute("wind", categories=WIND),
    ]
)
VIEWS = (
    View(("temp",), (7,), 200_000),
    View(("temp", "pm25"), (3, 2), 500_000),
    View(("wind", "temp", "pm25"), (3, 1, 2), 300_000),
)


def spec_of(*views, privacy=None):
    return ViewsSpec(DOMAIN, privacy or Privacy(1.0), views or VIEWS)


def readings_of(count, seed=0):
    generator = np.random.default_rng(seed)
    wind = generator.integers(0, len(WIND), count)
    pm25 = np.exp(generator.normal(4, 1, count))
    return np.column_stack([generator.normal(12, 20, count), pm25, wind])


def expected(readings):
    """The grids' counts, from numpy's own histograms of the unit cube."""
    attributes = DOMAIN.attributes
    unit = np.array(
        [[a.to_unit(x) for a, x in zip(attributes, row, strict=True)] for row in readings]
    )
    blocks = []
    for view in VIEWS:
        edges = [np.linspace(0, 1, side + 1) for side in view.shape]
        columns = unit[:, [DOMAIN.index(name) for name in view.names]]
        blocks.append(np.histogramdd(columns, edges)[0].ravel())
    return np.concatenate(blocks)


@pytest.mark.parametrize("count", [1, FEW_READINGS, FEW_READINGS + 1, 5000, 60_000])
def test_a_reading_reaches_the_cell_it_lies_in_of_every_view(no_noise, count):
    sketch = spec_of().start(no_noise)
    readings = readings_of(count)
    sketch.update_many(readings)
    # A histogram's own rounding moves a reading only where it lies on an edge: none does here.
    assert sketch.release(no_noise).counters.tolist() == expected(readings).tolist()


def test_the_number_of_readings_given_at_once_does_not_matter(no_noise):
    readings = readings_of(50)
    together, single = spec_of().start(no_noise), spec_of().start(no_noise)
    together.update_many(readings)
    for row in readings:
        single.update_many(row[None])
    assert (
        together.release(no_noise).counters.tolist() == single.release(no_noise).counters.tolist()
    )


def test_readings_that_are_not_finite_are_dropped_and_others_clipped(no_noise):
    sketch = spec_of().start(no_noise)
    sketch.update_many(np.array([[np.nan, 1, 0], [500, -3, 4], [1, np.inf, 0]]))
    temp, pair, triple = sketch.release(no_noise).split()
    assert [int(block.sum()) for block in (temp, pair, triple)] == [1, 1, 1]
    assert (temp.argmax(), pair.argmax(), triple.argmax()) == (127, 7 << 2, (4 << 1 | 1) << 2)


@pytest.mark.parametrize("count", [3, 3000])
def test_no_reading_stays_in_scratch(no_noise, count):
    sketch = spec_of().start(no_noise)
    sketch.update_many(readings_of(count))
    cells, encoder = sketch._absorber._cells, sketch._absorber._encoder
    for scratch in (
        cells._indices,
        cells._part,
        cells._tally,
        cells._one,
        cells._touched,
        cells._sum,
    ):
        assert not scratch.any()
    assert not any(each.any() for each in (encoder._units, encoder._positions))


def test_each_view_has_the_noise_of_its_share(known_noise):
    noise = known_noise(1)
    sketch = spec_of().start(noise)
    sketch.release(noise)
    scales = [Fraction(5), Fraction(2), Fraction(10, 3)]
    assert [scale for scale, _ in noise.draws] == scales * 2
    assert [len(drawn) for _, drawn in noise.draws] == [128, 32, 64] * 2
    # Cost of one reading: one counter of each view, each at the reciprocal of its scale.
    assert sum(1 / scale for scale in scales) == 1


def test_the_variance_of_a_draw_is_that_of_its_noise():
    """Sample variance of 200,000 draws: 12 standard errors are off by chance far below 1e-6."""
    view = View(("temp",), (1,), 250_000)
    drawn = np.zeros(200_000, np.int64)
    os_entropy().add_discrete_laplace(view.scale, drawn)
    error = view.noise_variance * np.sqrt(5 / len(drawn))
    assert abs(drawn.var() - view.noise_variance) < 12 * error
    assert abs(drawn.var() - View(("temp",), (1,), 200_000).noise_variance) > 12 * error


def test_a_span_spends_epsilon_for_all_its_readings():
    privacy = Privacy(1.0, unit=Span(60, 4))
    with pytest.raises(ValueError, match="cost 1000000 micro-epsilon together, not 250000"):
        spec_of(privacy=privacy)
    spec = spec_of(View(("temp",), (2,), 250_000), privacy=privacy)
    assert (spec.scales, spec.guarantee.epsilon) == ((Fraction(4),), 1.0)


def test_releases_add_up(no_noise):
    sketches = [spec_of().start(no_noise) for _ in range(2)]
    for seed, sketch in enumerate(sketches):
        sketch.update_many(readings_of(100, seed))
    total = merge(sketch.release(no_noise) for sketch in sketches)
    both = np.concatenate([readings_of(100, 0), readings_of(100, 1)])
    assert total.counters.tolist() == expected(both).tolist()


def test_a_released_sketch_takes_nothing_and_holds_nothing(no_noise):
    sketch = spec_of().start(no_noise)
    sketch.update_many(readings_of(9))
    sketch.release(no_noise)
    assert not sketch._counters.any()
    with pytest.raises(SketchClosed):
        sketch.update_many(readings_of(1))


@pytest.mark.parametrize(
    ("views", "problem"),
    [
        ((), "views must be 1 to 1024, not 0"),
        ((View(("temp",), (3,), 1_000_000), View(("rain",), (3,), 1)), "unknown attribute 'rain'"),
        ((View(("wind",), (4,), 1_000_000),), "wind has 3 bits at most"),
        ((View(("temp",), (3,), 999_999),), "cost 999999 micro-epsilon together, not 1000000"),
        ((View(("temp", "pm25"), (12, 12), 1_000_000),), "16777216 cells, more than 4194304"),
    ],
)
def test_views_that_cannot_be_are_refused(views, problem):
    with pytest.raises(ValueError, match=problem):
        ViewsSpec(DOMAIN, Privacy(1.0), views)


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        (((), (), 1), "a view needs attributes"),
        ((("temp",), (1, 2), 1), "a view needs attributes, and bits for each of them"),
        ((("temp", "temp"), (1, 2), 1), "names an attribute twice"),
        ((("temp",), (0,), 1), "bits must lie between 1 and 12"),
        ((("temp",), (13,), 1), "bits must lie between 1 and 12"),
        ((("temp",), (3,), 0), "has no part of epsilon"),
    ],
)
def test_a_view_that_makes_no_sense_is_refused(given, problem):
    with pytest.raises(ValueError, match=problem):
        View(*given)


def test_a_change_of_meaning_changes_the_fingerprint():
    spec = spec_of()
    swapped = (View(("pm25", "temp"), (2, 3), 500_000), *VIEWS[::2])
    others = [
        spec_of(*VIEWS[::-1]),
        spec_of(*swapped),
        spec_of(View(("temp",), (6,), 200_000), *VIEWS[1:]),
        spec_of(
            View(("temp",), (7,), 300_000), VIEWS[1], View(VIEWS[2].names, VIEWS[2].bits, 200_000)
        ),
        spec_of(privacy=Privacy(1.0, intrusion="announced")),
    ]
    assert len({each.fingerprint for each in [spec, *others]}) == 6


WITH_ATOMS = Domain(
    [
        Attribute("temp", low=-40, high=60, atoms=(0, 20.5, "missing")),
        Attribute("pm25", low=0, high=1000, scale="log", atoms=(-200, 0)),
        Attribute("wind", categories=WIND, atoms=("missing",)),
    ]
)
VALUES = [
    (-50, -40, -0.1, 0, 0.1, 20.5, 60, 70, np.nan),
    (-200, -1, 0, 1e-9, 1, 1e9),
    (0, 4, np.nan),
]


@pytest.mark.parametrize("at_once", [1, 3, 162])
def test_a_reading_with_atoms_adds_1_to_one_cell_of_every_view(at_once):
    """All combinations of atoms, bounds and values, one by one and in batches: the sensitivity."""
    views = (
        View(("temp",), (7,), 200_000),
        View(("temp", "pm25"), (4, 3), 500_000),
        View(("wind", "temp", "pm25"), (3, 4, 3), 300_000),
    )
    spec = ViewsSpec(WITH_ATOMS, Privacy(1.0), views)
    rows = np.array(list(product(*VALUES)), np.float64)
    ends = np.cumsum([0, *spec.blocks])
    seen = []
    for start in range(0, len(rows), at_once):
        sketch = spec.start(NoNoise())
        part = rows[start : start + at_once]
        sketch.update_many(part)
        counters = sketch.release(NoNoise()).counters
        assert counters.min() >= 0
        assert {int(counters[a:b].sum()) for a, b in pairwise(ends)} == {len(part)}
        seen.append(counters)
    whole = spec.start(NoNoise())
    whole.update_many(rows)
    assert np.array_equal(whole.release(NoNoise()).counters, np.sum(seen, axis=0))
