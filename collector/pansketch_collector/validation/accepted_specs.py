"""Accepted specs: the specs under which devices may have made the releases of a stream, by window.

A key sketch uses another hash in every window. So each window has its own spec, derived from the
window's public start.
"""

from collections import ChainMap
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from types import MappingProxyType
from typing import Any

from pansketch import Guarantee, Spec, WindowId
from pansketch.privacy import MAX_KEEPERS
from pansketch.sketches import MAX_INTRUSIONS, CounterBounds, LinearSpec
from pansketch.wire import blinded_nbytes, spec_of
from pansketch_collector.validation.verdicts import ImplausibleError
from pansketch_fleet.config.loader import Config
from pansketch_fleet.settings.device_spec import DeviceSpec, window_index
from pansketch_fleet.settings.settings import Stream

LONGEST_LABEL = WindowId("x" * 64, "x" * 64, 2**62, 2**62, 2**62 + 1, None, bytes(8))
MAX_EPOCHS = 4096  # of one window, in the wire format
MAX_WINDOWS = 512  # with cached specs


@dataclass(frozen=True)
class Epoch:
    """A period in which the settings of one stream did not change. Times are unix seconds.

    `forms`: the spec forms of its device classes, by fingerprint; base specs for a stream of keys.
    """

    stream: str
    window_seconds: int
    first_served: int
    last_served: int
    forms: Mapping[bytes, Mapping[str, Any]]

    def spec(self, fingerprint: bytes) -> DeviceSpec | None:
        """The spec with this fingerprint; None if absent or unknown to this version."""
        try:
            return spec_of(self.forms[fingerprint])  # type: ignore[no-any-return]
        except (KeyError, ValueError):
            return None


def spec_in(epochs: Sequence[Epoch], fingerprint: bytes) -> DeviceSpec | None:
    """The spec with this fingerprint in one of the epochs; None if absent."""
    found = (epoch.spec(fingerprint) for epoch in epochs if fingerprint in epoch.forms)
    return next(found, None)


def earlier(
    epochs: Sequence[Epoch], own: Container[bytes], window_seconds: int
) -> list[tuple[DeviceSpec, int]]:
    """Every spec of these epochs, with its window length in seconds, except the configuration's
    own.

    A spec of the configuration counts as earlier if its windows had another length.
    """
    found: dict[tuple[bytes, int], tuple[DeviceSpec, int]] = {}
    for epoch in epochs:
        for fingerprint in epoch.forms:
            name = fingerprint, epoch.window_seconds
            if name in found or (fingerprint in own and epoch.window_seconds == window_seconds):
                continue
            spec = epoch.spec(fingerprint)
            if spec is not None:
                found[name] = spec, epoch.window_seconds
    return list(found.values())


@dataclass(frozen=True, eq=False)
class StreamSpecs:
    """The specs and limits of one stream, for all device classes.

    `base`: the configuration's specs. `past`: specs of earlier epochs, with their window length in
    seconds, for releases that a disconnected device sends late. `senders`: patterns of the devices;
    None accepts all.
    """

    base: tuple[DeviceSpec, ...]
    window_seconds: int
    most_readings: int
    past: tuple[tuple[DeviceSpec, int], ...] = ()
    senders: tuple[str, ...] | None = None
    _bounds: dict[tuple[bytes, int, int], CounterBounds] = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, config: Config, stream: Stream, epochs: Sequence[Epoch] = ()) -> "StreamSpecs":
        own = config.specs(stream)
        past = tuple(earlier(epochs, own, stream.window_seconds))
        base = tuple(own.values())
        return cls(base, stream.window_seconds, stream.most_readings, past, stream.devices)

    @cached_property
    def max_bytes(self) -> int:
        """The maximum size of one release, in bytes."""
        return max(_max_bytes(spec) for group in self._groups for spec in group.specs)

    def readings_of(self, seconds: int) -> int:
        """The maximum number of readings in a window of this length."""
        return self.most_readings * -(-seconds // self.window_seconds)

    @cached_property
    def _groups(self) -> "tuple[_Group, ...]":
        """Specs by window length, the configuration's own first."""
        groups: dict[int, list[DeviceSpec]] = {self.window_seconds: list(self.base)}
        for spec, seconds in self.past:
            groups.setdefault(seconds, []).append(spec)
        return tuple(_Group(tuple(specs), seconds) for seconds, specs in groups.items())

    def bounds(self, spec: Spec, draws: int, most_readings: int | None = None) -> CounterBounds:
        """Bounds on the counters of an honest release of one of these specs.

        `draws`: as in its header. `most_readings`: replaces the configuration's. Raises
        ImplausibleError for a number of draws that no window has.
        """
        most = self.most_readings if most_readings is None else most_readings
        key = spec.fingerprint, draws, most
        found = self._bounds.get(key)
        if found is None:
            _check_draws(draws, spec.guarantee)
            if len(self._bounds) >= MAX_WINDOWS:
                self._bounds.clear()
            # Windows of an earlier epoch may be longer and hold more readings in proportion.
            longest = max(group.seconds for group in self._groups)
            readings = most * -(-longest // self.window_seconds)
            found = self._bounds[key] = spec.counter_bounds(readings, draws)
        return found

    def at(self, start: int) -> Mapping[bytes, Spec]:
        """The specs of the window that starts at `start` (unix seconds), by fingerprint."""
        own, *others = (_derived(each, window_index(start, each.seconds)) for each in self._groups)
        return own if not others else ChainMap(own, *others)  # type: ignore[arg-type]

    def lengths_at(self, start: int, fingerprint: bytes) -> list[int]:
        """The window lengths of a spec of `at`, in seconds, the newest first."""
        return [
            each.seconds
            for each in self._groups
            if fingerprint in _derived(each, window_index(start, each.seconds))
        ]


@dataclass(frozen=True, eq=False)
class _Group:
    """Specs of one window length in seconds."""

    specs: tuple[DeviceSpec, ...]
    seconds: int


@lru_cache(maxsize=MAX_WINDOWS)
def _derived(group: _Group, index: int) -> Mapping[bytes, Spec]:
    found = (spec.for_window(index) for spec in group.specs)
    return MappingProxyType({spec.fingerprint: spec for spec in found})


def _max_bytes(spec: DeviceSpec) -> int:
    if isinstance(spec, LinearSpec) and spec.guarantee.answer_micro:
        return blinded_nbytes(spec, LONGEST_LABEL, MAX_KEEPERS, MAX_EPOCHS)
    return spec.max_release_nbytes


def _check_draws(draws: int, guarantee: Guarantee) -> None:
    """Checks that noise was drawn as often as one window of the spec needs. Raises
    ImplausibleError."""
    minimum, most = guarantee.draws, guarantee.draws + MAX_INTRUSIONS
    if not minimum <= draws <= most:
        text = f"a release holds {minimum} to {most} draws of noise in each counter, not {draws}"
        raise ImplausibleError("bounds", text)
