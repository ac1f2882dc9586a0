"""Partitions of attributes with steps: every answer counts whole points, as a large sample does."""

import numpy as np
import pytest

from pansketch import Attribute, Domain, Privacy, View, ViewsSpec, WindowId
from pansketch.domain.cell_paths import PathEncoder
from pansketch.generators import Partition, pairwise
from pansketch.generators.partition import shares
from tests.seeded_noise import seeded_noise

DOMAIN = Domain(
    [
        Attribute("temp", -40, 60, step=0.1),
        Attribute("pm25", 0, 1000, scale="log", step=1),
        Attribute("load", 0, 16),
    ]
)
CONTINUOUS = Domain(
    [Attribute("temp", -40, 60), Attribute("pm25", 0, 1000, scale="log"), Attribute("load", 0, 16)]
)
ROWS = 400_000


def tiled(domain):
    """Boxes of three sizes that tile the plane of temp and pm25; some pm25 boxes hold one point or
    none."""
    low, high = [], []
    for size, ends in ((8, (0, 0.5)), (64, (0.5, 0.75)), (16, (0.75, 1))):
        first = np.arange(ends[0], ends[1], 1 / size)
        across = np.arange(0, 1, 1 / 32)
        low += [(a, b, 0.0) for a in first for b in across]
        high += [(a + 1 / size, b + 1 / 32, 1.0) for a in first for b in across]
    mass = np.random.default_rng(3).gamma(0.3, 100, len(low))
    return Partition(domain, np.array(low), np.array(high), mass)


@pytest.fixture(scope="module")
def model():
    return tiled(DOMAIN)


@pytest.fixture(scope="module")
def rows(model):
    return model.sample(ROWS, np.random.default_rng(4))


def test_samples_are_multiples_of_the_step_without_float_noise(rows):
    assert set(rows[:, 0]) <= {k / 10 for k in range(-400, 601)}
    assert set(rows[:, 1]) <= set(map(float, range(1001)))
    assert len(set(rows[:, 2])) > ROWS / 2
    assert all(len(repr(value)) <= 5 for value in set(rows[:, 0].tolist()))


def test_samples_are_encoded_into_boxes_as_full_as_the_model_s(model, rows):
    """Systematic sampling: the number in a box of at least one point is right to one record."""
    paths = np.concatenate([p.copy() for p in PathEncoder(DOMAIN, 18).encode(rows)])
    low, high = DOMAIN.boxes(paths, 18)
    middle = (low + high) / 2
    points = DOMAIN.attributes[1].lattice.positions(np.arange(1001.0))
    for place in range(0, len(model.mass), 37):
        if not ((model.low[place, 1] <= points) & (points < model.high[place, 1])).any():
            continue
        inside = ((model.low[place] <= middle) & (middle < model.high[place])).all(axis=1)
        expected = ROWS * model.mass[place] / model.total
        # A box without a point may have given its records to this one.
        assert inside.sum() >= expected - 1


@pytest.mark.parametrize("name", ["temp", "pm25"])
def test_shares_up_to_a_point_include_it(model, rows, name):
    """Shares of 400,000 records. In a box that is cut, the part inside is random. The limit is
    eight deviations of a share of independent draws, so a false alarm is below 1e-14 each."""
    column = rows[:, DOMAIN.index(name)]
    slack = 8 * 0.5 / np.sqrt(ROWS)
    heavy = 0
    for x in np.unique(column)[:: max(1, len(np.unique(column)) // 60)]:
        at_most, below = (column <= x).mean(), (column < x).mean()
        assert model.cdf(name, x).value == pytest.approx(at_most, abs=slack)
        assert model.cdf(name, x - 1e-9).value == pytest.approx(below, abs=slack)
        assert model.share(f"{name} <= {x}").value == pytest.approx(at_most, abs=slack)
        assert model.share(f"{name} < {x}").value == pytest.approx(below, abs=slack)
        assert model.share(f"{name} > {x}").value == pytest.approx(1 - at_most, abs=slack)
        assert model.share(f"{name} >= {x}").value == pytest.approx(1 - below, abs=slack)
        assert model.share({name: (x, x)}).value == pytest.approx(at_most - below, abs=slack)
        heavy += at_most - below > 2 * slack
    # The control: some points are so heavy that it shows on which side they are counted.
    assert heavy or name == "temp"


def test_both_ends_of_a_range_belong_to_it(model, rows):
    inside = ((rows[:, :2] >= [10, 5]) & (rows[:, :2] <= [20, 30])).all(axis=1)
    found = model.share({"temp": (10, 20), "pm25": (5, 30)})
    slack = 8 * 0.5 / np.sqrt(ROWS)
    assert found.value == pytest.approx(inside.mean(), abs=slack)
    assert model.share("temp >= 10 & temp <= 20 & pm25 >= 5 & pm25 <= 30") == found
    same = model.share({"temp": (9.91, 20.09), "pm25": (4.5, 30.9)})
    assert same.value == pytest.approx(found.value, abs=1e-12)
    without = model.share("temp > 10 & temp < 20 & pm25 > 5 & pm25 < 30")
    strictly = ((rows[:, :2] > [10, 5]) & (rows[:, :2] < [20, 30])).all(axis=1)
    assert without.value == pytest.approx(strictly.mean(), abs=slack)


@pytest.mark.parametrize("q", [0.0, 0.001, 0.2, 0.5, 0.77, 0.999, 1.0])
@pytest.mark.parametrize("name", ["temp", "pm25"])
def test_a_quantile_is_the_least_point_that_a_share_does_not_exceed(model, name, q):
    attribute = DOMAIN.attributes[DOMAIN.index(name)]
    value = model.quantile(name, q).value
    lattice = attribute.lattice
    assert value in lattice.points(np.arange(lattice.first, lattice.last + 1.0))
    assert model.cdf(name, value).value >= q - 1e-9
    assert model.share(f"{name} < {value}").value <= q
    assert model.share(f"{name} <= {value}").value > 0


def test_a_quantile_between_two_points_is_the_first():
    low = np.array([[0.1], [0.7]])
    two = Partition(Domain([Attribute("x", 0, 10, step=1)]), low, low + 0.1, np.ones(2))
    assert [two.quantile("x", q).value for q in (0, 0.3, 0.5, 0.500001, 1)] == [1, 1, 1, 7, 7]
    assert two.quantile("x", 0.3).standard_error == 0  # One point: nothing is cut.
    assert two.cdf("x", 1).value == two.cdf("x", 6.9).value == 0.5


@pytest.mark.parametrize("name", ["temp", "pm25"])
def test_means_agree_with_the_sample(model, rows, name):
    column = rows[:, DOMAIN.index(name)]
    slack = 8 * column.std() / np.sqrt(ROWS)
    assert model.mean(name).value == pytest.approx(column.mean(), abs=slack)
    assert model.mean(name).value != pytest.approx(column.mean() + 2 * slack, abs=slack)


def test_covariances_agree_with_the_sample(model, rows):
    expected = np.cov(rows.T, bias=True)
    tolerance = 0.03 * np.sqrt(np.outer(expected.diagonal(), expected.diagonal()))
    assert np.all(np.abs(model.covariance().value - expected) < tolerance)


def test_steps_make_no_error_larger(model):
    plain = tiled(CONTINUOUS)
    # A box 15.6 steps wide may hold 16 points. A quantile follows the errors of the shares beside
    # it, which hold one frequent value of a box: without steps it does not.
    for most, ask in (
        (1.05, lambda m: m.mean("temp")),
        (1.05, lambda m: m.mean("pm25")),
        (1.15, lambda m: m.quantile("temp", 0.3)),
        (1.05, lambda m: m.count({"temp": (-12.3, 33.3)})),
    ):
        assert ask(model).standard_error <= most * ask(plain).standard_error


def test_readings_of_a_lattice_come_back_as_atoms():
    """Total variation between readings and records, point by point, both with 200,000 rows: with
    steps records lie where readings do, without them nowhere."""
    readings = np.rint(np.random.default_rng(5).normal(120, 40, 200_000).clip(-400, 600)) / 10
    domain = Domain([Attribute("temp", -40, 60, step=0.1)])
    paths = np.concatenate([p.copy() for p in PathEncoder(domain, 8).encode(readings[:, None])])
    cells, mass = np.unique(paths, return_counts=True)
    ends = domain.boxes(cells, 8)

    def apart(of):
        drawn = Partition(of, *ends, mass.astype(float)).sample(200_000, np.random.default_rng(6))
        points, place = np.unique(np.concatenate([readings, drawn[:, 0]]), return_inverse=True)
        counts = [np.bincount(part, minlength=len(points)) for part in np.split(place, 2)]
        return np.abs(counts[0] - counts[1]).sum() / 2 / 200_000

    assert apart(domain) < 0.03
    assert apart(Domain([Attribute("temp", -40, 60)])) > 0.99


def test_two_standard_errors_of_a_quantile_reach_the_next_point(monkeypatch):
    """Noise moves two quantiles in five to another multiple of the step. In the control errors are
    a root mean square alone, and more than twice as many truths are outside."""
    domain = Domain([Attribute("x", 0, 100, step=0.5)])
    spec = ViewsSpec(domain, Privacy(1), [View(("x",), (8,), 1_000_000)])
    rng = np.random.default_rng(8)
    rows = np.rint(200 * rng.beta(3, 7, (3000, 1))) / 2

    def outside():
        found = []
        for seed in range(40):
            noise = seeded_noise(seed)
            sketch = spec.start(noise)
            sketch.update_many(rows)
            model = pairwise(sketch.release(noise, WindowId("a", "s", seed)))
            for q in np.random.default_rng(seed).uniform(0.03, 0.97, 10).tolist():
                truth = float(np.quantile(rows, q, method="inverted_cdf"))
                answer = model.quantile("x", q)
                found.append(abs(answer.value - truth) > 2 * answer.standard_error + 1e-9)
        return float(np.mean(found))

    with_steps = outside()
    assert with_steps < 0.05
    monkeypatch.setattr(shares, "_beside_points", lambda *_: 0.0)
    assert outside() > 2 * with_steps


def test_the_error_of_a_quantile_knows_how_far_the_next_value_is():
    """Half of the readings are at 10, half at 90, and none is between. All fits give 10, near the
    jump too. The error of one step would be half a step at most. The control is far from it."""
    domain = Domain([Attribute("x", 0, 100, step=1)])
    spec = ViewsSpec(domain, Privacy(1), [View(("x",), (8,), 1_000_000)])
    noise = seeded_noise(2)
    sketch = spec.start(noise)
    sketch.update_many(np.repeat([[10.0], [90.0]], 1000, axis=0))
    model = pairwise(sketch.release(noise, WindowId("a", "s", 0)))
    far, near = (model.quantile("x", q) for q in (0.2, 0.49))
    assert far.value == near.value == 10
    assert near.standard_error > 2
    assert far.standard_error < 0.01
