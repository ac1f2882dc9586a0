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
FLEET_WINDOWS = 30
FLEET = "stations"
BLINDED = Privacy(1.0, aggregation="blinded")
BLOCK_READINGS = 256  # of one call of `update_many`
REFRESH_BAR = 5.0  # milliseconds


def run(quick: bool) -> list[Row]:
    """Accuracy with 49 windows, a large fleet (a tenth of it if `quick`), the time of a refresh."""
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
    return [*rows, _large_fleet(stream, 100 if quick else 1000), _refresh(stream)]


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


def _large_fleet(stream: Stream, devices: int) -> Row:
    """The error of all counters of a fleet with one answer a window, over that of one device that
    holds all readings and has as many draws as there are keepers."""
    views = View(("temp", "pm25"), (5, 5), 500_000), View(("temp",), (8,), 500_000)
    spec, alone = (ViewsSpec(stream.domain, p, views) for p in (BLINDED, Privacy(1.0)))
    rng = os_entropy()
    keepers = [(PrivateKey.draw(rng), AnswersInMemory()) for _ in range(2)]
    public = tuple(key.public for key, _ in keepers)
    together, single, truth = [], [], np.zeros(sum(spec.blocks), np.int64)
    for number, part in enumerate(np.array_split(stream.truth, FLEET_WINDOWS), start=1):
        released = []
        for device, readings in enumerate(np.array_split(part, devices)):
            sketch = start(spec, rng, FLEET, WindowId(f"d-{device}", "s", number), public)
            sketch.update_many(readings)
            released.append(sketch.release(rng))
        question = question_about(FLEET, released)
        told = [answer_once(question, spec, key, rng, ledger) for key, ledger in keepers]
        together.append(unblind(question, released, told, len(part)))
        one = alone.start(rng)
        one.update_many(part)
        single.append(one.release(rng, WindowId("all", "s", number)))
        counts = np.zeros(sum(spec.blocks), spec.counter)
        spec.absorber().absorb(part, counts)
        truth += counts
    errors = [float(np.std(merge(each).counters - truth)) for each in (together, single)]
    title = f"{devices} devices x {FLEET_WINDOWS} windows, one answer a window: error of counters"
    note = f"{errors[0]:.1f} and {errors[1]:.1f} readings, {merge(single).draws} draws each"
    return at_most(title, errors[0] / errors[1], "x one device with all readings", 1.2, note)


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
