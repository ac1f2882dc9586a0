"""From the answers of all keepers to the sum of the releases that a question lists."""

from collections.abc import Callable, Iterator, Sequence
from typing import overload

from pansketch import Release
from pansketch.blinding import (
    BlindedRelease,
    KeeperAnswer,
    KeeperQuestion,
    unblind,
)
from pansketch.sketches import LinearSpec
from pansketch.wire import decode_answer, decode_blinded


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
