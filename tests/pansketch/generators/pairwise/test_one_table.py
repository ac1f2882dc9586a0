"""Answers of the attributes of one table follow that table, not a compromise between all of them.
All randomness is seeded."""

from itertools import combinations
from itertools import pairwise as pairwise_of

import numpy as np
import pytest

from pansketch import Attribute, Domain, Privacy, View, ViewsSpec, WindowId
from pansketch.generators import pairwise
from pansketch.generators.pairwise.contingency_tables import tables_of
from pansketch.generators.pairwise.fit import fit_views
from tests.seeded_noise import seeded_noise

NAMES = ("a", "b", "c", "d", "e")
BITS = 4


def rows(count, seed=3):
    """Five numbers in clusters of their own, so that every pair depends on each other."""
    generator = np.random.default_rng(seed)
    centres = generator.uniform(15, 85, (6, len(NAMES)))
    which = generator.choice(6, count, p=[0.3, 0.25, 0.2, 0.1, 0.1, 0.05])
    return np.clip(centres[which] + generator.normal(0, 6, (count, len(NAMES))), 0, 100)


def release_of(sets, seed=5, device="one"):
    domain = Domain([Attribute(name, low=0, high=100) for name in NAMES])
    whole = Privacy(1.0).epsilon_micro
    parts = [whole // len(sets)] * len(sets)
    parts[-1] += whole - sum(parts)
    views = tuple(View(s, (BITS,) * len(s), p) for s, p in zip(sets, parts, strict=True))
    noise = seeded_noise(seed)
    sketch = ViewsSpec(domain, Privacy(1.0), views).start(noise)
    sketch.update_many(rows(60_000))
    return sketch.release(noise, WindowId(device, "s", 1))


@pytest.fixture(scope="module")
def released():
    return release_of(list(combinations(NAMES, 2)))


def bins(name):
    edges = np.linspace(0, 100, (1 << BITS) + 1)
    edges[-1] = 101
    return [f"{name} >= {a!r} & {name} < {b!r}" for a, b in pairwise_of(edges.tolist())]


def test_two_attributes_follow_their_own_table(released):
    """The control: boxes for all questions are several times as far from it."""
    model = pairwise(released)
    fit = fit_views(model.domain, tables_of(released))
    near, far = [], []
    for table in fit.tables:
        wanted = [bins(NAMES[axis]) for axis in table.axes]
        shares = table.counts / table.counts.sum()
        near.append(np.abs(model.bin_shares(wanted).value - shares).sum() / 2)
        far.append(np.abs(model.boxes.bin_shares(wanted).value - shares).sum() / 2)
    assert max(near) < 0.002
    assert np.mean(far) > 4 * np.mean(near)


def test_their_error_is_that_of_their_table(released):
    """Replicates follow tables of their own as closely."""
    model = pairwise(released)
    wanted = [bins("a"), bins("b")]
    truth = np.histogram2d(*rows(60_000)[:, :2].T, 1 << BITS, [(0, 100)] * 2)[0] / 60_000
    found = model.bin_shares(wanted)
    assert np.mean(np.abs(found.value - truth) <= 2 * found.standard_error) > 0.93
    wider = model.boxes.bin_shares(wanted).standard_error
    assert np.median(found.standard_error / wider) < 1.05


def test_a_matrix_has_what_each_pair_alone_has(released):
    model = pairwise(released)
    found = model.covariance()
    assert found.shape == (5, 5)
    for i, j in combinations(range(5), 2):
        alone = model.covariance((NAMES[i], NAMES[j]))
        np.testing.assert_array_equal(found.value[[i, j], [j, i]], alone.value[0, 1])
        np.testing.assert_array_equal(
            found.standard_error[[i, j], [j, i]], alone.standard_error[0, 1]
        )
        assert found.value[i, i] == alone.value[0, 0]
    variance = model.covariance(("c",))[0, 0]
    assert found[2, 2] == variance
    truth = np.cov(rows(60_000).T, bias=True)
    assert (np.abs(found.value - truth) <= 3 * found.standard_error).all()


def test_without_a_table_of_them_the_boxes_answer():
    model = pairwise(release_of([("a", "b"), ("b", "c"), ("c", "d"), ("d", "e")]))
    wanted = {"a": (10, 50), "c": (20, 60)}
    assert model.count(wanted) == model.boxes.count(wanted)
    assert model.count({"a": (10, 50), "b": (20, 60)}).value > 0
    assert model.count(wanted) == model.boxes.count(wanted), "the latest pair must not answer"


def test_a_table_of_three_answers_for_its_pairs():
    model = pairwise(release_of([("a", "b", "c"), ("c", "d"), ("d", "e"), ("e", "a")]))
    wanted = {"a": (10, 50), "b": (20, 60)}
    assert model.count(wanted) != model.boxes.count(wanted)
    a, b, _, _, _ = rows(60_000).T
    truth = np.count_nonzero((a >= 10) & (a <= 50) & (b >= 20) & (b <= 60))
    found = model.count(wanted)
    assert abs(found.value - truth) <= 3 * found.standard_error
    all_three = {**wanted, "c": (0, 50)}
    assert model.count(all_three).value < found.value


def test_releases_with_and_without_the_table_are_added():
    """Two groups of devices: one joins the pair, and the other has its attributes alone."""
    both, apart = release_of([("a", "b")]), release_of([("a",), ("b",)], device="two")
    wanted = {"a": (0, 50), "b": (0, 50)}
    found = pairwise(both, apart).count(wanted)
    parts = [pairwise(each).count(wanted) for each in (both, apart)]
    assert found.value == pytest.approx(sum(part.value for part in parts))
    assert found.standard_error > parts[0].standard_error
