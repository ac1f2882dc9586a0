"""A mechanism as an intruder meets it: what its memory shows at one moment, and what it publishes.

The production mechanism calls the production classes. A planted bug replaces one of its two steps.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from pansketch.audit.subjects import Stream, Subject
from pansketch.noise import Entropy
from pansketch.sketch import Sketch, Spec, WindowId
from pansketch.wire import encode

WINDOW = WindowId("device", "stream", 1, 0, 60)
SMALL_BYTES = 1 << 14

# Who sees what: `joint`, an unnoticed snapshot and the release; `terminal`, the snapshot alone,
# of a device that publishes no more; `published`, the release alone; `known`, a snapshot that the
# device answers with fresh noise, and the release.
View = Literal["joint", "terminal", "published", "known"]
VIEWS: dict[str, tuple[View, ...]] = {
    "silent": ("joint",),
    "announced": ("terminal", "published", "known"),
}


@dataclass(frozen=True)
class Mechanism:
    """How a window begins, and how it is published as bytes. `readings`: how many there were."""

    start: Callable[[Spec, Entropy], Sketch]
    publish: Callable[[Any, Entropy, int], bytes]


def start(spec: Spec, rng: Entropy) -> Sketch:
    return spec.start(rng)


def publish(sketch: Sketch, rng: Entropy, readings: int) -> bytes:
    return encode(sketch.release(rng, WINDOW))


PRODUCTION = Mechanism(start, publish)


@dataclass(frozen=True)
class Observation:
    """What one run shows: memory, or nothing; bytes on the wire, or nothing."""

    memory: bytes
    wire: bytes


def observe(
    mechanism: Mechanism,
    subject: Subject,
    stream: Stream,
    snapshot_at: int,
    view: View,
    rng: Entropy,
    at_snapshot: Callable[[], None] = lambda: None,
) -> Observation:
    """One run of a mechanism over a stream. `at_snapshot` is called when the snapshot is taken."""
    sketch = mechanism.start(subject.spec, rng)
    memory = b""
    for arrived in range(len(stream) + 1):
        if arrived == snapshot_at and view != "published":
            memory = memory_of(sketch)
            at_snapshot()
            if view == "terminal":
                return Observation(memory, b"")
            if view == "known":
                sketch.rerandomise(rng)
        if arrived < len(stream):
            sketch.update_many(subject.reading(stream[arrived]))
    return Observation(memory, mechanism.publish(sketch, rng, len(stream)))


def memory_of(sketch: Sketch) -> bytes:
    """All arrays that an object holds, at any depth, except large scratch that is all zero."""
    held: list[bytes] = []
    _collect(sketch, held, set())
    return b"|".join(held)


def _collect(thing: Any, held: list[bytes], seen: set[int]) -> None:
    if id(thing) in seen or isinstance(thing, type):
        return
    seen.add(id(thing))
    if isinstance(thing, np.ndarray):
        if thing.nbytes <= SMALL_BYTES or thing.any():
            held.append(thing.tobytes())
    elif isinstance(thing, list | tuple):
        for each in thing:
            _collect(each, held, seen)
    elif isinstance(thing, int | float):
        held.append(repr(thing).encode())
    else:
        for each in getattr(thing, "__dict__", {}).values():
            _collect(each, held, seen)
