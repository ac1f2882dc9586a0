"""Blinded fleets beside the local mode: accuracy on the twelve stations, and the cost of masks.

`python -m benchmarks --only blinded` sketches every window of every station with real masks of two
keepers, has both answer, unblinds and makes records. Views are planned for each way of asking.
"""

import os
import sys
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
from pansketch_fleet.child_process import run_child
from testbed.fleet_simulator.usage import resident
from testbed.metrics import distances
from testbed.program import ROOT

WINDOWS = 49
FLEET_WINDOWS = 30
FLEET = "stations"
BLINDED = Privacy(1.0, aggregation="blinded")
BLOCK_READINGS = 256  # of one call of `update_many`
REFRESH_BAR, MEMORY_BAR = 5.0, 4.0  # milliseconds, MiB
EPOCHS = 24  # of a window, with the default interval


def run(quick: bool) -> list[Row]:
    """Accuracy with 49 windows, a large fleet (a tenth of it if `quick`), the time of a refresh."""
    stream = STREAMS[0]
    ways: list[tuple[str, float, float, Callable[[], Release]]] = [
        ("local", 0.12, 0.25, partial(_local, stream)),
        ("one answer a window", 0.060, 0.08, partial(_blinded, stream, True)),
        ("one answer", 0.035, 0.05, partial(_blinded, stream, False)),
    ]
    single = partial(_blinded, stream, False, 1)
    rows = []
    for name, most_pair, most_correlation, release in ways:
        title = f"stations, 12 devices x {WINDOWS} windows, {name}"
        pair, correlation = _distances(stream, title, release, most_pair)
        rows += [pair, at_most(f"{title}: correlation", correlation, "error", most_correlation)]
    rows.append(_distances(stream, "stations, a single window of 12 devices", single, 0.033)[0])
    large = _large_fleet(stream, 100 if quick else 1000)
    return [*rows, large, _refresh(stream), _memory()]


def _distances(
    stream: Stream, title: str, release: Callable[[], Release], most: float
) -> tuple[Row, float]:
    """The distance of all pairs, and the largest error of a correlation."""
    found = distances(stream.domain, stream.truth, sampled(pairwise(release())))
    note = f"W1/std {found.marginals.mean():.4f}"
    pairs = at_most(f"{title}: pairs", float(found.pairs.mean()), "TV", most, note)
    return pairs, found.correlation


def _local(stream: Stream) -> Release:
    return released(stream, planned(stream, Privacy(1.0), WINDOWS), WINDOWS)


def _blinded(stream: Stream, each_window: bool, windows: int = WINDOWS) -> Release:
    """The releases of all devices, asked about window by window or all at once."""
    answers = windows if each_window else 1
    expected = Expected(len(stream.truth) // answers, 1, answers)
    spec = plan_views(stream.domain, BLINDED, MEMORY, expected).spec
    keepers = [(PrivateKey.draw(os_entropy()), AnswersInMemory()) for _ in range(2)]
    releases = _released(stream, spec, tuple(key.public for key, _ in keepers), windows)
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


def _released(
    stream: Stream, spec: ViewsSpec, keepers: tuple[bytes, ...], windows: int
) -> list[BlindedRelease]:
    """Window by window, a release of every device."""
    rng, found = os_entropy(), []
    for device, readings in enumerate(stream.devices()):
        for number, part in enumerate(np.array_split(readings, windows)):
            window = WindowId(f"device-{device}", "s", number)
            sketch = start(spec, rng, FLEET, window, keepers)
            sketch.update_many(part)
            found.append(sketch.release(rng))
    return sorted(found, key=lambda each: each.window.sequence)


def _large_fleet(stream: Stream, devices: int) -> Row:
    """The error of all counters of a fleet with one answer a window, relative to a single device.

    That device holds all readings and draws noise as often as there are keepers.
    """
    spec, alone = (_device_spec(stream, privacy) for privacy in (BLINDED, Privacy(1.0)))
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


def _device_spec(stream: Stream, privacy: Privacy) -> ViewsSpec:
    views = View(("temp", "pm25"), (5, 5), 500_000), View(("temp",), (8,), 500_000)
    return ViewsSpec(stream.domain, privacy, views)


def _refresh(stream: Stream) -> Row:
    """A refresh of the masks, beside one block of readings absorbed."""
    spec, rng = _device_spec(stream, BLINDED), os_entropy()
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


def _memory() -> Row:
    """The additional memory of masks in a process that sketches a window: libsodium, and
    buffers."""
    local, masked = (_resident_of(blinded) for blinded in (False, True))
    note = f"{masked:.1f} and {local:.1f} MiB, {EPOCHS} epochs"
    return at_most("memory that masks add to a process", masked - local, "MiB", MEMORY_BAR, note)


def _resident_of(blinded: bool) -> float:
    """MiB of a process of its own."""
    program = f"from benchmarks.views import blinded; print(blinded.sketch_a_window({blinded}))"
    done = run_child([sys.executable, "-c", program], cwd=ROOT, text=True)
    if done.returncode:
        raise RuntimeError(done.stderr)
    return float(done.stdout)


def sketch_a_window(blinded: bool) -> float:
    """A window of one device in this process; the MiB that are resident after it."""
    stream, rng = STREAMS[0], os_entropy()
    block, label = stream.truth[:BLOCK_READINGS], WindowId("d", "s", 1)
    if blinded:
        public = tuple(bytes([number, *bytes(31)]) for number in (9, 10))
        sketch = start(_device_spec(stream, BLINDED), rng, FLEET, label, public)
        for _ in range(EPOCHS - 1):
            sketch.update_many(block)
            sketch.begin_epoch(rng)
        sketch.release(rng)
    else:
        alone = _device_spec(stream, Privacy(1.0)).start(rng)
        for _ in range(EPOCHS - 1):
            alone.update_many(block)
        alone.release(rng, label)
    return resident(os.getpid())
