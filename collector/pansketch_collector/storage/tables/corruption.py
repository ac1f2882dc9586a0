"""Detection of stored releases whose bytes or labels have changed on the disk.

A release carries a checksum of its body and its own label. So a flipped byte shows: in the payload
by the checksum, in the columns beside it by a different label.
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

UNREADABLE = (ValueError, TypeError, ArithmeticError)  # from decoding any bytes


@dataclass(frozen=True)
class Damage:
    """One unusable stored release, as its columns name it, and the problem; unix seconds."""

    device: str
    stream: str
    start: int
    end: int
    sequence: int
    problem: str
    mislabelled: bool = False  # the payload is intact, but belongs to another label
    inside: WindowId | None = None  # then the label in the payload, if it has one

    @classmethod
    def of(
        cls, stored: Stored, problem: str, windows: Sequence[WindowId] | None = None
    ) -> "Damage":
        """`windows`: the labels inside, if they differ from the columns."""
        label = stored.device, stored.stream, stored.start, stored.end, stored.sequence
        inside = windows[0] if windows else None
        return cls(*label, problem, windows is not None, inside)

    def __str__(self) -> str:
        """`one/air, window 2016-01-31 to 2016-02-01, sequence 7: the checksum does not match`."""
        window = f"{_when(self.start)} to {_when(self.end)}"
        name = one_line(f"{self.device}/{self.stream}")
        return f"{name}, window {window}, sequence {self.sequence}: {self.problem}"


def decode_intact(portion: Sequence[Stored], spec: Spec, damaged: list[Damage]) -> list[Release]:
    """Decodes the releases of these rows under their spec; appends damaged rows to `damaged`.

    If one is damaged, it decodes each row alone.
    """
    try:
        releases = decode_all([stored.payload for stored in portion], spec)
    except UNREADABLE as error:
        if len(portion) > 1:
            return [release for each in portion for release in decode_intact([each], spec, damaged)]
        damaged.append(Damage.of(portion[0], _line(error)))
        return []
    found = []
    for stored, release in zip(portion, releases, strict=True):
        if problem := label_problem(stored, release.spec.fingerprint, release.windows):
            damaged.append(Damage.of(stored, problem, release.windows))
        else:
            found.append(release)
    return found


@dataclass(frozen=True)
class StoredLayout:
    """The layout of the counters of an additive spec, as decoding needs it."""

    fingerprint: bytes
    family: str
    blocks: tuple[int, ...]
    additive: bool = True


def intact_counters(
    portion: Sequence[Stored], layout: StoredLayout
) -> list[tuple[Stored, int, npt.NDArray[np.int64]]]:
    """The rows with the draws and the counters of their releases.

    Raises UNREADABLE if one of them is damaged.
    """
    if not portion:
        return []
    opened = [open_release(stored.payload) for stored in portion]
    for stored, one in zip(portion, opened, strict=True):
        header = one.header
        if problem := label_problem(stored, header.fingerprint, header.windows):
            raise ValueError(problem)
    draws = [one.header.draws for one in opened]
    counters = counters_of_all(opened, layout)  # type: ignore[arg-type]
    return list(zip(portion, draws, counters, strict=True))


def masked_damage(stored: Stored, spec: LinearSpec) -> Damage | None:
    """The damage of a row with masked counters; its masks hide the values, so only the form is
    checked."""
    try:
        release = decode_blinded(stored.payload, spec)
    except UNREADABLE as error:
        return Damage.of(stored, _line(error))
    problem = label_problem(stored, spec.fingerprint, (release.window,))
    return Damage.of(stored, problem, (release.window,)) if problem else None


def label_damage(stored: Stored) -> Damage | None:
    """The damage of a row with unknown settings, which may themselves have changed."""
    try:
        fingerprint, windows = _named(stored.payload)
    except UNREADABLE as error:
        return Damage.of(stored, _line(error))
    problem = label_problem(stored, fingerprint, windows)
    return Damage.of(stored, problem, windows) if problem else None


def _named(payload: bytes) -> tuple[bytes, Sequence[WindowId]]:
    if payload[: len(BLINDED)] == BLINDED:
        masked = peek_blinded(payload)
        return masked.fingerprint, (masked.window,)
    header = peek(payload)
    return header.fingerprint, header.windows


def label_problem(stored: Stored, fingerprint: bytes, windows: Sequence[WindowId]) -> str:
    """The difference between the label in a release and its columns; "" if there is none."""
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
