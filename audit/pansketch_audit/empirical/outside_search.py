"""A search from outside for the most distinguishing event, without knowledge of a unit's counters.

Half of the runs train a linear score over the whole view. It has the counters in the snapshot,
those of the release, their difference, and the length on the wire. The threshold that separates
best on this half is the event. The other half bounds its probabilities, by Clopper-Pearson. So the
search may overfit without harm. (Bichsel et al., DP-Sniper, S&P 2021)

Counts are realistic: the window has hundreds of other readings or keys. The whole view is searched
with epsilon as the claim. Each block is searched with the share that its declared scale leaves as
the claim. A small share is refuted by fewer runs.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from math import inf, log
from typing import Any

import numpy as np
import numpy.typing as npt

from pansketch import (
    Attribute,
    CellsSpec,
    DistinctSpec,
    Domain,
    Entropy,
    HierarchySpec,
    MomentsSpec,
    Privacy,
    Spec,
    View,
    ViewsSpec,
    decode,
)
from pansketch.privacy import MICRO
from pansketch_audit.empirical.loss_lower_bound import ALPHA, Moment, proportion_bounds
from pansketch_audit.mechanisms.mechanism import Mechanism
from pansketch_audit.mechanisms.subjects import hierarchy_counts, key_bits, linear_counts
from pansketch_audit.mechanisms.zero_noise import NoNoise

Floats = npt.NDArray[np.float64]
Counts = npt.NDArray[np.int64]
FEATURES = 40  # The score has so many: those whose means differ most, and what varies with them.
THRESHOLDS = 60
RIDGE = 1e-3  # Of a feature's variance: below it a difference counts as one of exact numbers.
KEY = 7  # The unit's, and how often it appears.
APPEARANCES = 3


@dataclass(frozen=True)
class Site:
    """A spec of ordinary size, and a window of it.

    `company`: the readings or keys beside the unit. `unit`: those that one side has besides.
    `counts`: counters of a sketch's memory, in the layout of a release.
    """

    name: str
    spec: Any
    company: npt.NDArray[Any]
    unit: npt.NDArray[Any]
    counts: Callable[[Any], Counts]

    @property
    def moments(self) -> tuple[Moment, ...]:
        """When the unit may come, seen from the snapshot."""
        keyed = self.counts is key_bits
        return ("before", "after", "both") if keyed else ("before", "after")


@dataclass(frozen=True)
class Distinguished:
    """The event that came nearest to its claim, or beyond it.

    `where`: in which part of what is seen. `bound`: a lower bound of the loss. `claimed`: the
    largest loss there may be. `runs`: of each side.
    """

    where: str
    bound: float
    claimed: float
    runs: int

    @property
    def holds(self) -> bool:
        return self.bound <= self.claimed

    def __str__(self) -> str:
        return f"loss >= {self.bound:.3f} of {self.claimed:.3g} in {self.where}, {self.runs} runs"


@dataclass(frozen=True)
class _Part:
    """A part of the view, by positions in a row, and the loss that is claimed for it."""

    where: str
    indices: npt.NDArray[np.intp]
    claimed: float


def sites() -> list[Site]:
    """Every linear family and the counters of distinct keys, at true counts from 10 to 1,000."""
    domain = Domain([Attribute("x", low=0, high=1), Attribute("y", low=0, high=1)])
    privacy = Privacy(epsilon=2.0)
    pair = (View(("x",), (3,), MICRO), View(("y",), (3,), MICRO))
    deep = HierarchySpec(domain, Privacy(epsilon=9.0), depth=8, k=8, width=8, rows=1)
    linear: list[tuple[str, Spec, int]] = [
        ("hierarchy", deep, 1000),
        ("cells", CellsSpec(domain, privacy, depth=6, width=16, rows=2), 1000),
        ("views", ViewsSpec(domain, privacy, pair), 100),
        ("moments, hist", MomentsSpec(domain, privacy, "hist", bins=8), 100),
        ("moments, race", MomentsSpec(domain, privacy, "race", rows=3, width=8), 1000),
        ("moments, rff", MomentsSpec(domain, privacy, "rff", m=4), 10),
    ]
    unit = np.array([[0.3, 0.7]])
    near = np.random.default_rng(1).uniform(-0.05, 0.05, (1000, 2))
    found = [
        Site(
            name,
            spec,
            unit + near[:count],
            unit,
            hierarchy_counts if spec is deep else linear_counts,
        )
        for name, spec, count in linear
    ]
    keyed = Privacy(epsilon=2.0, unit="key")
    counters = [
        ("distinct, counted", DistinctSpec(keyed, universe=200), 100),
        ("distinct, hashed", DistinctSpec(keyed, expected_keys=100), 10),
        ("distinct, bitmap", DistinctSpec(keyed, universe=200, release="bitmap"), 100),
        ("distinct, sampled", DistinctSpec(keyed, universe=4000, memory=64), 1000),
    ]
    repeated = np.full(APPEARANCES, KEY)
    return [
        *found,
        *(
            Site(name, spec, np.arange(100, 100 + count), repeated, key_bits)
            for name, spec, count in counters
        ),
    ]


def searched(
    mechanism: Mechanism, site: Site, arrives: Moment, runs: int, rng: Entropy
) -> Distinguished:
    """The event nearest to its claim, over all parts, with its bound and claim. Beyond the claim by
    chance: with probability `ALPHA` at most, over all parts together.

    Args:
        mechanism: how a window begins and is published.
        site: what is run.
        arrives: whether the unit comes before the snapshot, after it, or a key on both sides.
        runs: of each side; half of them train.
        rng: secret randomness.
    """
    sides = [_rows(mechanism, site, arrives, present, runs, rng) for present in (True, False)]
    half = runs // 2
    parts = list(_parts(site, arrives, sides[0].shape[1]))
    found = []
    for part in parts:
        with_unit, without = (side[:, part.indices] for side in sides)
        score = _trained(with_unit[:half], without[:half])
        bound = _bound(
            [score(with_unit[:half]), score(without[:half])],
            [score(with_unit[half:]), score(without[half:])],
            ALPHA / len(parts),
        )
        found.append(Distinguished(part.where, bound, part.claimed, runs))
    return max(found, key=lambda each: each.bound / each.claimed)


def _rows(
    mechanism: Mechanism, site: Site, arrives: Moment, present: bool, runs: int, rng: Entropy
) -> Floats:
    """The view of each run, float64[runs, features]."""
    shown = [_seen(mechanism, site, arrives, present, rng) for _ in range(runs)]
    return np.array(shown, np.float64)


def _seen(mechanism: Mechanism, site: Site, arrives: Moment, present: bool, rng: Entropy) -> Counts:
    """Snapshot, release, their difference if they have one layout, and the length on the wire."""
    middle = len(site.company) // 2
    sketch = mechanism.start(site.spec, rng)
    before = [site.company[:middle]] + [site.unit] * (present and arrives != "after")
    after = [site.company[middle:]] + [site.unit] * (present and arrives != "before")
    sketch.update_many(np.concatenate(before))
    snapshot = site.counts(sketch)
    sketch.update_many(np.concatenate(after))
    wire = mechanism.publish(sketch, rng, len(site.company) + present)
    published = decode(wire, site.spec).counters
    apart = published - snapshot if len(published) == len(snapshot) else published[:0]
    return np.concatenate([snapshot, published, apart, [len(wire)]])


def _parts(site: Site, arrives: Moment, seen: int) -> Iterator[_Part]:
    guarantee = site.spec.guarantee
    spent = {
        "before": guarantee.state_micro,
        "after": guarantee.release_micro,
        "both": guarantee.epsilon_micro,
    }
    yield _Part("all that is seen", np.arange(seen), spent[arrives] / MICRO)
    if site.counts is key_bits:
        return
    moved, first, shares = _moved(site), 0, list[tuple[npt.NDArray[np.intp], Fraction]]()
    for size, scale in zip(site.spec.blocks, site.spec.scales, strict=True):
        block = np.arange(first, first + size)
        shares.append((block, int(abs(moved[block]).sum()) / scale))
        first += size
    # Scales that leave more than epsilon in all do not excuse what a block shows.
    excess = max(Fraction(1), sum(share for _, share in shares) * MICRO / spent[arrives])
    for number, (block, share) in enumerate(shares):
        if share:
            copies = np.concatenate([block + copy * len(moved) for copy in range(3)])
            yield _Part(f"block {number + 1}", copies, float(share / excess))


def _moved(site: Site) -> Counts:
    """The unit's contribution to the counters of a release."""
    silence = NoNoise()
    sketch = site.spec.start(silence)
    sketch.update_many(site.unit)
    return np.asarray(sketch.release(silence).counters)


def _trained(with_unit: Floats, without: Floats) -> Callable[[Floats], Floats]:
    """A linear score, the larger the likelier with the unit, with Fisher's weights.

    Beside each number stands on which side of the middle it lies: of Laplace noise the likelihood
    ratio is a sum of these. Half of the features are those whose means differ most. The others vary
    most with these: a number that shares their noise takes it away, and need not differ itself.
    """
    middle = (np.median(with_unit, axis=0) + np.median(without, axis=0)) / 2

    def described(rows: Floats) -> Floats:
        return np.hstack([rows, np.sign(rows - middle)])

    one, other = described(with_unit), described(without)
    shift = one.mean(axis=0) - other.mean(axis=0)
    noise = np.vstack([one - one.mean(axis=0), other - other.mean(axis=0)])
    size = np.sqrt(noise.var(axis=0) + RIDGE)
    chosen = _chosen(noise / size, shift / size)
    one, other, size = one[:, chosen] / size[chosen], other[:, chosen] / size[chosen], size[chosen]
    within = (np.cov(one, rowvar=False) + np.cov(other, rowvar=False)) / 2
    within = np.atleast_2d(within) + RIDGE * np.eye(len(chosen))
    weights = np.linalg.solve(within, shift[chosen] / size) / size
    return lambda rows: np.asarray(described(rows)[:, chosen] @ weights)


def _chosen(noise: Floats, shift: Floats) -> npt.NDArray[np.intp]:
    """The features of a score. `noise`: float64[runs, features], and `shift` of the means, both in
    deviations of each feature."""
    telling = np.argsort(-abs(shift))[: FEATURES // 2]
    related = abs(noise[:, telling].T @ noise).max(axis=0)
    related[telling] = np.inf
    return np.asarray(np.argsort(-related)[:FEATURES])


def _bound(training: list[Floats], held_out: list[Floats], alpha: float) -> float:
    """Test the event that the training half prefers on the other half. It is a high score, likelier
    with the unit, or a low one, likelier without it."""
    levels = np.quantile(np.concatenate(training), np.linspace(0, 1, THRESHOLDS))
    with_unit, without = (
        1 - np.searchsorted(np.sort(scores), levels) / len(scores) for scores in training
    )
    high = _guessed(with_unit, without, len(training[0]))
    low = _guessed(1 - without, 1 - with_unit, len(training[0]))
    is_high = bool(high.max() >= low.max())
    threshold = levels[int(np.argmax(high if is_high else low))]
    often, seldom = ((scores >= threshold) == is_high for scores in held_out)
    if not is_high:
        often, seldom = seldom, often
    least = proportion_bounds(int(often.sum()), len(often), alpha / 2)[0]
    most = proportion_bounds(int(seldom.sum()), len(seldom), alpha / 2)[1]
    return log(least / most) if least > 0 else -inf


def _guessed(often: Floats, seldom: Floats, runs: int) -> Floats:
    """About the bounds that such shares of so many runs lead to, by Wilson's intervals."""
    z = 5.0
    least, most = (
        (
            share
            + z * z / (2 * runs)
            + sign * z * np.sqrt(share * (1 - share) / runs + (z / 2 / runs) ** 2)
        )
        / (1 + z * z / runs)
        for share, sign in ((often, -1), (seldom, 1))
    )
    return np.asarray(np.log(np.maximum(least, 1e-9) / most))


def most_that_runs_show(runs: int) -> float:
    """The largest bound that so many runs of each side can give: of an event that always happens
    with the unit and never without."""
    low, _ = proportion_bounds(runs // 2, runs // 2, ALPHA / 2)
    _, top = proportion_bounds(0, runs // 2, ALPHA / 2)
    return log(low / top)
