"""Partitions against brute force: every answer equals that of a large sample of the model."""

import numpy as np
import pytest

from pansketch import Attribute, Domain
from pansketch.generators import EmptyModel, Partition, combine

DOMAIN = Domain(
    [
        Attribute("temp", low=-40, high=60),
        Attribute("pm25", low=0, high=1000, scale="log"),
        Attribute("wind", categories=("N", "E", "S", "W", "calm")),
    ]
)


@pytest.fixture(scope="module")
def model():
    """Sixteen boxes that tile the cube along temp and pm25, and all categories in each."""
    edges = np.arange(4) / 4
    low = np.array([(a, b, 0.0) for a in edges for b in edges])
    high = low + np.array([0.25, 0.25, 5 / 8])
    mass = np.random.default_rng(3).gamma(0.5, 1000, 16)
    return Partition(DOMAIN, low, high, mass)


@pytest.fixture(scope="module")
def rows(model):
    return model.sample(400_000, np.random.default_rng(4))


def test_samples_stay_inside_the_bounds(rows):
    assert rows.shape == (400_000, 3)
    assert (rows[:, 0] >= -40).all()
    assert (rows[:, 0] <= 60).all()
    assert (rows[:, 1] >= 0).all()
    assert (rows[:, 1] <= 1000).all()
    assert set(rows[:, 2]) == {0.0, 1.0, 2.0, 3.0, 4.0}


@pytest.mark.parametrize("q", [0.0, 0.05, 0.5, 0.95, 1.0])
@pytest.mark.parametrize("name", ["temp", "pm25"])
def test_quantiles_and_cdf_agree_with_the_sample(model, rows, name, q):
    column = rows[:, DOMAIN.index(name)]
    value = model.quantile(name, q).value
    # Eight standard deviations of a share among 400,000 draws: a false alarm below 1e-14.
    assert (column <= value).mean() == pytest.approx(q, abs=8 * 0.5 / np.sqrt(len(column)))
    assert model.cdf(name, value).value == pytest.approx(q, abs=1e-9)


@pytest.mark.parametrize("name", ["temp", "pm25"])
def test_means_agree_with_the_sample(model, rows, name):
    column = rows[:, DOMAIN.index(name)]
    slack = 8 * column.std() / np.sqrt(len(column))
    assert model.mean(name).value == pytest.approx(column.mean(), abs=slack)
    assert model.mean(name).value != pytest.approx(column.mean() + 2 * slack, abs=slack)


def test_counts_and_shares_agree_with_the_sample(model, rows):
    wanted = {"temp": (-12.5, 33.0), "pm25": (3, 200), "wind": "S"}
    inside = (
        (rows[:, 0] >= -12.5)
        & (rows[:, 0] <= 33)
        & (rows[:, 1] >= 3)
        & (rows[:, 1] <= 200)
        & (rows[:, 2] == 2)
    )
    assert model.share(wanted).value == pytest.approx(inside.mean(), abs=8 * 0.5 / 632)
    assert model.count(wanted).value == pytest.approx(model.share(wanted).value * model.total)
    assert model.count({}).value == pytest.approx(model.total)


def test_standard_errors_grow_with_the_boxes_an_interval_cuts(model):
    assert model.count({"temp": (-40, -15)}).standard_error == 0  # An edge of the boxes.
    assert model.count({"temp": (-40, -27.5)}).standard_error > 0


def test_the_error_of_a_quantile_knows_of_readings_on_one_value(model):
    """An evenly filled cell's, and that of readings at an end where neighbours are unlike."""
    columns = model.mass.reshape(4, 4).sum(axis=1)
    beside = np.maximum([*columns[1:], 0.0], [0.0, *columns[:-1]])
    for q in (0.1, 0.5, 0.7, 0.9):
        value = model.quantile("temp", q)
        cell = int((value.value + 40) // 25)
        stands_out = max(0.0, 1 - 2 * beside[cell] / columns[cell])
        from_the_middle = value.value - (-27.5 + 25 * cell)
        around = np.array([0.0, *columns, 0.0])[cell : cell + 3 : 2]
        unlike = min(np.abs(around / columns[cell] - 1).max(), 1.0)
        squares = 25**2 / 12 + max(stands_out, unlike**2) * from_the_middle**2
        assert value.standard_error == pytest.approx(np.sqrt(squares), rel=0.02)


def test_standard_errors_are_the_spread_of_replicates(model):
    def replicate():
        factors = np.random.default_rng(0).normal(1, 0.1, 200)
        return [Partition(DOMAIN, model.low, model.high, model.mass * f) for f in factors]

    noisy = Partition(DOMAIN, model.low, model.high, model.mass, replicate)
    assert noisy.count({}).standard_error == pytest.approx(0.1 * model.total, rel=0.2)


def test_combined_models_add_up(model):
    both = combine([model, model])
    assert both.total == pytest.approx(2 * model.total)
    assert both.quantile("temp", 0.3).value == pytest.approx(model.quantile("temp", 0.3).value)
    assert combine([model]) is model
    with pytest.raises(ValueError, match="nothing to combine"):
        combine([])
    other = Domain(DOMAIN.attributes[:1])
    alien = Partition(other, model.low[:, :1], model.high[:, :1], model.mass)
    with pytest.raises(ValueError, match="other attributes"):
        combine([model, alien])


def test_a_model_without_mass_generates_no_records():
    empty = Partition(DOMAIN, np.zeros((1, 3)), np.ones((1, 3)), np.zeros(1))
    for ask in (
        lambda: empty.sample(1, np.random.default_rng()),
        lambda: empty.mean("temp"),
        lambda: empty.quantile("temp", 0.5),
        lambda: empty.cdf("temp", 0),
        lambda: empty.share({}),
    ):
        with pytest.raises(EmptyModel, match="not positive"):
            ask()
    assert empty.count({}).value == 0


@pytest.mark.parametrize(
    ("ask", "text"),
    [
        (lambda m: m.quantile("dust", 0.5), "temp, pm25, wind"),
        (lambda m: m.quantile("temp", 1.5), "between 0 and 1"),
        (lambda m: m.quantile("temp", float("nan")), "between 0 and 1"),
        (lambda m: m.mean("wind"), "categories"),
        (lambda m: m.cdf("temp", float("nan")), "finite"),
        (lambda m: m.count({"wind": "NE"}), "no category 'NE'"),
        (lambda m: m.count({"wind": (0, 1)}), "name one of"),
        (lambda m: m.count({"temp": "N"}), "is a number"),
        (lambda m: m.count({"temp": (2, 1)}), "must not exceed"),
        (lambda m: m.sample(-1, np.random.default_rng()), "negative"),
    ],
)
def test_questions_that_make_no_sense_are_refused_in_one_line(model, ask, text):
    with pytest.raises(ValueError, match=text) as caught:
        ask(model)
    assert "\n" not in str(caught.value)
