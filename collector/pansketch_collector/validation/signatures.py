"""Signatures of validated releases, checked against the enrolled keys of their devices; pure.

Every refusal here is for now. The device signs a release each time it sends it, and the keys are
the collector's. So the bytes that the device keeps may be accepted later, and a stranger's copy
with a bad signature makes no device give up its release.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pansketch import WindowId
from pansketch_collector.validation.validation import Message
from pansketch_collector.validation.verdicts import Accepted, Judged, refuse
from pansketch_fleet.protocol.signed_release import (
    Envelope,
    SigningUnavailable,
    envelope_of,
    holds,
    key_id,
)


@dataclass(frozen=True)
class SigningKey:
    """A public key of a device. `until`: it signs windows that ended by then (unix seconds), None:
    all."""

    public: bytes
    until: int | None = None


@dataclass(frozen=True)
class Signers:
    """Who may sign, by device: an enrolled device without a key is revoked. `required`: a release
    that is not signed is refused."""

    fleet: str
    keys: Mapping[str, Sequence[SigningKey]]
    required: bool


def authenticate(
    messages: Sequence[Message], judged: Sequence[Judged], signers: Signers
) -> list[Judged]:
    """The verdicts of `validate`, with a refusal of each release whose signature is missing or does
    not hold. Never raises."""
    return [
        _checked(message, one, signers) if isinstance(one, Accepted) else one
        for message, one in zip(messages, judged, strict=True)
    ]


def _checked(message: Message, release: Accepted, signers: Signers) -> Judged:
    try:
        problem = _problem(envelope_of(message.payload), release.window, signers)
    except SigningUnavailable:
        problem = "this collector cannot check signatures; install pansketch[signed]"
    return refuse(release.window, "signature", problem) if problem else release


def _problem(found: Envelope | None, window: WindowId, signers: Signers) -> str:
    """Why a release is refused, or ""."""
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
