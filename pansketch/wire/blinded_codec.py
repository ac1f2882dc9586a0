"""Masked counters, questions and answers as bytes, and back: docs/reference/wire-format.md.

    magic, 4 bytes | version, 1 byte | BLAKE2b-64 of the body, 8 bytes | body

The magic tells the kind: "PANB" a blinded release, "PANQ" a question, "PANA" an answer. The body is
one MessagePack array. Masked counters are uniform, so they are stored as they are: little-endian,
in the bytes of their type. A decoder accepts exactly what the encoder writes.
"""

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import msgpack
import numpy as np
import numpy.typing as npt

from pansketch.blinding.blinded_sketch import BlindedRelease
from pansketch.blinding.masks import KEEPER_ID_BYTES, MAX_EPOCHS
from pansketch.blinding.questions import KeeperAnswer, KeeperQuestion, MaskedWindow
from pansketch.blinding.sodium import KEY_BYTES
from pansketch.privacy import MAX_KEEPERS, MIN_KEEPERS
from pansketch.randomness.keyed_hash import digest
from pansketch.sketches.linear_counters import LinearSpec
from pansketch.sketches.release_model import WindowId
from pansketch.wire.codec import (
    CHECKSUM_BYTES,
    HEADER_BYTES,
    LIMITS,
    MAX_BYTES,
    Header,
    WireError,
    label_entry,
    label_of,
    peek,
)

BLINDED, QUESTION, ANSWER = b"PANB", b"PANQ", b"PANA"
BLINDED_VERSION = 1
KINDS = {BLINDED: "blinded release", QUESTION: "question", ANSWER: "answer"}


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
    held = [label, keepers, b"".join(release.epochs), _stored(release.counters)]
    return _sealed(BLINDED, [spec.family, spec.fingerprint, *held])


@dataclass(frozen=True)
class BlindedHeader:
    """What a blinded release says of itself, read without its spec.

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
    """Return what a blinded release says of itself, without its spec.

    Args:
        data: any bytes.

    Returns:
        All but the counters, which are not examined.

    Raises:
        WireError: the bytes are damaged, or are no blinded release.
    """
    family, fingerprint, label, keepers, epochs, _ = _opened(BLINDED, data, 6)
    try:
        if type(family) is not str or type(fingerprint) is not bytes or len(fingerprint) != 8:
            raise ValueError("family or fingerprint")
        held = label_of(label), _keepers(keepers), _epochs(epochs)
        return BlindedHeader(family, fingerprint, *held)
    except (ValueError, TypeError) as error:
        raise _malformed(BLINDED, error) from None


def _keepers(joined: Any) -> tuple[bytes, ...]:
    return _pieces(joined, KEEPER_ID_BYTES, MIN_KEEPERS, MAX_KEEPERS)


def _epochs(joined: Any) -> tuple[bytes, ...]:
    """Those of the window's first mask and of the release, and what is between them."""
    return _pieces(joined, KEY_BYTES, 2, MAX_EPOCHS)


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
    family, fingerprint, label, keepers, epochs, counters = _opened(BLINDED, data, 6)
    if (family, fingerprint) != (spec.family, spec.fingerprint):
        raise WireError("fingerprint", "the release was made under another specification")
    try:
        held = label_of(label), _keepers(keepers), _epochs(epochs)
        return BlindedRelease(spec, *held, _restored(counters, spec))
    except (ValueError, TypeError) as error:
        raise _malformed(BLINDED, error) from None


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


def encode_question(question: KeeperQuestion) -> bytes:
    """Return the bytes of a question.

    Args:
        question: which is asked.

    Returns:
        The current version of the format: one encoding for one question.

    Raises:
        ValueError: the incarnation of a window has another length than 0 or 8.
    """
    share = [question.share.numerator, question.share.denominator]
    # One array after the other, in a byte string: a decoder that meets a long list takes the memory
    # that it claims, however short the message is.
    windows = b"".join(
        msgpack.packb([label_entry(each.window), b"".join(each.epochs)])
        for each in question.windows
    )
    return _sealed(QUESTION, [question.fleet, question.spec, question.level, share, windows])


def decode_question(data: bytes) -> KeeperQuestion:
    """Return the question in `data`.

    Args:
        data: any bytes.

    Returns:
        The question.

    Raises:
        WireError: the bytes are damaged or malformed.
    """
    fleet, spec, level, share, windows = _opened(QUESTION, data, 5)
    try:
        if type(fleet) is not str or type(level) is not str or type(spec) is not bytes:
            raise ValueError("fleet, level or spec")
        numerator, denominator = share
        if type(numerator) is not int or type(denominator) is not int:
            raise ValueError("share")
        part = Fraction(numerator, denominator)
        if (part.numerator, part.denominator) != (numerator, denominator):
            raise ValueError("a share is in lowest terms")
        listed = tuple(
            MaskedWindow(label_of(label), _pieces(epochs, KEY_BYTES, 1, MAX_EPOCHS))
            for label, epochs in _entries(windows)
        )
        return KeeperQuestion(fleet, spec, level, part, listed)
    except (ValueError, TypeError, ZeroDivisionError, msgpack.UnpackException) as error:
        raise _malformed(QUESTION, error) from None


def _entries(joined: Any) -> list[Any]:
    """The arrays in a byte string. Raises ValueError, TypeError or UnpackException."""
    unpacker = msgpack.Unpacker(max_buffer_size=len(joined) or 1, **LIMITS)
    unpacker.feed(joined)
    found = list(unpacker)
    if b"".join(map(msgpack.packb, found)) != joined:
        raise ValueError("not in the shortest form, or cut off")
    return found


def encode_answer(answer: KeeperAnswer) -> bytes:
    """Return the bytes of an answer.

    Args:
        answer: of one keeper.

    Returns:
        The current version of the format.
    """
    return _sealed(ANSWER, [answer.keeper, answer.question, _stored(answer.counters)])


def decode_answer(data: bytes, spec: LinearSpec) -> KeeperAnswer:
    """Return the answer in `data`.

    Args:
        data: any bytes.
        spec: of the question.

    Returns:
        The answer, with read-only counters.

    Raises:
        WireError: the bytes are damaged or malformed, or have another number of counters.
    """
    keeper, question, counters = _opened(ANSWER, data, 3)
    try:
        if type(keeper) is not bytes or type(question) is not bytes:
            raise ValueError("keeper or question")
        return KeeperAnswer(keeper, question, _restored(counters, spec))
    except (ValueError, TypeError) as error:
        raise _malformed(ANSWER, error) from None


def _sealed(magic: bytes, fields: list[Any]) -> bytes:
    body: bytes = msgpack.packb(fields)
    return magic + bytes([BLINDED_VERSION]) + digest(body, CHECKSUM_BYTES) + body


def _opened(magic: bytes, data: bytes, fields: int) -> list[Any]:
    """The fields of a message of this kind, in their shortest form. Raises WireError."""
    kind = KINDS[magic]
    if not HEADER_BYTES <= len(data) <= MAX_BYTES:
        raise WireError("size", f"{len(data)} bytes are too few or too many for a {kind}")
    if data[: len(magic)] != magic:
        raise WireError("magic", f"this is no {kind}: it does not begin with {magic.decode()}")
    version, body = data[len(magic)], data[HEADER_BYTES:]
    if version != BLINDED_VERSION:
        raise WireError(
            "version", f"version {version} of a {kind} is not known here, only {BLINDED_VERSION}"
        )
    if digest(body, CHECKSUM_BYTES) != data[HEADER_BYTES - CHECKSUM_BYTES : HEADER_BYTES]:
        raise WireError("checksum", f"the {kind} is damaged: its checksum does not match")
    try:
        found = msgpack.unpackb(body, **LIMITS)
        if type(found) is not list or len(found) != fields or msgpack.packb(found) != body:
            raise ValueError("another number of fields, or not in the shortest form")
        return found
    except (ValueError, TypeError, msgpack.UnpackException) as error:
        raise _malformed(magic, error) from None


def _malformed(magic: bytes, error: Exception) -> WireError:
    return WireError("malformed", f"the {KINDS[magic]} is malformed: {type(error).__name__}")


def _pieces(joined: Any, size: int, least: int, most: int) -> tuple[bytes, ...]:
    """Byte strings of one length that were joined. Raises ValueError for another number."""
    if type(joined) is not bytes or len(joined) % size:
        raise ValueError("keys of another length")
    if not least * size <= len(joined) <= most * size:
        raise ValueError("too few or too many keys")
    return tuple(joined[start : start + size] for start in range(0, len(joined), size))


def _stored(counters: npt.NDArray[Any]) -> bytes:
    return counters.astype(counters.dtype.newbyteorder("<")).tobytes()


def _restored(stored: Any, spec: LinearSpec) -> npt.NDArray[Any]:
    if type(stored) is not bytes or len(stored) != spec.nbytes:
        raise ValueError("another number of counters")
    return np.frombuffer(stored, spec.counter.newbyteorder("<")).astype(spec.counter)
