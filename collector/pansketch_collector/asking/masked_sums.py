"""From the answers of all keepers to the sum of the releases that a question lists."""

from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from typing import overload

from pansketch import Release
from pansketch.blinding import (
    BlindedRelease,
    KeeperAnswer,
    KeeperQuestion,
    MaskedWindow,
    sum_bounds,
    unblind,
)
from pansketch.sketches import LinearSpec
from pansketch.wire import decode_answer, decode_blinded

WINDOW_BYTES = 96  # of a question, beside its names and the keys of its epochs, at most
KEY_BYTES = 32


class StoredReleases(Sequence[BlindedRelease]):
    """Masked releases that are decoded when they are looked at: those of a fleet need not fit in
    memory together. An item raises WireError where its bytes have changed on the disk."""

    def __init__(
        self, rows: Sequence[int], payload: Callable[[int], bytes], spec: LinearSpec
    ) -> None:
        self._rows, self._payload, self._spec = rows, payload, spec

    def __len__(self) -> int:
        return len(self._rows)

    @overload
    def __getitem__(self, place: int) -> BlindedRelease: ...
    @overload
    def __getitem__(self, place: slice) -> Sequence[BlindedRelease]: ...
    def __getitem__(self, place: int | slice) -> BlindedRelease | Sequence[BlindedRelease]:
        if isinstance(place, slice):
            return StoredReleases(self._rows[place], self._payload, self._spec)
        return decode_blinded(self._payload(self._rows[place]), self._spec)

    def __iter__(self) -> Iterator[BlindedRelease]:
        return (decode_blinded(self._payload(row), self._spec) for row in self._rows)


def checked_answer(payload: bytes, key: bytes, question: KeeperQuestion, spec: LinearSpec) -> None:
    """Raises ValueError where this is no answer of that key to that question."""
    found = decode_answer(payload, spec)
    if (found.keeper, found.question) != (key, question.digest):
        raise ValueError("an answer of another key, or to another question")


def summed(
    question: KeeperQuestion,
    releases: StoredReleases,
    payloads: Sequence[bytes],
    spec: LinearSpec,
    max_readings: int,
) -> Release:
    """The sum of what a question lists. Raises ValueError, also where the masks do not cancel."""
    if len(releases) != len(question.windows):
        missing = len(question.windows) - len(releases)
        raise ValueError(f"{missing} releases that it lists are not stored any more")
    answers: list[KeeperAnswer] = [decode_answer(each, spec) for each in payloads]
    return unblind(question, releases, answers, max_readings)


def most_windows(
    spec: LinearSpec, share: Fraction, keepers: int, max_readings: int, wanted: int
) -> int:
    """How many of so many wanted windows one question can list, so that their sum exceeds the range
    of no counter; at least one."""
    least, most = 1, wanted
    while least < most:
        middle = most if most == wanted else (least + most + 1) // 2
        try:
            sum_bounds(spec, share, middle, keepers, max_readings)
        except ValueError:
            most = middle - 1
        else:
            least = middle
    return least


def nbytes(window: MaskedWindow) -> int:
    """Bytes of a window in a question, at most."""
    names = len(window.window.device.encode()) + len(window.window.stream.encode())
    return WINDOW_BYTES + names + KEY_BYTES * len(window.epochs)
