"""From the settings of a sketch to its spec, the same on every device and in the collector.

A new kind of sketch needs one entry in fleet/pansketch_fleet/sections/sketches/sketch.py.
"""

from collections.abc import Iterator, Mapping
from functools import lru_cache
from hashlib import blake2b
from types import MappingProxyType
from typing import Protocol

from pansketch import Privacy, Spec
from pansketch_fleet.settings.profiles import Profile

MAX_OFFSET_SECONDS = 600


class DeviceSpec(Spec, Protocol):
    """A spec that also predicts the bytes of a release, as the specs of all families do."""

    @property
    def release_nbytes(self) -> int:
        """The expected bytes."""
        ...

    @property
    def max_release_nbytes(self) -> int:
        """A bound in bytes for every honest release of one window."""
        ...

    def __hash__(self) -> int: ...


class SketchSettings(Protocol):
    """The settings of a sketch before any profile: frozen, hashable, comparable."""

    @property
    def privacy(self) -> Privacy: ...
    @property
    def stated(self) -> frozenset[str]:
        """The sizes in the configuration, which no profile changes."""
        ...

    @property
    def smaller(self) -> str:
        """The sizes to lower for a smaller state, as text: "memory"."""
        ...

    @property
    def fix(self) -> str:
        """The fix for an impossible size."""
        ...

    def spec(self, profile: Profile) -> DeviceSpec:
        """Return the spec on a device of this class.

        Raises ValueError, one line that begins with the size at fault, when there can be none.
        """
        ...

    def shown(self, profile: Profile) -> Iterator[tuple[str, str, str]]:
        """Yield every effective size: (its key, its text, its origin if it is not stated)."""
        ...

    def __hash__(self) -> int: ...


def hash_key(fleet: str, stream: str) -> int:
    """Return the public 64-bit key of a stream: equal on all devices, distinct for each stream."""
    # Ids hold no "/", so no two pairs of names spell the same text.
    name = f"{fleet}/{stream}".encode()
    return int.from_bytes(blake2b(name, digest_size=8, person=b"pansketch-stream").digest(), "big")


@lru_cache(maxsize=4096)
def schedule_offset(device: str, window_seconds: int) -> int:
    """Return the seconds by which a device's windows begin after the multiples of their length.

    This spreads a fleet's releases over a tenth of a window.
    """
    most = min(window_seconds // 10, MAX_OFFSET_SECONDS)
    name = int.from_bytes(blake2b(device.encode(), digest_size=8).digest(), "big")
    return name % most if most else 0


def window_index(start: int, window_seconds: int) -> int:
    """Return the number that all devices of a fleet give to a window, from its start on any of
    them.

    A schedule's offset is below a tenth of a window, so it never reaches the next number.
    """
    return start // window_seconds


@lru_cache(maxsize=256)
def variants(
    own: DeviceSpec, plan: SketchSettings, profiles: tuple[Profile, ...]
) -> Mapping[bytes, DeviceSpec]:
    """Return a stream's distinct specs under every profile, by fingerprint; `own` comes first.

    A profile with impossible sizes for this stream is omitted: no device can run it either.
    """
    found = {own.fingerprint: own}
    for profile in profiles:
        try:
            spec = plan.spec(profile)
        except ValueError:
            continue
        found.setdefault(spec.fingerprint, spec)
    return MappingProxyType(found)
