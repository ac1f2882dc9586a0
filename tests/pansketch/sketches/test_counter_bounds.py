"""Bounds of honest counters: they hold as often as stated, and what is invented lies outside."""

from collections.abc import Callable
from fractions import Fraction
from math import exp

import numpy as np
import numpy.typing as npt
import pytest
from scipy.stats import binom

from pansketch import (
    Attribute,
    CellsSpec,
    DistinctSpec,
    Domain,
    HierarchySpec,
    MomentsSpec,
    Privacy,
    Spec,
    View,
    ViewsSpec,
    os_entropy,
)
from pansketch.sketches.counter_bounds import (
    CounterRow,
    linear_bounds,
    norm_quantile,
    ones_quantile,
    sum_quantile,
)

FALSE_ALARM = 1e-6
READINGS = 400
DOMAIN = Domain((Attribute("t", 0.0, 10.0), Attribute("u", 0.0, 10.0)))
LINEAR: dict[str, Callable[[Privacy], Spec]] = {
    "hierarchy": lambda p: HierarchySpec(DOMAIN, p, depth=10, k=16, width=32),
    "views": lambda p: ViewsSpec(
        DOMAIN, p, (View(("t",), (3,), 300_000), View(("t", "u"), (2, 2), 700_000))
    ),
    "cells": lambda p: CellsSpec(DOMAIN, p, depth=8, width=32),
    "rff": lambda p: MomentsSpec(DOMAIN, p, m=16),
    "race": lambda p: MomentsSpec(DOMAIN, p, features="race", rows=5, width=8),
    "hist": lambda p: MomentsSpec(DOMAIN, p, features="hist", bins=8),
}
SILENT, ANNOUNCED = Privacy(1.0), Privacy(1.0, intrusion="announced")


def probabilities(scale: Fraction, draws: int, reach: int) -> npt.NDArray[np.float64]:
    """Of sums of draws from -reach to reach: of sums of positive numbers, so exact to rounding."""
    decay = exp(-1 / float(scale))
    one = (1 - decay) / (1 + decay) * decay ** np.abs(np.arange(-reach, reach + 1))
    found = one
    for _ in range(draws - 1):
        found = np.convolve(found, one, "same")
    return found


@pytest.mark.parametrize("draws", [1, 2, 5])
@pytest.mark.parametrize("scale", [Fraction(1, 4), Fraction(3), Fraction(15)])
@pytest.mark.parametrize("chance", [1e-9, 1e-12, 1e-15])
def test_a_sum_exceeds_its_quantile_with_the_stated_chance_at_most(
    scale: Fraction, draws: int, chance: float
) -> None:
    bound = sum_quantile(scale, draws, chance)
    reach = 3 * bound + 60
    found = probabilities(scale, draws, reach)

    assert found[reach + bound + 1 :].sum() <= chance
    # Control: it is no bound that nothing could exceed.
    assert found[reach + (bound - 3) * 7 // 10 :].sum() > chance


@pytest.mark.parametrize("count", [1, 2, 40])
def test_a_norm_exceeds_its_quantile_with_the_stated_chance_at_most(count: int) -> None:
    scale, chance = Fraction(3), 1e-9
    bound = norm_quantile(scale, count, chance)
    decay = exp(-1 / float(scale))
    one = 2 * (1 - decay) / (1 + decay) * decay ** np.arange(4 * bound)
    one[0] /= 2
    found = one
    for _ in range(count - 1):
        found = np.convolve(found, one)[: 4 * bound]

    assert found[bound + 1 :].sum() <= chance
    assert found[bound * 7 // 10 :].sum() > chance


def test_ones_exceed_their_quantile_with_the_stated_chance_at_most() -> None:
    for count, probability in ((100, 0.3), (4096, 0.5), (7, 0.9)):
        beyond = ones_quantile(count, 1e-6)
        assert binom.sf(probability * count + beyond, count, probability) <= 1e-6
    assert binom.sf(0.5 * 4096 + 0.7 * ones_quantile(4096, 1e-6), 4096, 0.5) > 1e-6


@pytest.mark.parametrize("draws", [1, 2])
def test_honest_releases_leave_their_bounds_as_rarely_as_stated(draws: int) -> None:
    """With an allowance that can be measured; false alarm 1e-6."""
    rows = [
        CounterRow(1, Fraction(2)),
        *[CounterRow(16, Fraction(5))] * 2,
        CounterRow(8, Fraction(9), 3, 20, True),
    ]
    releases, allowance = 40_000, 0.02
    noise = np.zeros((releases, 41), np.int64)
    starts = np.cumsum([0, *(row.size for row in rows)])
    for row, start in zip(rows, starts, strict=False):
        block = np.zeros(releases * row.size, np.int64)
        for _ in range(draws):
            os_entropy().add_discrete_laplace(row.scale, block)
        noise[:, start : start + row.size] = block.reshape(releases, -1)

    def outside(assumed: int) -> int:
        held, _ = linear_bounds(rows, 64, 0, assumed, allowance).examine(noise)
        return int((~held).sum())

    most = int(binom.isf(FALSE_ALARM, releases, allowance))
    assert 0 < outside(draws) <= most
    if draws == 2:  # Control: the quantile of one draw is too small for two.
        assert outside(1) > most


@pytest.mark.parametrize("privacy", [SILENT, ANNOUNCED], ids=["silent", "announced"])
@pytest.mark.parametrize("family", LINEAR)
def test_a_full_window_is_within_its_bounds_and_its_total_is_right(
    family: str, privacy: Privacy
) -> None:
    """All readings in one cell: what reaches furthest. The total is a sum of known variance; false
    alarm far below 1e-6 (12 standard deviations, by the noise's Chernoff bound)."""
    spec = LINEAR[family](privacy)
    sketch = spec.start(os_entropy())
    sketch.update_many(np.full((READINGS, 2), 3.3))
    release = sketch.release(os_entropy())
    bounds = spec.counter_bounds(READINGS, release.draws)

    (held,), (total,) = bounds.examine(release.counters[None])

    assert held
    assert abs(total - READINGS) < 12 * bounds.total.variance**0.5 + 1


@pytest.mark.parametrize("family", LINEAR)
def test_invented_readings_are_outside_wherever_they_are_put(family: str) -> None:
    """In any single counter, and spread over a row so that no single counter is suspicious."""
    spec = LINEAR[family](SILENT)
    release = spec.start(os_entropy()).release(os_entropy())
    honest = release.counters
    bounds = spec.counter_bounds(READINGS, release.draws)
    assert bounds.examine(honest[None])[0].all()

    per_counter = (bounds.high + np.abs(bounds.low)).max()
    for place in range(len(honest)):
        forged = honest.copy()
        forged[place] += int(per_counter) + 1
        assert not bounds.examine(forged[None])[0].any()
    start = 0
    for size, limit in zip(bounds.sizes, bounds.norm, strict=True):
        forged = honest.copy()
        forged[start : start + size] += -int(-2 * limit // size)
        assert not bounds.examine(forged[None])[0].any()
        start += size


def test_balanced_inventions_are_outside_by_their_norm() -> None:
    """Added here and taken away there, they leave the sum and every counter within bounds."""
    spec = LINEAR["cells"](SILENT)
    bounds = spec.counter_bounds(READINGS, 2)
    forged = np.zeros((1, sum(spec.blocks)), np.int64)
    forged[0, 1::2], forged[0, 2::2] = READINGS, -READINGS

    assert not bounds.examine(forged)[0].any()


@pytest.mark.parametrize("shape", ["count", "bitmap"])
@pytest.mark.parametrize("intrusion", ["silent", "announced"])
@pytest.mark.parametrize("expected", [2000, None])
def test_bits_are_bounded_however_many_keys_there_are(
    shape: str, intrusion: str, expected: int | None
) -> None:
    privacy = Privacy(2.0, unit="key", intrusion=intrusion)  # type: ignore[arg-type]
    spec = DistinctSpec(privacy, expected_keys=expected, release=shape)  # type: ignore[arg-type]
    bounds = spec.counter_bounds(1, 2)
    for keys in (0, 2000, 60_000):
        sketch = spec.start(os_entropy())
        sketch.update_many(np.arange(keys))
        counters = sketch.release(os_entropy()).counters[None]
        held, (total,) = bounds.examine(counters)
        assert held.all()
        assert total >= 0 - 12 * bounds.total.variance**0.5
        for forged in (counters * 0 + 1, counters * 0):
            if shape == "bitmap":
                assert not bounds.examine(forged)[0].any()
        assert not bounds.examine(counters + spec.tracked)[0].any()
        assert not bounds.examine(counters - spec.tracked)[0].any()


def test_counters_that_may_wrap_are_bounded_by_their_bits_alone() -> None:
    spec = LINEAR["views"](SILENT)
    held, _ = spec.counter_bounds(1 << 40, 2).examine(
        np.full((1, sum(spec.blocks)), -(1 << 31), np.int64)
    )
    assert held.all()
    assert (
        not spec.counter_bounds(1 << 40, 2)
        .examine(np.full((1, sum(spec.blocks)), 1 << 32, np.int64))[0]
        .any()
    )


def test_more_draws_widen_the_bounds() -> None:
    spec = LINEAR["hierarchy"](SILENT)
    few, many = spec.counter_bounds(READINGS, 2), spec.counter_bounds(READINGS, 9)
    assert (few.high < many.high).all()
    assert many.total.variance == pytest.approx(4.5 * few.total.variance)
