"""Signatures of validated releases, checked against the enrolled keys of their devices; pure.

No rejection here is final. A device signs a release at each transmission, and an operator can
change the enrolled keys. So a later retransmission may be accepted. A stranger's copy with a bad
signature also causes no device to drop its release.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pansketch import WindowId
from pansketch_collector.validation.validation import Message
from pansketch_collector.validation.verdicts import Accepted, Validated, reject
from pansketch_fleet.protocol.signed_release import (
    Envelope,
    SigningUnavailable,
    envelope_of,
    holds,
    key_id,
)


@dataclass(frozen=True)
class SigningKey:
    """A public key of a device. `until`: it signs windows that end by then (unix seconds); None:
    all."""

    public: bytes
    until: int | None = None


@dataclass(frozen=True)
class Signers:
    """The signing keys by device; an enrolled device without a key is revoked. `required`: unsigned
    releases are rejected."""

    fleet: str
    keys: Mapping[str, Sequence[SigningKey]]
    required: bool


def authenticate(
    messages: Sequence[Message], validated: Sequence[Validated], signers: Signers
) -> list[Validated]:
    """Replaces each accepted release without a valid signature by a rejection. Never raises."""
    return [
        _checked(message, one, signers) if isinstance(one, Accepted) else one
        for message, one in zip(messages, validated, strict=True)
    ]


def _checked(message: Message, release: Accepted, signers: Signers) -> Validated:
    try:
        problem = _problem(envelope_of(message.payload), release.window, signers)
    except SigningUnavailable:
        problem = "this collector cannot check signatures; install pansketch[signed]"
    return reject(release.window, "signature", problem) if problem else release


def _problem(found: Envelope | None, window: WindowId, signers: Signers) -> str:
    """The reason of a rejection, or ""."""
    device, keys = window.device, signers.keys.get(window.device)
    if keys is not None and not keys:
        return f"{device} is revoked; make it a new key with `pansketch-collector enroll {device}`"
    if found is None:
        text = f"the release is not signed; enroll {device} and set agent.credentials there"
        return text if signers.required else ""
    key = next((each for each in keys or () if key_id(each.public) == found.key), None)
    if key is None:
        return (
            f"signed with key {found.key.hex()}, which is no key of {device} here; see "
            "`pansketch-collector enroll --list`"
        )
    if key.until is not None and window.end > key.until:
        return f"key {found.key.hex()} of {device} was replaced; install its newer credentials"
    if not holds(found, key.public, signers.fleet, device, window.stream):
        return f"the signature is not that of {device} over this release"
    return ""
