"""Predictions of planners over measurements, and the quality of their choices.

Views of the streams of small_streams.py are sketched, released and merged as in a fleet. They have
the chosen plan and the other resolutions that fit. Hierarchies of two attributes of the stations
follow.
"""

from collections.abc import Sequence
from functools import cache

import numpy as np

from benchmarks.datasets.small_streams import STREAMS, FloatArray, Stream
from benchmarks.harness.result import Row
from pansketch import Domain, Privacy, Release, Spec, ViewsSpec, WindowId, merge, os_entropy
from pansketch.generators import FittedModel, pairwise, privhp
from pansketch.planning import (
    Expected,
    HierarchyPlan,
    ViewPlan,
    hierarchy_plans,
    plan_views,
    view_plans,
)
from testbed.metrics import distances

RECORDS = 100_000
MEMORY = 1 << 20


def released(stream: Stream, spec: Spec, windows: int = 1) -> Release:
    """Every window of every device, sketched and released separately, then merged."""
    rng, releases = os_entropy(), []
    for device, readings in enumerate(stream.devices()):
        for number, part in enumerate(np.array_split(readings, windows)):
            sketch = spec.start(rng)
            sketch.update_many(part)
            releases.append(sketch.release(rng, WindowId(f"device-{device}", "s", number)))
    return merge(releases)


def planned(stream: Stream, privacy: Privacy, windows: int = 1) -> ViewsSpec:
    """The planner's views for a fleet that expects what there is."""
    devices = len(stream.devices())
    readings = len(stream.truth) // (devices * windows)
    expected = Expected(readings, devices, windows)
    return plan_views(stream.domain, privacy, MEMORY, expected).spec


def sampled(model: FittedModel) -> FloatArray:
    return model.sampler().sample(RECORDS, np.random.default_rng(0))


@cache
def shown() -> FloatArray:
    """Records at epsilon 1, silent, one window a device: those of the picture."""
    spec = planned(STREAMS[0], Privacy(1.0))
    return sampled(pairwise(released(STREAMS[0], spec)))


FACTOR = 1.5  # that a prediction may be off on the stations, for which it was calibrated
WORSE = 1.15  # than the best of the plans that fit, as measured
EPSILONS = (0.1, 1.0, 10.0)
PAIR = ("temp", "pm25")
MOST = 4  # plans of a stream

Plan = ViewPlan | HierarchyPlan


def run(quick: bool) -> list[Row]:
    """A row for each plan, and one for each choice among them."""
    runs = [("stations", STREAMS[0], epsilon, 1) for epsilon in ((1.0,) if quick else EPSILONS)]
    if not quick:
        runs += [("stations", STREAMS[0], epsilon, 49) for epsilon in EPSILONS]
        runs += [(each.name, each, epsilon, 1) for each in STREAMS[1:] for epsilon in EPSILONS]
    rows = []
    for name, stream, epsilon, windows in runs:
        plans: Sequence[Plan] = _of_views(stream, epsilon, windows)
        rows += _rows(f"{name}: views", stream, epsilon, windows, plans)
        if name == "stations":
            two = _two(stream)
            plans = _of_hierarchies(two, epsilon, windows)
            rows += _rows(f"{name}: {' and '.join(PAIR)}", two, epsilon, windows, plans)
    return rows


def _two(stream: Stream) -> Stream:
    places = [stream.domain.index(name) for name in PAIR]
    domain = Domain([stream.domain.attributes[place] for place in places])
    return Stream(stream.name, domain, lambda: tuple(each[:, places] for each in stream.devices()))


def _expected(stream: Stream, windows: int) -> Expected:
    devices = len(stream.devices())
    return Expected(len(stream.truth) // (devices * windows), devices, windows)


def _of_views(stream: Stream, epsilon: float, windows: int) -> list[ViewPlan]:
    return view_plans(stream.domain, Privacy(epsilon), MEMORY, _expected(stream, windows))


def _of_hierarchies(stream: Stream, epsilon: float, windows: int) -> list[HierarchyPlan]:
    return hierarchy_plans(stream.domain, Privacy(epsilon), 1 << 17, _expected(stream, windows))


def _rows(
    name: str, stream: Stream, epsilon: float, windows: int, plans: Sequence[Plan]
) -> list[Row]:
    """The first plan is the chosen one."""
    title = f"{name}, epsilon {epsilon:g}, {windows} window{'s' * (windows > 1)}"
    rows, scores = [], []
    for plan in plans[:MOST]:
        pair, marginal = _measured(stream, plan, windows)
        scores.append(pair + 2 * marginal)
        ratio, held = plan.errors.pair / pair, name.startswith("stations")
        note = (
            f"{plan.errors.pair:.3f} over {pair:.3f}; W1/std {plan.errors.marginal:.4f} over "
            f"{marginal:.4f}; {plan.nbytes:,} bytes"
        )
        bar = f"{1 / FACTOR:.2g} to {FACTOR:g}" if held else ""
        meets = 1 / FACTOR <= ratio <= FACTOR if held else None
        rows.append(Row(f"{title}: {_size(plan)}", ratio, "x measured", bar, meets, note))
    worse = scores[0] / min(scores)
    rows.append(Row(f"{title}: choice", worse, "x the best", f"<= {WORSE}", worse <= WORSE))
    return rows


def _size(plan: Plan) -> str:
    if isinstance(plan, HierarchyPlan):
        return f"depth {plan.spec.depth}"
    return f"pairs of {1 << plan.pair_bits}" if plan.pair_bits else "no pairs"


def _measured(stream: Stream, plan: Plan, windows: int) -> tuple[float, float]:
    """(mean pairwise total variation, mean W1 over the deviation), of synthetic records."""
    model = _model(released(stream, plan.spec, windows))
    found = distances(stream.domain, stream.truth, sampled(model))
    return float(found.pairs.mean()), float(found.marginals.mean())


def _model(release: Release) -> FittedModel:
    return pairwise(release) if release.spec.family == "views" else privhp(release)
