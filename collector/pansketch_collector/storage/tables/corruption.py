"""Stored releases whose bytes or labels have changed on the disk: found, named and left out.

A release carries a checksum of its body, and in it its own label. So a flipped byte shows: in the
payload by the checksum, in the columns beside it by a label that is another one.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pansketch import Release, Spec, WindowId, WireError, decode_all, peek
from pansketch.sketches import LinearSpec
from pansketch.wire import BLINDED, counters_of_all, decode_blinded, open_release, peek_blinded
from pansketch_collector.storage.tables.records import Stored
from pansketch_collector.validation.verdicts import LATEST_SECOND, MAX_TEXT
from pansketch_fleet.errors import one_line
from pansketch_fleet.units import utc_text

UNREADABLE = (ValueError, TypeError, ArithmeticError)  # what decoding any bytes may raise


@dataclass(frozen=True)
class Damage:
    """One stored release that cannot be used, as its columns name it, and why; unix seconds."""

    device: str
    stream: str
    start: int
    end: int
    sequence: int
    problem: str
    mislabelled: bool = False  # the payload is whole, and another one's than its columns say
    inside: WindowId | None = None  # then its own label, if it has one

    @classmethod
    def of(
        cls, stored: Stored, problem: str, windows: Sequence[WindowId] | None = None
    ) -> "Damage":
        """`windows`: the labels inside, where they are not those beside it."""
        label = stored.device, stored.stream, stored.start, stored.end, stored.sequence
        inside = windows[0] if windows else None
        return cls(*label, problem, windows is not None, inside)

    def __str__(self) -> str:
        """`one/air, window 2016-01-31 to 2016-02-01, sequence 7: the checksum does not match`."""
        window = f"{_when(self.start)} to {_when(self.end)}"
        name = one_line(f"{self.device}/{self.stream}")
        return f"{name}, window {window}, sequence {self.sequence}: {self.problem}"


def sound(portion: Sequence[Stored], spec: Spec, damaged: list[Damage]) -> list[Release]:
    """The releases of these rows under their spec. A row that is damaged is appended to `damaged`
    instead; one among them costs a second look at each."""
    try:
        releases = decode_all([stored.payload for stored in portion], spec)
    except UNREADABLE as error:
        if len(portion) > 1:
            return [release for each in portion for release in sound([each], spec, damaged)]
        damaged.append(Damage.of(portion[0], _line(error)))
        return []
    found = []
    for stored, release in zip(portion, releases, strict=True):
        if problem := another_label(stored, release.spec.fingerprint, release.windows):
            damaged.append(Damage.of(stored, problem, release.windows))
        else:
            found.append(release)
    return found


@dataclass(frozen=True)
class StoredLayout:
    """How the counters of a spec lie in its releases, which add up: what decoding needs of it."""

    fingerprint: bytes
    family: str
    blocks: tuple[int, ...]
    additive: bool = True


def sound_counters(
    portion: Sequence[Stored], layout: StoredLayout
) -> list[tuple[Stored, int, npt.NDArray[np.int64]]]:
    """The rows with the draws and the counters of their releases. Raises UNREADABLE where one of
    them is damaged."""
    if not portion:
        return []
    opened = [open_release(stored.payload) for stored in portion]
    for stored, one in zip(portion, opened, strict=True):
        header = one.header
        if problem := another_label(stored, header.fingerprint, header.windows):
            raise ValueError(problem)
    draws = [one.header.draws for one in opened]
    counters = counters_of_all(opened, layout)  # type: ignore[arg-type]
    return list(zip(portion, draws, counters, strict=True))


def masked_damage(stored: Stored, spec: LinearSpec) -> Damage | None:
    """The damage of a row with masked counters, whose masks nobody can look behind."""
    try:
        release = decode_blinded(stored.payload, spec)
    except UNREADABLE as error:
        return Damage.of(stored, _line(error))
    problem = another_label(stored, spec.fingerprint, (release.window,))
    return Damage.of(stored, problem, (release.window,)) if problem else None


def changed(stored: Stored) -> Damage | None:
    """The damage of a row whose settings nobody knows: they may be what has changed."""
    try:
        fingerprint, windows = _named(stored.payload)
    except UNREADABLE as error:
        return Damage.of(stored, _line(error))
    problem = another_label(stored, fingerprint, windows)
    return Damage.of(stored, problem, windows) if problem else None


def _named(payload: bytes) -> tuple[bytes, Sequence[WindowId]]:
    if payload[: len(BLINDED)] == BLINDED:
        masked = peek_blinded(payload)
        return masked.fingerprint, (masked.window,)
    header = peek(payload)
    return header.fingerprint, header.windows


def another_label(stored: Stored, fingerprint: bytes, windows: Sequence[WindowId]) -> str:
    """What of the label inside a release is not what stands beside it; "" where all is."""
    inside = [(each.device, each.stream, each.sequence, each.start, each.end) for each in windows]
    beside = stored.device, stored.stream, stored.sequence, stored.start, stored.end
    if inside != [beside]:
        return "the label inside is another one than stands beside it"
    if stored.fingerprint == fingerprint or not windows:
        return ""
    return "the settings named inside are other ones than stand beside it"


def _line(error: Exception) -> str:
    text = str(error) if isinstance(error, WireError) else f"{type(error).__name__} while decoding"
    return one_line(text)[:MAX_TEXT]


def _when(seconds: int) -> str:
    return utc_text(seconds) if 0 <= seconds <= LATEST_SECOND else str(seconds)
