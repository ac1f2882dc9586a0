"""Published scales: the checks of both programs, and the stream with these scales.

A writer of the topic can only choose the position of a device's cells. Knots change neither the
contribution of a reading to a sketch nor the noise. The checks bound the accuracy loss of a wrong
scale, by public rules alone.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from hashlib import blake2b
from math import ceil
from typing import Any

import numpy as np
import numpy.typing as npt

from pansketch import Attribute, Domain, Privacy
from pansketch_fleet.protocol.scale_message import MAX_KNOTS, Scales
from pansketch_fleet.settings.device_spec import DeviceSpec, SketchSettings
from pansketch_fleet.settings.profiles import Profile
from pansketch_fleet.settings.settings import ReadingStream

DAY_SECONDS = 86_400  # A device changes its scales at most once a day.
MAX_PART_WIDTH = (
    0.2501  # of the configured scale, for one part; learned parts are 1/4 at most, rounded
)
MIN_KNOT_STEPS = 2.0**-14  # of a step: the minimum distance of a knot from a sensor value


def domain_name(stream: ReadingStream) -> str:
    """Return 16 hexadecimal digits that name the attributes as configured.

    Scales for other attributes are refused by it.
    """
    form = [each.describe() | {"step": each.step} for each in stream.domain.attributes]
    text = json.dumps([stream.name, stream.window_seconds, form], sort_keys=True)
    return blake2b(text.encode(), digest_size=8, person=b"pansketch-scales").hexdigest()


def rescaled(stream: ReadingStream, message: Scales, profile: Profile) -> ReadingStream:
    """The stream with published scales, on a device of this class.

    Neither its guarantee nor the size of its state or its releases grows.

    Args:
        stream: as configured.
        message: of its scales.
        profile: of the device.

    Returns:
        The stream as configured, if no attribute has knots.

    Raises:
        ValueError: the scales are not for this stream, or one of them is refused. One line.
    """
    if message.stream != stream.name or message.domain != domain_name(stream):
        raise ValueError(f"made for other attributes or windows than those of {stream.name} here")
    if message.begins % stream.window_seconds:
        raise ValueError(f"they do not begin at a multiple of {stream.window_seconds} s")
    if not message.knots:
        return stream
    known = {attribute.name: attribute for attribute in stream.domain.attributes}
    for name in message.knots:
        if name not in known:
            raise ValueError("knots of an attribute that is not in this stream")
    attributes = [
        with_knots(each, message.knots[each.name]) if each.name in message.knots else each
        for each in stream.domain.attributes
    ]
    domain = Domain(attributes)
    plan = RescaledSketch(stream.plan, domain)
    return replace(stream, domain=domain, plan=plan, spec=plan.spec(profile))


def with_knots(attribute: Attribute, knots: Sequence[float]) -> Attribute:
    """Return an attribute on a published scale. Raises ValueError, one line, for a refused one."""
    if attribute.categories is not None or not attribute.varies or attribute.cyclic:
        raise ValueError(f"{attribute.name}: only a number that is not cyclic has a learned scale")
    if len(knots) > MAX_KNOTS:
        raise ValueError(f"{attribute.name}: more than {MAX_KNOTS} knots")
    found = replace(attribute, scale="learned", resolution=1.0, knots=tuple(knots))
    values = np.array(found.knots)
    points = _points(found, values)
    positions = np.clip(attribute.scaling.positions(values), 0.0, 1.0)
    if np.any((np.diff(positions) > MAX_PART_WIDTH) & (points > 1)):
        raise ValueError(
            f"{attribute.name}: a part is wider than a quarter of the configured scale"
        )
    return found


def _points(attribute: Attribute, knots: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return the number of sensor values in each part; infinite without a step."""
    lattice = attribute.lattice
    if lattice is None:
        return np.full(len(knots) - 1, np.inf)
    steps = knots[1:-1] / float(lattice.step)
    if np.any(np.abs(steps - np.rint(steps)) < MIN_KNOT_STEPS):
        raise ValueError(f"{attribute.name}: a knot lies on a value that its step allows")
    ends = [lattice.first, *(ceil(each) for each in steps.tolist()), lattice.last + 1]
    counts = np.diff(np.array(ends, np.float64))
    if counts.min() < 1:
        raise ValueError(f"{attribute.name}: a part holds none of the values that its step allows")
    return counts


@dataclass(frozen=True)
class RescaledSketch:
    """See `pansketch_fleet.settings.device_spec.SketchSettings`.

    `plan`: of the configuration, for its own scales. `domain`: the same attributes on others.
    """

    plan: SketchSettings
    domain: Domain

    @property
    def privacy(self) -> Privacy:
        return self.plan.privacy

    @property
    def stated(self) -> frozenset[str]:
        return self.plan.stated

    @property
    def smaller(self) -> str:
        return self.plan.smaller

    @property
    def fix(self) -> str:
        return self.plan.fix

    def spec(self, profile: Profile) -> DeviceSpec:
        return _spec(self, profile)

    def shown(self, profile: Profile) -> Iterator[tuple[str, str, str]]:
        return self.plan.shown(profile)


@lru_cache(maxsize=64)
def _spec(rescaled: RescaledSketch, profile: Profile) -> DeviceSpec:
    """Plan for the new scales within the configured size of the state.

    If no plan is as small in every respect, use the configured cells on the new scales.
    """
    plan, configured = rescaled.plan, rescaled.plan.spec(profile)
    same: DeviceSpec = replace(configured, domain=rescaled.domain)  # type: ignore[type-var]
    within: Any = replace(plan, domain=rescaled.domain, memory_bytes=same.nbytes)  # type: ignore[type-var]
    try:
        planned: DeviceSpec = within.spec(profile)
    except ValueError:
        return same
    grows = planned.nbytes > same.nbytes or planned.max_release_nbytes > same.max_release_nbytes
    return same if grows or planned.guarantee != same.guarantee else planned
