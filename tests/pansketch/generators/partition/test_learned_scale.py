"""Scales learned from a release: finer where readings are, unchanged where only noise is."""

import numpy as np
import pytest

from pansketch import Attribute, Domain, HierarchySpec, Privacy, View, ViewsSpec
from pansketch.generators import combine, common_domain, learned_domain, pairwise, privhp
from pansketch.generators.partition.rebasing import rebased
from tests.seeded_noise import noise_of_test, seeded_noise

LOOSE = Domain([Attribute("x", low=0, high=1000), Attribute("y", low=-500, high=500)])
EACH = 40_000


def readings(seed, count=EACH):
    """A crowd in a hundredth of the bounds, and one value of mass a quarter in x."""
    rng = np.random.default_rng(seed)
    x = np.where(rng.random(count) < 0.25, 300.0, rng.normal(305, 2, count))
    return np.stack([x, rng.normal(20, 3, count)], axis=1)


def fitted(domain, rows, epsilon=50.0, depth=14):
    spec = HierarchySpec(domain, Privacy(epsilon), depth=depth, k=4096, width=256)
    sketch = spec.start(noise_of_test())
    sketch.update_many(rows)
    return privhp(sketch.release(noise_of_test()))


@pytest.fixture(scope="module")
def first():
    return fitted(LOOSE, readings(1), depth=20)


@pytest.fixture(scope="module")
def learned(first):
    return learned_domain(first)


def test_parts_are_where_the_readings_are(learned):
    """This is one part in a hundred of a linear scale."""
    for attribute, low, high in zip(learned.attributes, (299, 10), (312, 30), strict=True):
        knots = np.array(attribute.knots)
        assert attribute.scale == "learned"
        even = np.linspace(knots[0], knots[-1], len(knots))
        shares = [np.mean((each > low) & (each < high)) for each in (knots, even)]
        assert shares[0] > 0.3
        assert shares[1] < 0.03


def test_a_value_with_mass_of_its_own_does_not_take_a_quarter_of_the_parts(learned, first):
    cell = 1000 / 2**10
    knots = np.array(learned.attributes[0].knots)
    assert np.sum(np.abs(knots - 300) < cell) < 0.2 * len(knots)


def test_the_next_window_is_nearer_to_its_readings(learned):
    """W1 of x over five windows of the same sizes; a chance of 1e-6 is far beyond these means."""
    truth = readings(7)
    domains = (LOOSE, learned)
    apart = [[], []]
    for _ in range(5):
        for found, domain in zip(apart, domains, strict=True):
            model = fitted(domain, truth)
            drawn = model.sample(EACH, np.random.default_rng(3))
            found.append(np.abs(np.sort(drawn[:, 1]) - np.sort(truth[:, 1])).mean())
    assert np.mean(apart[1]) < np.mean(apart[0]) / 3


def test_windows_on_both_scales_are_answered_together(learned, first):
    """The control is one of them alone."""
    later = readings(8)
    later[:, 1] += 40
    both = np.concatenate([readings(1), later])[:, 1]
    models = [fitted(learned, later, depth=20), first]
    whole = common_domain([learned, LOOSE])
    assert whole == learned
    together = combine([rebased(model, whole) for model in models])
    assert together.total == pytest.approx(len(both), rel=0.01)
    assert together.mean("y").value == pytest.approx(both.mean(), abs=1.5)
    assert models[1].mean("y").value != pytest.approx(both.mean(), abs=5)
    # 60 lies where the first window had no readings: in the wide parts of the scale.
    assert together.cdf("y", 40).value == pytest.approx(np.mean(both <= 40), abs=0.03)


def test_bounds_that_differ_keep_the_inner_knots(learned):
    wider = Domain([Attribute("x", low=-10, high=2000), LOOSE.attributes[1]])
    found = common_domain([wider, learned]).attributes[0]
    assert (found.knots[0], found.knots[-1]) == (-10, 2000)
    assert found.knots[1:-1] == learned.attributes[0].knots[1:-1]


@pytest.mark.parametrize(("count", "epsilon", "learns"), [(60, 0.1, False), (3_000, 0.5, True)])
def test_noise_is_no_scale(count, epsilon, learns):
    """A scale is learned from the readings where noise is less than they are, and not otherwise.

    Fewer than one of 100 releases of noise has a scale (none of 400), so six of twenty have one
    with a probability below 1e-7. The second case is the negative control.
    """
    scales = 0
    for _ in range(20):
        model = fitted(LOOSE, readings(2, count), epsilon=epsilon)
        scales += model.readings.value > 0 and learned_domain(model) != LOOSE
    assert (scales > 5) is learns


def test_knots_lie_between_the_points_of_a_step():
    domain = Domain([Attribute("x", low=0, high=100, step=0.5)])
    rng = np.random.default_rng(4)
    rows = np.round(2 * rng.normal(50, 3, (EACH, 1))) / 2
    (found,) = learned_domain(fitted(domain, rows, depth=10)).attributes
    steps = np.array(found.knots[1:-1]) / 0.5
    assert np.all(np.abs(steps - np.round(steps)) > 0.0005)
    assert np.all(np.diff(found.knots) > 0.49)  # each part holds a point
    few = Domain([Attribute("x", low=0, high=10, step=0.5)])
    assert learned_domain(fitted(few, rows / 10, depth=5)) == few


@pytest.mark.parametrize("high", [1e6, 1e9, 4e9, 1e12])
@pytest.mark.parametrize("bits", [4, 8])
def test_a_step_may_be_tiny_beside_the_bounds(high, bits):
    """As of money: most points of the step are too near to each other for knots. With an atom the
    first value is not at the end of a cell."""
    domain = Domain([Attribute("x", low=0, high=high, step=1, atoms=("missing",))])
    rng = np.random.default_rng(6)
    rows = np.rint(np.minimum(np.exp(rng.normal(np.log(high / 90), 1.5, EACH)), high))
    spec = ViewsSpec(domain, Privacy(50.0), (View(("x",), (bits,), 50_000_000),))
    sketch = spec.start(seeded_noise(6))
    sketch.update_many(np.where(rng.random(EACH) < 0.1, np.nan, rows)[:, None])
    found = learned_domain(pairwise(sketch.release(seeded_noise(7)))).attributes[0]
    assert len(found.knots) > 32
    assert np.diff(found.knots).min() > high * 2.0**-29
    even = np.linspace(0, high, 1 << bits)
    shares = [np.histogram(rows, ends)[0].max() / EACH for ends in (found.knots, even)]
    assert shares[0] < 0.6 * shares[1]


def test_what_cannot_have_a_learned_scale_stays():
    kept = [
        Attribute("wind", categories=("N", "E")),
        Attribute("dir", low=0, high=360, cyclic=True),
    ]
    domain = Domain([*kept, Attribute("x", low=0, high=1000)])
    rng = np.random.default_rng(5)
    columns = [rng.integers(0, 2, EACH), rng.uniform(0, 360, EACH), rng.normal(300, 9, EACH)]
    spec = HierarchySpec(domain, Privacy(50.0), depth=17, k=4096, width=256)
    sketch = spec.start(noise_of_test())
    sketch.update_many(np.stack(columns, axis=1))
    found = learned_domain(privhp(sketch.release(noise_of_test())))
    assert list(found.attributes[:2]) == kept


def test_wrong_numbers_of_parts_are_refused(first):
    for parts in (0, 8, 100, 2048):
        with pytest.raises(ValueError, match="parts must be a power of two from 16 to 1024"):
            learned_domain(first, parts)


def test_no_part_is_wider_than_a_quarter_of_the_configured_scale(first, learned):
    """Also where the model's own scale was learned, and shows the outer range as a few cells."""
    again = learned_domain(fitted(learned, readings(2)), configured=LOOSE)
    for domain in (learned, again):
        for attribute, own in zip(domain.attributes, LOOSE.attributes, strict=True):
            assert attribute.knots
            assert np.diff(own.scaling.positions(np.array(attribute.knots))).max() <= 0.2501


def test_a_scale_in_use_stays_unless_the_new_one_is_a_quarter_better(learned):
    """The readings of y have no value with mass of its own, whose cell would get finer for ever. A
    third release costs 0.9 to 1.03 of the second: far from 0.75."""
    second = learned_domain(fitted(learned, readings(2)), configured=LOOSE)
    model = fitted(second, readings(3))
    assert (
        learned_domain(model, configured=LOOSE, present=second).attributes[1]
        is (second.attributes[1])
    )
    assert learned_domain(model, configured=LOOSE).attributes[1] != second.attributes[1]
    moved = readings(4)
    moved[:, 1] += 300
    later = learned_domain(fitted(LOOSE, moved, depth=20), configured=LOOSE, present=second)
    assert later.attributes[1] != second.attributes[1]
