"""Masks: uniform numbers that a device adds to its counters, and that a keeper computes again.

One epoch has one ephemeral key pair of X25519 for all keepers. BLAKE2b turns the secret that it
shares with a keeper's key, and the whole context, into the key of a ChaCha20 stream. The stream's
bytes are added to the counters modulo 2**32 or 2**64. Every secret is in a buffer of this module
and is overwritten before a call returns.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from pansketch.blinding.mask_context import MaskContext
from pansketch.blinding.sodium import (
    KEY_BYTES,
    NONCE_BYTES,
    TAG_BYTES,
    Buffer,
    erase,
    key_stream,
    keyed_hash,
    public_key,
    shared_secret,
)
from pansketch.privacy import MAX_KEEPERS, MIN_KEEPERS
from pansketch.randomness.exact_noise import ExactNoise, KeyEntropy
from pansketch.randomness.keyed_hash import digest
from pansketch.sketches.linear_counters import LinearSpec
from pansketch.sketches.release_model import WindowId

PERSONAL, NOISE_PERSONAL = b"pansketch mask 1", b"pansketch noise1"
KEEPER_ID_BYTES = 8
MAX_EPOCHS = 4096  # of one window
STREAM_BYTES = 1 << 16  # of one nonce: what bounds the scratch
LOW_ORDER = (
    "a public key is a point of low order: everyone knows what it shares, so it hides nothing"
)
BASE_POINT = bytes([9]) + bytes(KEY_BYTES - 1)

Counters = npt.NDArray[Any]
Key = TypeVar("Key")


class PrivateKey:
    """A private key of X25519, in a buffer that `erase` overwrites.

    Args:
        buffer: uint8[32], the key; it is kept and not copied.

    Attributes:
        public: the public key, 32 bytes.

    Raises:
        ValueError: the buffer has another type or length.
        BlindingUnavailable: PyNaCl is not installed.
    """

    def __init__(self, buffer: Buffer) -> None:
        if buffer.dtype != np.uint8 or buffer.shape != (KEY_BYTES,):
            raise ValueError(f"a private key is uint8[{KEY_BYTES}]")
        self._buffer = buffer
        public = np.zeros(KEY_BYTES, np.uint8)
        public_key(public, buffer)
        self.public = public.tobytes()

    @classmethod
    def draw(cls, rng: KeyEntropy) -> "PrivateKey":
        """A new key.

        Args:
            rng: where it is drawn from.

        Returns:
            The key, in a buffer of its own.
        """
        buffer = np.zeros(KEY_BYTES, np.uint8)
        rng.fill_words(buffer.view(np.uint64))
        return cls(buffer)

    def __repr__(self) -> str:
        return f"PrivateKey(of {self.public.hex()})"

    def __reduce__(self) -> str:
        raise TypeError("a private key is never copied or stored by pickle")

    def agree(self, shared: Buffer, public: bytes) -> bool:
        """Write the secret that this key shares with a public one: uint8[32].

        Args:
            shared: where to.
            public: 32 bytes.

        Returns:
            Whether there is one; a point of low order has none.

        Raises:
            BlindingUnavailable: PyNaCl is not installed.
        """
        return shared_secret(shared, self._buffer, public)

    @contextmanager
    def noise(self, question: bytes) -> Iterator[ExactNoise]:
        """Provide the source of an answer's noise: a function of this key and the question.

        So a keeper whose ledger was lost, or that runs twice, has no second draw for one question.
        The noise shows nothing more to a holder of the key, because the key opens the masks
        themselves.

        Args:
            question: its digest.

        Yields:
            The source, whose words are a ChaCha20 stream. Its key is erased at the end.

        Raises:
            BlindingUnavailable: PyNaCl is not installed.
            ValueError: noise of a scale that is not drawn exactly is asked for.
        """
        words = _KeyedWords(np.zeros(KEY_BYTES, np.uint8))
        try:
            keyed_hash(words.seed, self._buffer, question, NOISE_PERSONAL)
            yield ExactNoise(words)
        finally:
            erase(words.seed)

    def erase(self) -> None:
        """Overwrite the key; it is of no use afterwards.

        Raises:
            BlindingUnavailable: PyNaCl is not installed.
        """
        erase(self._buffer)


class _KeyedWords:
    """`Words` of the key streams of one seed, uint8[32]: each call has the next nonce."""

    def __init__(self, seed: Buffer) -> None:
        self.seed, self._calls = seed, 0

    def fill(self, words: npt.NDArray[np.uint64]) -> None:
        stream = np.zeros(words.nbytes + TAG_BYTES, np.uint8)
        key_stream(stream, self.seed, self._calls.to_bytes(NONCE_BYTES, "little"))
        self._calls += 1
        np.copyto(words, stream[: words.nbytes].view(np.uint64))
        erase(stream)


class Masks(Protocol[Key]):
    """Source of masks: an argument, so that an enumeration may drive it. A key has `public`, 32
    bytes, and `erase()`."""

    def new_key(self, rng: KeyEntropy) -> Key:
        """The key of an epoch."""
        ...

    def check(self, public: bytes) -> None:
        """Raise ValueError for a public key that shares no secret with any other."""
        ...

    def add(self, private: Key, public: bytes, context: MaskContext, counters: Counters) -> None:
        """Add the mask that two keys share in a context, in place: int32[n] or int64[n]."""
        ...

    def finish(self) -> None:
        """Overwrite what calls of `add` left behind outside of any buffer."""
        ...


class SodiumMasks:
    """The masks of production: see `Masks`.

    Raises:
        ValueError: a public key is of low order; nothing is added then.
        BlindingUnavailable: PyNaCl is not installed. So raises every method.
    """

    def __init__(self) -> None:
        self._shared, self._seed = np.zeros((2, KEY_BYTES), np.uint8)
        self._stream = np.zeros(TAG_BYTES, np.uint8)

    def new_key(self, rng: KeyEntropy) -> PrivateKey:
        """See `Masks`."""
        return PrivateKey.draw(rng)

    def check(self, public: bytes) -> None:
        """See `SodiumMasks`."""
        shared, public_scalar = np.ones((2, KEY_BYTES), np.uint8)
        if not shared_secret(shared, public_scalar, public):
            raise ValueError(LOW_ORDER)

    def add(
        self, private: PrivateKey, public: bytes, context: MaskContext, counters: Counters
    ) -> None:
        """See `SodiumMasks`."""
        size = min(counters.nbytes, STREAM_BYTES) + TAG_BYTES
        if len(self._stream) < size:
            self._stream = np.zeros(size, np.uint8)
        try:
            if not private.agree(self._shared, public):
                raise ValueError(LOW_ORDER)
            keyed_hash(self._seed, self._shared, context.encode(), PERSONAL)
            self._add_stream(counters)
        finally:
            for buffer in (self._shared, self._seed, self._stream):
                erase(buffer)

    def _add_stream(self, counters: Counters) -> None:
        step = STREAM_BYTES // counters.itemsize
        for number, start in enumerate(range(0, len(counters), step)):
            part = counters[start : start + step]
            stream = self._stream[: part.nbytes + TAG_BYTES]
            key_stream(stream, self._seed, number.to_bytes(NONCE_BYTES, "little"))
            mask = stream[: part.nbytes].view(counters.dtype)
            if sys.byteorder == "big":
                mask.byteswap(inplace=True)
            np.add(part, mask, out=part)

    def finish(self) -> None:
        """See `SodiumMasks`: the same calls with public numbers. libsodium leaves what it computed
        on the stack, and there they overwrite it."""
        self._seed.fill(1)
        public_key(self._shared, self._seed)
        shared_secret(self._shared, self._seed, BASE_POINT)
        keyed_hash(self._shared, self._seed, BASE_POINT, PERSONAL)
        key_stream(self._stream, self._seed, bytes(NONCE_BYTES))


class WindowMasks:
    """The masks of one window of a device: one epoch after the other, for the same keepers.

    Raises ValueError for keepers that `check_keepers` refuses.
    """

    def __init__(
        self,
        spec: LinearSpec,
        fleet: str,
        window: WindowId,
        keepers: tuple[bytes, ...],
        by: Masks[Any],
    ) -> None:
        check_keepers(keepers, by)
        self._digest, self._fleet, self._window = spec.digest, fleet, window
        self._by, self._keepers = by, keepers
        self.keeper_ids = tuple(map(keeper_id, keepers))
        self.epoch_keys: tuple[bytes, ...] = ()

    def begin_epoch(self, rng: KeyEntropy, counters: Counters, last: bool = False) -> None:
        """Add a fresh mask for every keeper, in place. Raises ValueError beyond `MAX_EPOCHS`, one
        of which is for the release, the `last` one."""
        epoch = len(self.epoch_keys)
        if epoch + (not last) >= MAX_EPOCHS:
            raise ValueError(f"a window has {MAX_EPOCHS} epochs at most, with that of its release")
        key = self._by.new_key(rng)
        # First: a mask that no keeper can subtract again is safe, a mask used twice is not.
        self.epoch_keys += (key.public,)
        try:
            for keeper in self._keepers:
                context = MaskContext(
                    self._fleet, self._window, self._digest, epoch, key.public, keeper
                )
                self._by.add(key, keeper, context, counters)
        finally:
            key.erase()
            self._by.finish()


def keeper_id(public: bytes) -> bytes:
    """The name of a keeper's key in releases and answers.

    Args:
        public: the key, 32 bytes.

    Returns:
        8 bytes of its digest.
    """
    return digest(public, KEEPER_ID_BYTES)


def check_keepers(keepers: tuple[bytes, ...], by: Masks[Any]) -> None:
    """Raise ValueError unless these are public keys of enough different keepers."""
    if not MIN_KEEPERS <= len(keepers) <= MAX_KEEPERS:
        raise ValueError(
            f"keepers must be {MIN_KEEPERS} to {MAX_KEEPERS} public keys, not {len(keepers)}"
        )
    for public in keepers:
        if not isinstance(public, bytes) or len(public) != KEY_BYTES:
            raise ValueError(f"a keeper's public key has {KEY_BYTES} bytes")
        by.check(public)
    if len(set(map(keeper_id, keepers))) < len(keepers):
        raise ValueError("a keeper's public key is given twice: that is one keeper, not two")
