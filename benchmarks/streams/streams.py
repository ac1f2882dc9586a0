"""How good the default plan is on streams that no setting was tuned on, beside a trusted curator.

Ten devices (the bundled streams have theirs), one window, silent. For each stream: how far 100,000
synthetic records are from the readings, and the same of the best trusted-curator peer at equal
epsilon. Also the total variation that `fidelity` predicts over the measured one. Errors of
answers: coverage.py.

Streams with a spike or with missing values are measured once more with their atoms declared. Then
each stream learns its scales from that window, once, and the next window is measured on them,
with the plan for them. Streams that were made after the bars have rows and no bars; on those of
later.py no record was tuned.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from math import exp, log
from time import process_time

import numpy as np

from benchmarks.datasets.small_streams import FloatArray
from benchmarks.harness.result import Row, at_least, at_most
from benchmarks.streams import peers
from benchmarks.streams.kinds import (
    KINDS,
    WITHOUT_BARS,
    Figures,
    Kind,
    default_plan,
    size_of,
)
from benchmarks.views.plans import RECORDS, released, sampled
from pansketch import Domain, Release
from pansketch.generators import FittedModel, fidelity, learned_domain, pairwise, privhp
from pansketch.planning import HierarchyPlan, ViewPlan
from testbed.metrics import distances

REPEATS = 3
MANY = 12  # fleets at epsilon 1, whose figures have most of the bars
QUICK_ATTRIBUTES = 4  # of more, a quick run does not predict
MAX_RATIO = {1.0: 1.4, 10.0: 1.0}  # to the best peer's total variation, geometric mean
FACTOR, OF_STREAMS, MIN_PREDICTED = 1.5, 0.9, 0.5
MAX_PLANNING = 2.0  # seconds

Plan = HierarchyPlan | ViewPlan


def run(quick: bool) -> list[Row]:
    """All streams at epsilon 1, then at 10; then what is held against all of them together."""
    rows, ratios, seconds = list[Row](), dict[float, list[float]](), 0.0
    said, others = list[float](), list[float]()
    for epsilon in (1.0,) if quick else (1.0, 10.0):
        for kind in (*KINDS, *WITHOUT_BARS):
            kind.stream.devices()  # Reading files is no part of planning.
            begin = process_time()
            plan = default_plan(kind.stream, epsilon)
            seconds = max(seconds, process_time() - begin)
            ours = _ours(kind, plan, 1 if quick else MANY if epsilon == 1 else REPEATS)
            best, name = _best_peer(kind, epsilon)
            if kind in KINDS:
                ratios.setdefault(epsilon, []).append(ours["pair"] / best)
            rows += _accuracy(kind, epsilon, ours, plan)
            note = f"{ours['pair']:.3f} over {best:.3f} ({name})"
            title = f"{kind.name}, epsilon {epsilon:g}: TV over the best peer's"
            rows.append(Row(title, ours["pair"] / best, "x", note=note))
            if epsilon == 1 and kind.atoms:
                rows += _with_atoms(kind, 1 if quick else REPEATS)
            if epsilon == 1:
                rows += _learned(kind, plan, 1 if quick else MANY)
            if epsilon == 1 and not (quick and kind.stream.domain.dimension > QUICK_ATTRIBUTES):
                predicted, believed = _believed(kind, plan, ours["pair"])
                (said if kind in KINDS else others).append(predicted)
                rows += believed
    return [*rows, *_together(ratios, said, others, seconds)]


def _together(
    ratios: Mapping[float, Sequence[float]],
    said: Sequence[float],
    others: Sequence[float],
    seconds: float,
) -> list[Row]:
    """`said`, `others`: predictions over what was measured, of streams with bars and without."""
    rows = []
    for epsilon, each in ratios.items():
        mean = exp(sum(map(log, each)) / len(each))
        title = f"all streams, epsilon {epsilon:g}: TV over the best peer's"
        rows.append(at_most(title, mean, "x", MAX_RATIO[epsilon], "geometric mean"))
    near = f"predicted TV within {FACTOR:g} of the measured"
    least = "least predicted TV over the measured"
    note, whole = f"of {len(said)} streams", [*said, *others]
    every = f"of all {len(whole)} streams"
    return [
        *rows,
        at_least(near, _within(said), "share", OF_STREAMS, note),
        at_least(least, min(said), "x", MIN_PREDICTED, note),
        Row(f"{near}, all streams", _within(whole), "share", note=every),
        Row(f"{least}, all streams", min(whole), "x", note=every),
        at_most("slowest plan", seconds, "s of CPU", MAX_PLANNING),
    ]


def _within(said: Sequence[float]) -> float:
    return float(np.mean([1 / FACTOR <= ratio <= FACTOR for ratio in said]))


def model_of(release: Release) -> FittedModel:
    """What the collector makes of it by default."""
    return pairwise(release) if release.spec.family == "views" else privhp(release)


def off(domain: Domain, truth: FloatArray, records: FloatArray) -> Figures:
    """How far records are from readings. With missing values, NaN, a pair is compared on those
    that have both."""
    if np.isfinite(truth).all() and np.isfinite(records).all():
        parts = [distances(domain, truth, records)]
    else:
        parts = []
        for a, b in combinations(range(domain.dimension), 2):
            pairs = [side[:, [a, b]] for side in (truth, records)]
            held = [each[np.isfinite(each).all(axis=1)] for each in pairs]
            two = Domain([domain.attributes[a], domain.attributes[b]])
            parts.append(distances(two, *held))
    apart = np.concatenate([each.pairs for each in parts])
    marginals = np.concatenate([each.marginals for each in parts])
    return {
        "pair": float(apart.mean()),
        "worst pair": float(apart.max()),
        "W1": float(marginals.mean()),
        "correlation": max(each.correlation for each in parts),
    }


def _ours(kind: Kind, plan: Plan, repeats: int) -> Figures:
    """Means over so many fleets."""
    stream = kind.stream
    found = [
        off(stream.domain, stream.truth, sampled(model_of(released(stream, plan.spec))))
        for _ in range(repeats)
    ]
    return {name: float(np.mean([each[name] for each in found])) for name in found[0]}


def _best_peer(kind: Kind, epsilon: float) -> tuple[float, str]:
    """The least total variation of a pair, mean over pairs, and whose it is."""
    domain, rows = kind.stream.domain, kind.stream.truth
    runs = {"tree of pairs": peers.tree}
    if domain.dimension == 2:
        runs["adaptive grid"] = peers.adaptive_grid
    found = {
        name: off(
            domain, rows, peer(domain, kind.complete, epsilon, RECORDS, np.random.default_rng(0))
        )["pair"]
        for name, peer in runs.items()
    }
    best = min(found, key=lambda name: found[name])
    return found[best], best


def _accuracy(kind: Kind, epsilon: float, ours: Figures, plan: Plan) -> list[Row]:
    """A row for each measure, with its bars."""
    rows = []
    bars = kind.bars if epsilon == 1 else kind.bars_at_10
    for measure, value in ours.items():
        was = kind.today.get(measure) if epsilon == 1 else None
        note = f"the bars' data: {was:g}" if was is not None else ""
        if measure == "pair":
            sizes = f"{size_of(plan)}; {plan.nbytes:,} bytes"
            note = f"{note}; {sizes}" if note else sizes
        title = f"{kind.name}, epsilon {epsilon:g}: {_TITLES[measure]}"
        unit = "std" if measure == "W1" else ""
        if measure in bars:
            rows.append(at_most(title, value, unit, bars[measure], note, dict(ours)))
        else:
            rows.append(Row(title, value, unit, note=note, detail=dict(ours)))
    return rows


def _learned(kind: Kind, plan: Plan, repeats: int) -> list[Row]:
    """The window after the scales were learned from the first one, with bars."""
    stream = kind.stream
    found, parts = [], 0
    for _ in range(repeats):
        domain = learned_domain(model_of(released(stream, plan.spec)))
        parts = sum(1 for each in domain.attributes if each.knots)
        after = replace(stream, domain=domain)
        model = model_of(released(after, default_plan(after, 1.0).spec))
        found.append(off(stream.domain, stream.truth, sampled(model)))
    rows = []
    for measure in found[0]:
        value = float(np.mean([each[measure] for each in found]))
        title = f"{kind.name}, epsilon 1: {_TITLES[measure]}, after one learned scale"
        note = f"{parts} of {stream.domain.dimension} attributes learned"
        unit = "std" if measure == "W1" else ""
        if measure in kind.learned:
            rows.append(at_most(title, value, unit, kind.learned[measure], note))
        else:
            rows.append(Row(title, value, unit, note=note))
    return rows


def _with_atoms(kind: Kind, repeats: int) -> list[Row]:
    """The first window if an operator declares the atoms of the stream."""
    stream = kind.with_atoms
    plan, found, told, rows = default_plan(stream, 1.0), list[Figures](), 0.0, list[Row]()
    for _ in range(repeats):
        release = released(stream, plan.spec)
        model = model_of(release)
        records = sampled(model)
        found.append(off(kind.stream.domain, stream.truth, records))
        told = fidelity([release], RECORDS).pair
    for measure in found[0]:
        value = float(np.mean([each[measure] for each in found]))
        unit = "std" if measure == "W1" else ""
        note = size_of(plan) if measure == "pair" else ""
        title = f"{kind.name}, epsilon 1: {_TITLES[measure]}, with atoms"
        rows.append(Row(title, value, unit, note=note))
    measured = rows[0].value
    note, title = f"{told:.3f} over {measured:.3f}", f"{kind.name}: predicted TV over the measured"
    rows.append(Row(f"{title}, with atoms", told / measured, "x", note=note))
    if kind.beside is not None:
        rows.append(_beside(kind, model, *kind.beside, ", with atoms"))
    for name in (each for each, atoms in kind.atoms.items() if "missing" in atoms):
        share, truth = model.share({name: "missing"}), stream.truth[:, stream.domain.index(name)]
        off_by = abs(share.value - float(np.isnan(truth).mean()))
        note = f"{off_by / share.standard_error:.1f} of its standard errors"
        title = f"{kind.name}: share of missing {name} is off by, with atoms"
        rows.append(Row(title, off_by, "", note=note))
    return rows


_TITLES = {
    "pair": "mean pairwise TV",
    "worst pair": "worst pairwise TV",
    "W1": "mean W1",
    "correlation": "largest correlation error",
}


def _believed(kind: Kind, plan: Plan, measured: float) -> tuple[float, list[Row]]:
    """Predicted over measured total variation, and rows of it and of the spike."""
    release = released(kind.stream, plan.spec)
    told = fidelity([release], RECORDS).pair
    note = f"{told:.3f} over {measured:.3f}; the planner's {plan.errors.pair:.3f}"
    rows = [Row(f"{kind.name}: predicted TV over the measured", told / measured, "x", note=note)]
    if kind.beside is not None:
        rows.append(_beside(kind, model_of(release), *kind.beside))
    return told / measured, rows


def _beside(kind: Kind, model: FittedModel, name: str, x: float, how: str = "") -> Row:
    column = kind.stream.truth[:, kind.stream.domain.index(name)]
    found, truth = model.cdf(name, x), float((column <= x).mean())
    wrong = abs(found.value - truth)
    note = f"{wrong / found.standard_error:.1f} of its standard errors; {truth:.2f} at the spike"
    title = f"{kind.name}: cdf of {name} just above the spike is off by{how}"
    return Row(title, wrong, "", note=note)
