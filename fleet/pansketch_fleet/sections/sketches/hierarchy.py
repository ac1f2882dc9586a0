"""Sketches of type `hierarchy`: sizes that a stream states, over a profile's, over planned ones."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from typing import Any

from pansketch import Domain, HierarchySpec, Privacy
from pansketch.planning import Expected, StatedSizes, hierarchy_plans
from pansketch.planning import HierarchyPlan as Choice
from pansketch_fleet.sections.memory_budget import (
    ALONE_PART,
    HIERARCHY_PART,
    MIN_ALONE_BYTES,
    PlannedSketch,
    read_memory,
)
from pansketch_fleet.settings.profiles import Profile
from pansketch_fleet.settings.section import join, section
from pansketch_fleet.settings.sketch_schema import SketchSection
from pansketch_fleet.units import size_text
from pansketch_fleet.yaml.document import Document

SIZES = ("depth", "fanout", "k", "width", "rows")


@dataclass(frozen=True)
class HierarchySettings(PlannedSketch):
    """See `pansketch_fleet.settings.device_spec.SketchSettings`."""

    part = HIERARCHY_PART
    domain: Domain
    privacy: Privacy
    hash_key: int
    sizes: StatedSizes
    expected: Expected
    memory_bytes: int | None = None

    @property
    def smaller(self) -> str:
        return "depth, k, width or rows, or state memory for it"

    @property
    def fix(self) -> str:
        return "correct it or leave it out"

    def choices(self, profile: Profile) -> list[Choice]:
        """Return the plans of every depth that fit, the chosen one first. Raises ValueError."""
        sizes = _under(profile.sketch, self.sizes, self.domain)
        found = _choices(replace(self, hash_key=0), sizes, self.memory(profile))
        return [replace(plan, spec=replace(plan.spec, hash_key=self.hash_key)) for plan in found]

    def share(self, sketch_memory_bytes: int) -> int:
        if self.domain.dimension == 1:
            return max(MIN_ALONE_BYTES, sketch_memory_bytes // ALONE_PART)
        return super().share(sketch_memory_bytes)

    def spec(self, profile: Profile) -> HierarchySpec:
        return self.choices(profile)[0].spec

    def shown(self, profile: Profile) -> Iterator[tuple[str, str, str]]:
        spec, given = self.spec(profile), asdict(profile.sketch)
        yield "memory", size_text(self.memory(profile)), f"profile {profile.name}"
        for name in SIZES:
            of_profile = given[name] is not None
            # Exact levels have no rows of hashed counters.
            if spec.sketched_levels or name in self.stated or name not in ("width", "rows"):
                origin = "profile" if of_profile else "planned for"
                yield name, str(getattr(spec, name)), f"{origin} {profile.name}"


# Every device plans its streams once, and the collector for every profile. Many have the same plan,
# except for the hash key, which follows from their names.
@lru_cache(maxsize=64)
def _choices(plan: HierarchySettings, sizes: StatedSizes, memory_bytes: int) -> list[Choice]:
    return hierarchy_plans(
        plan.domain, plan.privacy, memory_bytes, plan.expected, plan.hash_key, sizes
    )


def read_hierarchy(
    document: Document,
    where: str,
    raw: Any,
    domain: Domain,
    privacy: Privacy,
    hash_key: int,
    expected: Expected,
) -> HierarchySettings:
    """Read the section. Raises ConfigError at the key at fault; `spec` checks the sizes."""
    given = section(document, where, raw, SketchSection)
    memory = read_memory(document, join(where, "memory"), given.memory)
    sizes = StatedSizes(given.depth, given.k, given.width, given.rows, given.fanout)
    return HierarchySettings(domain, privacy, hash_key, sizes, expected, memory)


def _under(profile: StatedSizes, stream: StatedSizes, domain: Domain) -> StatedSizes:
    """Merge a profile's sizes with a stream's own, which override them.

    A profile's depth shrinks to the possible halvings of the attributes. A stated depth stays, and
    the spec refuses it if it is too deep.
    """
    depth = profile.depth
    if depth is not None:
        depth = min(depth, sum(attribute.max_bits for attribute in domain.attributes))
    stated = {name: value for name, value in asdict(stream).items() if value is not None}
    return replace(profile, **{"depth": depth} | stated)
