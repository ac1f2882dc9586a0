"""A mechanism as an intruder meets it: what its memory shows at one moment, and what it publishes.

The production mechanism calls the production classes. A planted bug replaces one of its two steps.
"""

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any, Literal

import numpy as np

from pansketch import Entropy, Sketch, Spec, WindowId, encode
from pansketch.privacy import MICRO
from pansketch_audit.mechanisms.subjects import Stream, Subject

WINDOW = WindowId("device", "stream", 1, 0, 60)

# The views of adversaries. `joint`: an unnoticed snapshot and the release. `terminal`: the snapshot
# alone, of a device that publishes no more. `published`: the release alone. `known`: a snapshot
# that the device answers with fresh noise, or by absorbing no more keys, and the release.
# `release`: the difference that the release's own noise leaves between two memories that differ by
# one key.
View = Literal["joint", "terminal", "published", "known", "release"]
VIEWS: dict[str, tuple[View, ...]] = {
    "silent": ("joint",),
    "announced": ("terminal", "published", "known"),
}
# A key may come before and after the snapshot: the claim is a sum, and each summand is tested.
KEY_VIEWS: dict[str, tuple[View, ...]] = VIEWS | {
    "silent": ("terminal", "release", "joint", "known")
}

PLAIN = (int, float, complex, str, bytes, bytearray, np.generic, Fraction, type(None))


@dataclass(frozen=True)
class Mechanism:
    """The start of a window, and its publication as bytes. `readings`: their number."""

    start: Callable[[Any, Entropy], Any]
    publish: Callable[[Any, Entropy, int], bytes]


def start(spec: Spec, rng: Entropy) -> Sketch:
    return spec.start(rng)


def publish(sketch: Any, rng: Entropy, readings: int) -> bytes:
    """The bytes of all releases: of several sketches of one source, one after the other."""
    return b"".join(encode(each.release(rng, WINDOW)) for each in parts_of(sketch))


def parts_of(sketch: Any) -> tuple[Any, ...]:
    """The sketches of one source; most sources have one."""
    return getattr(sketch, "sketches", (sketch,))


PRODUCTION = Mechanism(start, publish)


@dataclass(frozen=True)
class Observation:
    """The view of one run: memory, or nothing; bytes on the wire, or nothing."""

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
    observed: bool = True,
) -> Observation:
    """One run of a mechanism over a stream. `at_snapshot` is called when the snapshot is taken;
    `observed`: whether its memory is read, which takes most of the time."""
    sketch = mechanism.start(subject.spec, rng)
    memory = b""
    for arrived in range(len(stream) + 1):
        if arrived == snapshot_at and view != "published":
            memory = memory_of(sketch, rng) if observed else b""
            at_snapshot()
            if view == "terminal":
                return Observation(memory, b"")
            if view == "known":
                sketch.rerandomise(rng)
        if arrived < len(stream):
            sketch.update_many(subject.reading(stream[arrived]))
    return Observation(memory, mechanism.publish(sketch, rng, len(stream)))


def views_of(subject: Subject) -> tuple[View, ...]:
    """The views that the subject's intrusion mode must withstand."""
    return (KEY_VIEWS if subject.unit == "key" else VIEWS)[subject.intrusion]


def claim(subject: Subject, view: View) -> Fraction:
    """The loss that the subject's guarantee allows in a view."""
    guarantee = subject.spec.guarantee
    parts = {"terminal": guarantee.state_micro, "release": guarantee.release_micro}
    return Fraction(parts.get(view, guarantee.epsilon_micro), MICRO)


def memory_of(sketch: object, *public: object) -> bytes:
    """All values that an object holds, at any depth: arrays (of one that is all zero its shape),
    numbers, texts. Not the public spec, and not what is in `public`, as the source of
    randomness."""
    specs = (getattr(each, "_spec", None) for each in parts_of(sketch))
    found: list[bytes] = []
    _hold(sketch, {*map(id, specs), *map(id, public)}, found)
    return b"|".join(found)


def _hold(thing: Any, seen: set[int], found: list[bytes]) -> None:
    kind: Any = type(thing)
    if _is_plain(kind):
        found.append(repr(thing).encode())
        return
    if id(thing) in seen or isinstance(thing, type):
        return
    seen.add(id(thing))
    if isinstance(thing, np.ndarray):
        found.append(thing.tobytes() if np.count_nonzero(thing) else repr(thing.shape).encode())
    elif isinstance(thing, list | tuple | set | frozenset):
        for each in thing:
            _hold(each, seen, found)
    elif isinstance(thing, dict):
        for name, value in thing.items():
            _hold(name, seen, found)
            _hold(value, seen, found)
    else:
        for name in (*getattr(thing, "__dict__", ()), *_slots(kind)):
            _hold(getattr(thing, name, None), seen, found)


@lru_cache(maxsize=512)
def _is_plain(kind: Any) -> bool:
    return issubclass(kind, PLAIN)


@lru_cache(maxsize=512)
def _slots(kind: Any) -> tuple[str, ...]:
    return tuple(name for each in kind.__mro__ for name in getattr(each, "__slots__", ()))
