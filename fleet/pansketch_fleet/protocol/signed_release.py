"""Signed releases: the envelope of a release, and the credentials of its device.

A device signs a release at each transmission, so the outbox, the digest and the database have the
bytes of the release alone. Ed25519 (RFC 8032) of PyNaCl is deterministic. A signature is a function
of the key and the signed bytes, so it reveals no more of a reading than the release does. PyNaCl is
imported at the first signature: a device without credentials starts without it.
"""

import os
import re
import stat
import struct
from hashlib import blake2b
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from pansketch_fleet.protocol.strict_json import decode, encode, expect
from pansketch_fleet.protocol.topics import ID_RULE, is_id
from pansketch_fleet.systemd import missing_credential

MAGIC, VERSION = b"PANE", 1
KEY_ID_BYTES, KEY_BYTES, SIGNATURE_BYTES = 8, 32, 64
_HEAD = struct.Struct(f">4sB{KEY_ID_BYTES}s{SIGNATURE_BYTES}s")
ENVELOPE_BYTES = _HEAD.size
CREDENTIALS_LIMIT_BYTES = 4096
# No other signed text begins so: a signature is valid for a release and nothing else.
_LABEL = b"pansketch signed release 1\x00"
_PASSWORD_BYTES = 24
_SEED = re.compile(r"[0-9a-f]{64}")
_PASSWORD = re.compile(r"[!-~]{1,512}")


class SigningUnavailable(RuntimeError):
    """PyNaCl, which signatures need, is not installed."""


class Envelope(NamedTuple):
    """The parts of a signed release, not verified yet. `key`: the id of the key."""

    key: bytes
    signature: bytes
    release: bytes


def key_id(public: bytes) -> bytes:
    """Return the 8 bytes that name a public key in an envelope."""
    return blake2b(public, digest_size=KEY_ID_BYTES, person=b"pansketch key").digest()


def is_signed(payload: bytes) -> bool:
    """Return whether a payload claims to be an envelope, of any version."""
    return payload[: len(MAGIC)] == MAGIC


def envelope_of(payload: bytes) -> Envelope | None:
    """Return the parts of an envelope; None for another payload or version. Never raises."""
    if not is_signed(payload) or len(payload) < ENVELOPE_BYTES:
        return None
    _, version, key, signature = _HEAD.unpack_from(payload)
    return Envelope(key, signature, payload[ENVELOPE_BYTES:]) if version == VERSION else None


def release_in(payload: bytes) -> bytes:
    """Return the release in an envelope, or the payload itself if it is none."""
    found = envelope_of(payload)
    return payload if found is None else found.release


def check_signing_available() -> None:
    """Raise SigningUnavailable without PyNaCl."""
    _nacl()


def holds(found: Envelope, public: bytes, fleet: str, device: str, stream: str) -> bool:
    """Verify a signature over this release of this stream of this device.

    Raises SigningUnavailable.
    """
    nacl = _nacl()
    try:
        message = _statement(fleet, device, stream, found.release)
        nacl.signing.VerifyKey(public).verify(message, found.signature)
    except (nacl.exceptions.CryptoError, ValueError, TypeError):
        return False
    return True


class Credentials(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The credentials of one device of a fleet, as `pansketch-collector enroll` writes them.

    `key`: the seed of the Ed25519 key, 64 hexadecimal digits. `password`: at the broker, where the
    user is the device's name. Neither is in a representation. Raises ValueError when a field is
    invalid.
    """

    version: int
    fleet: str
    device: str
    key: str
    password: str

    def __post_init__(self) -> None:
        expect(self.version == 1, "version must be 1")
        expect(is_id(self.fleet) and is_id(self.device), f"fleet and device must be {ID_RULE}")
        expect(_SEED.fullmatch(self.key), "key must be 64 hexadecimal digits")
        expect(_PASSWORD.fullmatch(self.password), "password must be 1 to 512 printable characters")

    def __repr__(self) -> str:
        return f"Credentials({self.fleet!r}, {self.device!r}, ...)"

    @property
    def public(self) -> bytes:
        """The public key. Raises SigningUnavailable."""
        return bytes(self._signer().verify_key)

    def seal(self, stream: str, release: bytes) -> bytes:
        """Return a release in its envelope, the same bytes each time. Raises SigningUnavailable."""
        signer = self._signer()
        message = _statement(self.fleet, self.device, stream, release)
        signature = signer.sign(message).signature
        return _HEAD.pack(MAGIC, VERSION, key_id(bytes(signer.verify_key)), signature) + release

    def encode(self) -> bytes:
        return encode(self, CREDENTIALS_LIMIT_BYTES) + b"\n"

    def _signer(self) -> Any:
        return _nacl().signing.SigningKey(bytes.fromhex(self.key))


def new_credentials(fleet: str, device: str) -> Credentials:
    """Draw new credentials from the kernel's random numbers.

    Raises SigningUnavailable, and ValueError for an invalid device name.
    """
    random = _nacl().utils.random
    return Credentials(1, fleet, device, random(KEY_BYTES).hex(), random(_PASSWORD_BYTES).hex())


def read_credentials(path: Path) -> Credentials:
    """Read the credentials in a file, on a system that can sign with them.

    Raises SigningUnavailable, and ValueError: one line `problem; fix` without a secret.
    """
    _nacl()
    fix = "make it with `pansketch-collector enroll`"
    try:
        # Non-blocking, because the name may be that of a pipe.
        with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK), "rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            data = file.read(CREDENTIALS_LIMIT_BYTES + 2) if stat.S_ISREG(mode) else b""
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or "not a name of a file"
        raise ValueError(f"{path} cannot be read ({why}); {fix}") from None
    if stat.S_ISREG(mode) and mode & stat.S_IRWXO:
        raise ValueError(f"{path} is open to other users; chmod 600 it")
    if problem := missing_credential(path, data):
        raise ValueError(f"{problem}; {fix}")
    try:
        return decode(data.removesuffix(b"\n"), Credentials, CREDENTIALS_LIMIT_BYTES)
    except ValueError:  # Its text may quote the file.
        raise ValueError(f"{path} holds no credentials of this version; {fix}") from None


def _statement(fleet: str, device: str, stream: str, release: bytes) -> bytes:
    """Return the signed bytes. The release's own header has its incarnation and sequence number."""
    names = b"".join(bytes((len(name),)) + name.encode() for name in (fleet, device, stream))
    return _LABEL + names + release


def _nacl() -> Any:
    try:
        import nacl.exceptions
        import nacl.signing
        import nacl.utils
    except ImportError:
        raise SigningUnavailable(
            "signatures need PyNaCl; pip install 'pansketch[signed]', or Debian's python3-nacl"
        ) from None
    return nacl
