"""Questions of one attribute are answered from its own margin, without records. Those of the
attributes of one table follow it, not a compromise between all tables."""

from importlib import import_module
from itertools import combinations
from itertools import pairwise as pairwise_of

import numpy as np
import pytest

from pansketch import Attribute, Domain, Privacy, View, ViewsSpec, WindowId
from pansketch.generators import found_atoms, learned_domain, pairwise
from pansketch.generators.pairwise.contingency_tables import tables_of
from pansketch.generators.pairwise.fit import fit_views
from pansketch.generators.pairwise.marginals import margin_of
from pansketch.generators.pairwise.multiresolution import Resolution
from tests.seeded_noise import noise_of_test, seeded_noise

DOMAIN = Domain([Attribute("x", low=0, high=10), Attribute("y", low=-1, high=1)])
_x = 10 * np.random.default_rng(1).beta(2, 3, 20_000)
ROWS = np.column_stack([_x, 0.7 * np.sin(_x)])


def test_questions_of_one_attribute_make_no_records(monkeypatch):
    spec = ViewsSpec(DOMAIN, Privacy(1), (View(("x", "y"), (4, 4), 1_000_000),))
    sketch = spec.start(noise_of_test())
    sketch.update_many(ROWS)
    release = sketch.release(noise_of_test(), WindowId("one", "s", 1))
    # Two models of one release: one without records, one with them.
    model, whole = pairwise(release), pairwise(release).boxes

    def asked(model):
        return (
            model.readings,
            model.mean("x"),
            model.quantile("x", 0.5),
            model.cdf("x", 3.0),
            model.count("x > 1 & x < 3"),
            model.share({"x": (1, 3)}),
            model.covariance(("x",))[0, 0],
        )

    expected = asked(whole)

    def made(*_):
        raise AssertionError("records are made")

    # The package's attribute `pairwise` is the function.
    monkeypatch.setattr(import_module("pansketch.generators.pairwise.particles"), "joint_of", made)
    model.check(())
    model.check([0])
    for found, other in zip(asked(model), expected, strict=True):
        assert abs(found.value - other.value) <= 0.5 * other.standard_error
    assert learned_domain(model).names == DOMAIN.names
    assert found_atoms(model) == ()
    for ask in (
        lambda: model.count("x > 1 & y > 1"),
        lambda: model.covariance(("x", "y")),
        lambda: model.sample(1, np.random.default_rng(0)),
    ):
        with pytest.raises(AssertionError, match="records are made"):
            ask()


def test_the_number_of_readings_is_that_of_a_margin():
    """Also of none: noise alone, whose total is not positive in every second release."""
    spec, none = ViewsSpec(DOMAIN, Privacy(1), (View(("x", "y"), (4, 4), 1_000_000),)), 0
    for number in range(8):
        noise = seeded_noise(number)
        sketch = spec.start(noise)
        sketch.update_many(ROWS[: number % 2])
        model = pairwise(sketch.release(noise, WindowId("one", "s", 1)))
        alone = model.alone(0).readings
        assert model.readings.value == pytest.approx(alone.value)
        assert model.readings.standard_error == pytest.approx(alone.standard_error)
        assert model.total == model.readings.value >= 0
        none += model.total == 0
    assert 0 < none < 8


def from_the_bound(counts, turned):
    """Readings in each cell of a margin, from the first on, or from the last if `turned`. Noise on
    each count: 50."""
    told = counts[::-1].copy() if turned else counts
    alone = Resolution(7, told, np.full(128, 1 / 50.0**2))
    no_total = Resolution(0, np.zeros(1), np.zeros(1))
    found = margin_of(Attribute("x", 0, 1), [no_total, alone])
    assert found is not None
    return found.counts[::-1] if turned else found.counts


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize(("clipped", "stays"), [(400.0, True), (60.0, False)])
def test_readings_at_a_bound_stay_if_they_stand_out_whatever_noise_is_behind(
    turned, clipped, stays
):
    """Noise of 64 cells outweighs the sum of 400 readings and of these, and not the 400. A number
    that the noise of its own cell explains is a tail."""
    counts = np.full(128, -2.0)
    counts[0], counts[64] = clipped, 3000.0
    at_bound = from_the_bound(counts, turned)[0]
    assert at_bound == pytest.approx(clipped, rel=0.2) if stays else at_bound < 1


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize(("readings", "stays"), [(3000.0, True), (300_000.0, False)])
def test_a_tail_that_noise_explains_ends_where_readings_are_many(turned, readings, stays):
    """95 in a cell beside empty ones, at noise of 50. It is 3 % of few readings. Of many it is a
    share that no answer misses, and far from them it would change each mean."""
    counts = np.zeros(128)
    counts[0], counts[6:38] = 95.0, readings / 32
    at_bound = from_the_bound(counts, turned)[:3].sum()
    assert 30 < at_bound < 150 if stays else at_bound < 1


FIVE = ("a", "b", "c", "d", "e")
TABLE_BITS = 4


def clustered(count, seed=3):
    """Five numbers in clusters of their own, so that every pair depends on each other."""
    generator = np.random.default_rng(seed)
    centres = generator.uniform(15, 85, (6, len(FIVE)))
    which = generator.choice(6, count, p=[0.3, 0.25, 0.2, 0.1, 0.1, 0.05])
    return np.clip(centres[which] + generator.normal(0, 6, (count, len(FIVE))), 0, 100)


def joined(sets, seed=5, device="one"):
    domain = Domain([Attribute(name, low=0, high=100) for name in FIVE])
    whole = Privacy(1.0).epsilon_micro
    parts = [whole // len(sets)] * len(sets)
    parts[-1] += whole - sum(parts)
    views = tuple(View(s, (TABLE_BITS,) * len(s), p) for s, p in zip(sets, parts, strict=True))
    noise = seeded_noise(seed)
    sketch = ViewsSpec(domain, Privacy(1.0), views).start(noise)
    sketch.update_many(clustered(60_000))
    return sketch.release(noise, WindowId(device, "s", 1))


@pytest.fixture(scope="module")
def released():
    return joined(list(combinations(FIVE, 2)))


def bins(name):
    edges = np.linspace(0, 100, (1 << TABLE_BITS) + 1)
    edges[-1] = 101
    return [f"{name} >= {a!r} & {name} < {b!r}" for a, b in pairwise_of(edges.tolist())]


def test_two_attributes_follow_their_own_table(released):
    """The control: boxes for all questions are several times as far from it."""
    model = pairwise(released)
    fit = fit_views(model.domain, tables_of(released))
    near, far = [], []
    for table in fit.tables:
        wanted = [bins(FIVE[axis]) for axis in table.axes]
        shares = table.counts / table.counts.sum()
        near.append(np.abs(model.bin_shares(wanted).value - shares).sum() / 2)
        far.append(np.abs(model.boxes.bin_shares(wanted).value - shares).sum() / 2)
    assert max(near) < 0.002
    assert np.mean(far) > 4 * np.mean(near)


def test_their_error_is_that_of_their_table(released):
    """Replicates follow tables of their own as closely."""
    model = pairwise(released)
    wanted = [bins("a"), bins("b")]
    truth = np.histogram2d(*clustered(60_000)[:, :2].T, 1 << TABLE_BITS, [(0, 100)] * 2)[0] / 60_000
    found = model.bin_shares(wanted)
    assert np.mean(np.abs(found.value - truth) <= 2 * found.standard_error) > 0.93
    wider = model.boxes.bin_shares(wanted).standard_error
    assert np.median(found.standard_error / wider) < 1.05


def test_a_matrix_has_what_each_pair_alone_has(released):
    model = pairwise(released)
    found = model.covariance()
    assert found.shape == (5, 5)
    for i, j in combinations(range(5), 2):
        alone = model.covariance((FIVE[i], FIVE[j]))
        np.testing.assert_array_equal(found.value[[i, j], [j, i]], alone.value[0, 1])
        np.testing.assert_array_equal(
            found.standard_error[[i, j], [j, i]], alone.standard_error[0, 1]
        )
        assert found.value[i, i] == alone.value[0, 0]
    variance = model.covariance(("c",))[0, 0]
    assert found[2, 2] == variance
    truth = np.cov(clustered(60_000).T, bias=True)
    assert (np.abs(found.value - truth) <= 3 * found.standard_error).all()


def test_without_a_table_of_them_the_boxes_answer():
    model = pairwise(joined([("a", "b"), ("b", "c"), ("c", "d"), ("d", "e")]))
    wanted = {"a": (10, 50), "c": (20, 60)}
    assert model.count(wanted) == model.boxes.count(wanted)
    assert model.count({"a": (10, 50), "b": (20, 60)}).value > 0
    assert model.count(wanted) == model.boxes.count(wanted), "the latest pair must not answer"


def test_a_table_of_three_answers_for_its_pairs():
    model = pairwise(joined([("a", "b", "c"), ("c", "d"), ("d", "e"), ("e", "a")]))
    wanted = {"a": (10, 50), "b": (20, 60)}
    assert model.count(wanted) != model.boxes.count(wanted)
    a, b, _, _, _ = clustered(60_000).T
    truth = np.count_nonzero((a >= 10) & (a <= 50) & (b >= 20) & (b <= 60))
    found = model.count(wanted)
    assert abs(found.value - truth) <= 3 * found.standard_error
    all_three = {**wanted, "c": (0, 50)}
    assert model.count(all_three).value < found.value


def test_releases_with_and_without_the_table_are_added():
    """Two groups of devices: one joins the pair, and the other has its attributes alone."""
    both, apart = joined([("a", "b")]), joined([("a",), ("b",)], device="two")
    wanted = {"a": (0, 50), "b": (0, 50)}
    found = pairwise(both, apart).count(wanted)
    parts = [pairwise(each).count(wanted) for each in (both, apart)]
    assert found.value == pytest.approx(sum(part.value for part in parts))
    assert found.standard_error > parts[0].standard_error
