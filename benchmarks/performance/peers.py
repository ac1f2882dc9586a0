"""The price of privacy: our sketches beside Apache DataSketches, which has no privacy guarantee.

Both process the same stream with the same bytes of state, in one run. KLL (Karnin, Lang, Liberty)
answers quantiles and forgets values as it goes, but it holds raw readings. HyperLogLog counts keys,
and an intruder with its state can test whether a key appeared. A fleet would use both without
privacy.

So the additional error of ours is the cost of the guarantee. It falls with the number of readings,
and theirs does not. diffprivlib is missing: its newest release, 0.6.6, does not import beside the
scikit-learn that the other benchmarks need.
"""

from functools import partial

import datasketches
import numpy as np

from benchmarks.datasets.stations import FloatArray
from benchmarks.harness.result import Row, fastest
from pansketch import Attribute, DistinctSpec, Domain, HierarchySpec, Privacy, os_entropy
from pansketch.generators import privhp

EPSILON = 1.0
QUANTILES = np.arange(1, 100) / 100
DOMAIN = Domain([Attribute("x", low=0, high=1)])
SPEC = HierarchySpec(DOMAIN, Privacy(EPSILON), depth=10, k=1024)
KEYS, KEY_BYTES = 20_000, 2048
HLL_LOG2 = 11  # 2,048 registers


def run(quick: bool) -> list[Row]:
    repeats = 3 if quick else 20
    rows = [_quantiles(count, repeats) for count in (10_000, 100_000, 1_000_000)]
    return [*rows, _distinct(repeats), *_speed(5 if quick else 30)]


def _quantiles(count: int, repeats: int) -> Row:
    """Mean distance, in rank, of the values given for 99 quantiles."""
    ours, theirs = [], []
    for seed in range(repeats):
        readings = np.random.default_rng(seed).beta(2, 5, count)
        ordered = np.sort(readings)
        ours.append(_rank_error(ordered, _private_quantiles(readings)))
        kll = _kll(readings)
        theirs.append(_rank_error(ordered, np.array(kll.get_quantiles(QUANTILES.tolist()))))
    found, peer = float(np.mean(ours)), float(np.mean(theirs))
    note = f"{found:.5f} against {peer:.5f} in rank, {SPEC.nbytes:,} bytes of state each"
    name = f"quantiles of {count:,} readings, epsilon {EPSILON:g} silent"
    return Row(name, found / peer, "x KLL's error", note=note, detail={"ours": found, "kll": peer})


def _private_quantiles(readings: FloatArray) -> FloatArray:
    sketch = SPEC.start(os_entropy())
    sketch.update_many(readings[:, None])
    model = privhp(sketch.release(os_entropy()))
    edges, cumulative = model.filled(0)
    return np.interp(QUANTILES, cumulative, edges)


def _kll(readings: FloatArray) -> datasketches.kll_floats_sketch:
    """The largest KLL whose bytes are no more than ours."""
    for k in range(1600, 7, -8):
        sketch = datasketches.kll_floats_sketch(k)
        sketch.update(readings.astype(np.float32))
        if len(sketch.serialize()) <= SPEC.nbytes:
            return sketch
    raise ValueError("there is no KLL as small as that")


def _rank_error(ordered: FloatArray, values: FloatArray) -> float:
    ranks = np.searchsorted(ordered, values) / len(ordered)
    return float(np.abs(ranks - QUANTILES).mean())


def _distinct(repeats: int) -> Row:
    """Mean relative error of the number of distinct keys."""
    spec = DistinctSpec(
        Privacy(EPSILON, unit="key"), memory=KEY_BYTES, expected_keys=KEYS, release="count"
    )
    ours, theirs = [], []
    for seed in range(repeats):
        keys = np.random.default_rng(seed).integers(0, 1 << 40, KEYS)
        sketch = spec.start(os_entropy())
        sketch.update_many(keys)
        ours.append(abs(sketch.release(os_entropy()).distinct().value / KEYS - 1))
        hll = datasketches.hll_sketch(HLL_LOG2, datasketches.tgt_hll_type.HLL_8)
        for key in keys.tolist():
            hll.update(key)
        theirs.append(abs(hll.get_estimate() / KEYS - 1))
    found, peer = float(np.mean(ours)), float(np.mean(theirs))
    note = f"{found:.4f} against {peer:.4f} relative, {spec.nbytes:,} bytes of state each"
    name = f"{KEYS:,} distinct keys, epsilon {EPSILON:g} silent"
    detail = {"ours": found, "hll": peer}
    return Row(name, found / peer, "x HLL's error", note=note, detail=detail)


def _speed(repeats: int) -> list[Row]:
    readings = np.random.default_rng(1).random(100_000)
    column, narrow = readings[:, None], readings.astype(np.float32)
    sketch, kll = SPEC.start(os_entropy()), datasketches.kll_floats_sketch(200)
    table = datasketches.count_min_sketch(3, 1024)
    ours, theirs, counted = fastest(
        [
            partial(sketch.update_many, column),
            partial(kll.update, narrow),
            partial(_count, table, range(2000)),
        ],
        repeats,
    )
    rate = len(readings) / ours
    return [
        Row("readings a second", rate * theirs / len(readings), "x KLL's", note=f"{rate:,.0f}/s"),
        Row(
            "readings a second, theirs one by one",
            rate * counted / 2000,
            "x count-min's",
            note=f"{2000 / counted:,.0f}/s theirs, from Python",
        ),
    ]


def _count(table: datasketches.count_min_sketch, items: range) -> None:
    for item in items:
        table.update(item)
