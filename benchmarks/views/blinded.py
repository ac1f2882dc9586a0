"""Blinded fleets beside the local mode: accuracy on the twelve stations, and the cost of masks.

`python -m benchmarks --only blinded` sketches every window of every station with real masks of two
keepers, has both answer, unblinds and makes records. Views are planned for each way of asking.
"""

from collections.abc import Callable
from functools import partial
from itertools import groupby

import numpy as np

from benchmarks.datasets.small_streams import STREAMS, Stream
from benchmarks.harness.result import Row, at_most, fastest
from benchmarks.views.plans import MEMORY, planned, released, sampled
from pansketch import Privacy, Release, View, ViewsSpec, WindowId, merge, os_entropy
from pansketch.blinding import (
    AnswersInMemory,
    BlindedRelease,
    PrivateKey,
    answer_once,
    question_about,
    start,
    unblind,
)
from pansketch.generators import pairwise
from pansketch.planning import Expected, plan_views
from testbed.metrics import distances

WINDOWS = 49
FLEET = "stations"
BLINDED = Privacy(1.0, aggregation="blinded")
BLOCK_READINGS = 256  # of one call of `update_many`
REFRESH_BAR = 5.0  # milliseconds


def run(quick: bool) -> list[Row]:
    """Accuracy with 49 windows, then the time of a refresh. Nothing is left out if `quick`."""
    stream = STREAMS[0]
    ways: list[tuple[str, float, float, Callable[[], Release]]] = [
        ("local", 0.12, 0.25, partial(_local, stream)),
        ("one answer a window", 0.060, 0.08, partial(_blinded, stream, True)),
        ("one answer", 0.035, 0.05, partial(_blinded, stream, False)),
    ]
    rows = []
    for name, most_pair, most_correlation, release in ways:
        found = distances(stream.domain, stream.truth, sampled(pairwise(release())))
        pair, w1 = float(found.pairs.mean()), float(found.marginals.mean())
        note = f"W1/std {w1:.4f}"
        title = f"stations, 12 devices x {WINDOWS} windows, {name}"
        rows.append(at_most(f"{title}: pairs", pair, "TV", most_pair, note))
        rows.append(at_most(f"{title}: correlation", found.correlation, "error", most_correlation))
    return [*rows, _refresh(stream)]


def _local(stream: Stream) -> Release:
    return released(stream, planned(stream, Privacy(1.0), WINDOWS), WINDOWS)


def _blinded(stream: Stream, each_window: bool) -> Release:
    """The releases of all devices, asked about window by window or all at once."""
    answers = WINDOWS if each_window else 1
    expected = Expected(len(stream.truth) // answers, 1, answers)
    spec = plan_views(stream.domain, BLINDED, MEMORY, expected).spec
    keepers = [(PrivateKey.draw(os_entropy()), AnswersInMemory()) for _ in range(2)]
    releases = _released(stream, spec, tuple(key.public for key, _ in keepers))
    asked = [
        list(group)
        for _, group in groupby(releases, key=lambda each: each.window.sequence * each_window)
    ]
    unblinded = []
    for group in asked:
        question = question_about(FLEET, group)
        told = [answer_once(question, spec, key, os_entropy(), ledger) for key, ledger in keepers]
        unblinded.append(unblind(question, group, told, len(stream.truth)))
    return merge(unblinded)


def _released(stream: Stream, spec: ViewsSpec, keepers: tuple[bytes, ...]) -> list[BlindedRelease]:
    """Window by window, a release of every device."""
    rng, found = os_entropy(), []
    for device, readings in enumerate(stream.devices()):
        for number, part in enumerate(np.array_split(readings, WINDOWS)):
            window = WindowId(f"device-{device}", "s", number)
            sketch = start(spec, rng, FLEET, window, keepers)
            sketch.update_many(part)
            found.append(sketch.release(rng))
    return sorted(found, key=lambda each: each.window.sequence)


def _refresh(stream: Stream) -> Row:
    """A refresh of the masks, beside one block of readings absorbed."""
    views = View(("temp", "pm25"), (5, 5), 500_000), View(("temp",), (8,), 500_000)
    spec = ViewsSpec(stream.domain, BLINDED, views)
    rng = os_entropy()
    keepers = tuple(PrivateKey.draw(rng).public for _ in range(2))
    block = stream.truth[:BLOCK_READINGS]

    def fresh() -> None:
        sketch = start(spec, rng, FLEET, WindowId("d", "s", 1), keepers)
        for _ in range(20):
            sketch.begin_epoch(rng)

    sketch = start(spec, rng, FLEET, WindowId("d", "s", 1), keepers)
    masks, readings = fastest([fresh, partial(sketch.update_many, block)], 5)
    milliseconds = masks / 21 * 1e3
    note = (
        f"{milliseconds:.2f} ms for {spec.nbytes:,} bytes and two keepers, "
        f"{masks / 21 / readings:.2f} x {BLOCK_READINGS} readings absorbed"
    )
    return at_most("refresh of the masks", milliseconds, "ms", REFRESH_BAR, note)
