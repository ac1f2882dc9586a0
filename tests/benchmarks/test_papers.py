"""Counterexamples to the papers' claims: their bars fail where the claim holds."""

import numpy as np
import pytest

from benchmarks.papers import density_sketches, kd_trees, ppds, privhp


def test_the_collision_term_holds_where_no_two_readings_share_a_cell():
    """Negative control of Theorem 3's counterexample: then the readings are hashed independently.
    Hash keys are fixed and there is no noise, so nothing varies from run to run."""
    corner = np.indices((32, 32)).reshape(2, -1).T[:400]
    stated, ours = density_sketches.collisions((corner + 0.5) / 32, 24)
    assert 0.8 < stated.value < 1.2
    assert stated.meets is False
    assert ours.meets is True


def test_the_collision_term_fails_where_readings_crowd():
    crowded = np.repeat([[0.1, 0.1], [0.7, 0.3]], 200, axis=0)
    stated, ours = density_sketches.collisions(crowded, 24)
    assert stated.meets is True
    # Each of 1,022 empty cells meets a crowded one in R of N cases: the variance is F2 / (K R).
    assert ours.value == pytest.approx(1, abs=0.4)


def test_the_bound_of_the_sampler_holds_where_all_cells_are_kept():
    """Negative control of Theorem 5's counterexample."""
    kept, _ = density_sketches.heavy_cell(0.0, density_sketches.CELLS)
    assert kept.value == pytest.approx(1 / 3, abs=0.01)
    assert kept.meets is False
    broken, ours = density_sketches.heavy_cell(0.5, 1)
    assert (broken.meets, ours.meets) == (True, True)
    # By hand: (N / 2)^2 / N + 1 / 4 over 12 / 4, sampling apart.
    assert broken.value == pytest.approx((1024 / 4 + 1 / 4) / 3, rel=0.02)


def test_theorem_6_says_something_only_where_its_proof_does_not_hold():
    """Negative control: narrow bins in one dimension bring its bound below 1."""
    assert [row.meets for row in kd_trees.gaussian_bound(7472)] == [True, True, True]
    narrow = next(kd_trees.gaussian_bound(0.01))
    assert narrow.meets is False


def test_the_cost_of_a_miss_grows_with_the_dimension():
    rows = list(privhp.jumps())
    assert [row.value for row in rows] == pytest.approx([4, 8, 20, 40], rel=1e-4)
    assert all(row.meets for row in rows)


def test_a_replaced_element_costs_both_its_counters():
    """Depth 3, exact levels 0 to 2 and one table: by hand, twice the shares but the root's."""
    spec = privhp.spec_of(4, depth=3, width=64)
    root, *others = [1 / float(level.scale) for level in spec.levels]
    added, replaced = privhp.losses(spec)
    assert added == pytest.approx(1)
    assert replaced == pytest.approx(2 * sum(others))
    assert root + sum(others) == pytest.approx(1)


def test_bars_of_the_planted_losses_fail_for_a_mechanism_that_keeps_its_claim():
    rows = {row.name: row for row in ppds.own()}
    assert all(row.meets for row in rows.values())
    assert all(row.value < ppds.FALSE_BY for row in rows.values())
