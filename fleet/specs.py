"""From sketch sizes to a stream's spec, the same on every device and in the collector."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from hashlib import blake2b
from types import MappingProxyType

from fleet.profiles import SketchSizes
from pansketch import Domain, HierarchySpec, Privacy


@dataclass(frozen=True)
class SizeOverrides:
    """Sizes that a stream's `sketch:` states; None leaves one to the profile."""

    depth: int | None = None
    k: int | None = None
    width: int | None = None
    rows: int | None = None
    fanout: int | None = None


def hash_key(fleet: str, stream: str) -> int:
    """The public 64-bit key of a stream: equal on all devices of a fleet, different per stream."""
    # Ids hold no "/", so no two pairs of names spell the same text.
    name = f"{fleet}/{stream}".encode()
    return int.from_bytes(blake2b(name, digest_size=8, person=b"pansketch-stream").digest(), "big")


def resolve(sizes: SketchSizes, overrides: SizeOverrides, domain: Domain) -> SketchSizes:
    """A profile's sizes under a stream's own.

    A depth from the profile shrinks to what the attributes can be halved; a stated one is left
    alone, and refused by the spec when it is too deep.
    """
    depth = min(sizes.depth, sum(attribute.most_bits for attribute in domain.attributes))
    stated = {name: value for name, value in asdict(overrides).items() if value is not None}
    return replace(sizes, **{"depth": depth} | stated)


def build_spec(domain: Domain, privacy: Privacy, sizes: SketchSizes, key: int) -> HierarchySpec:
    """Raises ValueError, one line that begins with the size at fault, when the sizes cannot be."""
    return HierarchySpec(domain, privacy, hash_key=key, **asdict(sizes))


@lru_cache(maxsize=256)
def variants(
    own: HierarchySpec, overrides: SizeOverrides, profiles: tuple[SketchSizes, ...]
) -> Mapping[bytes, HierarchySpec]:
    """A stream's spec under every profile's sizes, by fingerprint, without repeats; `own` first.

    A profile whose sizes cannot be with these attributes is left out: no device can run it either.
    """
    found = {own.fingerprint: own}
    for sizes in profiles:
        resolved = resolve(sizes, overrides, own.domain)
        try:
            spec = build_spec(own.domain, own.privacy, resolved, own.hash_key)
        except ValueError:
            continue
        found.setdefault(spec.fingerprint, spec)
    return MappingProxyType(found)
