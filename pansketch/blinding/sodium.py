"""X25519, BLAKE2b and ChaCha20 of libsodium, on buffers that the caller owns and erases.

Python cannot erase a `bytes` object. So no secret passes through one: PyNaCl's C interface reads
and writes the caller's arrays. This is the only module that imports PyNaCl, and it does so at the
first call. So a device whose streams are not blinded starts without it.
"""

from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

KEY_BYTES = 32
NONCE_BYTES = 12
TAG_BYTES = 16
PERSONAL_BYTES = 16

Buffer = npt.NDArray[np.uint8]


class BlindingUnavailable(RuntimeError):
    """Masks need PyNaCl, which is not installed."""


@lru_cache(maxsize=1)
def _sodium() -> tuple[Any, Any]:
    """libsodium, initialised, and what makes pointers for it."""
    try:
        from nacl._sodium import ffi, lib
    except ImportError:
        raise BlindingUnavailable(
            "aggregation blinded needs PyNaCl: pip install 'pansketch[blinded]', or Debian's "
            "python3-nacl"
        ) from None
    if lib.sodium_init() < 0:
        raise BlindingUnavailable("libsodium does not start on this system")
    return ffi, lib


def public_key(public: Buffer, private: Buffer) -> None:
    """RFC 7748: the public key of a private one, both uint8[32]."""
    ffi, lib = _sodium()
    lib.crypto_scalarmult_base(ffi.from_buffer(public), ffi.from_buffer(private))


def shared_secret(shared: Buffer, private: Buffer, public: bytes) -> bool:
    """RFC 7748: what two keys have in common. False for a point of low order, whose secret everyone
    knows; `shared` is then not to be used."""
    ffi, lib = _sodium()
    done = lib.crypto_scalarmult(
        ffi.from_buffer(shared), ffi.from_buffer(private), ffi.from_buffer(public)
    )
    return bool(done == 0)


def keyed_hash(out: Buffer, key: Buffer, data: bytes, personal: bytes) -> None:
    """RFC 7693: BLAKE2b of `len(out)` bytes, 16 to 64, with a key and a personalisation."""
    ffi, lib = _sodium()
    done = lib.crypto_generichash_blake2b_salt_personal(
        ffi.from_buffer(out),
        len(out),
        data,
        len(data),
        ffi.from_buffer(key) if len(key) else ffi.NULL,
        len(key),
        ffi.NULL,
        personal,
    )
    if done:
        raise ValueError("BLAKE2b refuses these lengths")


def key_stream(stream: Buffer, key: Buffer, nonce: bytes) -> None:
    """RFC 8439: the ChaCha20 key stream from its block 1 on, over all but the last 16 bytes.

    It is the encryption of zeros by the AEAD of that document; the last 16 bytes are its tag, which
    is erased.
    """
    ffi, lib = _sodium()
    stream.fill(0)
    out = ffi.from_buffer(stream)
    lib.crypto_aead_chacha20poly1305_ietf_encrypt(
        out,
        ffi.NULL,
        out,
        len(stream) - TAG_BYTES,
        ffi.NULL,
        0,
        ffi.NULL,
        nonce,
        ffi.from_buffer(key),
    )
    stream[-TAG_BYTES:] = 0


def erase(buffer: Buffer) -> None:
    """Overwrite a secret in a way that no compiler or interpreter optimises away."""
    ffi, lib = _sodium()
    lib.sodium_memzero(ffi.from_buffer(buffer), len(buffer))
