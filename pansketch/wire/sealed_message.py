"""The frame of masked releases, questions and answers, and the counters in them.

    magic, 4 bytes | version, 1 byte | BLAKE2b-64 of the body, 8 bytes | body

The magic tells the kind: "PANB" a blinded release, "PANQ" a question, "PANA" an answer. The body is
one MessagePack array. Masked counters are uniform, so they are stored as they are: little-endian,
in the bytes of their type. A decoder accepts exactly what the encoder writes.
"""

from typing import Any

import msgpack
import numpy as np
import numpy.typing as npt

from pansketch.randomness.keyed_hash import digest
from pansketch.sketches.linear_counters import LinearSpec
from pansketch.wire.codec import CHECKSUM_BYTES, HEADER_BYTES, LIMITS, MAX_BYTES, WireError

BLINDED, QUESTION, ANSWER = b"PANB", b"PANQ", b"PANA"
BLINDED_VERSION = 1
KINDS = {BLINDED: "blinded release", QUESTION: "question", ANSWER: "answer"}


def sealed(magic: bytes, fields: list[Any]) -> bytes:
    """A message of this kind."""
    body: bytes = msgpack.packb(fields)
    return magic + bytes([BLINDED_VERSION]) + digest(body, CHECKSUM_BYTES) + body


def opened(magic: bytes, data: bytes, fields: int) -> list[Any]:
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
        raise malformed(magic, error) from None


def malformed(magic: bytes, error: Exception) -> WireError:
    """Return the error for an impossible field; its text contains no value."""
    return WireError("malformed", f"the {KINDS[magic]} is malformed: {type(error).__name__}")


def pieces(joined: Any, size: int, least: int, most: int) -> tuple[bytes, ...]:
    """Byte strings of one length that were joined. Raises ValueError for another number."""
    if type(joined) is not bytes or len(joined) % size:
        raise ValueError("keys of another length")
    if not least * size <= len(joined) <= most * size:
        raise ValueError("too few or too many keys")
    return tuple(joined[start : start + size] for start in range(0, len(joined), size))


def stored(counters: npt.NDArray[Any]) -> bytes:
    """Counters as bytes."""
    return counters.astype(counters.dtype.newbyteorder("<")).tobytes()


def restored(found: Any, spec: LinearSpec) -> npt.NDArray[Any]:
    """The counters of a spec in bytes. Raises ValueError for another number of them."""
    if type(found) is not bytes or len(found) != spec.nbytes:
        raise ValueError("another number of counters")
    return np.frombuffer(found, spec.counter.newbyteorder("<")).astype(spec.counter)
