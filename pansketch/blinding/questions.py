"""Questions that a collector puts to every keeper, and their answers.

A question lists windows of devices. It has one canonical form, so that keepers, and the collector
after a restart, know it by its digest. A window is in it once: twice its mask would double what a
reading changes, at the same noise.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy.typing as npt

from pansketch.blinding.blinded_sketch import BlindedRelease
from pansketch.blinding.mask_context import encoded, label_fields
from pansketch.blinding.masks import KEEPER_ID_BYTES, MAX_EPOCHS
from pansketch.blinding.sodium import KEY_BYTES
from pansketch.randomness.keyed_hash import digest
from pansketch.sketches.linear_counters import DIGEST_BYTES
from pansketch.sketches.release_model import WindowId

MAX_LEVEL = 64  # characters of a level's name
MAX_TEXT = 256
WindowKey = tuple[str, str, bytes, int]  # device, stream, incarnation, sequence


@dataclass(frozen=True)
class MaskedWindow:
    """A window of a device in a question.

    Args:
        window: its label.
        epochs: the public keys of its epochs, 32 bytes each, in order.

    Raises:
        ValueError: there are no epochs, too many, or one of another length.
    """

    window: WindowId
    epochs: tuple[bytes, ...]

    def __post_init__(self) -> None:
        if not 1 <= len(self.epochs) <= MAX_EPOCHS:
            raise ValueError(f"a window has 1 to {MAX_EPOCHS} epochs, not {len(self.epochs)}")
        if any(len(each) != KEY_BYTES for each in self.epochs):
            raise ValueError(f"the public key of an epoch has {KEY_BYTES} bytes")

    @property
    def key(self) -> WindowKey:
        """Key of a window that a keeper answers once per level: device, stream, incarnation and
        sequence."""
        label = self.window
        return label.device, label.stream, label.incarnation, label.sequence


@dataclass(frozen=True)
class KeeperQuestion:
    """Question to every keeper: the sum of the masks of these windows, with noise on it.

    Args:
        fleet: its name.
        spec: the digest of the spec of all windows, 32 bytes.
        level: name of the level that is asked for, such as "1d".
        share: the part of epsilon that an answer of this level costs, above 0 and at most 1.
        windows: in the order of their keys.

    Raises:
        ValueError: a window is listed twice or out of order, there is none, or a value is out of
            range.
    """

    fleet: str
    spec: bytes
    level: str
    share: Fraction
    windows: tuple[MaskedWindow, ...]

    def __post_init__(self) -> None:
        if not 0 < self.share <= 1:
            raise ValueError(f"share must lie above 0 and be at most 1, not {self.share}")
        if len(self.spec) != DIGEST_BYTES:
            raise ValueError(f"the digest of a spec has {DIGEST_BYTES} bytes")
        if not 1 <= len(self.level) <= MAX_LEVEL or len(self.fleet) > MAX_TEXT:
            raise ValueError("a level or a fleet has no name, or a longer one than is allowed")
        keys = [each.key for each in self.windows]
        if not keys:
            raise ValueError("a question has at least one window")
        if any(one >= other for one, other in pairwise(keys)):
            raise ValueError("the windows of a question are in order, and none is in it twice")

    @cached_property
    def digest(self) -> bytes:
        """32 bytes that name the question: equal for equal questions only."""
        parts = self.share.numerator, self.share.denominator, len(self.windows)
        head = encoded((self.fleet, self.spec, self.level, *parts))
        listed = (
            encoded((*label_fields(each.window), b"".join(each.epochs))) for each in self.windows
        )
        return digest(head + b"".join(listed), DIGEST_BYTES)


@dataclass(frozen=True, eq=False)
class KeeperAnswer:
    """A keeper's answer: the sum of its masks and one draw of noise in every counter.

    Args:
        keeper: name of its key, 8 bytes.
        question: its digest, 32 bytes.
        counters: modulo 2**32 or 2**64, in the type of the spec's counters, made read-only.

    Raises:
        ValueError: a name has another length.
    """

    keeper: bytes
    question: bytes
    counters: npt.NDArray[Any] = field(repr=False)

    def __post_init__(self) -> None:
        if (len(self.keeper), len(self.question)) != (KEEPER_ID_BYTES, DIGEST_BYTES):
            raise ValueError("the names of a keeper's key and of a question have fixed lengths")
        self.counters.flags.writeable = False


def question_about(
    fleet: str,
    releases: Sequence[BlindedRelease],
    level: str = "window",
    share: Fraction = Fraction(1),
) -> KeeperQuestion:
    """The question whose answers unblind the sum of some releases.

    Args:
        fleet: its name.
        releases: of one spec, for the same keepers; none twice.
        level: its name.
        share: the part of epsilon that its answer costs.

    Returns:
        The question.

    Raises:
        ValueError: there is no release, a window is given twice, or specs or keepers differ.
    """
    spec, _ = common_spec(releases)
    listed = sorted((MaskedWindow(each.window, each.epochs) for each in releases), key=_by_key)
    return KeeperQuestion(fleet, spec, level, share, tuple(listed))


def _by_key(window: MaskedWindow) -> WindowKey:
    return window.key


def common_spec(releases: Iterable[BlindedRelease]) -> tuple[bytes, tuple[bytes, ...]]:
    """The digest of the spec, and the names of the keepers, that all releases share. Raises
    ValueError where they differ, or there are none."""
    found = {(each.spec.digest, tuple(sorted(each.keepers))) for each in releases}
    if len(found) != 1:
        raise ValueError(
            "a question needs releases of one spec for the same keepers: ask several questions"
        )
    return found.pop()
