"""Context of a mask: two uses that differ in any field have independent masks.

RFC 9180 puts both public keys and the whole context into the derivation of a key. Here that stops a
collector that lies to a keeper. Under another label, epoch or spec the same epoch key gives another
mask, and an answer about it is noise.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from pansketch.sketches.release_model import WindowId

LENGTH_BYTES = 4
NUMBER_BYTES = 8


def encoded(fields: Iterable[str | bytes | int]) -> bytes:
    """Fields as bytes, each behind its length: no two lists have one encoding.

    The types of the fields at each place are fixed by the caller.
    """
    parts = []
    for each in fields:
        part = each
        if isinstance(part, str):
            part = part.encode()
        elif isinstance(part, int):
            part = part.to_bytes(NUMBER_BYTES, "big", signed=True)
        parts += [len(part).to_bytes(LENGTH_BYTES, "big"), part]
    return b"".join(parts)


def label_fields(window: WindowId) -> tuple[str | bytes | int, ...]:
    """All of a window's label that identifies it, in a fixed order."""
    return (
        window.device,
        window.stream,
        window.incarnation,
        window.sequence,
        window.start,
        window.end,
    )


@dataclass(frozen=True)
class MaskContext:
    """The use that one mask belongs to.

    Args:
        fleet: its name.
        window: the label of the device's window.
        spec: its digest, 32 bytes.
        epoch: its number within the window, from 0.
        epoch_key: public key of the epoch, 32 bytes.
        keeper: public key of the keeper, 32 bytes.
    """

    fleet: str
    window: WindowId
    spec: bytes
    epoch: int
    epoch_key: bytes
    keeper: bytes

    def encode(self) -> bytes:
        """The bytes that the key of the mask is derived from."""
        both = self.epoch_key, self.keeper
        return encoded((self.fleet, *label_fields(self.window), self.spec, self.epoch, *both))
