"""PrivHP's state: what it counts, how noisy it is, and what it never shows."""

import copy
import math
import pickle
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from scipy import stats

from pansketch import (
    Attribute,
    Domain,
    HierarchySpec,
    Privacy,
    SketchClosed,
    Span,
    erasable_arrays,
    os_entropy,
)
from pansketch.domain.cell_paths import PathEncoder
from pansketch.sketches import hierarchy, path_counting


def published_state(spec, rows, entropy=None):
    """The paper's own state, built the plain way: every level counted, every counter noisy."""
    counters = np.zeros(sum(spec.blocks), np.int32)
    for level in spec.levels if entropy else ():
        entropy.add_discrete_laplace(level.scale, level.table(counters).reshape(-1))
    for paths in PathEncoder(spec.domain, spec.depth).encode(rows):
        for level in spec.levels:
            prefixes = paths >> np.uint64(spec.depth - level.bits)
            table = level.table(counters)
            columns = (
                prefixes[None].astype(int) if level.hash is None else level.hash.table(prefixes)
            )
            for row, indices in zip(table, columns, strict=True):
                np.add.at(row, indices, 1)
    return counters


@pytest.mark.parametrize("fanout", [2, 4, 8, 16])
def test_differences_of_exact_levels_are_the_papers_state(fanout, make_spec, known_noise, readings):
    """Same noise, same readings: the release equals the state that updates every level."""
    spec = make_spec(fanout=fanout, k=64, privacy=Privacy(epsilon=1.0, intrusion="announced"))
    rows = readings(500)
    sketch = spec.start(known_noise(7))
    sketch.update_many(rows)
    released = sketch.release(known_noise(8)).counters
    assert (released == published_state(spec, rows, known_noise(7))).all()


def test_silent_releases_carry_a_second_draw_of_the_same_scales(make_spec, known_noise):
    spec = make_spec()
    first, second = known_noise(1), known_noise(2)
    released = spec.start(first).release(second).counters
    assert (
        [s for s, _ in first.draws]
        == [s for s, _ in second.draws]
        == [level.scale for level in spec.levels]
    )
    both = [np.concatenate([drawn for _, drawn in source.draws]) for source in (first, second)]
    assert (released == both[0].astype(int) + both[1]).all()


def test_announced_releases_carry_one_draw_and_one_more_for_each_announcement(
    make_spec, known_noise, readings
):
    spec = make_spec(privacy=Privacy(epsilon=1.0, intrusion="announced"))
    first, second, third = known_noise(1), known_noise(2), known_noise(3)
    sketch = spec.start(first)
    sketch.update_many(readings(20))
    sketch.rerandomise(second)
    sketch.update_many(readings(20, seed=1))
    release = sketch.release(third)
    assert (third.draws, release.draws) == ([], 2)
    released = release.counters
    plain = published_state(spec, np.concatenate([readings(20), readings(20, seed=1)]), first)
    first_noise = np.concatenate([drawn for _, drawn in first.draws[len(spec.levels) :]])
    noise = np.concatenate([drawn for _, drawn in first.draws[: len(spec.levels)]])
    noise = noise + np.concatenate([drawn for _, drawn in second.draws])
    assert (released == plain - first_noise + noise).all()


def test_noise_scales_spend_the_budget_exactly(make_spec):
    """Sum over levels of (rows touched / scale) is what one reading can change, in epsilon."""
    for epsilon in (0.1, 1.0, 3.7):
        spec = make_spec(depth=24, rows=3, privacy=Privacy(epsilon=epsilon))
        spent = sum(level.rows / level.scale for level in spec.levels)
        assert spent == Fraction(spec.guarantee.epsilon_micro, 10**6)
        assert float(spent) == epsilon


def test_a_span_of_readings_moves_the_counters_by_what_its_epsilon_allows(make_spec):
    spec = make_spec(privacy=Privacy(epsilon=2.0, unit=Span(60, 7)))
    one_reading = sum(level.rows / level.scale for level in spec.levels)
    assert 7 * one_reading == Fraction(spec.guarantee.epsilon_micro, 10**6) <= 2


def test_counts_are_unbiased_with_the_declared_variance(make_spec, readings):
    """400 releases of one stream, real entropy. False alarms: 1e-7 each for mean and variance."""
    spec, rows, repeats = make_spec(), readings(50), 400
    errors = [np.zeros(0)] * repeats
    for turn in range(repeats):
        sketch = spec.start(os_entropy())
        sketch.update_many(rows)
        errors[turn] = sketch.release(os_entropy()).counters.astype(float)
    truth = spec.start(_Nothing())
    truth.update_many(rows)
    exact = truth.release(_Nothing()).counters
    deviations = np.sqrt(
        np.repeat([2 * level.noise_variance for level in spec.levels], spec.blocks)
    )
    z = (np.array(errors) - exact) / deviations
    assert _mean_p_value(z) > 1e-7
    assert _mean_p_value(z + 0.025) < 1e-7  # The control: a bias of 2.5 % of one deviation.
    # Kurtosis of a sum of two Laplace draws is 4.5, so its square has variance 3.5.
    limit = stats.norm.isf(1e-7 / 2) * math.sqrt(3.5 / z.size)
    assert abs((z**2).mean() - 1) < limit
    assert abs((z**2).mean() / 2 - 1) > limit  # Negative control: one draw instead of two.


class _Nothing:
    def add_discrete_laplace(self, scale, counters):
        pass

    def identifier(self):
        return 0


def _mean_p_value(z):
    return 2 * stats.norm.sf(abs(z.mean()) * math.sqrt(z.size))


def test_the_state_of_an_empty_window_is_already_noisy(make_spec, no_noise):
    sketch = make_spec().start(os_entropy())
    held = sketch._counters.copy()
    assert np.count_nonzero(held) > held.size / 2


def test_the_optimal_split_gives_weight_to_levels_as_the_bound_asks(weather):
    """PrivHP's split for d=2, k=4, one row: shares follow the square roots of cells times side."""
    spec = HierarchySpec(weather, Privacy(epsilon=1.0), depth=6, k=4, width=8, rows=1, fanout=2)
    shares = np.array([float(level.rows / level.scale) for level in spec.levels])
    gamma = [2.0 ** -(bits // 2) for bits in range(6)]
    expected = np.sqrt([gamma[0], 2**0 * gamma[0], 2**1 * gamma[1]] + [4 * g for g in gamma[2:6]])
    assert np.allclose(shares, expected / expected.sum(), rtol=1e-6)


def test_level_sizes_follow_k_and_fanout(make_spec):
    spec = make_spec(depth=13, k=100, fanout=8, width=32, rows=2)
    assert [level.bits for level in spec.levels] == [0, 3, 6, 9, 12, 13]
    assert [level.hash is None for level in spec.levels] == [True, True, True, False, False, False]
    assert spec.blocks == (1, 8, 64, 64, 64, 64)
    assert spec.nbytes == 4 * sum(spec.blocks)
    ends = [(level.offset, level.offset + level.size) for level in spec.levels]
    assert all(left[1] == right[0] for left, right in pairwise(ends))


def test_a_sketch_shows_its_spec_and_nothing_else(make_spec):
    sketch = make_spec().start(os_entropy())
    assert repr(sketch) == f"LinearSketch({make_spec()!r})"
    assert "counters" not in repr(sketch)
    public = [name for name in dir(sketch) if not name.startswith("_")]
    assert public == ["release", "rerandomise", "update_many"]


@pytest.mark.parametrize(
    "copier", [pickle.dumps, copy.copy, copy.deepcopy], ids=lambda f: f.__name__
)
def test_a_sketch_is_not_copied(make_spec, copier):
    with pytest.raises(TypeError, match="secret"):
        copier(make_spec().start(os_entropy()))


def test_release_erases_the_state(make_spec, readings):
    sketch = make_spec().start(os_entropy())
    sketch.update_many(readings(10))
    sketch.release(os_entropy())
    assert not sketch._counters.any()
    for act, given in (
        (sketch.release, os_entropy()),
        (sketch.rerandomise, os_entropy()),
        (sketch.update_many, readings(1)),
    ):
        with pytest.raises(SketchClosed):
            act(given)
    assert not sketch._counters.any()


@pytest.mark.parametrize(
    "sizes", [{"fanout": 2}, {"fanout": 16, "k": 300}, {"k": 1}, {"depth": 6}, {"depth": 40}]
)
@pytest.mark.parametrize("count", [1, 16, 17, 300, 9000])
def test_a_batch_of_any_size_reaches_the_counters_of_the_definition(
    sizes, count, make_spec, readings, no_noise
):
    """Of the least depth the readings outnumber all cells, of the greatest none could be held."""
    spec = make_spec(**{"depth": 18, "rows": 5} | sizes)
    sketch = spec.start(no_noise)
    sketch.update_many(readings(count))
    expected = published_state(spec, readings(count))
    assert (sketch.release(no_noise).counters == expected).all()


@pytest.mark.parametrize("wide", sorted({erasable_arrays.WIDE, False}))
def test_no_array_that_counts_paths_keeps_anything(
    wide, make_spec, readings, no_noise, arrays_of, monkeypatch
):
    """Nor with pointers of 32 bits, where an index is a copy of its word."""
    monkeypatch.setattr(erasable_arrays, "WIDE", wide)
    made = arrays_of(path_counting, hierarchy, erasable_arrays)
    sketch = make_spec(fanout=2).start(no_noise)
    for count in (5, 40, 3000):
        sketch.update_many(readings(count))
        assert not any(array.any() for array in made)
    expected = published_state(sketch._spec, np.concatenate([readings(n) for n in (5, 40, 3000)]))
    assert (sketch.release(no_noise).counters == expected).all()
    assert not any(array.any() for array in made)


@pytest.mark.parametrize(
    ("name", "low", "high"),
    [
        ("depth", 1, 48),
        ("k", 1, 1 << 20),
        ("width", 2, 1 << 20),
        ("rows", 1, 16),
        ("hash_key", 0, 2**64 - 1),
    ],
)
def test_a_size_may_be_the_least_and_the_most_and_no_other(name, low, high, make_spec):
    assert [getattr(make_spec(**{name: value}), name) for value in (low, high)] == [low, high]
    for value in (low - 1, high + 1):
        with pytest.raises(ValueError, match=f"{name} must lie between {low} and {high}, not"):
            make_spec(**{name: value})


def test_what_follows_from_the_sizes_is_neither_given_nor_shown(make_spec, weather):
    for derived in ({"levels": ()}, {"family": "cells"}):
        with pytest.raises(TypeError, match="unexpected keyword"):
            make_spec(**derived)
    assert "Level" not in repr(make_spec())


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        ({"depth": 61}, "depth"),
        ({"depth": 12.0}, "whole number"),
        ({"width": 100}, "power of two"),
        ({"width": 100, "k": 4096}, "power of two"),
        ({"rows": True}, "whole number"),
        ({"fanout": 3}, "fanout"),
        ({"width": 1 << 18, "depth": 48}, "do not fit"),
        ({"domain": Domain([Attribute("x", categories=("a", "b"))])}, "bits of the attributes"),
        ({"domain": Domain([Attribute("x", low=0, high=1, atoms=(0,))])}, "atoms"),
    ],
)
def test_sizes_that_cannot_be_are_refused_in_one_line(wrong, text, make_spec):
    with pytest.raises(ValueError, match=text) as caught:
        make_spec(**wrong)
    assert "\n" not in str(caught.value)


def test_fingerprints_change_with_every_parameter_that_matters(make_spec, weather):
    specs = [
        make_spec(),
        make_spec(depth=11),
        make_spec(k=32),
        make_spec(width=128),
        make_spec(rows=3),
        make_spec(fanout=2),
        make_spec(hash_key=1),
        make_spec(privacy=Privacy(epsilon=1.1)),
        make_spec(privacy=Privacy(epsilon=1.0, unit=Span(60, 1))),
        make_spec(privacy=Privacy(epsilon=1.0, unit=Span(60, 5))),
        make_spec(privacy=Privacy(epsilon=1.0, intrusion="announced")),
        make_spec(domain=Domain([weather.attributes[1], weather.attributes[0]])),
    ]
    assert len({spec.fingerprint for spec in specs}) == len(specs)
    assert make_spec().fingerprint == make_spec().fingerprint


def test_memory_is_within_the_papers_bound(weather):
    """Counters are at most c (w j + k) log2(eps n) with c = 2, over sizes and stream lengths."""
    for n in (10**3, 10**5, 10**7):
        depth = math.ceil(math.log2(n))
        for k, width, rows in ((16, 64, 2), (256, 1024, 3)):
            spec = HierarchySpec(
                weather, Privacy(epsilon=1.0), depth=depth, k=k, width=width, rows=rows, fanout=2
            )
            assert sum(spec.blocks) <= 2 * (width * rows + k) * math.log2(n)
            # Negative control: a full tree of that depth is beyond the bound for long streams.
            assert n < 10**6 or 2 ** (depth + 1) > 2 * (width * rows + k) * math.log2(n)
