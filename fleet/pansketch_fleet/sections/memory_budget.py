"""Planned sketches: their stated sizes, and the memory that they may use."""

from dataclasses import asdict
from typing import ClassVar

from pansketch.planning import StatedSizes, StatedViews
from pansketch_fleet.settings.profiles import Profile
from pansketch_fleet.units import size_bytes
from pansketch_fleet.yaml.document import Document

# The share of one stream in a profile's sketch memory does not depend on the other streams. A new
# stream must not change the sketch of another: its releases would no longer add up with older ones.
VIEWS_PART = 2
HIERARCHY_PART = 3
# A hierarchy of one attribute is good with little, and boards have a hundred of them.
ALONE_PART = 100
MIN_ALONE_BYTES = 2048


class PlannedSketch:
    """The part of a `Plan` that does not depend on the planner.

    `memory_bytes`: the maximum of the state; None: a share of the profile's sketch memory.
    """

    part: ClassVar[int]
    sizes: StatedSizes | StatedViews
    memory_bytes: int | None

    @property
    def stated(self) -> frozenset[str]:
        sizes = asdict(self.sizes) | {"memory": self.memory_bytes}
        return frozenset(name for name, value in sizes.items() if value is not None)

    def memory(self, profile: Profile) -> int:
        """Return the maximum bytes for the planner."""
        stated = self.memory_bytes
        return self.share(profile.sketch_memory_bytes) if stated is None else stated

    def share(self, sketch_memory_bytes: int) -> int:
        """Return the share of a profile's sketch memory, if no memory is stated."""
        return sketch_memory_bytes // self.part


def read_memory(document: Document, where: str, text: str | None) -> int | None:
    """Read a stated `memory:`. Raises ConfigError."""
    if text is None:
        return None
    try:
        size = size_bytes(text)
    except ValueError as error:
        raise document.error(where, str(error)) from None
    if size < 1:
        raise document.error(where, "is nothing; write a positive size, such as 16KiB")
    return size
