"""Releases as bytes, and back. The format is fixed: docs/reference/wire-format.md, tests/vectors.

    magic "PANS" | version, 1 byte | BLAKE2b-64 of the body, 8 bytes | body

The body is one MessagePack array: [family, fingerprint, [[device, stream, sequence, start, end,
clock, incarnation], ...], draws, [entry, ...]], with an entry for each block of counters. It is
[bits] if all of them are 0 or 1, else [low bits, remainders, quotients], Rice-coded. A decoder
accepts exactly the encodings that the encoder writes.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import msgpack
import numpy as np
import numpy.typing as npt

from pansketch.randomness.keyed_hash import digest
from pansketch.sketches.release_model import Release, Spec, WindowId
from pansketch.wire.counter_blocks import counters_of, entries_of
from pansketch.wire.window_label import MAX_TEXT, label_entry, label_of

MAGIC = b"PANS"
VERSION = 3
CHECKSUM_BYTES = 8
HEADER_BYTES = len(MAGIC) + 1 + CHECKSUM_BYTES
MAX_BYTES = 64 << 20
MAX_DRAWS = 1 << 40
# Nothing is made that a release cannot hold: no maps, no extensions, no endless texts.
LIMITS: dict[str, Any] = {
    "max_str_len": 4 * MAX_TEXT,
    "max_bin_len": MAX_BYTES,
    "max_array_len": 64,  # longer lists, of windows and of blocks, are read by `_long_fields`
    "max_map_len": 0,
    "max_ext_len": 0,
    "strict_map_key": True,
}


class WireError(ValueError):
    """These bytes are not a release that can be used.

    Args:
        reason: "size", "magic", "version", "checksum", "malformed" or "fingerprint".
        text: the message, one line.
    """

    def __init__(self, reason: str, text: str) -> None:
        super().__init__(text)
        self.reason = reason


@dataclass(frozen=True)
class Header:
    """Header of a release, read without its spec.

    Args:
        version: of the wire format.
        family: of the spec.
        fingerprint: 8 bytes, of the spec.
        windows: one label for each merged release.
        draws: independent draws of noise in every counter.
    """

    version: int
    family: str
    fingerprint: bytes
    windows: tuple[WindowId, ...]
    draws: int


@dataclass(frozen=True)
class Opened:
    """A release whose checksum holds and whose header is valid; its counters are not decoded.

    Args:
        header: as `peek` returns it.
        entries: the encoded blocks of counters, one for each block of the spec.
    """

    header: Header
    entries: list[Any] = field(repr=False)


def encode(release: Release) -> bytes:
    """Return the bytes of a release: a function of its public integers and labels only.

    Args:
        release: merged or not.

    Returns:
        The current version of the wire format.

    Raises:
        ValueError: the incarnation of a window has another length than 0 or 8. Or the release is an
            unblinded sum or one without labels, which no device sends.
    """
    return encode_all([release])[0]


def encode_all(releases: Sequence[Release]) -> list[bytes]:
    """Encode many releases of one spec, several times as fast as `encode`.

    Args:
        releases: of one spec, at least one.

    Returns:
        One item for each release, in their order, as `encode` returns it.

    Raises:
        ValueError: as of `encode`, for any of them; or they are of several specs.
    """
    spec = releases[0].spec
    if any(release.spec.fingerprint != spec.fingerprint for release in releases):
        raise ValueError("these releases are of several specs; encode those of each one together")
    if spec.guarantee.answer_micro:
        raise ValueError("an unblinded release has no wire format: keep what it was computed from")
    if any(release.merged for release in releases):
        raise ValueError("a sum without the labels of its windows has no wire format")
    entries = entries_of(np.stack([release.counters for release in releases]), spec.blocks)
    return list(map(_encoded, releases, entries))


def _encoded(release: Release, blocks: list[Any]) -> bytes:
    windows = [label_entry(window) for window in release.windows]
    body: bytes = msgpack.packb(
        [release.spec.family, release.spec.fingerprint, windows, release.draws, blocks]
    )
    return MAGIC + bytes([VERSION]) + digest(body, CHECKSUM_BYTES) + body


def decode(data: bytes, spec: Spec) -> Release:
    """Return the release in `data`.

    Args:
        data: any bytes.
        spec: the spec that the release was made under.

    Returns:
        The release, with read-only counters.

    Raises:
        WireError: the bytes are damaged, malformed, or of another spec.
    """
    return decode_all([data], spec)[0]


def decode_all(data: Sequence[bytes], spec: Spec) -> list[Release]:
    """Decode many releases of one spec, several times as fast as `decode` for small ones.

    Args:
        data: any bytes, one item for each release.
        spec: the spec that the releases were made under.

    Returns:
        One release for each item, in their order.

    Raises:
        WireError: one of them is no release of `spec`; the error does not name it.
    """
    opened = [open_release(one) for one in data]
    counters = counters_of_all(opened, spec)
    counters.flags.writeable = False
    return [
        Release(spec, one.header.windows, one.header.draws, row)
        for one, row in zip(opened, counters, strict=True)
    ]


def counters_of_all(opened: Sequence[Opened], spec: Spec) -> npt.NDArray[np.int64]:
    """The counters of opened releases of one spec.

    Args:
        opened: as `open_release` returns them.
        spec: the spec that the releases were made under.

    Returns:
        int64[releases, counters].

    Raises:
        WireError: one of them is no release of `spec`; the error does not name it.
    """
    entries, sizes = _entries(opened, spec)
    try:
        return counters_of(entries, sizes).reshape(len(opened), -1)
    except (ValueError, TypeError):
        raise WireError("malformed", "a block of counters is malformed") from None


def _entries(opened: Sequence[Opened], spec: Spec) -> tuple[list[Any], tuple[int, ...]]:
    """All entries one after the other, and how many counters each of them has to hold."""
    sizes, fingerprint, family = spec.blocks, spec.fingerprint, spec.family
    for one in opened:
        header = one.header
        if header.fingerprint != fingerprint or header.family != family:
            raise WireError("fingerprint", "the release was made under another specification")
        if len(one.entries) != len(sizes):
            raise WireError("malformed", "the release has another number of blocks than its spec")
        if len(header.windows) > 1 and not spec.additive:
            raise WireError("malformed", "a sum of releases of a spec whose releases do not add up")
    return [entry for one in opened for entry in one.entries], sizes * len(opened)


def peek(data: bytes) -> Header:
    """Return the header of a release, without its spec.

    Args:
        data: any bytes.

    Returns:
        The header. The counters behind it are not examined.

    Raises:
        WireError: the bytes are damaged, or are no release.
    """
    return open_release(data).header


def open_release(data: bytes) -> Opened:
    """A release as far as it can be read without its spec.

    Args:
        data: any bytes.

    Returns:
        The header and the encoded blocks.

    Raises:
        WireError: the bytes are damaged, or are no release.
    """
    if len(data) > MAX_BYTES:
        raise WireError("size", f"a release of {len(data)} bytes is longer than {MAX_BYTES}")
    if len(data) < HEADER_BYTES:
        raise WireError("size", f"{len(data)} bytes are too few for a release")
    if data[: len(MAGIC)] != MAGIC:
        raise WireError("magic", "this is not a release: it does not begin with PANS")
    version = data[len(MAGIC)]
    if version != VERSION:
        raise WireError("version", f"wire format {version} is not known here, only {VERSION}")
    body = data[HEADER_BYTES:]
    if digest(body, CHECKSUM_BYTES) != data[HEADER_BYTES - CHECKSUM_BYTES : HEADER_BYTES]:
        raise WireError("checksum", "the release is damaged: its checksum does not match")
    try:
        fields = _fields(body)
        family, fingerprint, windows, draws, blocks = fields
        # One release has one encoding: anything else could carry a message beside the counters.
        if msgpack.packb(fields) != body:
            raise ValueError("not in the shortest form")
        if not (
            isinstance(family, str) and isinstance(fingerprint, bytes) and len(fingerprint) == 8
        ):
            raise ValueError("family or fingerprint")
        if type(draws) is not int or not 0 < len(windows) <= draws < MAX_DRAWS:
            raise ValueError("draws")
        header = Header(version, family, fingerprint, tuple(map(label_of, windows)), draws)
        return Opened(header, blocks)
    except (ValueError, TypeError, msgpack.UnpackException) as error:
        raise WireError("malformed", f"the release is malformed: {type(error).__name__}") from None


def _fields(body: bytes) -> list[Any]:
    """Family, fingerprint, windows, draws and blocks. Raises ValueError."""
    try:
        fields = msgpack.unpackb(body, **LIMITS)
    except ValueError:
        return _long_fields(body)
    if type(fields) is not list or len(fields) != 5:
        raise ValueError("another number of fields")
    if type(fields[2]) is not list or type(fields[4]) is not list:
        raise ValueError("a list is missing")
    return fields


def _long_fields(body: bytes) -> list[Any]:
    """The same where the lists are long. They are read an entry at a time: the decoder takes the
    memory that a list claims, and lists within lists could claim any amount."""
    unpacker = msgpack.Unpacker(max_buffer_size=len(body) or 1, **LIMITS)
    unpacker.feed(body)
    if _length(unpacker) != 5:
        raise ValueError("another number of fields")
    fields = [unpacker.unpack(), unpacker.unpack()]
    fields.append([unpacker.unpack() for _ in range(_length(unpacker))])
    fields.append(unpacker.unpack())
    return [*fields, [unpacker.unpack() for _ in range(_length(unpacker))]]


def _length(unpacker: Any) -> int:
    """Takes the head of a list, in MessagePack's three forms. Raises ValueError for all else."""
    head = unpacker.read_bytes(1)
    if head in (b"\xdc", b"\xdd"):
        return int.from_bytes(unpacker.read_bytes(2 if head == b"\xdc" else 4), "big")
    if not head or head[0] >> 4 != 9:
        raise ValueError("a list is missing")
    return int(head[0]) & 15
