"""Masked releases as bytes, and back: docs/reference/wire-format.md."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from pansketch.blinding.blinded_sketch import BlindedRelease
from pansketch.blinding.masks import KEEPER_ID_BYTES, MAX_EPOCHS
from pansketch.blinding.sodium import KEY_BYTES
from pansketch.privacy import MAX_KEEPERS, MIN_KEEPERS
from pansketch.sketches.linear_counters import LinearSpec
from pansketch.sketches.release_model import WindowId
from pansketch.wire.codec import Header, WireError, peek
from pansketch.wire.sealed_message import (
    BLINDED,
    BLINDED_VERSION,
    malformed,
    opened,
    pieces,
    restored,
    sealed,
    stored,
)
from pansketch.wire.window_label import label_entry, label_of


def encode_blinded(release: BlindedRelease) -> bytes:
    """Return the bytes of a blinded release.

    Args:
        release: of one window of one device.

    Returns:
        The current version of the format.

    Raises:
        ValueError: the incarnation of the window has another length than 0 or 8.
    """
    spec = release.spec
    label, keepers = label_entry(release.window), b"".join(release.keepers)
    held = [label, keepers, b"".join(release.epochs), stored(release.counters)]
    return sealed(BLINDED, [spec.family, spec.fingerprint, *held])


@dataclass(frozen=True)
class BlindedHeader:
    """Header of a blinded release, read without its spec.

    Args:
        family: of the spec.
        fingerprint: 8 bytes, of the spec.
        window: its label.
        keepers: 8 bytes for each keeper's key.
        epochs: 32 bytes for each epoch.
    """

    family: str
    fingerprint: bytes
    window: WindowId
    keepers: tuple[bytes, ...]
    epochs: tuple[bytes, ...]


def peek_blinded(data: bytes) -> BlindedHeader:
    """Return the header of a blinded release, without its spec.

    Args:
        data: any bytes.

    Returns:
        All but the counters, which are not examined.

    Raises:
        WireError: the bytes are damaged, or are no blinded release.
    """
    family, fingerprint, label, keepers, epochs, _ = opened(BLINDED, data, 6)
    try:
        if type(family) is not str or type(fingerprint) is not bytes or len(fingerprint) != 8:
            raise ValueError("family or fingerprint")
        held = label_of(label), _keepers(keepers), _epochs(epochs)
        return BlindedHeader(family, fingerprint, *held)
    except (ValueError, TypeError) as error:
        raise malformed(BLINDED, error) from None


def _keepers(joined: Any) -> tuple[bytes, ...]:
    return pieces(joined, KEEPER_ID_BYTES, MIN_KEEPERS, MAX_KEEPERS)


def _epochs(joined: Any) -> tuple[bytes, ...]:
    """Those of the window's first mask and of the release, and what is between them."""
    return pieces(joined, KEY_BYTES, 2, MAX_EPOCHS)


def decode_blinded(data: bytes, spec: LinearSpec) -> BlindedRelease:
    """Return the blinded release in `data`.

    Args:
        data: any bytes.
        spec: the spec that the release was made under.

    Returns:
        The release, with read-only counters.

    Raises:
        WireError: the bytes are damaged, malformed, or of another spec.
    """
    family, fingerprint, label, keepers, epochs, counters = opened(BLINDED, data, 6)
    if (family, fingerprint) != (spec.family, spec.fingerprint):
        raise WireError("fingerprint", "the release was made under another specification")
    try:
        held = label_of(label), _keepers(keepers), _epochs(epochs)
        return BlindedRelease(spec, *held, restored(counters, spec))
    except (ValueError, TypeError) as error:
        raise malformed(BLINDED, error) from None


def peek_any(data: bytes) -> Header:
    """Return the header of a release, masked or not, without its spec.

    Args:
        data: any bytes.

    Returns:
        The header; `draws` of masked counters is 0. The counters behind it are not examined.

    Raises:
        WireError: the bytes are damaged, or are no release.
    """
    if data[: len(BLINDED)] != BLINDED:
        return peek(data)
    found = peek_blinded(data)
    return Header(BLINDED_VERSION, found.family, found.fingerprint, (found.window,), 0)


def blinded_nbytes(spec: LinearSpec, window: WindowId, keepers: int, epochs: int) -> int:
    """Bytes of a blinded release on the wire, exactly: no counter changes them.

    Args:
        spec: of the release.
        window: its label.
        keepers: their number.
        epochs: their number in the window, with the first one and that of the release.

    Returns:
        The number of bytes.

    Raises:
        ValueError: the incarnation of the window has another length than 0 or 8.
    """
    counters = np.zeros(sum(spec.blocks), spec.counter)
    ids, keys = (bytes(KEEPER_ID_BYTES),) * keepers, (bytes(KEY_BYTES),) * epochs
    return len(encode_blinded(BlindedRelease(spec, window, ids, keys, counters)))
