"""PrivHP: the bound of Theorem 3 in one dimension, what Lemma 9 needs of it, and whose neighbours.

Coordinates are halved in turn, so a cell of level l has l-infinity diameter
gamma_l = 2^-floor(l/d). Hierarchies are the paper's: fanout 2, one row, one draw of noise.
"""

from collections.abc import Callable, Iterator
from itertools import combinations
from math import sqrt

import numpy as np

from benchmarks.harness.result import Row, at_least, at_most
from benchmarks.hierarchy.one_attribute import DOMAIN, cascade
from benchmarks.hierarchy.pmm import FloatArray, w1
from pansketch import Attribute, Domain, HierarchySpec, Privacy, Release, os_entropy
from pansketch.generators import privhp
from pansketch_audit.mechanisms.zero_noise import NoNoise

COUNT, DEPTH, WIDTH, EPSILON = 100_000, 14, 64, 1.0
PRUNING = (4, 16, 64, 256)
SKEWS = (0.5, 0.7, 0.9)
DIMENSIONS = (1, 2, 5, 10)
LEMMA_9, HALVINGS = 4.0, 20  # The lemma's constant, and how deep its sum goes, by coordinate.
LEAST_SLOPE, FALSE_BY = -0.5, 1.5
VALUES = 32  # Readings among which one is replaced by another.

Draw = Callable[[int, np.random.Generator], FloatArray]


def rows(quick: bool) -> Iterator[Row]:
    yield _neighbours()
    yield from jumps()
    yield from _distances(3 if quick else 20)


def _neighbours() -> Row:
    """Theorem 2: its neighbours replace one element, its proof adds one."""
    added, replaced = losses(spec_of(16))
    note = f"add or remove one: {added / EPSILON:.3g} x; false by its own definition"
    name = "PrivHP, Theorem 2: loss where one element is replaced over epsilon"
    return at_least(name, replaced / EPSILON, "x", FALSE_BY, note)


def losses(spec: HierarchySpec) -> tuple[float, float]:
    """Maximum losses of a release when a reading is added, and when it is replaced.

    Each is the sum of the counters' changes over their scales.
    """
    scales = np.concatenate([np.full(each.size, float(each.scale)) for each in spec.levels])
    states = [_release(spec, np.array([x])).counters for x in (np.arange(VALUES) + 0.5) / VALUES]
    empty = _release(spec, np.zeros(0)).counters
    added = max(float(np.sum(np.abs(state - empty) / scales)) for state in states)
    replaced = max(
        float(np.sum(np.abs(one - other) / scales)) for one, other in combinations(states, 2)
    )
    return added, replaced


def jumps() -> Iterator[Row]:
    """Lemma 9: what one miss costs at all levels below, 2 gamma_(l+x) each, over gamma_(l+1)."""
    for dimension in DIMENSIONS:
        domain = Domain([Attribute(f"x{i}", low=0, high=1) for i in range(dimension)])
        levels = HALVINGS * dimension
        gamma = [_diameter(domain, level) for level in range(levels + dimension)]
        worst = max(
            sum(2 * gamma[level + x] for x in range(1, levels)) / gamma[level + 1]
            for level in range(dimension)
        )
        name = f"PrivHP, Lemma 9: cost of a miss over gamma, {dimension}-d"
        note = f"the lemma has {LEMMA_9:g}, because it takes 2 gamma_l for gamma_(l-1)"
        if dimension == 1:
            yield at_most(name, worst, "", LEMMA_9, note)
        else:
            note += "; false: it grows with d"
            yield at_least(name, worst, "", FALSE_BY * LEMMA_9, note)


def _diameter(domain: Domain, level: int) -> float:
    halvings = np.bincount(domain.split_order(level), minlength=domain.dimension)
    return float(0.5 ** halvings.min())


def _distances(runs: int) -> Iterator[Row]:
    """Theorem 3 with the constants of its proof, and Theorem 1's behaviour in k and in skew."""
    by_k = {k: _measured(_even, k, runs) for k in PRUNING}
    by_skew = {skew: _measured(_skewed(skew), PRUNING[1], runs) for skew in SKEWS}
    cases = {f"uniform, k {k}": found for k, found in by_k.items()}
    cases |= {f"multifractal B {b:g}, k {PRUNING[1]}": found for b, found in by_skew.items()}
    for case, (published, ours, bound) in cases.items():
        note = f"W1 {published:.3g}, bound {bound:.3g}; ours {ours:.3g}; n {COUNT:,}, {runs} runs"
        name = f"PrivHP, Theorem 3: W1 as published over its bound, {case}"
        yield at_most(name, published / bound, "x", 1.0, note)
    errors = [by_k[k][0] for k in PRUNING]
    slope = float(np.polyfit(np.log(PRUNING), np.log(errors), 1)[0])
    note = f"k {PRUNING[0]} to {PRUNING[-1]}, w {WIDTH}; the bound's pruning term has -1"
    name = "PrivHP, Theorem 1: slope of log W1 in log k, uniform"
    yield at_most(name, slope, "", LEAST_SLOPE, note)
    ratio = by_skew[SKEWS[-1]][0] / by_skew[SKEWS[0]][0]
    name = f"PrivHP, Theorem 1: W1 at B {SKEWS[-1]:g} over B {SKEWS[0]:g}"
    yield at_most(name, ratio, "x", 1.0, "more skew, less error")
    worst = max(ours / published for published, ours, _ in cases.values())
    yield at_most("PrivHP: our growth's W1 over the published one, worst case", worst, "x", 1.0)


def _measured(draw: Draw, k: int, runs: int) -> tuple[float, float, float]:
    """Mean W1 as published and of our growth, and the mean bound."""
    spec, found = spec_of(k), []
    for run in range(runs):
        readings = draw(COUNT, np.random.default_rng([12, run]))
        rng = os_entropy()
        sketch = spec.start(rng)
        sketch.update_many(readings[:, None].copy())
        release = sketch.release(rng)
        models = privhp(release, as_published=True), privhp(release)
        errors = [w1(model.filled(0), readings) for model in models]
        found.append([*errors, _bound(spec, readings)])
    published, ours, bound = np.mean(found, axis=0)
    return float(published), float(ours), float(bound)


def _bound(spec: HierarchySpec, readings: FloatArray) -> float:
    """Theorem 3 as the last line of its proof has it, for one dimension and one row."""
    noise, approximation, count = 0.0, 0.0, len(readings)
    pruned = _pruned(readings, spec.k)
    for level in spec.levels:
        # The root's parent is itself; Gamma of every level is 1.
        gamma = 0.5 ** max(0, level.bits - 1)
        exact = level.hash is None
        noise += float(level.scale) * (1.0 if exact else spec.k * gamma)
        if not exact:
            approximation += (5 / spec.width + pruned[level.bits] / count) * gamma
    return float(10 * sqrt(2) / count * noise + approximation + 0.5**spec.depth)


def _pruned(readings: FloatArray, k: int) -> dict[int, float]:
    """By level, the readings in the k lightest candidates, where pruning is exact."""
    cells = np.minimum((readings * (1 << DEPTH)).astype(np.intp), (1 << DEPTH) - 1)
    found, kept = {}, np.arange(k)
    for bits in range(k.bit_length(), DEPTH + 1):
        counts = np.bincount(cells >> (DEPTH - bits), minlength=1 << bits)
        candidates = (2 * kept[:, None] + np.arange(2)).ravel()
        order = candidates[np.argsort(-counts[candidates], kind="stable")]
        kept, found[bits] = order[:k], float(counts[order[k:]].sum())
    return found


def spec_of(k: int, depth: int = DEPTH, width: int = WIDTH) -> HierarchySpec:
    privacy = Privacy(EPSILON, intrusion="announced")
    return HierarchySpec(DOMAIN, privacy, depth, k, width, rows=1, fanout=2)


def _release(spec: HierarchySpec, readings: FloatArray) -> Release:
    sketch = spec.start(NoNoise())
    sketch.update_many(readings[:, None].copy())
    return sketch.release(NoNoise())


def _even(count: int, generator: np.random.Generator) -> FloatArray:
    return generator.random(count)


def _skewed(skew: float) -> Draw:
    return lambda count, generator: cascade(count, generator, skew)
